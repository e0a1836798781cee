"""Functions that go backward and make an optimizer's step: what they hand the optimizer can be asked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from auditkit.model.enums import Contract
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.source_code.files import is_in_side_folder
from auditkit.probing.source_code.modules import Function
from auditkit.probing.source_code.python_files import PythonFiles
from auditkit.probing.worker.steps import roles

TOUCHES_STEPS = re.compile(rb"\.backward\(")
_STEPPED = re.compile(r"(.*\.)?\w*(opt|optim\w*|optimizer\w*|scaler)\w*")
_SCORE = 4


def step_candidates(files: PythonFiles) -> Iterator[Candidate]:
    """A candidate for every function that does both itself and is handed, or has as an object, what it trains."""
    for function in files.functions():
        if function.name.startswith("__") or ".backward(" not in function.text:
            continue
        backward, step = _first_lines(function)
        names = tuple(item.arg for item in function.parameters)
        is_driven = roles.drives_a_step(names, ("",) * len(names), function.text)
        if not (backward and step and (is_driven or (function.is_bound and "self." in function.text))):
            continue
        yield Candidate(
            call=function.call,
            file=function.module.file,
            line=function.node.lineno,
            contract_guess=Contract.TRAIN_STEP,
            evidence=(f"goes backward at line {backward}", f"makes an optimizer's step at line {step}"),
            score=_SCORE - (2 if is_in_side_folder(function.module.file) else 0) - (0 if is_driven else 2),
        )


def _first_lines(function: Function) -> tuple[int, int]:
    """The first line that goes backward, and the first that makes an optimizer's step; 0 for none."""
    called = [node.func for node in function.nodes if isinstance(node, ast.Call)]
    methods = [each for each in called if isinstance(each, ast.Attribute)]
    backward = [each.lineno for each in methods if each.attr == "backward"]
    steps = [each.lineno for each in methods if each.attr == "step" and _STEPPED.fullmatch(ast.unparse(each.value))]
    return min(backward, default=0), min(steps, default=0)
