"""Which functions of a file run with a target: those that it calls, and those that read what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.model.runs.run import ProbeResult
from auditkit.probing.find.blocks.blocks import Block
from auditkit.probing.source.modules import Function, dotted_name


def functions_of(target: Function, findings: Sequence[ProbeResult]) -> list[Function]:
    """The target, what it calls in its file, what finishes its answer there, and what a finding's line lies in."""
    there = _functions(target)
    found = [target]
    for function in found:  # grows while it is walked
        found += [one for one in there if one not in found and _may_call(function, one)]
    keys = _own_keys(target)
    found += [one for one in there if one not in found and keys & _own_keys(one)]
    return found + [one for one in there if one not in found and _holds_finding(one, findings)]


def _functions(target: Function) -> list[Function]:
    """All other functions of the target's file, without the one around a block: what else stands there is not run."""
    module = target.module
    methods = [method for owner in module.classes.values() for method in owner.methods.values()]
    first, last = target.lines if isinstance(target, Block) else (0, 0)
    others = [one for one in (*module.functions.values(), *methods) if one is not target]
    return [one for one in others if not (first and _span(one)[0] <= first and last <= _span(one)[1])]


def _span(function: Function) -> tuple[int, int]:
    return function.node.lineno, function.node.end_lineno or function.node.lineno


def _may_call(function: Function, other: Function) -> bool:
    """Whether it calls a function of its module by name, a method of its own class, or one of a class that it names."""
    names = {dotted_name(node.func) for node in function.nodes if isinstance(node, ast.Call)}
    if other.owner is None:
        return other.name in names
    if other.owner is function.owner and any(f"{owner}.{other.name}" in names for owner in ("self", "cls")):
        return True
    is_named = other.owner.node.name in names
    return is_named and any(name.endswith(f".{other.name}") for name in names)


def _own_keys(function: Function) -> frozenset[str]:
    """Keys with a leading underscore: what a collecting step hands to the one that reads it."""
    return frozenset(_texts(function))


def _texts(function: Function) -> Iterator[str]:
    for node in function.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_"):
            yield node.value


def _holds_finding(function: Function, findings: Sequence[ProbeResult]) -> bool:
    first, last = _span(function)
    places = (finding.location for finding in findings if finding.location is not None)
    return any(place.file == function.module.file and place.line and first <= place.line <= last for place in places)
