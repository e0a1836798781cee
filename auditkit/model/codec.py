"""Records as strict JSON: a record's keys are its fields, unless its class says otherwise. msgspec reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum, StrEnum
from functools import cache
from operator import attrgetter
from pathlib import PurePath
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import msgspec

_NOT_FINITE = ("inf", "-inf", "nan")
_T = TypeVar("_T")


class Absent(StrEnum):
    """Stands for a value that was not measured; no measurement is this text."""

    ABSENT = "(absent)"


ABSENT = Absent.ABSENT


class Record:
    """A frozen dataclass with a JSON form: a key for each field in their order, or for each word of `keys`.

    `key=path` is a key that another attribute fills, such as `older=older.commit`; `**name` puts the keys of
    the record `name` in its place. `key?` is left out where it is its field's default, or `ABSENT` where that
    has none. A class with a `schema_version` begins with it.
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
        """Return the record of a document whose keys are its fields. Raises ValueError with the place."""
        return converted(document, cls)


class _Key(NamedTuple):
    """One key: the attribute that fills it, the mark of its word, and its field's default."""

    name: str
    path: str
    mark: str
    default: Any


@cache
def keys_of(record: Any) -> tuple[_Key, ...]:
    known = {field.name: field for field in fields(record)}
    return tuple(_key(word, known) for word in record._words.split() or known)


def _key(word: str, known: Mapping[str, Field[Any]]) -> _Key:
    mark = "**" if word.startswith("**") else "?" if word[-1] == "?" else ""
    name, _, path = word.strip("*?").partition("=")
    field = known.get(path or name)
    default = ABSENT
    if field is not None and field.default_factory is not MISSING:
        default = field.default_factory()
    elif field is not None and field.default is not MISSING:
        default = field.default
    return _Key(name, path or name, mark, default)


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


def converted(document: Any, kind: type[_T]) -> _T:
    """Return the document as an object of `kind`. Raises ValueError with the place."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def number_again(value: Any, unit: str | None) -> Any:
    """What was measured: "inf", "-inf" and "nan" are numbers, unless the unit says that it is text."""
    return float(value) if value in _NOT_FINITE and unit != "text" else value
