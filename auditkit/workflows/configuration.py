"""Which auditkit.yaml a job reads, and which probes it may name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from auditkit.model.probe import ProbeInfo
from auditkit.probing.catalog import load_catalog, select
from auditkit.probing.checkout import parse_checkout
from auditkit.store.config import Config, find_config, read_config


def read_configuration(explicit: Path | None, checkout: str | Path | None) -> Config:
    """The named configuration, else the checkout's own auditkit.yaml, else an empty one.

    `checkout` is `DIR` or `DIR@REV` as the user wrote it. Raises BadInputError.
    """
    folder = parse_checkout(checkout).directory if checkout is not None else None
    path = explicit or (find_config(folder) if folder is not None else None)
    if path is None:
        return Config()
    catalog = load_catalog(read_config(path).probes_dir)
    thresholds = sorted({name for probe in catalog.values() for name in probe.policy})
    return read_config(path, [*catalog], thresholds)


def checkout_of(named: str | None, configuration: Config) -> str:
    """The named checkout, else the configuration's, else the folder of its file, else this one."""
    beside = str(configuration.path.parent) if configuration.path else "."
    return named or configuration.checkout or beside


def find_probes(config: Path | None, names: Sequence[str] = ()) -> list[ProbeInfo]:
    """The named probes, of ours and of the configuration's folders; all of them where none is named.

    Without `config` the current folder's auditkit.yaml is read, if it has one. Raises BadInputError with
    the nearest names for one that is not known.
    """
    catalog = load_catalog(read_configuration(config, ".").probes_dir)
    return select(catalog, names) if names else list(catalog.values())
