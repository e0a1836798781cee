"""Find the gradient collectors of a checkout by reading its source; nothing of it is imported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditkit.model.runs.target import split_call
from auditkit.probing.checkouts.checkout import import_roots
from auditkit.probing.discovery.blocks.candidates import block_candidates
from auditkit.probing.discovery.candidates import Candidate, Candidates, PassedOver
from auditkit.probing.discovery.collector_calls import CollectorCalls
from auditkit.probing.discovery.gradient_names import PARTS_OF_TRAINING
from auditkit.probing.discovery.library_calls import LibraryCall, library_calls
from auditkit.probing.discovery.spectra import TOUCHES_SPECTRA, spectral_candidates
from auditkit.probing.discovery.training_steps import TOUCHES_STEPS, step_candidates
from auditkit.probing.source_code.files import is_in_side_folder
from auditkit.probing.source_code.modules import SourceProblem
from auditkit.probing.source_code.python_files import PythonFiles, garbage_collection_paused

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
