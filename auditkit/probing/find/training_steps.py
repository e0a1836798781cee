"""Find training steps: functions and loops with a backward pass and an optimizer's step."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from auditkit.model.enums import Contract
from auditkit.probing.find.blocks.blocks import Block, blocks_that_train
from auditkit.probing.find.blocks.training_calls import TrainingCalls, is_handed_loss
from auditkit.probing.find.candidates import Candidate
from auditkit.probing.source.modules import Function
from auditkit.probing.source.python_files import PythonFiles
from auditkit.worker.steps import roles

TOUCHES_STEPS = re.compile(rb"\.backward\(")
_MAY_STEP = re.compile(r"\.backward\(|scaler\(")


def step_candidates(files: PythonFiles, is_recorded: Callable[[str], bool]) -> Iterator[Candidate]:
    """Yield a candidate for each function that trains a model which it gets or owns, directly or in helpers.

    A training loop in a script, or in a function that creates its model itself, becomes a block. It has an obstacle if
    its names do not show what it trains and no run recorded its inputs.
    """
    for module in list(files.modules.values()):
        if not _MAY_STEP.search("\n".join(module.lines)):
            continue
        calls = TrainingCalls(module)
        driven = [each for each in module.defined() if _is_driven(each, calls)]
        parts = {id(part) for each in driven for part in _parts(each, calls)}
        driven = [each for each in driven if id(each) not in parts]
        whole = {(module.file, each.node.lineno) for each in driven}
        for function in driven:
            yield _candidate(function)
        for loop in blocks_that_train(module):
            names = tuple(item.arg for item in loop.parameters)
            is_whole = not whole.isdisjoint((module.file, node.lineno) for node in loop.around)
            source = f"{loop.text}\n{loop.context}"
            is_fed = is_recorded(loop.call) or roles.drives_a_step(names, ("",) * len(names), source)
            is_part = loop.holder is not None and is_handed_loss(loop.holder)
            if not is_whole and (is_fed or not is_part):
                obstacle = f"no name that it reads shows the model and its batches ({', '.join(names)})"
                yield replace(_candidate(loop), obstacles=() if is_fed else (obstacle,))


def is_step(files: PythonFiles, call: str) -> bool:
    """Whether a call names a function that goes backward and steps, and has what it trains."""
    function = files.function(call)
    return function is not None and _is_driven(function, TrainingCalls(function.module))


def _is_driven(function: Function, calls: TrainingCalls) -> bool:
    """Return whether a function calls backward and steps, directly or in helpers, and has a model to train."""
    if (function.name.startswith("__") and function.name != "__call__") or not all(calls.of(function)):
        return False
    names = tuple(item.arg for item in function.parameters)
    is_own = function.is_bound and "self." in function.text
    return is_own or roles.drives_a_step(names, ("",) * len(names), function.text)


def _parts(function: Function, calls: TrainingCalls) -> Iterator[Function]:
    """Yield the helpers that a function calls with a loss."""
    within = calls.inside(function.owner)
    for node in function.nodes:
        helper = within.helper(node) if isinstance(node, ast.Call) else None
        if helper is not None and helper is not function and is_handed_loss(helper):
            yield helper


def _candidate(function: Function) -> Candidate:
    return Candidate(
        call=function.call,
        file=function.module.file,
        line=function.node.lineno,
        contract_guess=Contract.TRAIN_STEP,
        last_line=function.node.end_lineno if isinstance(function, Block) else None,
    )
