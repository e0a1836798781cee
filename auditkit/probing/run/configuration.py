"""Which auditkit.yaml a job reads, and which probes it may name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from auditkit.config.config import Config, read_config
from auditkit.config.config_file import config_in
from auditkit.model.runs.probe import ProbeInfo
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.engine.catalog import load_catalog, select


def read_configuration(explicit: Path | None, checkout: str | Path | None) -> Config:
    """The named configuration, else the checkout's own auditkit.yaml, else an empty one.

    `checkout` is `DIR` or `DIR@REV` as the user wrote it. Raises BadInputError.
    """
    path = explicit
    if path is None and checkout is not None:
        path = config_in(parse_checkout(checkout).directory)
    if path is None:
        return Config()
    return read_config(path, load_catalog, is_named=explicit is not None)


def catalog_of(config: Config) -> dict[str, ProbeInfo]:
    """Every probe that a run may ask, by id: read with the configuration, or now, where there is none."""
    return dict(config.catalog) or load_catalog(config.probes_dir)


def checkout_of(named: str | None, configuration: Config) -> str:
    """The named checkout, else the configuration's, else the folder of its file, else this one."""
    beside = str(configuration.path.parent) if configuration.path else "."
    return named or configuration.checkout or beside


def find_probes(config: Path | None, names: Sequence[str] = ()) -> list[ProbeInfo]:
    """The named probes, of ours and of the configuration's folders; all of them where none is named.

    Without `config` the current folder's auditkit.yaml is read, if it has one. Raises BadInputError with
    the nearest names for one that is not known.
    """
    catalog = catalog_of(read_configuration(config, "."))
    return select(catalog, names) if names else list(catalog.values())
