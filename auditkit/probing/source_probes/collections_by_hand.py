"""Functions that finish what others collected, and who collects it.

`materialize_stats(pending)` demands keys of a mapping, or a record of the checkout's own. Whoever returns
such a mapping or record is its producer; a mapping with the same keys that is written out anywhere else is
the collection done by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auditkit.probing.discovery.answers import consumed_keys
from auditkit.probing.source_code.facts import ModuleFacts
from auditkit.probing.source_code.modules import Function, FunctionNode, Module, dotted_name, targets_of, text_in
from auditkit.probing.source_code.walking import FIELDS, children, walk

FINISHING = re.compile(r"(materiali[sz]e|finish|finali[sz]e|wait)(_\w+)?")
MAY_FINISH = re.compile(rb"\bdef (materiali[sz]e|finish|finali[sz]e|wait)")
_READS = frozenset(("item", "tolist", "cpu", "numpy"))
_TRAINS = frozenset(("backward", "step", "zero_grad"))
_MOST_WRAPPERS = 3


@dataclass(frozen=True)
class Finisher:
    """A function that reads back what it is given: the text keys it demands, or the record's class name."""

    function: Function
    keys: frozenset[str]
    record: str


@dataclass(frozen=True, order=True)
class WrittenMapping:
    """A mapping with text keys that some code writes out: where, and in which function."""

    file: str
    line: int
    function: str
    keys: frozenset[str]


@dataclass(frozen=True)
class Collection:
    """A finishing function, the functions that produce its input, and the mappings written out by hand."""

    module: ModuleFacts
    function: Function
    input_in_words: str
    producers: tuple[Function, ...]
    by_hand: tuple[WrittenMapping, ...]


def collection_of(finisher: Finisher, module: ModuleFacts, holding: Iterable[Module]) -> Collection:
    """Who collects what `finisher` asks for, among the modules that hold one of its keys or its record's name."""
    producers = Producers(holding)
    if finisher.keys:
        found = producers.of_keys(finisher)
        by_hand = producers.written_out(finisher.keys, [*found, finisher.function])
        words = "the keys " + ", ".join(sorted(finisher.keys))
    else:
        found, by_hand = producers.of_record(finisher), []
        words = f"a {finisher.record}"
    return Collection(module, finisher.function, words, tuple(found), tuple(by_hand))


def finishers_of(module: Module) -> Iterator[Finisher]:
    """The public functions and methods that finish something, and whose input can be told."""
    for function in module.defined():
        if not FINISHING.fullmatch(function.name) or not _reads_back(function):
            continue
        for item in function.required:
            keys = frozenset(consumed_keys(function, item.arg))
            record = _record_name(item.annotation)
            if keys or record:
                yield Finisher(function, keys, record)
                break


def _reads_back(function: Function) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in _READS)
        or (isinstance(node, ast.Call) and dotted_name(node.func) in ("float", "int"))
        for node in function.nodes
    )


def _record_name(annotation: ast.expr | None) -> str:
    """The class that a parameter is annotated with, "" for mappings and none."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value if annotation.value.isidentifier() else ""
    name = dotted_name(annotation) if annotation is not None else ""
    last = name.rpartition(".")[2]
    return name if last[:1].isupper() and last not in ("Any", "WrittenMapping", "Dict", "Tensor", "Module") else ""


@dataclass
class _Producer:
    """What one function returns: the keys of mappings, the names of classes and functions that it calls."""

    function: Function
    keys: frozenset[str]
    calls: frozenset[str]
    trains: bool


class Producers:
    """The functions of some modules by what they return."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = list(modules)
        self._producers = [_producer(function) for module in self._modules for function in module.defined()]

    def of_keys(self, finisher: Finisher) -> list[Function]:
        """The functions whose answer has every key that `finisher` demands, directly or by calling one.

        Keys of several returns count together: a finisher asks for some only where others are missing.
        """
        direct = [item for item in self._producers if finisher.keys <= item.keys]
        return self._with_wrappers([item for item in direct if not item.trains], finisher)

    def of_record(self, finisher: Finisher) -> list[Function]:
        """The functions that return an instance of the class, by calling it or by their annotation."""
        name = finisher.record.rpartition(".")[2]
        direct = [item for item in self._producers if name in item.calls or _returns(item.function) == name]
        return self._with_wrappers(direct, finisher)

    def _with_wrappers(self, direct: list[_Producer], finisher: Finisher) -> list[Function]:
        found = {id(item.function): item.function for item in direct}
        for _ in range(_MOST_WRAPPERS):
            names = {function.name for function in found.values()}
            found |= {id(item.function): item.function for item in self._producers if item.calls & names}
        return [function for function in found.values() if _may_be_called(function, finisher)]

    def written_out(self, keys: frozenset[str], produced: Iterable[Function]) -> list[WrittenMapping]:
        """The mappings with most of `keys`, three of four, that code outside of `produced` writes out."""
        known = {(item.module.file, item.qualified_name) for item in produced}
        found = [mapping for module in self._modules for mapping in _mappings(module)]
        found = [item for item in found if (item.file, item.function) not in known]
        return sorted(item for item in found if 4 * len(keys & item.keys) >= 3 * len(keys))


def _may_be_called(function: Function, finisher: Finisher) -> bool:
    """A private producer is one only for its neighbours; a finisher that hands its input on is none."""
    if function.qualified_name == finisher.function.qualified_name:
        return False
    is_public = not any(part.startswith("_") for part in function.qualified_name.split("."))
    return is_public or function.module.file == finisher.function.module.file


def _producer(function: Function) -> _Producer:
    values = [node.value for node in own_nodes(function.node) if isinstance(node, ast.Return | ast.Yield)]
    returned = [value for value in values if value is not None]
    keys = frozenset().union(*(_returned_keys(function, value) for value in returned))
    trains = any(isinstance(node, ast.Attribute) and node.attr in _TRAINS for node in own_nodes(function.node))
    return _Producer(function, keys, frozenset(_called(function, returned)), trains)


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if type(node) not in FIELDS or isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            continue
        yield node
        waiting += children(node)


def _returned_keys(function: Function, value: ast.expr) -> frozenset[str]:
    """The text keys of the mappings in a returned expression: written there, or put together under its names."""
    names = {node.id for node in walk([value]) if isinstance(node, ast.Name)}
    found = set().union(*map(_keys_of, walk([value])))
    for node in own_nodes(function.node):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in targets_of(node):
            if dotted_name(target) in names:
                found |= set().union(*map(_keys_of, walk([node.value])))
            elif isinstance(target, ast.Subscript) and dotted_name(target.value) in names:
                found |= _keys_of(node.value) | {text_in(target.slice)}
    return frozenset(found - {""})


def _keys_of(node: ast.AST) -> frozenset[str]:
    """The text keys of `{"a": ...}` and `dict(a=...)`; none for anything else."""
    keys: list[str | None] = []
    if isinstance(node, ast.Dict):
        keys = [text_in(key) for key in node.keys if key is not None]
    elif isinstance(node, ast.Call) and dotted_name(node.func) == "dict":
        keys = [item.arg for item in node.keywords]
    return frozenset(key for key in keys if key)


def _called(function: Function, returned: list[ast.expr]) -> Iterator[str]:
    """The last words of what the returned expressions call, by one name at most."""
    names = {dotted_name(value) for value in returned} - {""}
    stored = [
        node.value
        for node in own_nodes(function.node)
        if isinstance(node, ast.Assign) and names & set(map(dotted_name, node.targets))
    ]
    for value in [*returned, *stored]:
        for node in walk([value]):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
                yield called


def _returns(function: Function) -> str:
    """The class that a function is annotated to return, "" for none."""
    node = function.node.returns
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return dotted_name(node).rpartition(".")[2] if node is not None else ""


def _mappings(module: Module) -> Iterator[WrittenMapping]:
    """Every mapping with text keys in a module, with the function (of any depth) that holds it."""
    waiting: list[tuple[ast.AST, str]] = [(module.tree, "")]
    while waiting:
        node, function = waiting.pop()
        keys = _keys_of(node)
        if keys and isinstance(node, ast.expr):
            yield WrittenMapping(module.file, node.lineno, function, keys)
        if isinstance(node, FunctionNode | ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
        waiting += [(item, function) for item in children(node)]
