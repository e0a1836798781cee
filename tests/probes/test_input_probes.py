"""Forms of input (none, generators, missing, zero, laid out, sparse, empty): what is a defect, and what is none."""
# ruff: noqa: F403, F405 - the names of probes

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

import pytest

from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.target import Target
from auditkit.worker.base.frames import SourceRoots
from tests.probes.in_process import Answer, ask, ask_all
from tests.probing_helpers import *
from tests.source_helpers import write

PROBES = {"inputs": (EMPTY, GENERATOR, MISSING, RATIO), "layouts": (NONCONTIGUOUS, SPARSE, NO_ELEMENTS, MUTATES)}


@functools.cache
def module_of(folder: str, kind: str) -> ModuleType:
    return load_target(TARGETS / folder / f"{kind}.py")


@functools.cache
def asked(probe: str, kind: str, function: str) -> Answer:
    folder = next(folder for folder, probes in PROBES.items() if probe in probes)
    found = getattr(module_of(folder, kind), function)
    owner = found if hasattr(found, "update") else None
    return ask(probe, found.update if owner else found, owner=owner, roots=SourceRoots(str(TARGETS / folder)))


EMPTIES = "(no tensors, no gradients yet)"
FIRST = "layer0_weight.grad and 2 more"
PLACES = "a gradient without elements, first, between, last"
IN_PLACE = "(written in place with the values that were there)"
SAME_KINDS = "the result without gradients has the fields and kinds of the usual one"
ONE_PARAMETER = "its result depends on a single gradient by position: it is about that parameter alone"
# Probe, severity and how the message begins of each defective target, whose line `# here` marks.
DEFECTS = {
    "none_when_empty": (EMPTY, "P3", f"the result is None instead of a mapping {EMPTIES}"),
    "largest_of_nothing": (EMPTY, "P3", "raises ValueError: max() "),
    "refuses_without_saying": (EMPTY, "P3", f"raises RuntimeError: invalid state {EMPTIES}"),
    "forgets_a_group": (EMPTY, "P4", "the result lacks seed (no tensors in the second group, no tensors and 2 more)"),
    "layer_report": (EMPTY, "P3", f"raises ZeroDivisionError: division by zero (on access to mean) {EMPTIES}"),
    "asks_for_the_length": (GENERATOR, "P3", "a generator of parameters raises TypeError: object of type 'generator' "),
    "finds_no_largest": (GENERATOR, "P1", "largest 0 for a generator, 2.567 for a list"),
    "clip_what_is_left": (GENERATOR, "P0", "3 gradients are left with other values"),
    "counts_as_vanishing": (MISSING, "P2", "4 parameters without a gradient change vanishing from 0 to 4"),
    "stops_at_the_first": (MISSING, "P2", "4 parameters without a gradient change the result from 7.488 to 0"),
    "mean_of_second_group": (
        MISSING, "P2", "4 parameters without a gradient in the second group change seed_mean from 3.734 to 1.6"),
    "reads_unguarded": (MISSING, "P2", "a parameter without a gradient raises AttributeError: 'NoneType' object has "),
    "spread": (RATIO, "P2", "it raises ZeroDivisionError: float division by zero (one tensor zero, all gradients zero"),
    "signal_to_noise": (RATIO, "P2", "signal is nan (all gradients zero)"),
    "second_over_first": (RATIO, "P2", "ratio is inf (second group zero, both groups zero, second group without "),
    "halves_in_place": (
        MUTATES, "P0", f"it changes the values of {FIRST} for gradients of ordinary size, with NaN and Inf, of 1e6, "
        f"with one missing, with a graph; the version counter of {FIRST} {IN_PLACE} for gradients of zeros"),
    "writes_through_data": (MUTATES, "P0", f"it changes the values of {FIRST} for gradients of ordinary size"),
    "removes_gradients": (MUTATES, "P0", f"it changes {FIRST} to None"),
    "limits_large_ones": (MUTATES, "P1", "it changes the values of layer0_weight.grad for gradients of 1e6"),
    "decays_weights": (MUTATES, "P0", "it changes parameters (layer0_weight and 2 more)"),
    "fills_missing": (MUTATES, "P2",
                      "it changes layer0_weight.grad from None to a tensor for gradients with one missing"),
    "detaches_in_place": (MUTATES, "P2", f"it changes the graph of {FIRST} for gradients with a graph"),
    "freezes": (MUTATES, "P2", "it changes requires_grad of layer0_weight and 2 more"),
    "multiplies_by_one": (MUTATES, "P4", f"it changes the version counter of {FIRST} {IN_PLACE}"),
    "moves_gradients": (MUTATES, "P4", f"it changes the memory of {FIRST}"),
    "empties_the_list": (MUTATES, "P4", "it changes the caller's list of 3"),
    "largest_row": (NONCONTIGUOUS, "P2", "transposed: largest_row 10.7703 instead of 11; permuted: "),
    "reads_storage": (NONCONTIGUOUS, "P4", "bucket_view: the result 38.8201 instead of 30.0832; sliced: "),
    "refuses_strides": (
        NONCONTIGUOUS, "P4", "channels_last, transposed, permuted, sliced, expanded, overlapping: refuses: ValueError"),
    "counts_stored_nans": (SPARSE, "P3", "uncoalesced gradients: nan_count 2 instead of 1"),
    "largest_element": (NO_ELEMENTS, "P3", f"{PLACES}, alone: raises RuntimeError: max(): Expected reduction dim"),
    "mean_of_means": (NO_ELEMENTS, "P3", f"{PLACES}: mean turns nan; alone: mean reads nan"),
    "floors_each_norm": (NO_ELEMENTS, "P3", f"{PLACES}: the result 28.4429 instead of 28.4253"),
}  # fmt: skip


@pytest.mark.parametrize("function", DEFECTS)
def test_a_defect_is_told_with_its_values_at_its_line(function: str) -> None:
    probe, severity, message = DEFECTS[function]
    answer = asked(probe, "defective", function)
    assert (answer.said, answer.message[: len(message)]) == (f"reproduced {severity}", message)
    folder = next(folder for folder, probes in PROBES.items() if probe in probes)
    lines = (TARGETS / folder / "defective.py").read_text(encoding="utf-8").splitlines()
    assert lines[(answer.line or 0) - 1].endswith("# here")


@pytest.mark.parametrize(
    ("probe", "function", "said", "message"),
    [
        (EMPTY, "refuses_in_words", "not_reproduced", "it reports that there are no gradients: ValueError: no "
         "gradients: call backward() first"),
        (EMPTY, "optional_answer", "not_reproduced", SAME_KINDS),
        (EMPTY, "norm_by_name", "not_reproduced", SAME_KINDS),
        (GENERATOR, "wants_a_list", "not_reproduced", "it refuses a generator: TypeError: object of type 'generator' "
         "has no len()"),
        (GENERATOR, "refuses_a_generator", "not_reproduced", "it refuses a generator: TypeError: a list of parameters, "
         "please"),
        (MISSING, "refuses_frozen", "not_reproduced", "it refuses parameters without a gradient: ValueError: a "
         "parameter has no gradient"),
        (RATIO, "refuses_zeros", "not_reproduced", "it refuses zero gradients: ValueError: a zero gradient has no "
         "direction"),
        (GENERATOR, "only_an_iterator", "not_applicable", "it takes one tensor, or only an iterator: there is no "
         "result for a list"),
        (MISSING, "takes_gradients", "not_applicable", "it takes gradients, so parameters without one never reach it"),
        (MISSING, "norm_of_the_first", "not_applicable", ONE_PARAMETER),
        (EMPTY, "norm_of_the_first", "not_applicable", ONE_PARAMETER),
        (MISSING, "mean_of_buffers", "not_applicable", "it reads parameter.main_grad, a buffer of every parameter: no "
         "gradient is missing there"),
        (MISSING, "buffers_of_the_frozen", "not_applicable", "parameters of the checkout have more attributes: "
         "AttributeError: 'Parameter' object has no attribute 'buffer'"),
    ],
)  # fmt: skip
def test_why_nothing_is_found_is_said(probe: str, function: str, said: str, message: str) -> None:
    answer = asked(probe, "sound", function)
    assert (answer.said, answer.message) == (said, message)


def test_what_a_clipping_function_leaves_is_part_of_its_answer() -> None:
    """It may write; a copy is clipped, and the norm that is returned does not tell."""
    answer = asked(MUTATES, "defective", "clip_a_copy")
    reason = "changing gradients is what it is for: it limits them"
    assert (answer.outcome, answer.message) == ("not_applicable", reason)
    answer = asked(NONCONTIGUOUS, "defective", "clip_a_copy")
    left = "the gradients' norm afterwards"
    assert answer.said == "reproduced P1"
    assert answer.message.startswith(f"channels_last: {left} 59.2887 instead of 1; transposed: {left} 21.2972 ")
    assert (answer.values("sound", layout="expanded"), answer.values("sound", layout="bucket_view")) == ([], [True])


CLIP = """def clip_gradients(model, clip=1.0):
    for p in model.parameters():
        if p.grad is not None:
            norm = p.grad.data.norm(2)
            if norm > clip:
                p.grad.data.mul_(clip / norm)
"""


@pytest.mark.process
@pytest.mark.parametrize(("further", "severity"), [("", "P4"), ("table = Embedding(9, 3, sparse = True)", "P2")])
def test_sparse_gradients_count_where_the_checkout_has_them(further: str, severity: str, tmp_path: Path) -> None:
    """A test may create them, too."""
    write(tmp_path, {"clip.py": CLIP, "tests/test_clip.py": further})
    target = Target("clip:clip_gradients", contract=Contract.GRAD_NORM, takes=Takes.MODULE)
    result = by_probe(run_probes(tmp_path, target, [SPARSE]))[SPARSE]
    assert (result.outcome.value, str(result.severity)) == ("reproduced", severity), result.message
    assert result.message.endswith("what it writes to a sparse gradient is lost")


# A target that catches its own exceptions and answers nothing for some gradients.
LOST = {
    "none_for_sparse": (SPARSE, "sparse gradients: the result is empty"),
    "empty_for_mixed_dtypes": (MIXED_DTYPES, "the count of its numbers is 0 instead of 2, the result in float32"),
    "text_for_two_devices": (TWO_DEVICES, "the count of its numbers is 0 instead of 2"),
    "none_without_elements": (NO_ELEMENTS, "the result is empty"),
    "half_without_elements": (NO_ELEMENTS, "the result lacks mean"),
    "none_for_strides": (NONCONTIGUOUS, "mean missing instead of "),
    "none_for_missing": (MISSING, "change mean from "),
    "empty_for_a_generator": (GENERATOR, "mean missing for a generator"),
}


@pytest.mark.parametrize("function", LOST)
def test_no_answer_is_a_failure_that_says_so(function: str) -> None:
    """The control answers always, with the same numbers."""
    probe, told = LOST[function]
    found = ask_all(f"empties:{function}", [probe], TARGETS / "partial")[probe]
    assert (found.outcome, told in found.message) == ("reproduced", True), found.message
    assert ask_all("empties:always", [probe], TARGETS / "partial")[probe].outcome == "not_reproduced"


@pytest.mark.parametrize("function", ["norm_as_tensor", "largest_values", "saved_copies", "block_norms"])
def test_a_collector_that_reads_its_answer_or_a_fixed_sample_stays_on_its_device(function: str) -> None:
    assert ask_all(f"sound:{function}", [OFF_DEVICE], TARGETS / "devices")[OFF_DEVICE].outcome == "not_reproduced"
