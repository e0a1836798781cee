"""Find the gradient collectors of a checkout by reading its source; nothing of it is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditkit.model.enums import Contract
from auditkit.model.runs.target import split_call
from auditkit.probing.checkouts.checkout import import_roots
from auditkit.probing.discovery.answers import returns_several
from auditkit.probing.discovery.blocks.blocks import Block, blocks_of_gradients
from auditkit.probing.discovery.candidates import Candidate, Candidates, PassedOver
from auditkit.probing.discovery.collector_calls import CollectorCalls
from auditkit.probing.discovery.feeding import feeding, parameter_kinds
from auditkit.probing.discovery.gradient_names import PARTS_OF_TRAINING, is_finite_check
from auditkit.probing.discovery.library_calls import LibraryCall, library_calls
from auditkit.probing.discovery.training_steps import TOUCHES_STEPS, step_candidates
from auditkit.probing.source_code.files import is_in_side_folder
from auditkit.probing.source_code.modules import Function, SourceProblem, dotted_name
from auditkit.probing.source_code.python_files import PythonFiles, garbage_collection_paused
from auditkit.probing.worker.gradients import slot_names

_NAME_WORDS = re.compile(r"grad|norm|nan|finite|clip|stat")


def block_candidates(files: PythonFiles, functions: Iterable[Candidate]) -> Iterator[Candidate]:
    """The blocks of the files that were parsed, but for those inside one of the `functions` that are asked whole."""
    asked_whole = {(candidate.file, candidate.line) for candidate in functions}
    for module in files.modules.values():
        for block in blocks_of_gradients(module):
            if asked_whole.isdisjoint((module.file, node.lineno) for node in block.around):
                yield _block_candidate(block)


def _block_candidate(block: Block) -> Candidate:
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
        contract_guess=_block_contract(block),
        takes_guesses=fed.takes,
        evidence=(f"{what} of {block.place or 'the script'}, which is no function that can be called",),
        obstacles=(missing,) if fed.missing else (),
        score=score,
        last_line=last,
    )


def _block_contract(block: Block) -> Contract:
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


TOUCHES_SPECTRA = re.compile(rb"svds?\b|def \w*echo|def \w*(shard|partition|assign|owner)\w*\(")
_SHARD_NAME = re.compile(r"shard|partition|assign|owner|owned", re.IGNORECASE)
_SCORE = 5


def spectral_candidates(files: PythonFiles) -> Iterator[Candidate]:
    """A candidate for every public function of a module whose name and arguments fit one of the contracts."""
    for function in files.functions():
        if function.owner is not None or function.name.startswith("_"):
            continue
        contract = _spectral_contract(function)
        if contract is not None:
            yield Candidate(
                call=function.call,
                file=function.module.file,
                line=function.node.lineno,
                contract_guess=contract,
                evidence=(f"its name and its arguments {', '.join(_slots(function))} are those of {contract.value}",),
                score=_SCORE,
            )


def _spectral_contract(function: Function) -> Contract | None:
    slots = _slots(function)
    if _SHARD_NAME.search(function.name) and _names_ranks(function, slots):
        return Contract.SHARD_PLAN
    if not slot_names.looks_like_matrices(slots) or not _returned(function):
        return None
    if "echo" in function.name.lower():
        return Contract.SPECTRAL_ECHO
    return Contract.ALIGNED_SVD if _decomposes(function) else None


def _slots(function: Function) -> list[str]:
    return [parameter.arg for parameter in function.required]


def _names_ranks(function: Function, slots: list[str]) -> bool:
    """One argument of keys, and both a rank and a number of ranks beside it.

    Keys are several, or a number of them: who cuts one tensor, or the size of one, deals nothing out.
    """
    names = [parameter.arg for parameter in function.parameters]
    kinds = {slot_names.shard_kind(name) for name in names}
    keys = [slot for slot in slots if slot_names.shard_kind(slot) == "keys"]
    return (
        {"rank", "world_size"} <= kinds and len(keys) == 1 and (keys[0].endswith("s") or slot_names.is_count(keys[0]))
    )


def _decomposes(function: Function) -> bool:
    """Whether it is named for SVDs of several matrices and returns several things, or calls an SVD to do so."""
    calls = (dotted_name(node.func).rpartition(".")[2] for node in function.nodes if isinstance(node, ast.Call))
    is_named = re.search(r"svds", function.name, re.IGNORECASE) is not None
    return (is_named or any("svd" in name and "svdvals" not in name for name in calls)) and any(
        isinstance(value, ast.Tuple | ast.Dict | ast.Call) for value in _returned(function)
    )


def _returned(function: Function) -> list[ast.expr]:
    return [node.value for node in function.nodes if isinstance(node, ast.Return) and node.value is not None]


# Parsing costs a hundred times what a search does, and few files of a checkout touch gradients.
TOUCHES_GRADIENTS = re.compile(
    rb"grad(?<!no_grad)(?<!requires_grad)(?<!enable_grad)(?<!zero_grad)(?<!set_grad)s?"
    rb"(?:_(?:data|sample|norm|list|buffer|flat|for|in|group|part|shard)\w*)?\b|gradients?\b[ _]*[:,)=\].]|"
    rb"clip_\w*grad|get_total_norm|def materiali[sz]e|inf_or_nan|isfinite|isnan|backprops|register_(?:comm_)?hook\("
)

_STEPS = tuple(f"{mark}{name}" for name in (*PARTS_OF_TRAINING, "main") for mark in ".:")
_MOST_EXAMPLES = 8
"""Training loops of examples that are candidates: trying one takes a second, and some checkouts have a hundred."""


@dataclass(frozen=True)
class Discovery:
    """What reading a checkout found: candidates, best first, and files that could not be read.

    Only files that mention gradients, or a collector by name, are parsed; the others' syntax is not
    looked at. `file_count` and `parsed_count` say how many there were of each. `library_calls` are functions of
    torch's that the checkout calls. `files` are those that were read; `untried_loops` train in more examples.
    `passed_over` are functions that handle gradients and are no candidates, with the reason of each.
    """

    files: PythonFiles = field(compare=False)
    candidates: tuple[Candidate, ...]
    problems: tuple[SourceProblem, ...]
    file_count: int
    parsed_count: int
    library_calls: tuple[LibraryCall, ...] = ()
    untried_loops: tuple[Candidate, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()


def discover(path: Path, configured_roots: Sequence[str | Path] = ()) -> Discovery:
    """The gradient collectors under `path`, each with hints on how to call and feed it.

    Hints, not verdicts: whether a candidate works is found out by trying it. Raises BadInputError where
    a configured import root does not exist.
    """
    with garbage_collection_paused():
        return _discover(PythonFiles(path, import_roots(path, configured_roots)))


def _discover(files: PythonFiles) -> Discovery:
    _parse(files, TOUCHES_GRADIENTS)
    calls = CollectorCalls(files)
    while True:
        calls.find()
        # Callers, and packages that export a collector, perhaps under another name.
        if not calls.collectors or not _parse(files, _mention(calls.names())):
            break
    _parse(files, TOUCHES_SPECTRA)
    reader = Candidates(calls)
    functions = [*reader.read(), *spectral_candidates(files)]
    # A step is checked by its blocks where it has any: they run without the object that the whole method needs.
    by_blocks = {(each.file, split_call(each.call)[1]) for each in functions if each.call.endswith(_STEPS)}
    whole = [each for each in functions if (each.file, split_call(each.call)[1]) not in by_blocks]
    blocks = list(block_candidates(files, whole))
    held = {(each.file, split_call(each.call)[1]) for each in blocks} & by_blocks
    candidates = [each for each in functions if (each.file, split_call(each.call)[1]) not in held] + blocks
    _parse(files, TOUCHES_STEPS)
    steps = list(step_candidates(files))
    examples = [each for each in steps if each.last_line is not None and is_in_side_folder(each.file)]
    untried = examples[_MOST_EXAMPLES:]
    candidates += [each for each in steps if each not in untried]
    ordered = sorted(candidates, key=lambda item: (-item.score, item.file, item.line, len(item.arguments)))
    # What is checked as a training step, or in part as a block, is not passed over.
    asked = {(each.file, split_call(each.call)[1]) for each in candidates}
    passed = [each for each in reader.passed_over if (each.file, split_call(each.call)[1]) not in asked]
    return Discovery(
        files,
        tuple(ordered),
        tuple(files.problems),
        files.read_count,
        len(files.modules),
        tuple(library_calls(files)),
        tuple(untried),
        tuple(sorted(passed, key=lambda each: (each.file, each.line))),
    )


def _parse(files: PythonFiles, pattern: re.Pattern[bytes]) -> bool:
    """Parse the files that match; whether there were any that were not parsed before."""
    before = len(files.modules)
    for _ in files.matching(pattern):
        pass
    return len(files.modules) > before


def _mention(names: set[str]) -> re.Pattern[bytes]:
    return re.compile(rb"\b(" + b"|".join(sorted(map(re.escape, map(str.encode, names)))) + rb")\b")
