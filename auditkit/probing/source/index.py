"""A checkout as source: its files read once, the facts of each, and the trees for the instruments that follow code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from auditkit.model.text import inert, inert_line
from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.source.facts import ModuleFacts, facts_of, load, parse
from auditkit.probing.source.files import SourceFile, list_files
from auditkit.probing.source.modules import Module, SourceProblem, source_bytes
from auditkit.probing.source.python_files import garbage_collection_paused

_WORD = re.compile(rb"[A-Za-z_]\w*")
_LARGEST_TEXT_BYTES = 1_000_000


class SourceIndex:
    """What reading a checkout's files showed; nothing of them is imported or run.

    `modules` are the files that parse, tests included, in the order of their names; `problems` those that
    do not.
    """

    def __init__(self, root: Path, configured_roots: Sequence[str | Path] = ()) -> None:
        self.root = root
        self.import_roots = import_roots(root, configured_roots)
        self._sources: dict[str, bytes] = {}
        self._trees: dict[str, Module] = {}
        self.files = list_files(root)
        self.modules: list[ModuleFacts] = []
        self.problems: list[SourceProblem] = []
        with garbage_collection_paused():
            for source in self.python_files:
                self._read(source)
        self.by_name = {module.name: module for module in reversed(self.modules)}
        self.by_file = {module.file: module for module in self.modules}

    @property
    def python_files(self) -> list[SourceFile]:
        return [source for source in self.files if source.kind == "python"]

    def _read(self, source: SourceFile) -> None:
        # Such a name fits no line of a ticket, and no import: two findings could look the same.
        if inert_line(source.name) == source.name:
            data = load(source)
        else:
            shown = inert(source.name).replace("\n", "\\n").replace("\t", "\\t")
            why = "not read: its name holds a character that moves the cursor, or hides or turns text"
            data = SourceProblem(shown, 1, why)
        parsed = data if isinstance(data, SourceProblem) else parse(source, data, self.root, self.import_roots)
        facts = parsed if isinstance(parsed, SourceProblem) else facts_of(source, parsed)
        if isinstance(facts, SourceProblem):
            self.problems.append(facts)
            self._sources[source.name] = b"" if isinstance(data, SourceProblem) else data
            return
        assert isinstance(data, bytes)
        assert isinstance(parsed, Module)
        self.modules.append(facts)
        self._sources[source.name] = data
        if not source.is_test:
            self._trees[source.name] = parsed

    @property
    def package(self) -> str:
        """The one top-level package of the checkout's own code, or "source" where there are several or none."""
        own = (module for module in self.modules if not (module.is_test or module.source.is_side))
        names = {module.name.partition(".")[0] for module in own if "." in module.name}
        return names.pop() if len(names) == 1 else "source"

    @cached_property
    def has_tests(self) -> bool:
        return any(source.is_test for source in self.python_files)

    def source_of(self, module: ModuleFacts) -> bytes:
        """The bytes of the file, for a search before it is parsed again."""
        return self._sources[module.file]

    def tree_of(self, module: ModuleFacts) -> Module:
        """The parsed module with its functions and classes; of a test none is kept."""
        return self._trees[module.file]

    def text_of(self, source: SourceFile) -> str:
        """The text of a settings or prose file, "" for one that is large or cannot be read."""
        return source_bytes(source.path, _LARGEST_TEXT_BYTES).decode("utf-8", "replace")

    @cached_property
    def unparsed_words(self) -> frozenset[str]:
        """Every word of the files that do not parse: what they may name is taken as named."""
        return frozenset().union(*(_words(self._sources.get(problem.path, b"")) for problem in self.problems))

    @cached_property
    def words_of_tests(self) -> frozenset[str]:
        """Every word of the test files, comments and docstrings included."""
        tests = (source.name for source in self.python_files if source.is_test)
        return frozenset().union(*(_words(self._sources[name]) for name in tests))

    @cached_property
    def other_words(self) -> frozenset[str]:
        """Every word of settings (YAML, TOML, notebooks, scripts) and of prose (Markdown and text files)."""
        others = (source.path for source in self.files if source.kind in ("settings", "prose"))
        return frozenset().union(*(_words(source_bytes(path, _LARGEST_TEXT_BYTES)) for path in others))


def _words(data: bytes) -> frozenset[str]:
    return frozenset(word.decode("ascii", "replace") for word in set(_WORD.findall(data)))
