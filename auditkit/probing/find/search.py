"""Find the gradient collectors of a checkout by reading its source; nothing of it is imported."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit.model.enums import Contract
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.target import split_call
from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.find import vocabulary
from auditkit.probing.find.answers import returns_several
from auditkit.probing.find.blocks.blocks import Block, blocks_of_gradients
from auditkit.probing.find.candidates import Candidate, Candidates
from auditkit.probing.find.collector_calls import CollectorCalls
from auditkit.probing.find.gradient_names import is_finite_check
from auditkit.probing.find.library_calls import library_calls
from auditkit.probing.find.training_steps import TOUCHES_STEPS, step_candidates
from auditkit.probing.source.files import is_in_side_folder
from auditkit.probing.source.modules import Function, last_name
from auditkit.probing.source.python_files import PythonFiles, garbage_collection_paused
from auditkit.worker.gradients import slot_names

TOUCHES_SPECTRA = re.compile(rb"svds?\b|def \w*echo|def \w*(shard|partition|assign|owner)\w*\(")
_SHARD_NAME = re.compile(r"shard|partition|assign|owner|owned", re.IGNORECASE)

# Parsing costs a hundred times more than a text search, and few files of a checkout touch gradients.
TOUCHES_GRADIENTS = re.compile(
    rb"grad(?<!no_grad)(?<!requires_grad)(?<!enable_grad)(?<!zero_grad)(?<!set_grad)s?"
    rb"(?:_(?:data|sample|norm|list|buffer|flat|for|in|group|part|shard)\w*)?\b|gradients?\b[ _]*[:,)=\].]|"
    rb"clip_\w*grad|get_total_norm|def materiali[sz]e|inf_or_nan|isfinite|isnan|backprops|register_(?:comm_)?hook\("
)

_STEPS = tuple(f"{mark}{name}" for name in (*vocabulary.PARTS_OF_TRAINING, "main") for mark in ".:")
_MOST_EXAMPLES = 8
"""How many training loops of examples are tried: each takes a second, and some checkouts have a hundred."""
_FURTHER_EXAMPLE = "auditkit tries eight training loops of examples: --target checks another"


@dataclass(frozen=True)
class Discovery:
    """What discovery found: candidates, best first.

    Only files that mention gradients, or a collector by name, are parsed. `library_calls` are calls of torch's
    functions. `untried_loops` train, and each has an obstacle. `passed_over` are functions that handle gradients and
    are not candidates, with the reason.
    """

    files: PythonFiles = field(compare=False)
    candidates: tuple[Candidate, ...]
    library_calls: tuple[Candidate, ...] = ()
    untried_loops: tuple[Candidate, ...] = ()
    passed_over: tuple[FoundCandidate, ...] = ()


def discover(
    path: Path, configured_roots: Sequence[str | Path] = (), is_recorded: Callable[[str], bool] = lambda _: False
) -> Discovery:
    """Return the gradient collectors under `path`, each with hints on how to call and feed it.

    A training loop whose inputs a run recorded (`is_recorded`) needs no names that show what it trains. auditkit must
    try a candidate to know whether it works. Raises BadInputError for a missing import root.
    """
    with garbage_collection_paused():
        return _discover(PythonFiles(path, import_roots(path, configured_roots)), is_recorded)


def _place(found: Candidate | FoundCandidate) -> tuple[str, str]:
    """Return the file and the function of a candidate."""
    return found.file, split_call(found.call)[1]


def _discover(files: PythonFiles, is_recorded: Callable[[str], bool]) -> Discovery:
    _parse(files, TOUCHES_GRADIENTS)
    calls = CollectorCalls(files)
    calls.find()
    names = set[str]()
    while calls.collectors and calls.names() != names:
        # Parse callers, and packages that export a collector, perhaps under another name.
        names = calls.names()
        _parse(files, re.compile(rb"\b(" + b"|".join(re.escape(name.encode()) for name in sorted(names)) + rb")\b"))
        calls.find()
    _parse(files, TOUCHES_SPECTRA)
    reader = Candidates(calls)
    functions = [*reader.read(), *spectral_candidates(files)]
    # A step is checked by its blocks if it has any: they run without the object that the whole method needs.
    by_blocks = {_place(each) for each in functions if each.call.endswith(_STEPS)}
    whole = [each for each in functions if _place(each) not in by_blocks]
    blocks = list(block_candidates(files, whole))
    held = {_place(each) for each in blocks} & by_blocks
    candidates = [each for each in functions if _place(each) not in held] + blocks
    _parse(files, TOUCHES_STEPS)
    steps = list(step_candidates(files, is_recorded))
    tried = [each for each in steps if not each.obstacles]
    examples = [each for each in tried if each.last_line is not None and is_in_side_folder(each.file)]
    further = examples[_MOST_EXAMPLES:]
    candidates += [each for each in tried if each not in further]
    untried = [each for each in steps if each.obstacles]
    untried += [replace(each, obstacles=(_FURTHER_EXAMPLE,)) for each in further]
    ordered = sorted(candidates, key=lambda each: (is_in_side_folder(each.file), each.file, each.line))
    # Functions checked as a training step, or in part as a block, are not passed over.
    checked = {_place(each) for each in candidates}
    passed = [each for each in reader.passed_over if _place(each) not in checked]
    return Discovery(
        files,
        tuple(ordered),
        tuple(library_calls(files)),
        tuple(untried),
        tuple(sorted(passed, key=lambda each: (each.file, each.line))),
    )


def _parse(files: PythonFiles, pattern: re.Pattern[bytes]) -> bool:
    """Parse the files that match, and return whether there were new ones."""
    before = len(files.modules)
    deque(files.matching(pattern), maxlen=0)
    return len(files.modules) > before


def block_candidates(files: PythonFiles, functions: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the blocks of the parsed files, except those inside one of `functions`, which are checked whole."""
    whole = {(candidate.file, candidate.line) for candidate in functions}
    for module in files.modules.values():
        for block in blocks_of_gradients(module):
            if whole.isdisjoint((module.file, node.lineno) for node in block.around):
                yield _block_candidate(block)


def _block_candidate(block: Block) -> Candidate:
    is_several = returns_several(block) or is_finite_check(block.name)
    return Candidate(
        call=block.call,
        file=block.module.file,
        line=block.statements[0].lineno,
        contract_guess=Contract.GRAD_STATS if is_several else Contract.GRAD_NORM,
        last_line=block.statements[-1].end_lineno,
    )


def spectral_candidates(files: PythonFiles) -> Iterator[Candidate]:
    """Yield the public functions that decompose replica gradients, estimate echoes, or assign keys to ranks, by name.

    auditkit learns what they return by trying them. A helper that decomposes one matrix (`safe_svd(tensor)`) is checked
    through its caller.
    """
    for function in files.functions():
        if function.owner is None and not function.name.startswith("_"):
            contract = _spectral_contract(function)
            if contract is not None:
                yield Candidate(function.call, function.module.file, function.node.lineno, contract)


def _spectral_contract(function: Function) -> Contract | None:
    slots = [item.arg for item in function.required]
    if _SHARD_NAME.search(function.name):
        # A shard plan gets several keys, or their number; a function that splits one tensor is not one.
        keys = [slot for slot in slots if slot_names.shard_kind(slot) == "keys"]
        kinds = {slot_names.shard_kind(item.arg) for item in function.parameters}
        are_keys = len(keys) == 1 and (keys[0].endswith("s") or slot_names.is_count(keys[0]))
        if {"rank", "world_size"} <= kinds and are_keys:
            return Contract.SHARD_PLAN
    returned = [node.value for node in function.nodes if isinstance(node, ast.Return) and node.value is not None]
    if not slot_names.looks_like_matrices(slots) or not returned:
        return None
    if "echo" in function.name.lower():
        return Contract.SPECTRAL_ECHO
    calls = [last_name(node.func) for node in function.nodes if isinstance(node, ast.Call)]
    is_svd = "svds" in function.name.lower() or any("svd" in name and "svdvals" not in name for name in calls)
    is_several = any(isinstance(value, ast.Tuple | ast.Dict | ast.Call) for value in returned)
    return Contract.ALIGNED_SVD if is_svd and is_several else None
