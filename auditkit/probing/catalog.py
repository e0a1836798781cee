"""The probes that exist: one file each, its definition read as a literal, so that listing imports none."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from auditkit.assets import bundled_dir
from auditkit.errors import BadInputError, nearest_names
from auditkit.model.enums import Contract, Severity
from auditkit.model.probe import CATEGORIES, ProbeInfo

INSTRUMENTS = ("numerics", "memory", "syncs", "launches")
_TEXT_KEYS = (
    "id",
    "title",
    "agent",
    "lifecycle",
    "instrument",
    "motivation",
    "method",
    "limits",
    "remediation",
)


def load_catalog(folders: Iterable[Path] = ()) -> dict[str, ProbeInfo]:
    """Every probe of ours and of `folders`, by id.

    Raises BadInputError for a file without a valid literal `PROBE` and for two probes of one id.
    """
    found: dict[str, ProbeInfo] = {}
    for folder in (bundled_dir("probes"), *folders):
        for path in sorted(folder.glob("*.py")):
            if path.name.startswith("_"):
                continue
            probe = read_probe(path)
            if probe.id in found:
                raise BadInputError(f"two probes are called {probe.id}: {found[probe.id].path} and {path}")
            found[probe.id] = probe
    return found


def select(catalog: dict[str, ProbeInfo], names: Sequence[str]) -> list[ProbeInfo]:
    """The named probes in the order given; all stable ones when none is named.

    A name that ends in `.py` is a probe file of the user's own. Raises BadInputError with the nearest
    names for one that is not known.
    """
    if not names:
        return [probe for probe in catalog.values() if probe.lifecycle == "stable"]
    selected = []
    for name in dict.fromkeys(names):
        if name.endswith(".py"):
            selected.append(read_probe(Path(name)))
        elif name in catalog:
            selected.append(catalog[name])
        else:
            near = nearest_names(name, catalog)
            hint = f"did you mean {', '.join(near)}?" if near else "auditkit probe list shows all"
            raise BadInputError(f"no probe is called '{name}'", hint)
    return selected


def read_probe(path: Path) -> ProbeInfo:
    """The definition in one probe file. Raises BadInputError with file and line."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}:{getattr(error, 'lineno', 1)}: not valid Python: {error}") from error
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "PROBE" for t in node.targets):
            try:
                literal = ast.literal_eval(node.value)
            except ValueError as error:
                raise BadInputError(f"{path}:{node.lineno}: PROBE must be a literal: {error}") from error
            return _to_info(literal, path, node.lineno)
    raise BadInputError(f"{path}: no `PROBE = {{...}}` at the top level")


def _to_info(literal: Any, path: Path, line: int) -> ProbeInfo:
    def refuse(problem: str) -> BadInputError:
        return BadInputError(f"{path}:{line}: PROBE {problem}")

    if not isinstance(literal, dict):
        raise refuse("is not a mapping")
    for key in _TEXT_KEYS:
        if not isinstance(literal.get(key), str):
            raise refuse(f"lacks the text '{key}'")
    if literal["id"] != path.stem:
        raise refuse(f"is called {literal['id']}, its file {path.stem}")
    if literal["instrument"] not in INSTRUMENTS:
        raise refuse(f"names the instrument '{literal['instrument']}', known: {', '.join(INSTRUMENTS)}")
    unknown = [name for name in literal.get("categories", ()) if name not in CATEGORIES]
    if unknown:
        raise refuse(f"names an unknown category '{unknown[0]}'")
    try:
        return ProbeInfo(
            version=int(literal["version"]),
            contracts=tuple(Contract(name) for name in literal["contracts"]),
            categories=tuple(literal["categories"]),
            severity=Severity(literal["severity"]),
            remediation_code=literal.get("remediation_code", ""),
            verification=tuple(literal["verification"]),
            units=dict(literal["measurements"]),
            policy=dict(literal.get("policy", {})),
            path=path,
            **{key: literal[key] for key in _TEXT_KEYS},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise refuse(f"is incomplete: {error}") from error


def load_module(probe: ProbeInfo) -> Any:
    """The probe's module, for its pure `judge`; nothing in a probe imports torch at import time."""
    spec = importlib.util.spec_from_file_location(f"auditkit_probe_{probe.id}", str(probe.path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
