"""Resolve imported names to the module that defines them, through re-exports, stars and script folders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from auditkit.probing.source.modules import Import, Module

_MOST_STEPS = 6  # a name re-exported by three packages above each other, and some to spare

Key = tuple[str, str]
"""A name where it is defined: (module, name)."""


class Links:
    """Resolves imported names among the modules of one checkout.

    `is_partial` means that only some of its files were parsed: a package's own may be missing, and a module is found
    only by its full name.
    """

    def __init__(self, modules: Iterable[Module], is_partial: bool = False) -> None:
        self.modules = {module.name: module for module in modules}
        self._defined = {
            name: module.own_names if is_partial else module.own_names | module.bound
            for name, module in self.modules.items()
        }
        self._imported: dict[str, dict[str, list[Import]]] = {name: defaultdict(list) for name in self.modules}
        for module in self.modules.values():
            for item in module.imports:
                if item.local:
                    self._imported[module.name][item.local].append(item)
        self._by_last: dict[str, list[str]] = defaultdict(list)
        names = self.modules.keys()
        self._packages: set[str] = set()
        if is_partial:
            self._packages = {name[:end] for name in names for end, letter in enumerate(name) if letter == "."} - names
        for name in () if is_partial else names:
            self._by_last[name.rpartition(".")[2]].append(name)
        self._known: dict[Key, Key | None] = {}

    def modules_called(self, written: str) -> list[str]:
        """Return the modules that an import statement may mean by `written`.

        Scripts that import their neighbours (`from utils import x`), and packages below a folder that is not an import
        root, are found by the end of their names.
        """
        if written in self.modules:
            return [written]
        if not written:
            return []
        ending = "." + written
        return [name for name in self._by_last[written.rpartition(".")[2]] if name.endswith(ending)]

    def targets(self, item: Import) -> Iterator[Key]:
        """Yield the targets of one import: definitions, or (module, "") for a module; nothing for third-party code."""
        for module in self.modules_called(item.module):
            if not item.name or item.name == "*":
                yield module, item.name
            elif (inner := f"{module}.{item.name}") in self.modules and item.name not in self._defined[module]:
                yield inner, ""
            elif (found := self.resolve(module, item.name)) is not None:
                yield found
        if item.name and not self.modules_called(item.module):
            for module in self.modules_called(f"{item.module}.{item.name}"):  # a folder without __init__.py
                yield module, ""

    def resolve(self, module: str, name: str, steps: int = _MOST_STEPS) -> Key | None:
        """Return where `name` of `module` is defined; None if that is not in the checkout."""
        key = (module, name)
        if key not in self._known:
            self._known[key] = None  # stops recursion
            self._known[key] = self._resolve(module, name, steps)
        return self._known[key]

    def _resolve(self, module: str, name: str, steps: int) -> Key | None:
        if name in self._defined[module]:
            return module, name
        imports = self._imported[module]
        for item in (*imports.get(name, ()), *imports.get("*", ())) if steps else ():
            for origin in self.modules_called(item.module) if item.name else ():
                found = self.resolve(origin, name if item.name == "*" else item.name, steps - 1)
                if found is not None:
                    return found
        return None

    def dotted_targets(self, module: Module, written: str) -> Iterator[tuple[str, str, str]]:
        """Yield (module, name, rest) for `a.b.c` in `module`, where `a` is imported: its target, and the rest.

        A name outside the checkout yields nothing.
        """
        head, _, rest = written.partition(".")
        for item in self._imported[module.name].get(head, ()):
            for origin, name in self.targets(item):
                if name == "*":
                    continue
                yield from self._follow(origin, name, rest)
            if rest and item.module in self._packages and not item.name:
                yield from self._follow(item.module, "", rest)

    def _follow(self, module: str, name: str, rest: str) -> Iterator[tuple[str, str, str]]:
        if name or not rest:
            yield module, name, rest
            return
        first, _, others = rest.partition(".")
        inner = f"{module}.{first}"
        is_open = inner in self._packages or (inner in self.modules and first not in self._defined.get(module, ()))
        if others and is_open:
            yield from self._follow(inner, "", others)
        if module in self._packages or (others and is_open):
            return
        found = self.resolve(module, first)
        if found is not None:
            yield (*found, others)
