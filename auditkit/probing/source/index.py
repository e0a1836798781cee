"""A checkout as source: every file read and parsed once."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.checkout.reading import MAX_FILE_BYTES, read_file
from auditkit.probing.source.files import SourceFile, list_files
from auditkit.probing.source.modules import Module, SourceProblem, module_name, parse_module, source_bytes
from auditkit.probing.source.python_files import garbage_collection_paused

_WORD = re.compile(rb"[A-Za-z_]\w*")
_LARGEST_TEXT_BYTES = 1_000_000


class SourceIndex:
    """The files of a checkout, read but not imported or run.

    `modules` are the files that parse, tests included, sorted by name; `problems` those that do not.
    """

    def __init__(self, root: Path, configured_roots: Sequence[str | Path] = ()) -> None:
        self.root = root
        self.import_roots = import_roots(root, configured_roots)
        self._sources: dict[str, bytes] = {}
        self.files = list_files(root)
        self.modules: list[Module] = []
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
        data = _load(source)
        self._sources[source.name] = data if isinstance(data, bytes) else b""
        name = module_name(source.path, self.import_roots) or source.name.removesuffix(".py").replace(":", "_")
        parsed = parse_module(source.path, data, self.root, name) if isinstance(data, bytes) else data
        if isinstance(parsed, SourceProblem):
            self.problems.append(parsed)
            return
        parsed.is_test, parsed.is_side = source.is_test, source.is_side
        if source.is_test:  # Of tests only the names count, and trees take memory.
            strings = parsed.strings
            parsed = Module(parsed.file, parsed.name, ast.Module([], []), [], imports=parsed.imports, is_test=True)
            parsed.strings = strings
        self.modules.append(parsed)

    @property
    def package(self) -> str:
        """The only top-level package of the checkout's own code, or "source" if there are several or none."""
        own = (module for module in self.modules if not (module.is_test or module.is_side))
        names = {module.name.partition(".")[0] for module in own if "." in module.name}
        return names.pop() if len(names) == 1 else "source"

    @cached_property
    def has_tests(self) -> bool:
        return any(source.is_test for source in self.python_files)

    def source_of(self, module: Module) -> bytes:
        """Return the bytes of the file, for a text search before a walk of its tree."""
        return self._sources[module.file]

    def text_of(self, source: SourceFile) -> str:
        """Return the text of a settings or prose file, "" if it is large or cannot be read."""
        return source_bytes(source.path, _LARGEST_TEXT_BYTES).decode("utf-8", "replace")

    @cached_property
    def unparsed_words(self) -> frozenset[str]:
        """Every word of the files that do not parse, which counts as a use."""
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


def _load(source: SourceFile) -> bytes | SourceProblem:
    """Return the file's bytes, or why they are not read."""
    try:
        data = read_file(source.path)
        if data is None:
            size = source.path.stat().st_size
            return SourceProblem(source.name, 1, f"{size:,} bytes: files above {MAX_FILE_BYTES:,} are not read")
        return data
    except OSError as error:
        return SourceProblem(source.name, 1, f"cannot be read: {error.strerror}")


def _words(data: bytes) -> frozenset[str]:
    return frozenset(word.decode("ascii", "replace") for word in set(_WORD.findall(data)))
