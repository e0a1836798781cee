"""Find the gradient collectors of a checkout by reading its source; nothing of it is imported."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.probing.checkout import import_roots
from auditkit.probing.discovery.candidates import Candidate, CandidateReader
from auditkit.probing.discovery.collector_calls import CollectorCalls
from auditkit.probing.discovery.source_index import (
    MAX_FILE_BYTES,
    Checkout,
    SourceProblem,
    module_name,
    parse_module,
    source_files,
)
from auditkit.probing.discovery.spectra import TOUCHES_SPECTRA, spectral_candidates

# Parsing costs a hundred times what a search does, and few files of a checkout touch gradients.
TOUCHES_GRADIENTS = re.compile(
    rb"\.grad\b|['\"]grad['\"]|(grads|gradients)(_list)?\s*[:,)=]|get_total_norm|clip_grad_norm|def materiali[sz]e"
)


@dataclass(frozen=True)
class Discovery:
    """What reading a checkout found: candidates, best first, and files that could not be read.

    Only files that mention gradients, or a collector by name, are parsed; the others' syntax is not
    looked at. `file_count` and `parsed_count` say how many there were of each.
    """

    candidates: tuple[Candidate, ...]
    problems: tuple[SourceProblem, ...]
    file_count: int
    parsed_count: int


def discover(path: Path, configured_roots: Sequence[str | Path] = ()) -> Discovery:
    """The gradient collectors under `path`, each with hints on how to call and feed it.

    Hints, not verdicts: whether a candidate works is found out by trying it. Raises BadInputError where
    a configured import root does not exist.
    """
    with garbage_collection_paused():
        return _discover(_Reader(path, import_roots(path, configured_roots)))


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Parsing makes millions of nodes, all of them kept: looking for garbage among them took 2.6 of 6.4 s on torch."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                # Straight into the oldest generation: the first collection would look at all of them, 0.7 s of 15.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _discover(reader: _Reader) -> Discovery:
    reader.parse(TOUCHES_GRADIENTS)
    while True:
        calls = CollectorCalls(reader.checkout)
        calls.find()
        # Callers, and packages that export a collector, perhaps under another name.
        if not calls.collectors or not reader.parse(_mention(calls.names())):
            break
    reader.parse(TOUCHES_SPECTRA)
    candidates = [*CandidateReader(calls).read(), *spectral_candidates(reader.checkout)]
    ordered = sorted(candidates, key=lambda item: (-item.score, item.file, item.line, len(item.arguments)))
    return Discovery(tuple(ordered), tuple(reader.problems), len(reader.sources), len(reader.checkout.modules))


def _mention(names: set[str]) -> re.Pattern[bytes]:
    return re.compile(rb"\b(" + b"|".join(sorted(map(re.escape, map(str.encode, names)))) + rb")\b")


class _Reader:
    """Reads every file once, and parses those that a pattern asks for."""

    def __init__(self, path: Path, roots: Sequence[Path]) -> None:
        self.path = path
        self.checkout = Checkout()
        self.problems: list[SourceProblem] = []
        self.sources: dict[Path, tuple[str, bytes]] = {}
        self._parsed: set[Path] = set()
        for file in source_files(path):
            name = module_name(file, roots)
            if name is not None:
                self._read(file, name)

    def _read(self, file: Path, name: str) -> None:
        try:
            if file.stat().st_size <= MAX_FILE_BYTES:
                self.sources[file] = (name, file.read_bytes())
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            self.problems.append(SourceProblem(file.relative_to(self.path).as_posix(), 1, message))

    def parse(self, pattern: re.Pattern[bytes]) -> bool:
        """Parse the files that match and are not parsed yet; whether there were any."""
        found = False
        for file, (name, source) in self.sources.items():
            if file in self._parsed or not pattern.search(source):
                continue
            self._parsed.add(file)
            parsed = parse_module(file, source, self.path, name)
            if isinstance(parsed, SourceProblem):
                self.problems.append(parsed)
            else:
                self.checkout.add(parsed)
                found = True
        return found
