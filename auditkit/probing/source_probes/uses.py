"""Who names a definition: other code, tests, a package's exports, settings, prose, or nobody."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from auditkit.probing.source_code.facts import Definition, ModuleFacts
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_code.links import Key, Links
from auditkit.probing.source_code.modules import Import


@dataclass
class Use:
    """The files that name one definition, by what they are; `exporters` are packages or modules."""

    code: set[str] = field(default_factory=set)
    tests: set[str] = field(default_factory=set)
    exporters: set[str] = field(default_factory=set)
    settings: str = ""
    prose: str = ""
    is_registered: bool = False
    is_hidden: bool = False
    """Whether a file that does not parse holds its name."""

    def named_by(self) -> str:
        """The strongest word for it: `code`, `decorator`, `settings`, `exports`, `tests`, `prose` or `nothing`."""
        if self.code or self.is_hidden:
            return "code"
        kinds = {
            "decorator": self.is_registered,
            "settings": self.settings,
            "exports and tests": self.exporters and self.tests,
            "exports": self.exporters,
            "tests": self.tests,
            "prose": self.prose,
        }
        return next((kind for kind, found in kinds.items() if found), "nothing")


# Decorators that change how a function runs, and do not hand it to anybody.
_PLAIN_DECORATORS = frozenset({
    "no_grad", "enable_grad", "inference_mode", "compile", "disable", "autocast", "custom_fwd", "custom_bwd",
    "script", "ignore", "unused", "lru_cache", "cache", "cached_property", "property", "staticmethod",
    "classmethod", "contextmanager", "asynccontextmanager", "wraps", "deprecated", "njit", "jit", "final",
    "override", "total_ordering", "dataclass", "singledispatch", "setter", "typechecked", "beartype", "profile",
    "record_function",
})  # fmt: skip


class Uses:
    """Finds the users of the definitions of one checkout, by resolved imports and, in doubt, by name.

    In doubt means: an attribute of a value of unknown kind (`x.collect`) and a short string that is the
    name or a path to it count as a use of every definition of that name. So a use may be assumed where
    there is none, and is not missed where there is one that the source shows.
    """

    def __init__(self, index: SourceIndex) -> None:
        self.index = index
        self.links = Links(reversed(index.modules))
        self.importers: dict[Key, list[tuple[ModuleFacts, Import]]] = defaultdict(list)
        self._stars: dict[str, list[ModuleFacts]] = defaultdict(list)
        self._dotted: dict[Key, set[str]] = defaultdict(set)
        self._named: dict[str, list[ModuleFacts]] = defaultdict(list)
        self._own: dict[str, list[ModuleFacts]] = defaultdict(list)
        wanted = {item.name for module in index.modules if not module.is_test for item in module.definitions}
        for module in index.modules:
            self._note_imports(module)
            self._note_names(module, wanted)

    def _note_imports(self, module: ModuleFacts) -> None:
        for item in module.imports:
            for origin, name in self.links.targets(item):
                if name == "*":
                    self._stars[origin].append(module)
                elif name and origin != module.name:
                    self.importers[origin, name].append((module, item))

    def _note_names(self, module: ModuleFacts, wanted: set[str]) -> None:
        references = module.references
        loose = set(references.strings & wanted) | (references.attributes & wanted)
        for written in references.dotted:
            for origin, name, rest in self.links.dotted_targets(module, written):
                self._dotted[origin, name].add(module.file)
                loose.update(wanted.intersection(rest.split(".")))
        for name in loose:
            self._named[name].append(module)
        for name in references.own & wanted:
            self._own[name].append(module)

    def of(self, item: Definition) -> Use:
        """Everybody who names `item`."""
        use = Use(is_registered=any(name.rpartition(".")[2] not in _PLAIN_DECORATORS for name in item.decorators))
        # What a class's users get of it are its methods.
        use.exporters = self._exporters(item.module, item.owner.partition(".")[0] or item.name)
        if item.kind != "method":
            self._note_users(item, use)
        for module in self._named.get(item.name, ()):
            self._note(module, use)
        for module in self._own.get(item.name, ()) if item.kind == "method" else ():
            self._note(module, use)
        use.is_hidden = item.name in self.index.unparsed_words
        use.settings = self.index.words_of_settings.get(item.name, "")
        use.prose = "its docstring" if item.has_example else self.index.words_of_prose.get(item.name, "")
        return use

    def _note_users(self, item: Definition, use: Use) -> None:
        key = (item.module, item.name)
        for module, imported in self.importers.get(key, ()):
            if not _exports(module, imported):
                self._note(module, use)
        for module in self._stars.get(item.module, ()):
            if item.name in module.references.names:
                self._note(module, use)
        for file in self._dotted.get(key, ()):
            self._note(self.index.by_file[file], use)
        own = self.index.by_name.get(item.module)
        if own is not None and item.name in own.references.names:
            self._note(own, use)

    def _exporters(self, module: str, name: str) -> set[str]:
        """The packages that export `name` of `module`, and the module itself where its `__all__` lists it."""
        found = {user.name for user, imported in self.importers.get((module, name), ()) if _exports(user, imported)}
        found |= {user.name for user in self._stars.get(module, ()) if user.is_package and not user.is_test}
        own = self.index.by_name.get(module)
        listed = own is not None and own.exports is not None and name in own.exports
        return found | ({module} if listed else set())

    @staticmethod
    def _note(module: ModuleFacts, use: Use) -> None:
        (use.tests if module.is_test else use.code).add(module.file)


def _exports(module: ModuleFacts, imported: Import) -> bool:
    """Whether a package's `__init__` imports a name for others, and does nothing with it itself."""
    return module.is_package and not module.is_test and imported.local not in module.references.names
