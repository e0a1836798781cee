"""How calls flow through a module: who calls its functions, in which order, and what waits for the device between."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from auditkit.model.module_page import Flow, FlowStep, Way
from auditkit.probing.source_code.facts import ModuleFacts
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_code.links import Links
from auditkit.probing.source_code.modules import Function, Module, dotted_name
from auditkit.probing.source_probes.mentions import Found, mentions_in, own_names, resolver
from auditkit.probing.source_probes.style import WrittenMapping

MOST_WAITS = 4
_WAITS = frozenset(("synchronize", "wait_stream", "wait_event"))
_READS = frozenset(("item", "tolist", "cpu", "numpy"))


def flows_of(
    index: SourceIndex,
    links: Links,
    module: ModuleFacts,
    found: Mapping[str, Sequence[Found]],
    by_hand: Sequence[WrittenMapping],
) -> tuple[Flow, ...]:
    """The flows of the checkout's own code, tests left out: those of other files, then the module's own.

    `found` are the uses of the module's names by file, `by_hand` mappings that do a collector's work.
    """
    names = frozenset(item.qualified_name for item in module.definitions if item.kind != "class")
    flows: list[Flow] = []
    for file in sorted(found):
        other = index.by_file[file]
        if not other.is_test:
            flows += _flows_in(index, links, other, [one for one in found[file] if one.name in names], by_hand)
    tree = index.tree_of(module)
    own = [
        one
        for function in tree.defined()
        for one in mentions_in(_alone(tree, function), own_names(tree, function, names))
        if one.name in names
    ]
    return (*flows, *_flows_in(index, links, module, own, by_hand))


def _alone(tree: Module, function: Function) -> Module:
    """A module that holds one function of `tree` only, under its class, so that `self` is one thing."""
    node: ast.stmt = function.node
    for name in reversed(function.qualified_name.split(".")[:-1]):
        node = ast.ClassDef(name=name, bases=[], keywords=[], body=[node], decorator_list=[])
    alone = Module(tree.file, tree.name, ast.Module([node], []), tree.lines, imports=tree.imports)
    alone.functions = {function.qualified_name: function}
    return alone


def _flows_in(
    index: SourceIndex, links: Links, other: ModuleFacts, found: Sequence[Found], by_hand: Sequence[WrittenMapping]
) -> Iterator[Flow]:
    """A flow for each function that others can name and that calls something, in the order of lines."""
    calls = [one for one in found if one.mention.way is Way.CALLED]
    if not calls:
        return
    tree = index.tree_of(other)
    for function in sorted(tree.defined(), key=lambda item: item.node.lineno):
        inside = range(function.node.lineno, (function.node.end_lineno or function.node.lineno) + 1)
        made = [one for one in calls if one.mention.line in inside]
        if made:
            written = [place for place in by_hand if place.file == other.file and place.line in inside]
            steps = _steps(function, made, written)
            yield Flow(other.file, function.qualified_name, _callers(index, links, other, function), steps)
    index.let_go(tree)


def _steps(function: Function, made: Sequence[Found], written: Sequence[WrittenMapping]) -> tuple[FlowStep, ...]:
    """The calls, with the collections that are written out and what waits between the first and the last of them."""
    steps = [FlowStep(f"{one.name}(){_place(one.mention.function, function)}", one.mention.line) for one in made]
    steps += [FlowStep(f"collected by hand{_place(one.function, function)}", one.line, "by_hand") for one in written]
    first, last = min(step.line for step in steps), max(step.line for step in steps)
    steps += _waits(function, first, last)
    return tuple(sorted(steps, key=lambda step: step.line))


def _place(innermost: str, function: Function) -> str:
    """In which function inside `function` something stands, "" where it is in none."""
    inner = innermost.removeprefix(function.qualified_name).strip(".")
    return f" in {inner}()" if inner else ""


def _waits(function: Function, first: int, last: int) -> list[FlowStep]:
    """What waits for the device between two lines: synchronisations, or, where there is none, reads to the host."""
    between = [
        node
        for node in function.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and first < node.lineno < last
    ]
    for wanted in (_WAITS, _READS):
        found: dict[str, list[int]] = {}
        for node in between:
            if isinstance(node.func, ast.Attribute) and node.func.attr in wanted:
                written = dotted_name(node.func) or f"... .{node.func.attr}"
                found.setdefault(f"{written}()", []).append(node.lineno)
        if found:
            steps = [FlowStep(text, max(lines), "wait") for text, lines in found.items()]
            return sorted(steps, key=lambda step: step.line)[-MOST_WAITS:]
    return []


def _callers(index: SourceIndex, links: Links, other: ModuleFacts, function: Function) -> tuple[str, ...]:
    """The functions of the checkout's own code that call `function`, as `file:name`, in their order."""
    found = []
    for user in index.modules:
        if not user.is_test and function.name.encode() in index.source_of(user):
            tree = index.tree_of(user)
            found += [f"{user.file}:{name}" for name in _calling(links, tree, user, other, function)]
            index.let_go(tree)
    return tuple(found)


def _calling(links: Links, tree: Module, user: ModuleFacts, other: ModuleFacts, function: Function) -> Iterator[str]:
    """The functions of `tree` that call `function`, by its name, its import, or `self`."""
    name = function.qualified_name
    for caller in tree.defined():
        if user is other and caller.qualified_name == name:
            continue
        resolve = own_names(tree, caller, frozenset((name,))) if user is other else resolver(links, other, user)
        if any(isinstance(node, ast.Call) and resolve(dotted_name(node.func)) == name for node in caller.nodes):
            yield caller.qualified_name
