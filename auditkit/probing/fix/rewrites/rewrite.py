"""The rewrites of a function that may end its findings, and the file with some of them applied."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auditkit.model.runs.run import ProbeResult
from auditkit.probing.find.blocks.blocks import Block
from auditkit.probing.fix.patches import CannotComplete, FunctionFile, has_line
from auditkit.probing.fix.rewrites.conditions import ChosenOnDevice, NanIsTooLarge, Reshape
from auditkit.probing.fix.rewrites.drafts import Draft
from auditkit.probing.fix.rewrites.empties import (
    AtLeastOne,
    PresentGradients,
    WithElements,
    ZerosOfNothing,
)
from auditkit.probing.fix.rewrites.norms import in_float64, returned_as, without_double_copies
from auditkit.probing.fix.rewrites.packs import counted_in_packs
from auditkit.probing.fix.rewrites.reads import ReadOnce
from auditkit.probing.fix.rewrites.syntax import Pattern
from auditkit.probing.source.modules import Function, dotted_name, text_in

Change = Callable[[Draft], Draft]

_NARROW = frozenset({"norm_overflows_on_finite_grads", "norm_underflows_to_zero", "norm_loses_accuracy"})
"""Findings that a 16-bit norm always has: float16 ends at 65,504."""
_PRECISION = _NARROW | {"norm_depends_on_grouping", "clip_destroys_gradients", "fails_on_mixed_dtypes"}
_SPARSE = frozenset({"fails_on_sparse_grads"})
_SYNCS = frozenset({
    "syncs_grow_with_tensors", "sync_in_loop", "graph_breaks_under_compile", "async_collect_synchronizes",
})  # fmt: skip
_MEMORY = frozenset({"peak_memory_grows_with_params", "launches_grow_with_tensors"})
_ZERO = frozenset({"ratio_divides_by_zero", "fails_on_zero_element_grads"})
_STRIDES = frozenset({"fails_on_noncontiguous_grads"})
_PACKS = _ZERO | _STRIDES | {
    "peak_memory_grows_with_params", "counts_are_rounded", "fails_on_gradients_of_two_devices",
}  # fmt: skip
_MISSING = frozenset({"fails_on_missing_grads"})
_EMPTY = frozenset({"empty_input_changes_result_type"})
_HEALTHY = frozenset({"nonfinite_grads_look_healthy"})


@dataclass(frozen=True)
class Rewrite:
    """One change of a function: a short name, the probes whose findings it may end, and a sentence on what it does.

    `apply` makes it in a draft of the file. `size` is the size of the change alone.
    """

    name: str
    probes: frozenset[str]
    change: str
    apply: Change
    size: tuple[int, int] = (0, 0)


def rewrites_of(place: FunctionFile, findings: Sequence[ProbeResult]) -> list[Rewrite]:
    """Return changes of the function, and of functions that run with it, that may end a finding; likeliest first.

    A change that may end more findings is likelier, then a smaller one. Nothing is run.
    """
    wanted = frozenset(finding.probe for finding in findings)
    draft = Draft.of(place, functions_of(place.function, findings))
    found: dict[bytes, Rewrite] = {}
    for name, probes, told, change in _FAMILIES:
        if not probes & wanted:
            continue
        changed = change(draft)
        if changed.text == draft.text:
            continue
        said = f"line{'s' * (len(changed.places) > 1)} {', '.join(map(str, changed.places))}: {told}"
        known = found.get(changed.data)
        if known is None or known.probes < probes:
            found[changed.data] = Rewrite(name, probes, said, change, changed.size)
    return sorted(found.values(), key=lambda rewrite: (-len(rewrite.probes & wanted), rewrite.size))


def rewritten(place: FunctionFile, rewrites: Sequence[Rewrite], findings: Sequence[ProbeResult] = ()) -> Draft:
    """Return the file with the rewrites applied in turn. Raises CannotComplete if nothing changes."""
    draft = Draft.of(place, functions_of(place.function, findings))
    for rewrite in sorted(rewrites, key=lambda one: _ORDER.get(one.name, 0)):
        draft = rewrite.apply(draft)
    if draft.data == place.data:
        raise CannotComplete("changes nothing")
    return draft


def _each(pattern: type[Pattern]) -> Change:
    return lambda draft: draft.changed(pattern)


def _cast(change: Change, is_narrow: bool) -> Change:
    def cast(draft: Draft) -> Draft:
        found = change(draft)
        return returned_as(found, draft, is_narrow) if found.text != draft.text else found

    return cast


def _zeros_of_nothing(draft: Draft) -> Draft:
    found = draft.changed(ZerosOfNothing)
    return found.changed(AtLeastOne) if found.text != draft.text else draft


_NORM = "the norm is accumulated in float64, inside the reduction"
_COPIES = "no float64 copies of the gradients, the norms are accumulated in float64"
_IN_PACKS = "no copy of all gradients, they are counted half a million elements at a time"
_NOTHING = "without gradients the norms are one zero, and nothing is divided by their number"
_FAMILIES: tuple[tuple[str, frozenset[str], str, Change], ...] = (
    ("present_gradients", _MISSING, "parameters without a gradient are left out", _each(PresentGradients)),
    ("without_elements", _ZERO, "gradients without elements are left out", _each(WithElements)),
    ("counted_in_packs", _PACKS, _IN_PACKS, counted_in_packs),
    ("without_double_copies", _MEMORY, _COPIES, without_double_copies),
    ("norms_in_float64", (_PRECISION | _SPARSE) - _NARROW, _NORM, _cast(in_float64, is_narrow=True)),
    ("norms_in_float64", _PRECISION | _SPARSE, _NORM, _cast(in_float64, is_narrow=False)),
    ("zeros_of_nothing", _EMPTY, _NOTHING, _zeros_of_nothing),
    ("nan_is_too_large", _HEALTHY, "NaN counts as above the limit", _each(NanIsTooLarge)),
    ("reshaped", _STRIDES, "reshape takes any strides, where view raises", _each(Reshape)),
    ("chosen_on_device", _SYNCS, "chosen on the device, where the branch caused a sync", _each(ChosenOnDevice)),
    ("read_once", _SYNCS, "the tensors are kept, and read once after the loop", _each(ReadOnce)),
    ("divided_by_at_least_one", _ZERO, "the divisor is at least 1", _each(AtLeastOne)),
)
"""In the order in which they are applied together: each sees the changes of those above it."""
_ORDER = {family[0]: place for place, family in enumerate(_FAMILIES)}


def functions_of(target: Function, findings: Sequence[ProbeResult]) -> list[Function]:
    """Return the target, its callees and finishing functions in its file, and functions with a finding's line."""
    there = _functions(target)
    found = [target]
    for function in found:  # grows during iteration
        found += [one for one in there if one not in found and _may_call(function, one)]
    keys = _own_keys(target)
    found += [one for one in there if one not in found and keys & _own_keys(one)]
    return found + [one for one in there if one not in found and _holds_finding(one, findings)]


def _functions(target: Function) -> list[Function]:
    """Return the other functions of the target's file, except the one around a block, whose other code does not run."""
    others = [one for one in target.module.defined() if one is not target]
    return [one for one in others if not (isinstance(target, Block) and has_line(one, target.lines[0]))]


def _may_call(function: Function, other: Function) -> bool:
    """Return whether it calls a function of its module, a method of its own class, or of a class that it names."""
    names = {dotted_name(node.func) for node in function.nodes if isinstance(node, ast.Call)}
    if other.owner is None:
        return other.name in names
    if other.owner is function.owner and any(f"{owner}.{other.name}" in names for owner in ("self", "cls")):
        return True
    is_named = other.owner.node.name in names
    return is_named and any(name.endswith(f".{other.name}") for name in names)


def _own_keys(function: Function) -> frozenset[str]:
    """Return keys with a leading underscore, which a collecting step passes to its finishing step."""
    return frozenset(text for node in function.nodes if (text := text_in(node)).startswith("_"))


def _holds_finding(function: Function, findings: Sequence[ProbeResult]) -> bool:
    places = (finding.location for finding in findings if finding.location is not None)
    return any(place.file == function.module.file and has_line(function, place.line) for place in places)
