"""Empty inputs, generators, missing gradients and zeros: what is a defect, and what no probe may call one."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

import pytest

from auditkit.model.runs.run import ProbeResult
from auditkit.worker.base.frames import SourceRoots
from tests.probes.in_process import Answer, ask, run_here
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import EMPTY, GENERATOR, MISSING, RATIO, TARGETS, load_target, values

INPUTS = TARGETS / "inputs"
ROOTS = SourceRoots(str(INPUTS))


@functools.cache
def module_of(name: str) -> ModuleType:
    return load_target(INPUTS / f"{name}.py")


def asked(probe: str, kind: str, function: str) -> Answer:
    return ask(probe, getattr(module_of(kind), function), roots=ROOTS)


@functools.cache
def on_specimen(probe: str, kind: str, function: str) -> ProbeResult:
    """One probe on a target of the bundled specimen, in this process."""
    return run_here(SPECIMEN, target_of(kind, function), [probe]).results[0]


EMPTIES = "(no tensors, no gradients yet)"
# Python 3.12 has other words for it.
MAX_OF_NOTHING = "max() iterable argument is empty" if sys.version_info >= (3, 12) else "max() arg is an empty sequence"
ONE_PARAMETER = "its answer follows one gradient by its place: it is about that parameter alone"
# Probe, severity and message of each defective target.
DEFECTS = {
    "none_when_empty": (EMPTY, "P3", f"the answer is None instead of a mapping {EMPTIES}"),
    "largest_of_nothing": (EMPTY, "P3", f"raises ValueError: {MAX_OF_NOTHING} {EMPTIES}"),
    "refuses_without_saying": (EMPTY, "P3", f"raises RuntimeError: invalid state {EMPTIES}"),
    "forgets_a_group": (EMPTY, "P4", "the answer lacks seed (no tensors in the second group, no tensors and 2 more)"),
    "layer_report": (EMPTY, "P3", f"raises ZeroDivisionError: division by zero (asked for mean) {EMPTIES}"),
    "asks_for_the_length": (
        GENERATOR,
        "P3",
        "a generator of parameters raises TypeError: object of type 'generator' has no len(); a list of them does not",
    ),
    "finds_no_largest": (GENERATOR, "P1", "largest 0 for a generator, 2.567 for a list"),
    "clip_what_is_left": (GENERATOR, "P0", "3 gradients are left with other values"),
    "counts_as_vanishing": (MISSING, "P2", "4 parameters without a gradient change vanishing from 0 to 4"),
    "stops_at_the_first": (MISSING, "P2", "4 parameters without a gradient change the answer from 7.488 to 0"),
    "mean_of_second_group": (
        MISSING,
        "P2",
        "4 parameters without a gradient in the second group change seed_mean from 3.734 to 1.6",
    ),
    "reads_unguarded": (
        MISSING,
        "P2",
        "a parameter without a gradient raises AttributeError: 'NoneType' object has no attribute 'to_dense'",
    ),
    "spread": (
        RATIO,
        "P2",
        "it raises ZeroDivisionError: float division by zero (one tensor zero, all gradients zero, without elements)",
    ),
    "signal_to_noise": (RATIO, "P2", "signal is nan (all gradients zero)"),
    "second_over_first": (
        RATIO,
        "P2",
        "ratio is inf (second group zero, both groups zero, second group without gradients, both groups without "
        "gradients, second group without elements, both groups without elements)",
    ),
}


@pytest.mark.parametrize("function", DEFECTS)
def test_a_defect_is_told_with_its_values_at_its_line(function: str) -> None:
    """The line is the one that `# here` marks; no severity is the probe's own."""
    probe, severity, message = DEFECTS[function]
    answer = asked(probe, "defective", function)
    assert (answer.outcome, answer.severity, answer.message) == ("reproduced", severity, message)
    assert answer.line is not None
    lines = (INPUTS / "defective.py").read_text(encoding="utf-8").splitlines()
    assert lines[answer.line - 1].endswith("# here")


SOUND = sorted(
    name
    for name, value in vars(module_of("sound")).items()
    if not name.startswith("_")
    and getattr(value, "__module__", "") == module_of("sound").__name__
    and name != "Summary"
)


@pytest.mark.parametrize("function", SOUND)
def test_nothing_is_found_on_a_sound_collector(function: str) -> None:
    """Whatever its formula and its form; the controls are the defects above."""
    found = {probe: asked(probe, "sound", function) for probe in (EMPTY, GENERATOR, MISSING, RATIO)}
    told = {probe: answer.message for probe, answer in found.items() if answer.outcome == "reproduced"}
    assert told == {}


# --- what is said where nothing is found --------------------------------------------------------------


@pytest.mark.parametrize(
    ("probe", "function", "message"),
    [
        (
            EMPTY,
            "refuses_in_words",
            "it says that there are no gradients: ValueError: no gradients: call backward() first",
        ),
        (EMPTY, "optional_answer", "the answer without gradients has the fields and kinds of the usual one"),
        (EMPTY, "norm_by_name", "the answer without gradients has the fields and kinds of the usual one"),
        (
            GENERATOR,
            "wants_a_list",
            "it refuses a generator: TypeError: object of type 'generator' has no len()",
        ),
        (GENERATOR, "refuses_a_generator", "it refuses a generator: TypeError: a list of parameters, please"),
        (
            MISSING,
            "refuses_frozen",
            "it refuses parameters without a gradient: ValueError: a parameter has no gradient",
        ),
        (RATIO, "refuses_zeros", "it refuses zero gradients: ValueError: a zero gradient has no direction"),
        (RATIO, "guarded_ratio", "every field stays finite for zero gradients and without any (ratios: ratio)"),
    ],
)
def test_a_refusal_in_words_and_a_declared_answer_pass(probe: str, function: str, message: str) -> None:
    answer = asked(probe, "sound", function)
    assert (answer.outcome, answer.message) == ("not_reproduced", message)


@pytest.mark.parametrize(
    ("probe", "function", "reason"),
    [
        (
            GENERATOR,
            "only_an_iterator",
            "it answers only to an iterator: there is no list's answer to compare with",
        ),
        (MISSING, "takes_gradients", "it takes gradients: parameters without one never reach it"),
        *((probe, "norm_of_the_first", ONE_PARAMETER) for probe in (MISSING, EMPTY)),
    ],
)
def test_a_question_without_sense_is_not_applicable(probe: str, function: str, reason: str) -> None:
    answer = asked(probe, "sound", function)
    assert (answer.outcome, answer.message) == ("not_applicable", reason)


def test_a_module_is_no_iterable() -> None:
    answer = asked(GENERATOR, "defective", "reads_unguarded")
    assert (answer.outcome, answer.message) == ("not_applicable", "it takes a module, not an iterable")


# --- what is measured ---------------------------------------------------------------------------------------


def test_a_mean_over_all_parameters_falls_by_the_share_that_has_a_gradient() -> None:
    """Three of seven: the specimen's mean is 3/7 of what it was, and its norm is as it was."""
    result = on_specimen(MISSING, "defective", "inputs:mean_layer_norm")
    (without,), (given) = values(result, "value_without"), values(result, "value_with", field="mean_norm")
    assert given == [pytest.approx(without * 3 / 7)]
    assert values(result, "changed_fields") == [1]


def test_missing_gradients_move_no_field_of_a_mean_over_those_that_are_there() -> None:
    answer = asked(MISSING, "sound", "mean_of_those_that_are_there")
    assert answer.values("changed_fields", judged=1) == [0]


def test_a_buffer_of_gradients_lacks_none() -> None:
    """`main_grad` exists for every parameter: auditkit fills it with zeros, which are no missing gradients."""
    answer = asked(MISSING, "sound", "mean_of_buffers")
    assert answer.message == "it reads parameter.main_grad, a buffer of every parameter: no gradient is missing there"


def test_the_position_of_a_parameter_is_no_count() -> None:
    """The largest is the third of three and the sixth of seven: that is where it stands, and no defect."""
    assert asked(MISSING, "sound", "position_of_largest").values("changed_fields") == [0]
    assert asked(MISSING, "defective", "counts_as_vanishing").values("value_with") == [4]


def test_every_step_of_an_asynchronous_answer_is_compared() -> None:
    """The collecting step lacks two tensors, the finished answer one number, both for both empty inputs."""
    result = on_specimen(EMPTY, "defective", "inputs:collect_layers_async")
    assert values(result, "missing_fields", step="pending answer") == [2, 2]
    assert values(result, "missing_fields", step="answer") == [1, 1]
    assert result.message == (
        f"the pending answer lacks _total, _largest {EMPTIES}; the answer lacks max_norm {EMPTIES}"
    )


def test_a_number_for_a_tensor_is_less_grave_than_a_missing_field() -> None:
    result = on_specimen(EMPTY, "defective", "inputs:device_norm")
    assert result.severity is not None
    assert (result.severity.value, result.message) == (
        "P3",
        f"the answer is a number instead of a tensor {EMPTIES}",
    )


def test_a_generator_that_is_read_twice_counts_nothing() -> None:
    result = on_specimen(GENERATOR, "defective", "inputs:trained_layer_norm")
    assert values(result, "list_value", field="trained_layers") == [3]
    assert values(result, "generator_value", field="trained_layers") == [0]


def test_minus_infinity_is_right_for_the_logarithm_of_zero_only() -> None:
    """The same field, once a logarithm and once a quotient, for gradients that are all zero."""
    assert asked(RATIO, "sound", "log_norm").values("nonfinite_fields", input="all gradients zero") == [0]
    assert asked(RATIO, "defective", "signal_to_noise").values("nonfinite_fields", input="all gradients zero") == [1]
