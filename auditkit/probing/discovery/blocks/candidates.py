"""Blocks as candidates, beside the functions that are some: what speaks for each, and how it may be fed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from auditkit.model.enums import Contract
from auditkit.probing.discovery.answers import returns_several
from auditkit.probing.discovery.blocks.blocks import Block, blocks_of_gradients
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.discovery.gradient_names import is_finite_check
from auditkit.probing.discovery.signatures import feeding, parameter_kinds
from auditkit.probing.source_code.files import is_in_side_folder
from auditkit.probing.source_code.modules import dotted_name
from auditkit.probing.source_code.python_files import PythonFiles

_NAME_WORDS = re.compile(r"grad|norm|nan|finite|clip|stat")


def block_candidates(files: PythonFiles, functions: Iterable[Candidate]) -> Iterator[Candidate]:
    """The blocks of the files that were parsed, but for those inside one of the `functions` that are asked whole."""
    asked_whole = {(candidate.file, candidate.line) for candidate in functions}
    for module in files.modules.values():
        for block in blocks_of_gradients(module):
            if asked_whole.isdisjoint((module.file, node.lineno) for node in block.around):
                yield _candidate(block)


def _candidate(block: Block) -> Candidate:
    fed = feeding(block, {item.arg: parameter_kinds(block, item, []) for item in block.parameters})
    first, last = block.statements[0].lineno, block.statements[-1].end_lineno
    what = f"lines {first} to {last}" if last != first else f"line {first}"
    missing = f"nothing is known to fit what it reads: {', '.join(fed.missing)}"
    score = (4 if fed.groups and not fed.missing else 0) + min(3, len(set(_NAME_WORDS.findall(block.name)))) + 3
    score -= (6 if fed.missing else 0) + (2 if is_in_side_folder(block.module.file) else 0)
    return Candidate(
        call=block.call,
        file=block.module.file,
        line=first,
        contract_guess=_contract(block),
        takes_guesses=fed.takes,
        evidence=(f"{what} of {block.place or 'the script'}, which is no function that can be called",),
        obstacles=(missing,) if fed.missing else (),
        score=score,
        last_line=last,
    )


def _contract(block: Block) -> Contract:
    """One norm or a limit; else several values, a flag, or a figure of one parameter alone."""
    returned = block.node.body[-1]
    value = returned.value if isinstance(returned, ast.Return) else None
    is_several = value is not None and returns_several(block, value, None)
    is_flag = value is not None and is_finite_check(block.name)
    return Contract.GRAD_STATS if is_several or is_flag or _is_of_one(block) else Contract.GRAD_NORM


def _is_of_one(block: Block) -> bool:
    """Whether it reads one gradient out of all: `next(model.parameters()).grad.norm()`."""
    calls = {dotted_name(node.func) for node in block.nodes if isinstance(node, ast.Call)}
    loops = any(isinstance(node, ast.For | ast.comprehension) for node in block.nodes)
    return "next" in calls and not loops
