"""A checkout as source: every file read and parsed once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.source.files import SourceFile, is_test_file, list_files
from auditkit.probing.source.modules import Module, source_bytes
from auditkit.probing.source.python_files import PythonFiles, garbage_collection_paused

_WORD = re.compile(rb"[A-Za-z_]\w*")
_LARGEST_TEXT_BYTES = 1_000_000


class SourceIndex(PythonFiles):
    """The files of a checkout, read but not imported or run.

    `all_modules` are the files that parse, tests included, sorted by name.
    """

    def __init__(self, root: Path, configured_roots: Sequence[str | Path] = ()) -> None:
        super().__init__(root, import_roots(root, configured_roots), with_tests=True)
        self.all_modules: list[Module] = []
        with garbage_collection_paused():
            for path in sorted(self.names, key=self.name_of):
                module = self.parse(path)
                if isinstance(module, Module):
                    if module.is_test:
                        module = self.modules[module.name] = self._parsed[path] = _slim(module)
                    self.all_modules.append(module)
        self.by_name = {module.name: module for module in reversed(self.all_modules)}

    @property
    def package(self) -> str:
        """The only top-level package of the checkout's own code, or "source" if there are several or none."""
        own = (module for module in self.all_modules if not (module.is_test or module.is_side))
        names = {module.name.partition(".")[0] for module in own if "." in module.name}
        return names.pop() if len(names) == 1 else "source"

    @cached_property
    def tests(self) -> list[Path]:
        return [path for path in self.names if is_test_file(self.name_of(path))]

    def source_of(self, module: Module) -> bytes:
        """Return the bytes of the file, for a text search before a walk of its tree."""
        return self.source(self.path / module.file)

    @cached_property
    def files(self) -> list[SourceFile]:
        """All files: Python, settings and prose."""
        return list_files(self.path)

    def text_of(self, source: SourceFile) -> bytes:
        """Return the bytes of any of `files`, empty if it is large or cannot be read."""
        return source_bytes(source.path, _LARGEST_TEXT_BYTES)


def _slim(test: Module) -> Module:
    """Return a test's module without its tree: only its names count, and trees take memory."""
    made = Module(test.file, test.name, ast.Module([], []), [], imports=test.imports)
    made.strings = test.strings
    return made


def words_of(texts: Iterable[bytes]) -> frozenset[str]:
    """Return every word of some texts: code, comments and strings."""
    found = set[bytes]().union(*(_WORD.findall(text) for text in texts))
    return frozenset(word.decode("ascii", "replace") for word in found)
