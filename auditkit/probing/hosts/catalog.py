"""The probes that exist: one file each, its definition read as a literal, so that listing imports none."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from auditkit.assets import bundled_dir
from auditkit.errors import BadInputError, nearest_names
from auditkit.model.enums import Contract, Severity
from auditkit.model.runs.probe import CATEGORIES, DEVICES, SCOPES, ProbeInfo
from auditkit.model.runs.severity import Occurs, meant, severity_of
from auditkit.model.text import inert_line
from auditkit.probing.worker.process.probe_files import SHARED, load_probe

INSTRUMENTS = (
    "numerics", "memory", "syncs", "launches", "mutation", "graphs", "devices", "transfers", "graph_capture", "ranks",
    "steps", "syntax",
)  # fmt: skip
SOURCE_INSTRUMENT = "syntax"
"""The instrument of the probes that read source; they run in no worker."""
LIFECYCLES = ("stable", "experimental")
"""An experimental probe runs only when it is named."""
_SHARED_REMEDY = re.compile(r"remedies/\w+\.py")
_TEXT_KEYS = ("id", "title", "agent", "lifecycle", "instrument", "motivation", "method", "limits", "remediation")
_OF_COLLECTORS = ("grad_norm", "grad_stats", "dual_stats", "monitor")
_DEFAULTS: Mapping[str, Any] = {"version": 1, "agent": "PT", "lifecycle": "stable", "instrument": "numerics"}
"""What a definition need not say; nor its id, which is the name of its file, nor its contracts if it is for all
collectors."""


def load_catalog(folders: Iterable[Path] = ()) -> dict[str, ProbeInfo]:
    """Every probe of ours and of `folders`, by id.

    Raises BadInputError for a folder that is not there, a file without a valid literal `PROBE`, and two
    probes of one id: a question that silently is not asked would look like a pass.
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
    """The named probes in the order given; when none is named all stable ones, those of style only with `style`.

    A name that ends in `.py` is a probe file of the user's own. Raises BadInputError with the nearest
    names for one that is not known.
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
    """The probe of that id. Raises BadInputError with the nearest names for one that is not known."""
    if name not in catalog:
        near = nearest_names(name, catalog)
        hint = f"did you mean {', '.join(near)}?" if near else "auditkit probe list shows all"
        raise BadInputError(f"no probe is called '{inert_line(name)}'", hint)
    return catalog[name]


def read_probe(path: Path) -> ProbeInfo:
    """The definition in one probe file, read once while that stays. Raises BadInputError with file and line."""
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
    except SyntaxError as error:
        raise BadInputError(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}") from error
    except ValueError as error:  # not UTF-8, or a null byte
        raise BadInputError(f"{path}:1: not valid Python: {error}") from error
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
    scope = literal.get("scope", "target")
    by_scope = {"instrument": SOURCE_INSTRUMENT} if scope == "source" else {"contracts": _OF_COLLECTORS}
    literal = {"id": path.stem, "contracts": (), **_DEFAULTS, **by_scope, **literal}
    for key in _TEXT_KEYS:
        if not isinstance(literal.get(key), str):
            raise refuse(f"lacks the text '{key}'")
    if literal["id"] != path.stem:
        raise refuse(f"is called {literal['id']}, its file {path.stem}")
    if literal["lifecycle"] not in LIFECYCLES:
        raise refuse(f"has the lifecycle '{literal['lifecycle']}', known: {', '.join(LIFECYCLES)}")
    if literal["instrument"] not in INSTRUMENTS:
        raise refuse(f"names the instrument '{literal['instrument']}', known: {', '.join(INSTRUMENTS)}")
    unknown = [name for name in literal.get("categories", ()) if name not in CATEGORIES]
    if unknown:
        raise refuse(f"names an unknown category '{unknown[0]}'")
    devices = tuple(literal.get("devices", DEVICES))
    if not devices or not set(devices) <= set(DEVICES):
        raise refuse(f"names no device, or one that is not known: {', '.join(DEVICES)}")
    if scope not in SCOPES:
        raise refuse(f"has the scope '{scope}', known: {', '.join(SCOPES)}")
    if (scope == "source") != (literal["instrument"] == SOURCE_INSTRUMENT):
        raise refuse(f"reads source with '{SOURCE_INSTRUMENT}' and nothing else: scope source, that instrument")
    if scope == "source" and literal.get("contracts"):
        raise refuse("reads source: only a target has contracts")
    for key in ("statement_does", "only_if_written"):
        if not isinstance(literal.get(key, ""), str):
            raise refuse(f"says '{key}' with something else than text")
    if not isinstance(literal.get("style", False), bool):
        raise refuse("says 'style' with something else than True or False")
    try:
        return ProbeInfo(
            version=int(literal["version"]),
            contracts=tuple(Contract(name) for name in literal["contracts"]),
            categories=tuple(literal["categories"]),
            **_severity(literal),
            remediation_code=_remedy(literal.get("remediation_code", ""), path.parent),
            units=dict(literal["measurements"]),
            policy=dict(literal.get("policy", {})),
            path=path,
            devices=devices,
            scope=scope,
            style=literal.get("style", False),
            statement_does=literal.get("statement_does", ""),
            only_if_written=literal.get("only_if_written", ""),
            memory_mb=int(literal.get("memory_mb", ProbeInfo.memory_mb)),
            **{key: literal[key] for key in _TEXT_KEYS},
        )
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise refuse(f"is incomplete: {error}") from error


def _severity(literal: Mapping[str, Any]) -> dict[str, Any]:
    """From `breaks` and `occurs`, else as it is written. Raises KeyError or ValueError."""
    if "severity" in literal:
        return {"severity": Severity(literal["severity"])}
    breaks, occurs = str(literal["breaks"]), Occurs(literal["occurs"])
    return {"severity": severity_of(meant(breaks, clips=False), occurs), "breaks": breaks, "occurs": occurs}


def _remedy(code: str, folder: Path) -> str:
    """The recommended code, which several probes may share: `remedies/NAME.py` names a file beside them, or ours."""
    if _SHARED_REMEDY.fullmatch(code) is None:
        return code
    # A copy of one of our probes in a folder of its owner's names a remedy that stayed behind.
    beside = folder / code
    return (beside if beside.is_file() else bundled_dir("probes") / code).read_text(encoding="utf-8")


def load_module(probe: ProbeInfo) -> Any:
    """The probe's module, for its pure `judge`; nothing in a probe imports torch at import time."""
    return load_probe(str(probe.path), str(bundled_dir("probes") / "forms.py"))
