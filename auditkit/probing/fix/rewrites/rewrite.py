"""The rewrites of a function that may end its findings, and the file with some of them made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auditkit.model.runs.run import ProbeResult
from auditkit.probing.fix.patches import CannotComplete, FunctionFile
from auditkit.probing.fix.rewrites.conditions import ChosenOnDevice, NanIsTooLarge, NotFinite, Reshape
from auditkit.probing.fix.rewrites.drafts import Draft
from auditkit.probing.fix.rewrites.empties import (
    AtLeastOne,
    PresentGradients,
    TensorOfNothing,
    WithElements,
    ZerosOfNothing,
)
from auditkit.probing.fix.rewrites.norms import in_float64, returned_as, without_double_copies
from auditkit.probing.fix.rewrites.packs import counted_in_packs
from auditkit.probing.fix.rewrites.reach import functions_of
from auditkit.probing.fix.rewrites.reads import ReadOnce
from auditkit.probing.fix.rewrites.syntax import Pattern

Change = Callable[[Draft], Draft]

_NARROW = frozenset({"norm_overflows_on_finite_grads", "norm_underflows_to_zero", "norm_loses_accuracy"})
"""Findings that a norm of 16 bits cannot be without: float16 ends at 65,504."""
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

    `apply` makes it in a draft of the file. `size` is how much it changes by itself.
    """

    name: str
    probes: frozenset[str]
    change: str
    apply: Change
    size: tuple[int, int] = (0, 0)


def rewrites_of(place: FunctionFile, findings: Sequence[ProbeResult]) -> list[Rewrite]:
    """The changes of the function, and of those of its file that run with it, that may end a finding; likeliest first.

    Likeliest is what may end most of the findings, then the smallest edit. Nothing is run.
    """
    wanted = frozenset(finding.probe for finding in findings)
    draft = _draft(place, findings)
    found: dict[bytes, Rewrite] = {}
    for name, probes, told, change in _FAMILIES:
        if not probes & wanted:
            continue
        changed = change(draft)
        if changed.data == draft.data:
            continue
        said = f"line{'s' * (len(changed.places) > 1)} {', '.join(map(str, changed.places))}: {told}"
        known = found.get(changed.data)
        if known is None or known.probes < probes:
            found[changed.data] = Rewrite(name, probes, said, change, changed.size)
    return sorted(found.values(), key=lambda rewrite: (-len(rewrite.probes & wanted), rewrite.size))


def rewritten(place: FunctionFile, rewrites: Sequence[Rewrite], findings: Sequence[ProbeResult] = ()) -> Draft:
    """The file with the rewrites made one after the other. Raises CannotComplete where nothing is changed."""
    draft = _draft(place, findings)
    for rewrite in sorted(rewrites, key=lambda one: _ORDER.get(one.name, 0)):
        draft = rewrite.apply(draft)
    if draft.data == place.data:
        raise CannotComplete("changes nothing")
    return draft


def _draft(place: FunctionFile, findings: Sequence[ProbeResult]) -> Draft:
    return Draft.of(place, functions_of(place.function, findings))


def _each(pattern: type[Pattern]) -> Change:
    return lambda draft: draft.changed(pattern)


def _cast(change: Change, is_narrow: bool) -> Change:
    def cast(draft: Draft) -> Draft:
        found = change(draft)
        return returned_as(found, draft, is_narrow) if found.data != draft.data else found

    return cast


def _zeros_of_nothing(draft: Draft) -> Draft:
    found = draft.changed(ZerosOfNothing)
    return found.changed(AtLeastOne) if found.data != draft.data else draft


_NORM = "the norm is formed in float64, inside the reduction"
_COPIES = "no float64 copies of the gradients, the norms are formed in float64"
_IN_PACKS = "no copy of all gradients, they are counted half a million elements at a time"
_NOTHING = "without gradients the norms are one zero, and nothing is divided by their number"
_NUMBER = "without gradients the result is a tensor, as it is with some"
_FAMILIES: tuple[tuple[str, frozenset[str], str, Change], ...] = (
    ("present_gradients", _MISSING, "parameters without a gradient are left out", _each(PresentGradients)),
    ("without_elements", _ZERO, "gradients without elements are left out", _each(WithElements)),
    ("counted_in_packs", _PACKS, _IN_PACKS, counted_in_packs),
    ("without_double_copies", _MEMORY, _COPIES, without_double_copies),
    ("norms_in_float64", (_PRECISION | _SPARSE) - _NARROW, _NORM, _cast(in_float64, is_narrow=True)),
    ("norms_in_float64", _PRECISION | _SPARSE, _NORM, _cast(in_float64, is_narrow=False)),
    ("zeros_of_nothing", _EMPTY, _NOTHING, _zeros_of_nothing),
    ("tensor_of_nothing", _EMPTY, _NUMBER, _each(TensorOfNothing)),
    ("nan_is_too_large", _HEALTHY, "NaN counts as above the limit", _each(NanIsTooLarge)),
    ("infinity_counts_too", _HEALTHY, "infinity is looked for as NaN is", _each(NotFinite)),
    ("reshaped", _STRIDES, "reshape takes any strides, where view raises", _each(Reshape)),
    ("chosen_on_device", _SYNCS, "chosen on the device, where the branch waits for it", _each(ChosenOnDevice)),
    ("read_once", _SYNCS, "the tensors are kept, and read once behind the loop", _each(ReadOnce)),
    ("divided_by_at_least_one", _ZERO, "divided by 1 where there is nothing to divide by", _each(AtLeastOne)),
)
"""In the order in which they are made together: each sees what those above it made."""
_ORDER = {family[0]: place for place, family in enumerate(_FAMILIES)}
