"""Thresholds that are literal defaults of several signatures, where one of them would have to follow the others."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auditkit.probing.source_code.facts import ModuleFacts, Signature
from auditkit.probing.source_code.modules import Module, dotted_name
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.uses import Uses

_PLAIN_NUMBERS = frozenset((-1.0, 0.0, 1.0, 2.0))
# What a run is tuned with (lr, gamma, batch_size, dropout) differs from place to place on purpose.
_THRESHOLD = re.compile(
    r"(\w+_)?(thresh(old)?|tol(erance)?|[ar]tol|limit|bound|cutoff|floor|ceiling|eps(ilon)?|clip(ping)?|clamp)s?(_\w+)?"
    r"|(\w+_)?norm|m(ax|in)_(grad\w*|value|ratio)"
)
_DECIDING = re.compile(r"(clamp|clip|isclose|allclose|minimum|maximum|min|max|threshold)\w*")


@dataclass(frozen=True)
class GivenDefault:
    """One signature with the default, at the line of the default."""

    module: ModuleFacts
    signature: Signature
    line: int


@dataclass(frozen=True)
class RepeatedDefault:
    """One number as the default of one parameter, in several signatures of a top-level package."""

    package: str
    parameter: str
    value: float
    places: tuple[GivenDefault, ...]


def repeated_defaults(modules: Iterable[ModuleFacts], uses: Uses) -> Iterator[RepeatedDefault]:
    """The numbers that are repeated among signatures that belong together.

    They do where they stand in one module, or where one hands the parameter on to the other. Methods of
    one name (an interface and its implementations) count once.
    """
    groups: dict[tuple[str, str, float], list[GivenDefault]] = defaultdict(list)
    for module in modules:
        package = module.name.partition(".")[0]
        for signature in module.signatures:
            for parameter, value, line in signature.defaults:
                if value not in _PLAIN_NUMBERS and _THRESHOLD.fullmatch(parameter):
                    groups[package, parameter, value].append(GivenDefault(module, signature, line))
    for (package, parameter, value), places in groups.items():
        together = tuple(place for part in _connected(places, parameter, uses) for place in part)
        if together:
            yield RepeatedDefault(package, parameter, value, together)


def decides_by(module: Module, parameter: str) -> bool:
    """Whether code of the module compares or clamps with a value of that name; checks of its own range do not count."""
    return any(_decides(node, parameter) for node in walk([module.tree]))


def _decides(node: ast.AST, parameter: str) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        others = [side for side in sides if not _names(side, parameter)]
        orders = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
        return orders and len(others) < len(sides) and any(not isinstance(side, ast.Constant) for side in others)
    if isinstance(node, ast.Call) and _DECIDING.fullmatch(dotted_name(node.func).rpartition(".")[2]):
        return any(_names(given, parameter) for given in [*node.args, *(word.value for word in node.keywords)])
    return False


def _names(node: ast.expr, parameter: str) -> bool:
    return any(
        dotted_name(part).rpartition(".")[2].lstrip("_") == parameter
        for part in walk([node])
        if isinstance(part, ast.expr)
    )


def _connected(places: list[GivenDefault], parameter: str, uses: Uses) -> Iterator[list[GivenDefault]]:
    """The parts of at least two signatures that one module, or a call, holds together."""
    by_module: dict[str, list[GivenDefault]] = defaultdict(list)
    for place in places:
        by_module[place.module.file].append(place)
    part_of = dict(by_module)
    by_call = {}
    for place in places:
        one = place.signature  # a call names a class for its `__init__`
        by_call[place.module.name, one.owner if one.name == "__init__" else one.qualified_name] = place
    for giver in places:
        for call in _calls_with(giver, parameter, uses):
            taker = by_call.get(call, giver)
            first, second = part_of[giver.module.file], part_of[taker.module.file]
            if first is not second:
                first += second
                part_of.update({place.module.file: first for place in second})
    parts = {id(part): part for part in part_of.values()}.values()
    for part in parts:
        ordered = sorted(part, key=lambda place: (place.module.file, place.line))
        if len({_interface(place) for place in ordered}) > 1:
            yield ordered


def _interface(place: GivenDefault) -> tuple[str, str]:
    """What counts once: a method's name whatever its class, any other signature for itself."""
    signature = place.signature
    if signature.owner and signature.name != "__init__":
        return "method", signature.name
    return place.module.name, signature.qualified_name


def _calls_with(giver: GivenDefault, parameter: str, uses: Uses) -> Iterator[tuple[str, str]]:
    """The (module, function or class) that the giver hands its parameter on to, under the same name or by place."""
    for forward in giver.signature.forwards:
        if forward.parameter == parameter and forward.keyword in ("", parameter):
            for origin, name, rest in uses.links.dotted_targets(giver.module, forward.callee):
                yield origin, f"{name}.{rest}" if rest else name
