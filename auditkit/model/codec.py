"""Records as strict JSON and back: a record's keys are its fields, unless its class says otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum, StrEnum
from functools import cache
from operator import attrgetter
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

_NOT_FINITE = ("inf", "-inf", "nan")
_IN_WORDS = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "an object",
}  # fmt: skip


class Absent(StrEnum):
    """Stands for a value that was not measured; no measurement is this text."""

    ABSENT = "(absent)"


ABSENT = Absent.ABSENT


class Record:
    """A frozen dataclass with a JSON form: a key for each field in their order, or for each word of `keys`.

    `key=path` is a key that another attribute fills, such as `older=older.commit`; `**name` puts the keys of
    the record `name` in its place. `key?` is left out where it is its field's default, or `ABSENT` where that
    has none. When it is read, a key may be missing where its field has a default; `key!` may not. A class with
    a `schema_version` begins with it.
    """

    _words: ClassVar[str]

    def __init_subclass__(cls, keys: str = "") -> None:
        cls._words = keys

    def to_json(self) -> dict[str, Any]:
        """A strict-JSON mapping; infinities and NaN are the strings "inf", "-inf" and "nan"."""
        version = getattr(self, "schema_version", None)
        document = {} if version is None else {"schema_version": version}
        own: Any = type(self)
        for key in keys_of(own):
            value = attrgetter(key.path)(self)
            if key.mark == "**":
                document |= {name: item for name, item in value.to_json().items() if name != "schema_version"}
            elif key.mark != "?" or value != key.default:
                document[key.name] = encode(value)
        return document

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """The inverse of `to_json`; raises ValueError, which names the place, for anything else."""
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object")
        version, found = getattr(cls, "schema_version", None), document.get("schema_version")
        if version not in (None, found):
            raise ValueError(f"schema_version is {found!r}, not {version}")
        return cls.read(document, "")

    @classmethod
    def read(cls, raw: Any, place: str) -> Self:
        """What stands at `place` of a document; raises ValueError."""
        return cls(**read_fields(cls, raw, place))


class _Key(NamedTuple):
    """One key: the attribute that fills it, the mark of its word, its field's default, and whether it may miss."""

    name: str
    path: str
    mark: str
    default: Any
    may_miss: bool


@cache
def keys_of(record: Any) -> tuple[_Key, ...]:
    known = {field.name: field for field in fields(record)}
    return tuple(_key(word, known) for word in record._words.split() or known)


def _key(word: str, known: Mapping[str, Field[Any]]) -> _Key:
    mark = "**" if word.startswith("**") else word[-1] if word[-1] in "?!" else ""
    name, _, path = word.strip("*?!").partition("=")
    field = known.get(path or name)
    has_default = field is None or field.default is not MISSING or field.default_factory is not MISSING
    default = ABSENT
    if field is not None and field.default_factory is not MISSING:
        default = field.default_factory()
    elif field is not None and field.default is not MISSING:
        default = field.default
    return _Key(name, path or name, mark, default, mark == "?" or (has_default and mark != "!"))


@cache
def _kinds_of(record: Any) -> dict[str, Any]:
    return get_type_hints(record)


def encode(value: Any) -> Any:
    """`value` as strict JSON: lists for tuples, values for enums, text for paths and for what is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        return {str(name): encode(item) for name, item in value.items()}
    return [encode(item) for item in value] if isinstance(value, list | tuple) else value


def read_fields(record: Any, raw: Any, place: str) -> dict[str, Any]:
    """The fields of a record from the object `raw`; raises ValueError for what is missing or wrong."""
    document, kinds = _expect(dict, raw, place), _kinds_of(record)
    found: dict[str, Any] = {}
    for key in keys_of(record):
        if key.mark == "**":
            found[key.path] = decode(kinds[key.path], document, place)
        elif key.name not in document:
            if not key.may_miss:
                raise ValueError(f"{place}: '{key.name}' is missing" if place else f"'{key.name}' is missing")
            if key.mark == "?":
                found[key.path] = key.default
        elif kinds.get(key.path) is Any:
            found[key.path] = number_again(document[key.name], document.get("unit"))
        elif key.path in kinds:
            found[key.path] = decode(kinds[key.path], document[key.name], f"{place}.{key.name}".lstrip("."))
    return found


def number_again(value: Any, unit: str | None) -> Any:
    """What was measured: "inf", "-inf" and "nan" are numbers, unless the unit says that it is text."""
    return float(value) if value in _NOT_FINITE and unit != "text" else value


def decode(kind: Any, raw: Any, place: str) -> Any:
    """What `encode` made `raw` of, as a value of the type `kind`; raises ValueError with the place."""
    inner = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        known = [one for one in inner if one is not NoneType]
        return None if raw is None and known != list(inner) else decode(known[0], raw, place)
    if get_origin(kind) is tuple:
        listed = _expect(list, raw, place)
        return tuple(decode(inner[0], item, f"{place}[{number}]") for number, item in enumerate(listed))
    if get_origin(kind) is Mapping:
        return {name: decode(inner[1], item, f"{place}.{name}") for name, item in _expect(dict, raw, place).items()}
    if hasattr(kind, "read"):
        return kind.read(raw, place)
    if isinstance(kind, type) and issubclass(kind, (Enum, PurePath)):
        text = _expect(str, raw, place)
        try:
            return kind(text)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    if kind is float and (type(raw) is int or raw in _NOT_FINITE):
        return float(raw)
    return raw if kind is Any else _expect(kind, raw, place)


def _expect(kind: type, raw: Any, place: str) -> Any:
    if not isinstance(raw, kind) or (kind is int and isinstance(raw, bool)):
        raise ValueError(f"a part of it is of the wrong type: {place or 'all of it'} is not {_IN_WORDS[kind]}")
    return raw
