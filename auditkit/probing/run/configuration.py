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
    """Read the named configuration, else the checkout's own auditkit.yaml, else return an empty one.

    `checkout` is `DIR` or `DIR@REV`. Raises BadInputError.
    """
    path = explicit
    if path is None and checkout is not None:
        path = config_in(parse_checkout(checkout).directory)
    if path is None:
        return Config()
    return read_config(path, load_catalog, is_named=explicit is not None)


def catalog_of(config: Config) -> dict[str, ProbeInfo]:
    """Return every probe that a run may use, by id."""
    return dict(config.catalog) or load_catalog(config.probes_dir)


def checkout_of(named: str | None, configuration: Config) -> str:
    """Return the named checkout, else the configuration's, else the folder of its file, else the current folder."""
    beside = str(configuration.path.parent) if configuration.path else "."
    return named or configuration.checkout or beside


def find_probes(config: Path | None, names: Sequence[str] = ()) -> list[ProbeInfo]:
    """Return the named probes, bundled or of the configuration's folder; all of them without names.

    Without `config`, read the current folder's auditkit.yaml if there is one. Raises BadInputError for an unknown name.
    """
    catalog = catalog_of(read_configuration(config, "."))
    return select(catalog, names) if names else list(catalog.values())
