"""Small checkouts written out in a test, and source probes run over them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auditkit.model.enums import Outcome
from auditkit.model.runs.probe import Policy
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.source.index import SourceIndex
from auditkit.probing.source_probes.context import SourceContext
from auditkit.probing.source_probes.runner import run_source_probes
from tests.filing_helpers import put

CATALOG = load_catalog()
COLLECT, EXPORT, UNUSED = "materialize_without_collect", "used_name_not_exported", "public_function_unused"
DEFAULT, UNTESTED = "default_repeated", "public_function_untested"
LOOP, PRIVATE = "sync_in_loop", "private_torch_api_without_fallback"
SOURCE_PROBES = (COLLECT, EXPORT, UNUSED, DEFAULT, UNTESTED, LOOP, PRIVATE)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` by their names below `folder`, and return it."""
    for name, text in files.items():
        put(folder, name, text)
    return folder


def context_of(folder: Path, files: Mapping[str, str | bytes]) -> SourceContext:
    """A checkout of `files`, all of whose modules are asked about."""
    return SourceContext(SourceIndex(write(folder, files)), lambda _: True)


def read(folder: Path, *probes: str, **policy: Any) -> list[ProbeResult]:
    """What `probes` say of the checkout `folder`, all of it; `policy` is that of each of them."""
    chosen = [CATALOG[name] for name in probes or SOURCE_PROBES]
    return [*run_source_probes(chosen, SourceIndex(folder), lambda _: True, Policy(policy))]


def findings(results: list[ProbeResult]) -> dict[str, ProbeResult]:
    """What reproduced, by its subject."""
    return {result.target: result for result in results if result.outcome is Outcome.REPRODUCED}


def found(folder: Path, files: Mapping[str, str | bytes], probe: str, **policy: Any) -> dict[str, ProbeResult]:
    """The findings of one probe on a checkout of `files`."""
    return findings(read(write(folder, files), probe, **policy))
