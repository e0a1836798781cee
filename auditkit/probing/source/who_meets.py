"""Who meets a finding: what training needs for it, and whether the code of the checkout has that.

A probe's verdict says who meets a finding in current training, perhaps for each of its `needs`. This module lowers that
if the checkout cannot have a need, or rarely calls the statement (docs/design/severity-lowered.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.runs.measurement import Location
from auditkit.model.runs.met_by import MetBy
from auditkit.model.runs.severity import Breaks, Occurs
from auditkit.probing.source.callers import EXPORTED, FALLBACK, HOST, NO_CALLER, Callers, Use, callers_of

_MODULES = (
    rb"(?:\b\w*(?:model|module|net|network|layer|encoder|decoder|backbone|transformer|student|teacher|critic|actor|policy)"
    rb"\w*(?:\[\w+\])?|\bself|\.data|\bp|\bparam\w*)"
)
_CAST = rb"%s\.%s\(\)|%s\.to\([^()\n]*%s|(?:torch_dtype\s*=|set_default_dtype\(|\.data\s*=)[^,)\n]*%s"
_SPARSE = re.compile(
    rb"\bsparse\s*=\s*True\s*[,)\n]|\bSparseAdam\(|\.grad\s*=[^\n]*sparse_coo_tensor|\.grad\s*=[^\n]*to_sparse"
)
_DTENSORS = re.compile(rb"\bDTensor\b|\bfully_shard\b|\bdistribute_tensor\b|\bparallelize_module\b")


def _casts(method: bytes, dtypes: bytes) -> re.Pattern[bytes]:
    return re.compile(_CAST % (_MODULES, method, _MODULES, dtypes, dtypes))


_CASTS = {
    "float16": _casts(b"half", rb"(?:\bfloat16|\bhalf\b)"),
    "bfloat16": _casts(b"bfloat16", rb"bfloat16"),
    "16-bit": _casts(rb"(?:half|bfloat16)", rb"(?:float16|\bhalf\b)"),
}
_BY_VARIABLE = re.compile(rb"%s\.to\([^()\n]*dtype\)" % _MODULES)
_LAYOUTS_AND_DTYPES = (*_CASTS, "float64", "sparse")
NEEDS = (*_LAYOUTS_AND_DTYPES, "missing", "generator", "empty", "tensors", "dtensor", "uncleared", "")
"""What a finding may need, by its probe's verdict.

Gradients of a dtype, sparse ones, parameters without a gradient, an argument that is a generator, one without tensors,
one of hundreds of tensors, DTensors, callers of a step that do not clear gradients; "" for nothing special.
"""


@dataclass(frozen=True)
class Met:
    """Who meets a finding in this checkout, why that is rarer than the probe says, and the callers."""

    occurs: Occurs
    lowered: tuple[str, ...] = ()
    met_by: MetBy | None = None


def who_meets(
    checkout: Path,
    occurs: Mapping[str, Occurs],
    breaks: Breaks,
    location: Location | None,
    target: str,
    recorded: MetBy | None = None,
    is_named: bool = False,
) -> Met:
    """Judge `occurs`, which maps each need to who meets the finding; the most frequent remaining need counts.

    A function that a user named counts as called even if the checkout does not call it.
    """
    callers = callers_of(checkout)
    with callers.reading:
        at = callers.at(location.file, location.line) if location is not None and not location.folder else None
        asked = callers.of_target(target) or at
        judged = [(need, word, *_judged(callers, need, word, asked, at, recorded)) for need, word in occurs.items()]
        _, _, worst, _ = min(judged, key=lambda row: list(Occurs).index(row[2]))
        lowered = [why for _, word, left, why in judged if left is not word and _is_rarer(worst, word)]
        seldom = callers.seldom(at) if at is not None else ""
        seldom = "" if is_named and seldom in (EXPORTED, NO_CALLER) else seldom
        if breaks is Breaks.COST and seldom:
            cap = Occurs.COMMON if seldom in (EXPORTED, FALLBACK) else Occurs.EXTREME
        else:
            cap = Occurs.RARE if seldom == HOST else Occurs.ORDINARY
        if _is_rarer(cap, worst):
            worst = cap
            lowered.append(f"called {seldom}")
        return Met(worst, tuple(lowered), recorded or (_met_by(callers, at) if at is not None else None))


def _is_rarer(one: Occurs, other: Occurs) -> bool:
    return list(Occurs).index(one) > list(Occurs).index(other)


def _judged(
    callers: Callers, need: str, word: Occurs, target: Use | None, at: Use | None, recorded: MetBy | None
) -> tuple[Occurs, str]:
    """Return who meets a finding with `need`, and why that is rarer than `word`."""
    cap, why = _limit(callers, need, target, at)
    if _is_rarer(cap, word):
        return cap, why
    if recorded is not None and recorded.source == "run" and need in _LAYOUTS_AND_DTYPES and recorded.tensors:
        seen = {*recorded.dtypes, *recorded.layouts}
        is_seen = (
            any("sparse" in each for each in seen)
            if need == "sparse"
            else bool(seen & ({"float16", "bfloat16"} if need == "16-bit" else {need}))
        )
        if not is_seen:
            rarer = list(Occurs)[min(list(Occurs).index(word) + 1, len(Occurs) - 1)]
            return rarer, f"no {need} gradients occurred in the recorded run"
    return word, ""


def _limit(callers: Callers, need: str, target: Use | None, at: Use | None) -> tuple[Occurs, str]:
    """Return the most frequent word that the checkout allows for a need, and why."""
    if need == "float64":
        return Occurs.EXTREME, "training has no float64 gradients"
    if need in _CASTS:
        dtype = need.replace("16-bit", "16 bits")
        if callers.is_written(_BY_VARIABLE) and callers.is_written(_named(need)):
            seldom, why = Occurs.RARE, f"no code of the checkout casts a model to {dtype} by name"
        else:
            seldom, why = Occurs.EXTREME, f"no code of the checkout casts a model to {dtype}"
        return (Occurs.ORDINARY, "") if callers.is_written(_CASTS[need]) else (seldom, why)
    if need == "sparse":
        if not callers.is_written(_SPARSE):
            return Occurs.EXTREME, "neither the checkout nor its tests create sparse gradients"
        if at is not None and callers.gets_flat_gradients(at):
            return Occurs.EXTREME, "its gradients lie in flat buffers, which are dense"
    elif need == "missing" and target is not None:
        tested = callers.filters_gradients(target)
        if tested == "grad":
            return Occurs.EXTREME, "every caller leaves out parameters without a gradient"
        if tested:
            return Occurs.RARE, "every caller leaves out frozen parameters"
    elif need == "generator" and target is not None and callers.passes_lists(target):
        return Occurs.EXTREME, "every caller passes a list"
    elif need == "empty" and (target is None or not callers.may_pass_nothing(target)):
        return Occurs.EXTREME, "no caller passes a list that may be empty"
    elif need == "tensors" and at is not None and at.function is not None:
        if callers.is_named_flat(at.function):
            return Occurs.EXTREME, "it gets flat buffers, which are few"
        if callers.is_optimizers_step(at):
            return Occurs.COMMON, "it is one of the optimizers that a run may choose"
    elif need == "dtensor" and callers.trains and not callers.is_written(_DTENSORS):
        return Occurs.EXTREME, "no code of the checkout makes DTensors"
    elif need == "uncleared" and target is not None and callers.clear_gradients(target):
        return Occurs.EXTREME, "code around the step clears gradients"
    return Occurs.ORDINARY, ""


def _named(need: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<!b)float16" if need != "bfloat16" else rb"bfloat16")


def _met_by(callers: Callers, at: Use) -> MetBy | None:
    """Return the callers of the function around a statement, their conditions, and where the calls begin."""
    if at.function is not None and callers.is_called_everywhere(at):
        return None
    uses = [] if at.function is None else [each for each in callers.uses(at) if not each.is_test] or callers.uses(at)
    conditions = {each.text: None for use in (at, *uses) for each in use.conditions}
    entries = callers.entry_points(at) if at.function is None or uses else ()
    places = tuple(sorted({use.place for use in uses}))
    return MetBy("read", callers=places, conditions=tuple(conditions), entry_points=tuple(entries[:3]))
