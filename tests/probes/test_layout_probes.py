"""Strides, sparse gradients, gradients without elements and writing ones: what is a defect, and what is not."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

import pytest

from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.worker.base.frames import SourceRoots
from tests.filing_helpers import put
from tests.probes.in_process import Answer, ask, run_here
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import (
    MUTATES,
    NO_ELEMENTS,
    NONCONTIGUOUS,
    SPARSE,
    TARGETS,
    by_probe,
    load_target,
    run_probes,
    values,
)

LAYOUTS = TARGETS / "layouts"
ROOTS = SourceRoots(str(LAYOUTS))


@functools.cache
def module_of(name: str) -> ModuleType:
    return load_target(LAYOUTS / f"{name}.py")


def asked(probe: str, kind: str, function: str) -> Answer:
    found = getattr(module_of(kind), function)
    return (
        ask(probe, found.update, owner=found, roots=ROOTS)
        if isinstance(found, type)
        else ask(probe, found, roots=ROOTS)
    )


@functools.cache
def on_specimen(probe: str, kind: str, function: str) -> ProbeResult:
    """One probe on a target of the bundled specimen, in this process."""
    return run_here(SPECIMEN, target_of(kind, function), [probe]).results[0]


FIRST = "layer0_weight.grad and 2 more"
PLACES = "a gradient without elements, first, between, last"
IN_PLACE = "(written in place with the values that were there)"
# Probe, severity and message of each defective target whose line `# here` marks.
DEFECTS = {
    "halves_in_place": (
        MUTATES,
        "P0",
        f"it changes the values of {FIRST} for gradients of ordinary size, with NaN and Inf, of 1e6, with one missing, "
        f"with a graph; the version counter of {FIRST} {IN_PLACE} for gradients of zeros",
    ),
    "writes_through_data": (
        MUTATES,
        "P0",
        f"it changes the values of {FIRST} for gradients of ordinary size, with NaN and Inf, of zeros, "
        "with one missing, with a graph",
    ),
    "writes_through_numpy": (MUTATES, "P0", f"it changes the values of {FIRST}"),
    "removes_gradients": (MUTATES, "P0", f"it changes {FIRST} to None"),
    "limits_large_ones": (MUTATES, "P1", "it changes the values of layer0_weight.grad for gradients of 1e6"),
    "decays_weights": (MUTATES, "P0", "it changes parameters (layer0_weight and 2 more)"),
    "fills_missing": (MUTATES, "P2", "it changes layer0_weight.grad from None for gradients with one missing"),
    "detaches_in_place": (MUTATES, "P2", f"it changes the graph of {FIRST} for gradients with a graph"),
    "frees_the_graph": (MUTATES, "P2", "it changes the graph of every gradient for gradients with a graph"),
    "freezes": (MUTATES, "P2", "it changes requires_grad of layer0_weight and 2 more"),
    "multiplies_by_one": (MUTATES, "P4", f"it changes the version counter of {FIRST} {IN_PLACE}"),
    "moves_gradients": (MUTATES, "P4", f"it changes the memory of {FIRST}"),
    "empties_the_list": (MUTATES, "P4", "it changes the caller's list of 3"),
    "largest_row": (NONCONTIGUOUS, "P2", "transposed: largest_row 10.7703 instead of 11; permuted: "),
    "reads_storage": (NONCONTIGUOUS, "P4", "bucket_view: the answer 38.8201 instead of 30.0832; sliced: "),
    "refuses_strides": (
        NONCONTIGUOUS,
        "P4",
        "channels_last, transposed, permuted, sliced, expanded, overlapping: refuses: ValueError: "
        "gradients must be contiguous",
    ),
    "counts_stored_nans": (SPARSE, "P3", "uncoalesced gradients: nan_count 2 instead of 1"),
    "largest_element": (NO_ELEMENTS, "P3", f"{PLACES}, alone: raises RuntimeError: max(): Expected reduction dim"),
    "mean_of_means": (NO_ELEMENTS, "P3", f"{PLACES}: mean turns nan; alone: mean reads nan"),
    "floors_each_norm": (NO_ELEMENTS, "P3", f"{PLACES}: the answer 28.4429 instead of 28.4253"),
}


@pytest.mark.parametrize("function", DEFECTS)
def test_a_defect_is_told_with_its_values_at_its_line(function: str) -> None:
    """The line is the one that `# here` marks; a message that quotes torch is compared by its beginning."""
    probe, severity, message = DEFECTS[function]
    answer = asked(probe, "defective", function)
    assert (answer.outcome, answer.severity) == ("reproduced", severity)
    assert answer.message[: len(message)] == message
    assert answer.line is not None
    lines = (LAYOUTS / "defective.py").read_text(encoding="utf-8").splitlines()
    assert lines[answer.line - 1].endswith("# here")


SOUND = sorted(
    name
    for name, value in vars(module_of("sound")).items()
    if not name.startswith("_") and getattr(value, "__module__", "") == module_of("sound").__name__
)


@pytest.mark.parametrize("function", SOUND)
def test_nothing_is_found_on_a_sound_collector(function: str) -> None:
    """Whatever its formula; the controls are the defects above."""
    found = {probe: asked(probe, "sound", function) for probe in (NONCONTIGUOUS, SPARSE, NO_ELEMENTS, MUTATES)}
    told = {probe: (answer.outcome, answer.message) for probe, answer in found.items()}
    assert {probe: said for probe, said in told.items() if said[0] != "not_reproduced"} == {}


# --- targets that are there to write ------------------------------------------------------------------


def test_a_clipping_function_may_change_gradients() -> None:
    answer = asked(MUTATES, "defective", "clip_a_copy")
    reason = "changing gradients is what it is for: it limits them"
    assert (answer.outcome, answer.message) == ("not_applicable", reason)


def test_what_a_clipping_function_leaves_is_part_of_its_answer() -> None:
    """A copy is clipped, and the norm that is returned does not tell; torch's stride-0 tensors are not given."""
    answer = asked(NONCONTIGUOUS, "defective", "clip_a_copy")
    left = "the gradients' norm afterwards"
    assert (answer.outcome, answer.severity) == ("reproduced", "P1")
    assert answer.message.startswith(f"channels_last: {left} 59.2887 instead of 1; transposed: {left} 21.2972 ")
    assert answer.values("sound", layout="expanded") == []
    assert answer.values("sound", layout="bucket_view") == [True]


def test_a_list_that_the_caller_keeps_is_as_long_afterwards() -> None:
    """Emptying a copy is right, emptying the caller's list is not."""
    assert asked(MUTATES, "sound", "copied_list_norm").outcome == "not_reproduced"
    assert asked(MUTATES, "defective", "empties_the_list").values("changed", kind="list")[0] == 1


# --- the specimen ---------------------------------------------------------------------------------------


def test_a_row_that_is_stored_twice_is_summed_before_it_is_squared() -> None:
    """Row 4 is (2, -1, 1) + (3, -4, 1), row 1 (3, 0, -2): 5² + 5² + 2² + 3² + 2² and not 2² + 1² + ... + 2²."""
    result = on_specimen(SPARSE, "defective", "layouts:embedding_norm")
    dense, stored = values(result, "norm", form="dense"), values(result, "norm", form="uncoalesced")
    ((total,), (wrong,)) = dense, stored
    assert total**2 - wrong**2 == pytest.approx((25 + 25 + 4 + 13) - (4 + 1 + 1 + 9 + 16 + 1 + 13))
    assert values(result, "sound", form="coalesced") == [True]


def test_a_refusal_of_sparse_gradients_in_words_passes() -> None:
    result = on_specimen(SPARSE, "sound", "layouts:dense_norm")
    said = "sparse gradients are not supported: build the embedding with sparse=False"
    assert result.message == f"it refuses sparse gradients in words: TypeError: {said}"


def test_seven_layouts_are_tried_and_those_with_gaps_break_a_flat_view() -> None:
    result = on_specimen(NONCONTIGUOUS, "defective", "layouts:restrided_norm")
    sound = {m.case["layout"]: m.value for m in result.measurements}
    assert [layout for layout, value in sound.items() if not value] == ["sliced", "expanded", "overlapping"]
    assert len(sound) == 7


def test_an_answer_that_an_empty_tensor_turns_nan_is_graver_than_one_that_only_it_does() -> None:
    among = on_specimen(NO_ELEMENTS, "defective", "layouts:layer_rms")
    alone = on_specimen(NO_ELEMENTS, "defective", "concatenated_quality")
    assert (
        among.message == f"{PLACES}: min_rms turns nan, max_rms turns nan; alone: min_rms reads nan, max_rms reads nan"
    )
    assert (among.severity.value, alone.severity.value) == ("P3", "P4")
    assert alone.message == "a gradient without elements, alone: raises ZeroDivisionError: float division by zero"


def test_a_repair_of_the_gradients_is_seen_where_there_is_something_to_repair() -> None:
    result = on_specimen(MUTATES, "defective", "layouts:repaired_norm")
    assert {m.case["input"] for m in result.measurements if m.value} == {"with NaN and Inf"}
    assert values(result, "changed", kind="values") == [1]


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
    put(tmp_path, "clip.py", CLIP)
    put(tmp_path, "tests/test_clip.py", further)
    target = Target("clip:clip_gradients", contract=Contract.GRAD_NORM, takes=Takes.MODULE)
    result = by_probe(run_probes(tmp_path, target, [SPARSE]))[SPARSE]
    assert (result.outcome.value, str(result.severity)) == ("reproduced", severity), result.message
