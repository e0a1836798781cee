"""Resolve imported names to the module that defines them, through re-exports and stars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from auditkit.probing.source.modules import Import, Module

_MOST_STEPS = 6  # a name re-exported by three packages above each other, and some to spare

Key = tuple[str, str]
"""A name where it is defined: (module, name)."""


class Links:
    """Resolves imported names among some modules of a checkout; a package's own module may be missing."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self._imported: dict[str, dict[str, list[Import]]] = {name: defaultdict(list) for name in self.modules}
        for module in self.modules.values():
            for item in module.imports:
                if item.local:
                    self._imported[module.name][item.local].append(item)
        names = self.modules.keys()
        self._packages = {name[:end] for name in names for end, letter in enumerate(name) if letter == "."} - names
        self._known: dict[Key, Key | None] = {}

    def target(self, item: Import) -> Key | None:
        """Return the target of an import: a definition, or (module, "") for a module; None for third-party code."""
        inner = f"{item.module}.{item.name}"
        if item.module not in self.modules:
            return (inner, "") if item.name and inner in self.modules else None  # a folder without __init__.py
        if item.name in ("", "*"):
            return item.module, item.name
        is_module = inner in self.modules and item.name not in self.modules[item.module].own_names
        return (inner, "") if is_module else self.resolve(item.module, item.name)

    def resolve(self, module: str, name: str, steps: int = _MOST_STEPS) -> Key | None:
        """Return where `name` of `module` is defined; None if that is not in the checkout."""
        key = (module, name)
        if key not in self._known:
            self._known[key] = None  # stops recursion
            self._known[key] = self._resolve(module, name, steps)
        return self._known[key]

    def _resolve(self, module: str, name: str, steps: int) -> Key | None:
        if name in self.modules[module].own_names:
            return module, name
        imports = self._imported[module]
        for item in (*imports.get(name, ()), *imports.get("*", ())) if steps else ():
            if item.name and item.module in self.modules:
                found = self.resolve(item.module, name if item.name == "*" else item.name, steps - 1)
                if found is not None:
                    return found
        return None

    def dotted_targets(self, module: Module, written: str) -> Iterator[tuple[str, str, str]]:
        """Yield (module, name, rest) for `a.b.c` in `module`, where `a` is imported: its target, and the rest.

        A name outside the checkout yields nothing.
        """
        head, _, rest = written.partition(".")
        for item in self._imported[module.name].get(head, ()):
            target = self.target(item)
            if target is not None:
                yield from self._follow(*target, rest)
            elif rest and item.module in self._packages and not item.name:
                yield from self._follow(item.module, "", rest)

    def _follow(self, module: str, name: str, rest: str) -> Iterator[tuple[str, str, str]]:
        if name or not rest:
            yield module, name, rest
            return
        first, _, others = rest.partition(".")
        inner = f"{module}.{first}"
        is_module = inner in self.modules and not (module in self.modules and first in self.modules[module].own_names)
        if others and (is_module or inner in self._packages):
            yield from self._follow(inner, "", others)
        elif module in self.modules and (found := self.resolve(module, first)) is not None:
            yield (*found, others)
