"""Literal defaults that several signatures repeat, where one of them would have to follow the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auditkit.probing.source_code.facts import ModuleFacts, Signature
from auditkit.probing.source_probes.uses import Uses

# Numbers that are not settings, and parameters whose value everybody knows.
_PLAIN_NUMBERS = frozenset((-1.0, 0.0, 1.0, 2.0))
_CONVENTIONAL = frozenset((
    "dim", "axis", "ord", "p", "norm_type", "seed", "random_state", "stacklevel", "indent", "verbose", "rank",
    "ndim", "world_size", "index", "ignore_index", "start", "level", "kernel_size", "stride", "padding",
))  # fmt: skip


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
                if value not in _PLAIN_NUMBERS and parameter not in _CONVENTIONAL:
                    groups[package, parameter, value].append(GivenDefault(module, signature, line))
    for (package, parameter, value), places in groups.items():
        together = tuple(place for part in _connected(places, parameter, uses) for place in part)
        if together:
            yield RepeatedDefault(package, parameter, value, together)


def _connected(places: list[GivenDefault], parameter: str, uses: Uses) -> Iterator[list[GivenDefault]]:
    """The parts of at least two signatures that one module, or a call, holds together."""
    by_module: dict[str, list[GivenDefault]] = defaultdict(list)
    for place in places:
        by_module[place.module.file].append(place)
    part_of = dict(by_module)
    by_call = {(place.module.name, _called(place.signature)): place for place in places}
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


def _called(signature: Signature) -> str:
    """What a call of the signature names: a class for its `__init__`."""
    return signature.owner if signature.name == "__init__" else signature.qualified_name


def _calls_with(giver: GivenDefault, parameter: str, uses: Uses) -> Iterator[tuple[str, str]]:
    """The (module, function or class) that the giver hands its parameter on to, under the same name or by place."""
    for forward in giver.signature.forwards:
        if forward.parameter == parameter and forward.keyword in ("", parameter):
            for origin, name, rest in uses.links.dotted_targets(giver.module, forward.callee):
                yield origin, f"{name}.{rest}" if rest else name
