"""Blocks as candidates, beside the functions that are some: what speaks for each, and how it may be fed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from auditkit.model.enums import Contract
from auditkit.probing.discovery.blocks.blocks import Block, blocks_of
from auditkit.probing.discovery.candidates import Candidate, is_excluded, is_in_side_folder
from auditkit.probing.discovery.collector_calls import CollectorCalls
from auditkit.probing.discovery.signatures import feeding, parameter_kinds

_NAME_WORDS = re.compile(r"grad|norm|nan|finite|clip|stat")


def block_candidates(calls: CollectorCalls) -> Iterator[Candidate]:
    """The blocks of the files that were parsed, but for those inside a function that is a collector itself."""
    asked_whole = {
        (function.module.name, function.qualified_name)
        for function, flow in calls.collectors.items()
        if not is_excluded(function, flow)
    }
    for module in calls.files.modules.values():
        for block in blocks_of(module):
            parts = block.place.split(".")
            around = {(module.name, ".".join(parts[:count])) for count in range(1, len(parts) + 1)}
            if not around & asked_whole:
                yield _candidate(block)


def _candidate(block: Block) -> Candidate:
    fed = feeding(block, {item.arg: parameter_kinds(block, item, []) for item in block.parameters})
    returned = block.node.body[-1]
    value = returned.value if isinstance(returned, ast.Return) else None
    first, last = block.statements[0].lineno, block.statements[-1].end_lineno
    what = f"lines {first} to {last}" if last != first else f"line {first}"
    missing = f"nothing is known to fit what it reads: {', '.join(fed.missing)}"
    score = (4 if fed.groups and not fed.missing else 0) + min(3, len(set(_NAME_WORDS.findall(block.name)))) + 3
    score -= (6 if fed.missing else 0) + (2 if is_in_side_folder(block.module.file) else 0)
    return Candidate(
        call=block.call,
        file=block.module.file,
        line=first,
        contract_guess=Contract.GRAD_STATS if isinstance(value, ast.Dict) else Contract.GRAD_NORM,
        takes_guesses=fed.takes,
        evidence=(f"{what} of {block.place or 'the script'}, which is no function that can be called",),
        obstacles=(missing,) if fed.missing else (),
        score=score,
        last_line=last,
    )
