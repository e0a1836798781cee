"""`check(collector)`: what keeps to a law passes, what does not fails with number, law, line and evidence."""

from __future__ import annotations

import os
import random
import re
import sys
import unittest
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.errors import BadInputError
from auditkit.testing import Check, GuardFailed, GuardUnavailable, check

HERE = Path(__file__).parent


def sound(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)))


def overflowing(parameters):
    return torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()


def waiting(parameters):
    return [p.grad.norm().item() for p in parameters if p.grad is not None]


def flat(parameters):
    return torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).norm()


def raising(parameters):
    if len([p for p in parameters if p.grad is not None]) > 100:
        raise KeyError("too many")
    return sound(parameters)


def nothing(parameters, unknown_thing):
    return unknown_thing @ 3


class Holder:
    def __init__(self, model):
        self.model = model

    def norm(self):
        return sound(self.model.parameters())


def guard(target: Any, **how: Any) -> Check:
    return check(target, root=HERE, **how)


def refused(ask: Callable[[], object]) -> str:
    """What a guard says that is not kept."""
    with pytest.raises(GuardFailed) as failed:
        ask()
    return str(failed.value)


def place(function: Any, offset: int = 1) -> str:
    """A line of a function, as failures name it."""
    return f"test_checks.py:{function.__code__.co_firstlineno + offset} in {function.__name__}"


def test_a_sound_collector_keeps_to_every_law() -> None:
    checked = guard(sound).finite_up_to(1e30).syncs(at_most=0).peak().launches(at_most=300)
    checked.passes("fails_on_generator_input", "mutates_gradients")


@pytest.mark.parametrize(
    ("target", "ask", "lines"),
    [
        (
            overflowing,
            lambda guard: guard.finite_up_to(1e30),
            [
                "the norm breaks at 1.84e+19 in float32, and is to be right up to 1e+30",
                "law       right below 1.84e+19 in float32; right below 1.84e+19 in bfloat16",
                place(overflowing),
                "measured on the CPU",
            ],
        ),
        (
            waiting,
            lambda guard: guard.syncs(at_most=1),
            [
                "256 synchronizations at 256 tensors; at most 1 allowed",
                "law       n synchronizations for n tensors: 4 at 4, 16 at 16, 64 at 64, 256 at 256",
                place(waiting),
                "simulated: counted on the CPU with the simulated CUDA device",
            ],
        ),
        (
            overflowing,
            lambda guard: guard.launches(),
            ["258 launches at 256 tensors", "law       n+2 launches for n tensors", place(overflowing), "simulated"],
        ),
        (
            flat,
            lambda guard: guard.peak(),
            ["1x the gradients' bytes at the peak", "16,777,220 at 64", place(flat), "measured"],
        ),
        (flat, lambda guard: guard.peak(at_most=0.5), ["at most 0.5x is allowed"]),
        (
            waiting,
            lambda guard: guard.passes("norm_overflows_on_finite_grads", "syncs_grow_with_tensors", fail_on="P2"),
            [
                "1 of 2 probes reproduce a finding of P2",
                "P2        syncs_grow_with_tensors",
                "law: n",
                place(waiting),
            ],
        ),
        (raising, lambda guard: guard.syncs(), ["the target raises KeyError: 'too many'", place(raising, 2)]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_failure_names_the_number_the_law_the_line_and_its_evidence(
    target: Any, ask: Callable[[Check], object], lines: list[str]
) -> None:
    said = refused(lambda: ask(guard(target)))
    assert said.startswith(f"{target.__module__}:{target.__qualname__}: ")
    assert [line for line in lines if line not in said] == [], said
    assert "\n\n" not in said


@pytest.mark.parametrize(
    ("ask", "message", "note"),
    [
        (lambda: guard(sound).passes("norm_overflow"), "no probe is called 'norm_overflow'", "norm_overflows_on_fin"),
        (lambda: guard(sound).passes("sync_in_loop"), "sync_in_loop reads source", "auditkit probe run"),
        (lambda: guard(sound).passes(fail_on="bad"), "no severity is called 'bad'", "P0, P1"),
        (lambda: guard(sound, contract="norm"), "no contract is called 'norm'", "grad_norm"),
        (lambda: guard(Holder), "is a class: name one of its methods", "the function itself"),
        (lambda: guard("no.such.module:f"), "No module named 'no'", None),
        (lambda: guard(Holder(sound).norm).syncs(), "it takes no gradients", "arguments="),
        (lambda: guard(nothing).syncs(), "nothing: called with parameters it raises TypeError", "arguments="),
    ],
)
def test_what_cannot_be_asked_so_is_an_error_with_a_hint(ask: Any, message: str, note: str | None) -> None:
    with pytest.raises(BadInputError) as error:
        ask()
    assert message in str(error.value)
    assert note is None or note in "".join(error.value.__notes__)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: guard(sound).passes("clip_destroys_gradients"),
        lambda: guard(sound).passes("norm_depends_on_sharding"),
        lambda: guard(sound).finite_up_to(1e30, dtypes=["float61"]),
    ],
    ids=["it does not clip", "it forks ranks", "no such dtype"],
)
def test_no_answer_is_a_skip_with_its_reason(ask: Any) -> None:
    """Never a pass, and a skip for unittest and pytest both."""
    with pytest.raises(GuardUnavailable, match=r"\w{3}") as skipped:
        ask()
    assert isinstance(skipped.value, unittest.SkipTest)


def test_the_process_is_left_as_it_was() -> None:
    """Random numbers, threads, torch's modes and its CUDA functions, the environment; also where a target raises."""

    def state() -> list[Any]:
        modes = torch.overrides._get_current_function_mode_stack()
        functions = [torch.cuda.is_available, torch.cuda.synchronize, torch.cuda.current_device]
        environment = {name: value for name, value in os.environ.items() if name != "KINETO_LOG_LEVEL"}
        numbers = torch.get_rng_state().tolist(), random.getstate()
        return [modes, functions, environment, numbers, torch.get_num_threads(), torch.is_grad_enabled()]

    torch.set_num_threads(1)
    before = state()
    with torch.no_grad():
        guard(sound).syncs().finite_up_to(1.0)
    refused(lambda: guard(raising).syncs())
    assert state() == before


def steps_that_add_up(model, optimizer, batches):
    for batch in batches:
        model(batch).square().mean().backward()
        optimizer.step()


def test_a_training_step_is_asked_and_its_hooks_are_gone() -> None:
    def hooks() -> list[int]:
        spaces = (vars(torch.nn.modules.module), vars(sys.modules["torch.optim.optimizer"]))
        return [len(held) for space in spaces for held in space.values() if isinstance(held, OrderedDict)]

    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # torch imports its optimizers late
    before = hooks()
    assert len(before) > 4
    said = refused(lambda: guard(steps_that_add_up, contract="train_step").passes("gradients_lost_or_stale"))
    assert "P0        gradients_lost_or_stale: " in said
    assert re.search(r"test_checks\.py:\d+ in steps_that_add_up\n +optimizer\.step\(\)", said)
    assert hooks() == before
