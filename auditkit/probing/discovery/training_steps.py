"""Functions and loops that go backward and make an optimizer's step: what they hand the optimizer can be asked."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from auditkit.model.enums import Contract
from auditkit.probing.discovery.blocks.blocks import Block, blocks_of
from auditkit.probing.discovery.blocks.training_loops import is_backward, is_step
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.source_code.files import is_in_side_folder
from auditkit.probing.source_code.modules import Function
from auditkit.probing.source_code.python_files import PythonFiles
from auditkit.probing.worker.steps import roles

TOUCHES_STEPS = re.compile(rb"\.backward\(")
_SCORE = 4


def step_candidates(files: PythonFiles) -> Iterator[Candidate]:
    """A candidate for every function that does both itself and is handed, or has as an object, what it trains.

    A loop that does both in a script, or in a function that makes its model itself, is one as a block.
    """
    whole: set[tuple[str, int]] = set()
    for function in files.functions():
        if function.name.startswith("__") or ".backward(" not in function.text:
            continue
        backward, step = _first_lines(function)
        names = tuple(item.arg for item in function.parameters)
        is_driven = roles.drives_a_step(names, ("",) * len(names), function.text)
        if not (backward and step and (is_driven or (function.is_bound and "self." in function.text))):
            continue
        whole.add((function.module.file, function.node.lineno))
        yield _candidate(function, (backward, step), _SCORE - (0 if is_driven else 2))
    for module in list(files.modules.values()):
        for loop in blocks_of(module):
            names = tuple(item.arg for item in loop.parameters)
            is_whole = not whole.isdisjoint((module.file, node.lineno) for node in loop.around)
            if loop.trains and not is_whole and roles.drives_a_step(names, ("",) * len(names), loop.text):
                yield _candidate(loop, _first_lines(loop), _SCORE)


def _candidate(function: Function, lines: tuple[int, int], score: int) -> Candidate:
    backward, step = lines
    return Candidate(
        call=function.call,
        file=function.module.file,
        line=function.node.lineno,
        contract_guess=Contract.TRAIN_STEP,
        evidence=(f"goes backward at line {backward}", f"makes an optimizer's step at line {step}"),
        score=score - (2 if is_in_side_folder(function.module.file) else 0),
        last_line=function.node.end_lineno if isinstance(function, Block) else None,
    )


def _first_lines(function: Function) -> tuple[int, int]:
    """The first line that goes backward, and the first that makes an optimizer's step; 0 for none."""

    def first(wanted: Callable[[ast.Call], bool]) -> int:
        return min((node.lineno for node in function.nodes if isinstance(node, ast.Call) and wanted(node)), default=0)

    return first(is_backward), first(is_step)
