"""Read a YAML file into a dataclass: msgspec checks the values, and an error names its line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from auditkit.errors import BadInputError, nearest_names

if TYPE_CHECKING:
    from yaml.nodes import Node

NUMBER_TEXT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""YAML 1.1 reads 1e-8 as text (it requires 1.0e-8); here it is a number."""
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_PLACE = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`(?P<place>\$.*?)(?:\[\.\.\.\].*)?`)?$", re.DOTALL)
_LARGEST_BYTES = 1_000_000
_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing",
    "object": "a mapping", "array": "a list",
}  # fmt: skip
_T = TypeVar("_T")


class YamlFile:
    """The value of a YAML file, and the node of each of its places (`$.targets[0].call`).

    With `as_text` every scalar is text, as it is written: 2.10 is not 2.1. Raises BadInputError if the file is not
    there or not valid; `if_absent` is the hint for a missing file.
    """

    def __init__(
        self, path: Path, if_absent: str = "auditkit init CHECKOUT writes an auditkit.yaml", as_text: bool = False
    ) -> None:
        self.path, self._as_text = path, as_text
        self.text = _read(path, if_absent)
        self._nodes: dict[str, Node] = {}
        try:
            root = self._composed()
            self.value: Any = self._plain(root, "$") if root is not None else None
        except RecursionError:
            raise self._error(1, 1, 1, "nested too deeply") from None

    def error(self, place: str, message: str, hint: str | None = None) -> BadInputError:
        """Return the error for a place: `file:line:column: message`, then the line with a mark under the place."""
        node = self._nodes.get(place)
        if node is None:
            return self._error(1, 1, 1, message, hint)
        start, end = node.start_mark, node.end_mark
        width = end.column - start.column if end.line == start.line else 1
        return self._error(start.line + 1, start.column + 1, max(width, 1), message, hint)

    def line_of(self, place: str) -> int:
        return self._nodes[place].start_mark.line + 1

    def unknown(self, place: str, message: str, name: str, known: Collection[str]) -> BadInputError:
        """Return the error for a name that is not `known`, with the nearest known name as the hint."""
        nearest = nearest_names(name, known, most=1) if len(known) > 5 else []
        return self.error(place, message, f"did you mean {nearest[0]}?" if nearest else f"one of {', '.join(known)}")

    def as_list(self, key: str) -> None:
        """Take a text under the key as a list of one."""
        if isinstance(self.value, dict) and isinstance(self.value.get(key), str):
            self.value[key] = [self.value[key]]
            self._nodes[f"$.{key}[0]"] = self._nodes[f"$.{key}"]

    def convert(self, kind: type[_T], what: str) -> _T:
        """Return the value as a dataclass. Raises BadInputError for an unknown key and for a value of another type."""
        if self.value is None:
            return kind()
        self._check(self.value, kind, "$", what)
        try:
            return msgspec.convert(self.value, kind, strict=not self._as_text, dec_hook=_hook)
        except msgspec.ValidationError as error:
            found = _PLACE.fullmatch(str(error))
            place = (found["place"] if found else "") or "$"
            name = place.rpartition(".")[2] if "." in place else what
            raise self.error(place, f"{name} {_in_words(found['what'] if found else str(error))}") from None

    def _check(self, value: Any, kind: Any, place: str, what: str) -> None:
        """Check the keys and the words of enums, which have a nearest name."""
        origin, inner = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType, Annotated):
            self._check(value, next(one for one in inner if one is not NoneType), place, what)
        elif origin is tuple and isinstance(value, list):
            for number, item in enumerate(value):
                self._check(item, inner[0], f"{place}[{number}]", what.removesuffix("s"))
        elif origin is Mapping and isinstance(value, dict):
            for name, item in value.items():
                self._check(item, inner[1], f"{place}.{name}", what)
        elif isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
            known = [str(one.value) for one in kind]
            if value not in known:
                raise self.unknown(place, f"unknown {what} {value!r}", value, known)
        elif is_dataclass(kind) and isinstance(value, dict):
            hints, known = get_type_hints(kind, include_extras=True), keys_of(kind)
            for name, item in value.items():
                if name not in known:
                    raise self.unknown(f"{place}.{name}?", f"unknown key {name!r} in {what}", name, known)
                self._check(item, hints[name], f"{place}.{name}", name)

    def _composed(self) -> Node | None:
        import yaml

        class Loader(yaml.SafeLoader):
            """YAML without aliases: a few lines of them can stand for gigabytes."""

            def compose_node(self, parent: Node | None, index: int) -> Node | None:
                if self.check_event(yaml.AliasEvent):
                    mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
                    raise yaml.MarkedYAMLError(problem="an alias (*name); write the value", problem_mark=mark)
                return super().compose_node(parent, index)

        try:
            root: Node | None = yaml.compose(self.text, Loader=Loader)
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            raise self._error(line, 1, 1, f"the character {error.character!r} is not allowed") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise self._error(line, column, 1, f"not valid YAML: {error.problem or error.context}") from None
        return root

    def _plain(self, node: Node, place: str) -> Any:
        """Return the Python value of a node. Raises BadInputError for a key that is not text or is there twice."""
        self._nodes[place] = node
        kind = node.tag.rpartition(":")[2]
        if kind == "seq":
            return [self._plain(item, f"{place}[{number}]") for number, item in enumerate(node.value)]
        if kind == "map":
            return dict(self._entries(node, place))
        if kind not in ("str", "int", "float", "bool", "null"):
            raise self.error(place, f"a value of type {kind} is not supported here")
        if kind == "str" and "\0" in node.value:
            raise self.error(place, "a null byte is not allowed")
        is_plain = kind == "str" and getattr(node, "style", None) is None
        if is_plain and not self._as_text and NUMBER_TEXT.fullmatch(node.value):
            return float(node.value)
        if kind == "str" or (self._as_text and kind != "null"):
            return node.value
        import yaml

        try:
            return yaml.SafeLoader("").construct_object(node)
        except ValueError:
            raise self.error(place, f"{node.value!r} cannot be read as {kind}") from None

    def _entries(self, node: Node, place: str) -> Iterator[tuple[str, Any]]:
        lines: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            self._nodes[f"{place}.{name}?"] = key
            if not key.tag.endswith(":str") and not self._as_text:
                raise self.error(f"{place}.{name}?", "a key must be text")
            if name in lines:
                raise self.error(f"{place}.{name}?", f"the key {name!r} is given twice", f"first in line {lines[name]}")
            lines[name] = key.start_mark.line + 1
            yield name, self._plain(value, f"{place}.{name}")

    def _error(self, line: int, column: int, width: int, message: str, hint: str | None = None) -> BadInputError:
        lines = _LINE_BREAK.split(self.text)
        source = lines[line - 1] if line <= len(lines) else ""
        marks = " " * (column - 1) + "^" + "~" * (width - 1)
        shown = f"    {source.replace(chr(9), ' ')}\n    {marks}"
        return BadInputError(f"{self.path}:{line}:{column}: {message}\n{shown}", hint)


def keys_of(kind: Any) -> list[str]:
    """Return the keys of a dataclass in a file: its fields but those with the metadata `internal`."""
    return [field.name for field in fields(kind) if not field.metadata.get("internal")]


def _in_words(message: str) -> str:
    """Return `must be a whole number, not text` for msgspec's "Expected `int`, got `str`"."""
    for theirs, ours in (
        (" | null`", "`"),
        ("Object missing required field", "misses"),
        ("Expected", "must be"),
        ("got", "not"),
    ):
        message = message.replace(theirs, ours)
    return re.sub("`([^`]*)`", lambda kind: " or ".join(_WORDS.get(one, one) for one in kind[1].split(" | ")), message)


def _hook(kind: Any, value: Any) -> Any:
    """Convert what msgspec does not know: paths."""
    if isinstance(kind, type) and issubclass(kind, Path) and isinstance(value, str):
        return Path(value)
    raise msgspec.ValidationError(f"Expected `{getattr(kind, '__name__', kind)}`, got `{type(value).__name__}`")


def _read(path: Path, if_absent: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise BadInputError(f"{path} has more than {_LARGEST_BYTES:,} bytes", "no configuration is so large")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInputError(f"no such file: {path}", if_absent) from None
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}", "name a file that you may read") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadInputError(f"{path}:{line}:1: not UTF-8", "save the file as UTF-8") from None
