"""The probes that exist: one file each, with its definition read as a literal, so that listing imports none."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from auditkit.assets import bundled_dir
from auditkit.errors import BadInputError, nearest_names
from auditkit.model.enums import Severity
from auditkit.model.runs.probe import CATEGORIES, DEVICES, SCOPES, ProbeInfo
from auditkit.model.runs.severity import Occurs, meant, severity_of
from auditkit.model.text import inert_line
from auditkit.worker.serve.loading import SHARED, load_probe

INSTRUMENTS = (
    "numerics", "memory", "syncs", "launches", "mutation", "graphs", "devices", "transfers", "graph_capture", "ranks",
    "steps", "syntax",
)  # fmt: skip
SOURCE_INSTRUMENT = "syntax"
"""The instrument of probes that read source; they run in no worker."""
LIFECYCLES = ("stable", "experimental")
"""An experimental probe runs only when it is named."""
_SHARED_REMEDY = re.compile(r"remedies/\w+\.py")
_REQUIRED = ("title", "categories", "motivation", "method", "limits", "remediation", "measurements")
_OF_COLLECTORS = ("grad_norm", "grad_stats", "dual_stats", "monitor")
_DEFAULTS: Mapping[str, Any] = {"version": 1, "agent": "PT", "lifecycle": "stable", "instrument": "numerics"}
"""Optional fields of a definition; its id is the name of its file, its contracts default to all collectors."""
_CHOICES = {
    "lifecycle": LIFECYCLES, "instrument": INSTRUMENTS, "categories": CATEGORIES, "devices": DEVICES, "scope": SCOPES,
}  # fmt: skip


def load_catalog(folders: Iterable[Path] = ()) -> dict[str, ProbeInfo]:
    """Return every bundled probe and those of `folders`, by id.

    Raises BadInputError for a missing folder, a file without a valid literal `PROBE`, and two probes with one id: a
    probe that silently does not run would look like a pass.
    """
    found: dict[str, ProbeInfo] = {}
    for folder in (bundled_dir("probes"), *folders):
        if not folder.is_dir():
            raise BadInputError(f"no folder of probes: {folder}", "probes_dir names it in auditkit.yaml")
        for path in sorted(folder.glob("*.py")):
            if path.name.startswith("_") or path.stem == SHARED:
                continue
            probe = read_probe(path)
            if probe.id in found:
                raise BadInputError(f"two probes are called {probe.id}: {found[probe.id].path} and {path}")
            found[probe.id] = probe
    return found


def select(catalog: dict[str, ProbeInfo], names: Sequence[str], style: bool = True) -> list[ProbeInfo]:
    """Return the named probes in the given order; without names all stable ones, those of style only with `style`.

    A name that ends in `.py` is a user's probe file. Raises BadInputError with the nearest names for an unknown one.
    """
    if not names:
        return [probe for probe in catalog.values() if probe.lifecycle == "stable" and (style or not probe.style)]
    selected = []
    for name in dict.fromkeys(names):
        if name.endswith(".py"):
            selected.append(read_probe(Path(name)))
        else:
            selected.append(probe_named(catalog, name))
    first = {probe.id: probe for probe in reversed(selected)}
    for probe in selected:
        if first[probe.id] is not probe:
            raise BadInputError(f"two probes are called {probe.id}: {first[probe.id].path} and {probe.path}")
    return selected


def probe_named(catalog: Mapping[str, ProbeInfo], name: str) -> ProbeInfo:
    """Return the probe with that id. Raises BadInputError with the nearest names for an unknown one."""
    if name not in catalog:
        near = nearest_names(name, catalog)
        hint = f"did you mean {', '.join(near)}?" if near else "auditkit probe list shows all"
        raise BadInputError(f"no probe is called '{inert_line(name)}'", hint)
    return catalog[name]


def read_probe(path: Path) -> ProbeInfo:
    """Return the definition in one probe file, cached while the file stays. Raises BadInputError with file and line."""
    try:
        status = path.stat()
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from error
    return _parsed(path.resolve(), path, status.st_mtime_ns, status.st_size)


@functools.cache
def _parsed(_place: Path, path: Path, _written_ns: int, _size_bytes: int) -> ProbeInfo:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:  # or not UTF-8, or a null byte
        raise BadInputError(f"{path}:{getattr(error, 'lineno', None) or 1}: not valid Python: {error}") from error
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "PROBE" for t in node.targets):
            try:
                literal = ast.literal_eval(node.value)
            except (ValueError, TypeError) as error:
                raise BadInputError(f"{path}:{node.lineno}: PROBE must be a literal: {error}") from error
            return _to_info(literal, path, node.lineno)
    raise BadInputError(f"{path}: no `PROBE = {{...}}` at the top level")


def _to_info(literal: Any, path: Path, line: int) -> ProbeInfo:
    def refuse(problem: str) -> BadInputError:
        return BadInputError(f"{path}:{line}: PROBE {problem}")

    if not isinstance(literal, dict):
        raise refuse("is not a mapping")
    is_source = literal.get("scope") == "source"
    by_scope = {"instrument": SOURCE_INSTRUMENT} if is_source else {"contracts": _OF_COLLECTORS}
    literal = {"id": path.stem, "contracts": (), **_DEFAULTS, **by_scope, **literal}
    missing = [key for key in _REQUIRED if key not in literal]
    if missing:
        raise refuse(f"lacks '{missing[0]}'")
    if literal["id"] != path.stem:
        raise refuse(f"is called {literal['id']}, its file {path.stem}")
    fields = {**literal, "units": literal["measurements"], "severity": Severity.P4}
    for key in ("breaks", "occurs", "policy"):
        fields.pop(key, None)
    try:
        fields["remediation_code"] = _remedy(literal.get("remediation_code", ""), path.parent)
        info = replace(
            msgspec.convert(fields, ProbeInfo), path=path, policy=dict(literal.get("policy", {})), **_severity(literal)
        )
    except msgspec.ValidationError as error:
        raise refuse(f"is wrong: {error}") from error
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise refuse(f"is incomplete: {error}") from error
    for key, known in _CHOICES.items():
        value = getattr(info, key)
        for name in (value,) if isinstance(value, str) else value:
            if name not in known:
                raise refuse(f"has the {key} '{name}', known: {', '.join(known)}")
    return info


def _severity(literal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the severity by `breaks` and `occurs`, else as written. Raises KeyError or ValueError."""
    if "severity" in literal:
        return {"severity": Severity(literal["severity"])}
    breaks, occurs = str(literal["breaks"]), Occurs(literal["occurs"])
    return {"severity": severity_of(meant(breaks, clips=False), occurs), "breaks": breaks, "occurs": occurs}


def _remedy(code: str, folder: Path) -> str:
    """Return the recommended code, or that of `remedies/NAME.py`, which probes share, beside the probe or bundled."""
    if _SHARED_REMEDY.fullmatch(code) is None:
        return code
    # A copied probe in a user's folder may name a bundled file that was not copied.
    beside = folder / code
    return (beside if beside.is_file() else bundled_dir("probes") / code).read_text(encoding="utf-8")


def load_module(probe: ProbeInfo) -> Any:
    """Return the probe's module, executed once while its file stays; importing a probe does not import torch."""
    status = Path(probe.path).stat()
    return _module(str(probe.path), status.st_mtime_ns, status.st_size)


@functools.cache
def _module(path: str, _written_ns: int, _size_bytes: int) -> Any:
    return load_probe(path, str(bundled_dir("probes") / "forms.py"))
