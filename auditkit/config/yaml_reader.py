"""YAML with places: values and their lines, and every problem of a file reported at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditkit.errors import BadInputError, nearest_names

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, ScalarNode
    from yaml.nodes import Node as Node  # for those who read with it

# YAML 1.1 takes 1e-8 for text (it wants 1.0e-8); nobody who writes it in a config means text.
NUMBER_TEXT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")

# What YAML 1.1 counts as the end of a line.
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

_TYPE_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing",
    "map": "a mapping", "seq": "a list", "timestamp": "a date",
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """What is wrong at a place; `line` and `column` count from 1, `width` is how much is marked."""

    line: int
    column: int
    width: int
    message: str
    hint: str | None = None


_LARGEST_BYTES = 1_000_000


class YamlReader:
    """One YAML file: typed access to its nodes, with every problem collected until `raise_problems`.

    `if_absent` is the hint where there is no such file.
    """

    def __init__(self, path: Path, if_absent: str = "auditkit init CHECKOUT writes an auditkit.yaml") -> None:
        self.path = path
        self._if_absent = if_absent
        self.problems: list[Problem] = []
        self._plain: dict[int, Any] = {}
        self.text = self._read()

    def _read(self) -> str:
        try:
            with open(self.path, "rb") as file:
                data = file.read(_LARGEST_BYTES + 1)
            if len(data) > _LARGEST_BYTES:
                raise BadInputError(
                    f"{self.path} has more than {_LARGEST_BYTES:,} bytes", "no configuration is so large"
                )
            return data.decode("utf-8-sig")
        except FileNotFoundError:
            raise BadInputError(f"no such file: {self.path}", self._if_absent) from None
        except IsADirectoryError:
            raise BadInputError(f"{self.path} is a directory", "name the file in it") from None
        except OSError as error:
            raise BadInputError(f"{self.path} cannot be read: {error.strerror}", "check its rights") from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise BadInputError(f"{self.path}:{line}:1: not UTF-8", "save the file as UTF-8") from None

    def root(self) -> Node | None:
        """The file's one document, None where it is empty. Raises BadInputError where it is not YAML."""
        import yaml

        class Loader(yaml.SafeLoader):
            """YAML without aliases: a few lines of them can stand for gigabytes."""

            def compose_node(self, parent: Node | None, index: int) -> Node | None:
                if self.check_event(yaml.AliasEvent):
                    event = self.get_event()  # type: ignore[no-untyped-call]
                    raise yaml.MarkedYAMLError(
                        problem="an alias (*name); write the value", problem_mark=event.start_mark
                    )
                return super().compose_node(parent, index)

        try:
            document: Node | None = yaml.compose(self.text, Loader=Loader)
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            self.problems.append(Problem(line, 1, 1, f"the character {error.character!r} is not allowed"))
            document = None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            self.problems.append(Problem(line, column, 1, f"not valid YAML: {error.problem or error.context}"))
            document = None
        except RecursionError:
            self.problems.append(Problem(1, 1, 1, "nested too deeply"))
            document = None
        self.raise_problems()
        return document

    def report(self, node: Node, message: str, hint: str | None = None) -> None:
        """Note a problem at a node."""
        start, end = node.start_mark, node.end_mark
        width = end.column - start.column if end.line == start.line else 1
        self.problems.append(Problem(start.line + 1, start.column + 1, max(width, 1), message, hint))

    def report_unknown(self, node: Node, message: str, name: str, known: Collection[str]) -> None:
        """Note a name that is not among the known ones, with the nearest of them as hint."""
        nearest = nearest_names(name, known, most=1) if len(known) > 5 else []
        self.report(node, message, f"did you mean {nearest[0]}?" if nearest else f"one of {', '.join(known)}")

    def raise_problems(self) -> None:
        """Raise one BadInputError with all problems so far, if there are any."""
        if not self.problems:
            return
        several = len(self.problems) > 1
        ordered = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        text = "\n".join(self._show(problem, with_hint=several) for problem in ordered)
        raise BadInputError(text, f"{len(ordered)} problems in {self.path}" if several else ordered[0].hint)

    def _show(self, problem: Problem, with_hint: bool) -> str:
        lines = _LINE_BREAK.split(self.text)
        source = lines[problem.line - 1] if problem.line <= len(lines) else ""
        marks = " " * (problem.column - 1) + "^" + "~" * (problem.width - 1)
        shown = [f"{self.path}:{problem.line}:{problem.column}: {problem.message}"]
        shown += [f"    {source.replace(chr(9), ' ')}", f"    {marks}"]
        shown += [f"    {problem.hint}"] if with_hint and problem.hint else []
        return "\n".join(shown)

    # Typed access. Each notes a problem and gives a neutral value where the type is another.

    def mapping(self, node: Node, what: str, known: Collection[str] | None = None) -> Iterator[tuple[Any, Node]]:
        """The keys and value nodes of a mapping, each key a pair of its text and its node.

        Noted: another type, a key that is not text, a key twice, and one not `known`.
        """
        if not self._is(node, "map", what):
            return
        seen: dict[str, int] = {}
        mapping: MappingNode = node  # type: ignore[assignment]
        for key_node, value_node in mapping.value:
            key = self.text_of(key_node, "a key")
            if key is None:
                continue
            if key in seen:
                self.report(key_node, f"the key {key!r} is given twice", f"first in line {seen[key]}")
            elif known is not None and key not in known:
                self.report_unknown(key_node, f"unknown key {key!r} in {what}", key, known)
            else:
                yield (key, key_node), value_node
            seen.setdefault(key, key_node.start_mark.line + 1)

    def items(self, node: Node, what: str) -> list[Node]:
        """The items of a list."""
        return list(node.value) if self._is(node, "seq", what) else []

    def text_of(self, node: Node, what: str) -> str | None:
        """A text without null bytes, which no path and no argument of a process can hold."""
        if not self._is(node, "str", what):
            return None
        if "\0" in node.value:
            self.report(node, f"{what} holds a null byte")
            return None
        return str(node.value)

    def count_of(self, node: Node, what: str) -> int | None:
        """A whole number of 0 or more."""
        if not self._is(node, "int", what):
            return None
        value = self.plain(node)
        if value < 0:
            self.report(node, f"{what} must not be negative")
            return None
        return int(value)

    def flag_of(self, node: Node, what: str) -> bool:
        """True or false."""
        return self._is(node, "bool", what) and bool(self.plain(node))

    def _is(self, node: Node, kind: str, what: str) -> bool:
        found = node.tag.rpartition(":")[2]
        if found == kind:
            return True
        self.report(node, f"{what} must be {_TYPE_WORDS[kind]}, not {_TYPE_WORDS.get(found, node.tag)}")
        return False

    def plain(self, node: Node) -> Any:
        """The Python value of a node: text, numbers, flags, None, lists and mappings of those."""
        if id(node) in self._plain:
            return self._plain[id(node)]
        self._plain[id(node)] = None  # an alias inside its own anchor ends here
        kind = node.tag.rpartition(":")[2]
        if kind == "map":
            value: Any = {key: self.plain(item) for (key, _), item in self.mapping(node, "a value")}
        elif kind == "seq":
            value = [self.plain(item) for item in node.value]
        else:
            value = self._scalar(node, kind)  # type: ignore[arg-type]
        self._plain[id(node)] = value
        return value

    def _scalar(self, node: ScalarNode, kind: str) -> Any:
        import yaml

        if kind not in ("str", "int", "float", "bool", "null"):
            self.report(node, f"a value of type {_TYPE_WORDS.get(kind, node.tag)} is not supported here")
            return None
        if kind == "str" and node.style is None and NUMBER_TEXT.fullmatch(node.value):
            return float(node.value)
        try:
            return yaml.SafeLoader("").construct_object(node)
        except ValueError:
            self.report(node, f"{node.value!r} cannot be read as {_TYPE_WORDS[kind]}")
            return None
