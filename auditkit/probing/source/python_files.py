"""A checkout's own Python files, each read once and parsed when needed, and the meaning of names in them."""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from auditkit.probing.checkout.reading import MAX_FILE_BYTES, read_file
from auditkit.probing.source.files import source_files
from auditkit.probing.source.links import Links
from auditkit.probing.source.modules import (
    Class,
    Function,
    Module,
    SourceProblem,
    callee,
    method_of,
    module_name,
    parse_module,
)


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the collector while parsing creates millions of lasting nodes: it took 2.6 of 6.4 s on torch."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                # Move them to the oldest generation: the first collection would visit all of them, 0.7 s of 15.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class PythonFiles:
    """The files below `path` by module name, or by path if they cannot be imported; `roots` are the import roots.

    Hidden and foreign folders are left out, and tests unless `with_tests`. `modules` are those that were parsed so far,
    `problems` files that could not be read or parsed. Threads may share one: a file is read and parsed once.
    """

    def __init__(self, path: Path, roots: Sequence[Path], with_tests: bool = False) -> None:
        self.path = path
        self.names: dict[Path, str] = {}
        for file in source_files(path, with_tests):
            # A file that cannot be imported has its path; a colon would end it in a call.
            self.names[file] = module_name(file, roots) or self.name_of(file).replace(":", "_")
        self._files = {name: file for file, name in reversed(self.names.items())}
        self.modules: dict[str, Module] = {}
        self.problems: list[SourceProblem] = []
        self._sources: dict[Path, bytes | None] = {}
        self._parsed: dict[Path, Module | SourceProblem] = {}
        self._links: Links | None = None
        self._reading = threading.RLock()

    @property
    def read_count(self) -> int:
        """How many files were read, without those that are too large."""
        return sum(source is not None for source in self._sources.values())

    def name_of(self, file: Path) -> str:
        """Return the name of a file relative to the checkout, with forward slashes."""
        return file.relative_to(self.path).as_posix()

    def source(self, file: Path) -> bytes:
        """Return the bytes of a file; empty if it is too large or cannot be read, which is a problem then."""
        with self._reading:
            if file not in self._sources:
                self._sources[file] = None
                try:
                    self._sources[file] = read_file(file)
                    why = f"files above {MAX_FILE_BYTES:,} bytes are not read" if self._sources[file] is None else ""
                except OSError as error:
                    why = f"cannot be read: {error.strerror}"
                if why:
                    self.problems.append(SourceProblem(self.name_of(file), 1, why))
                    self._parsed[file] = self.problems[-1]
            return self._sources[file] or b""

    def parse(self, file: Path) -> Module | SourceProblem:
        """Return the module of a file, or why it cannot be read."""
        with self._reading:
            source = self.source(file)
            if file not in self._parsed:
                parsed = self._parsed[file] = parse_module(file, source, self.path, self.names[file])
                if isinstance(parsed, Module):
                    self.modules.setdefault(parsed.name, parsed)
                    self._links = None
                else:
                    self.problems.append(parsed)
            return self._parsed[file]

    def matching(self, pattern: re.Pattern[bytes]) -> Iterator[Module]:
        """Yield the modules whose text matches a pattern: parsing costs a hundred times more than a search."""
        for file in [file for file in self.names if pattern.search(self.source(file))]:
            if isinstance(parsed := self.parse(file), Module):
                yield parsed

    def functions(self) -> Iterator[Function]:
        """Yield every function and method of the parsed modules."""
        for module in self.modules.values():
            yield from module.defined()

    def call_at(self, file: str, function: str) -> str:
        """Return the call of the function `function` (a qualified name) of `file`, relative to the checkout; or ""."""
        name = self.names.get(self.path / file)
        return f"{name}:{function}" if name and function else ""

    def module_of(self, call: str) -> Module | SourceProblem | None:
        """Return the module of `module:qualified.name` or `path/file.py:name`, or why it cannot be read, or None."""
        file = self.file_of(call.partition(":")[0])
        return self.parse(file) if file is not None else None

    def file_of(self, name: str) -> Path | None:
        """Return the file of a module, or of a path below the checkout; None if it is missing."""
        return self._files.get(name) or (self.path / name if self.path / name in self.names else None)

    def function(self, call: str) -> Function | None:
        """Return the function that `call` names, None if the checkout does not define it in that module."""
        module, qualified = self.module_of(call), call.partition(":")[2]
        defined = module.defined() if isinstance(module, Module) else ()
        return next((one for one in defined if one.qualified_name == qualified), None)

    def resolve(self, module: Module, name: str) -> Function | Class | None:
        """Return what a dotted name in a module means among the parsed modules; None if it is not the checkout's."""
        found = module.named(name)
        if found is None and name.partition(".")[0] in module.origins:
            if self._links is None:
                self._links = Links(self.modules.values())
            for origin, first, rest in self._links.dotted_targets(module, name):
                found = found or self.modules[origin].named(f"{first}.{rest}" if rest else first)
        return found

    def callee(self, function: Function, call: ast.Call, instances: Mapping[str, Class]) -> Function | None:
        """Return the checkout's function that a call inside `function` reaches; None if it cannot be resolved."""
        return callee(function, call, self.resolve, instances)

    def method(self, owner: Class, name: str) -> Function | None:
        """Return the method of a class, or of its first base in the checkout with that name."""
        return method_of(owner, name, self.resolve)


# Patterns of files that import them. The first takes 1.6 s of processor time, the next 0.4.
_SLOW = {
    "torch.distributed.fsdp": re.compile(rb"torch\.distributed\.(?:fsdp|_?tensor|optim|checkpoint|_composable)\b"),
    "torch.distributed.optim": re.compile(rb"torch\.distributed\.optim\b"),
}


def slow_imports(files: PythonFiles, calls: Iterable[str]) -> list[str]:
    """Return the slow parts of torch that files of the packages of `calls` import; scripts are not packages."""
    modules = (call.partition(":")[0] for call in calls)
    packages = {module.partition(".")[0] for module in modules if not module.endswith(".py")}
    sources = [files.source(file) for file, name in files.names.items() if name.partition(".")[0] in packages]
    return [module for module, pattern in _SLOW.items() if any(map(pattern.search, sources))]
