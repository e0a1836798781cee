"""JSON schemas of the documents that `--json` prints: msgspec makes them from the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, cached_property
from pathlib import PurePath
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from auditkit.model.codec import Record, keys_of
from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.revisions.comparison import Comparison
from auditkit.model.runs.run import Arm, Run, RunHead

_NotFinite = Literal["inf", "-inf", "nan"]


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    line: int
    column: int


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    """An error; `location` is the file that is wrong, if there is one."""

    schema_version: Literal[1]
    error: str
    location: _Place | None
    hint: str | None
    exit_code: int


class _BriefFinding(msgspec.Struct, forbid_unknown_fields=True):
    severity: Severity
    probe: str
    target: str
    file: str | None
    line: int | None
    message: str
    evidence: Evidence | None
    ticket: str | None
    fingerprint: str


class _Silent(msgspec.Struct, forbid_unknown_fields=True):
    outcome: Outcome
    message: str
    count: int


def schema(name: str) -> dict[str, Any]:
    """The schema of a document, as JSON Schema 2020-12. Raises KeyError for another name."""
    document = msgspec.json.schema(_DOCUMENTS[name]())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"auditkit {name}", **document}


@cache
def _struct(record: Any) -> Any:
    """The Struct with a record's keys as fields."""
    return msgspec.defstruct(
        record.__name__,
        list(_fields(record).values()),
        forbid_unknown_fields=True,
        namespace={"__doc__": record.__doc__},
    )


def _fields(record: Any) -> dict[str, tuple[Any, ...]]:
    version = getattr(record, "schema_version", None)
    found: dict[str, tuple[Any, ...]] = {} if version is None else {"schema_version": ("schema_version", Literal[1])}
    for key in keys_of(record):
        kind = _kind_at(record, key.path)
        if key.mark == "**":
            found |= {name: field for name, field in _fields(kind).items() if name != "schema_version"}
        elif key.mark == "?":
            found[key.name] = (key.name, _kind(kind) | msgspec.UnsetType, msgspec.UNSET)
        else:
            found[key.name] = (key.name, _kind(kind))
    required = {name: field for name, field in found.items() if len(field) == 2}
    return required | {name: field for name, field in found.items() if len(field) == 3}


def _kind_at(record: Any, path: str) -> Any:
    """The type of an attribute, such as `result.message`."""
    for name in path.split("."):
        own = getattr(record, name, None)
        getter = own.fget if isinstance(own, property) else own.func if isinstance(own, cached_property) else None
        record = get_type_hints(getter)["return"] if getter else get_type_hints(record)[name]
    return record


def _kind(kind: Any) -> Any:
    """The type as JSON has it."""
    inner = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_kind, inner))]  # noqa: UP007 - built at run time
    if get_origin(kind) is tuple:
        return list[_kind(inner[0])]  # type: ignore[misc]
    if get_origin(kind) in (Mapping, dict):
        return dict[str, _kind(inner[1])]  # type: ignore[misc]
    if kind is float:
        return float | _NotFinite
    if kind is Arm:  # a run again, whose schema this is
        return dict[str, Any]
    if isinstance(kind, type) and issubclass(kind, Record):
        return _struct(kind)  # type: ignore[arg-type]  # a dataclass is hashable
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return str
    is_plain = isinstance(kind, type) and (issubclass(kind, Enum) or kind in (str, int, bool, type(None)))
    return kind if is_plain else Any


def _brief() -> Any:
    """What `--json` prints beside `--save`: the worst findings."""
    fields = [("schema_version", Literal[1]), ("run", _struct(RunHead)), ("summary", dict[str, int])]
    fields += [("remembered", int), ("findings", list[_BriefFinding]), ("more", int)]
    fields += [("unanswered", list[_Silent]), ("notes", list[str]), ("whole", str)]
    return msgspec.defstruct("Brief", fields, forbid_unknown_fields=True)


_DOCUMENTS: Mapping[str, Callable[[], Any]] = {
    "run": lambda: _struct(Run),
    "compare": lambda: _struct(Comparison),
    "brief": _brief,
    "error": lambda: _Error,
}
NAMES = tuple(_DOCUMENTS)
