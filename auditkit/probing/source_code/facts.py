"""What one file says, in a form that outlives its syntax tree: definitions, imports, exports, references."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.probing.source_code.files import SourceFile
from auditkit.probing.source_code.modules import Import


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method or class that other code can name.

    `kind` is `function`, `method` or `class`; `owner` the class of a method. `decorators` and `bases` are
    dotted names as written. `is_stub` marks overloads, protocol members and abstract methods, whose body
    is not the code that runs; `has_example` a docstring with a `>>>` example.
    """

    module: str
    name: str
    qualified_name: str
    kind: str
    line: int
    owner: str = ""
    decorators: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    is_stub: bool = False
    has_example: bool = False

    @property
    def subject(self) -> str:
        """`package.module:Qualified.name`."""
        return f"{self.module}:{self.qualified_name}"

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in f"{self.module}.{self.qualified_name}".split("."))


@dataclass(frozen=True, slots=True)
class References:
    """The names that a file's code uses, docstrings and `__all__` left out.

    A definition's use of its own name (recursion, `self.name` inside `name`) does not count. `names` are
    bare names that are read, `dotted` attributes of imported names as written (`module.function`),
    `own` attributes of `self` and `cls`, `attributes` those of anything else, `strings` the words of
    short strings that look like a name or a path to one.
    """

    names: frozenset[str]
    attributes: frozenset[str]
    own: frozenset[str]
    dotted: frozenset[str]
    strings: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forward:
    """A call that hands a parameter on: `callee(keyword=parameter)`, or at the 0-based `position`."""

    parameter: str
    callee: str
    keyword: str
    position: int


@dataclass(frozen=True, slots=True)
class Signature:
    """A function, or a dataclass with its fields, that gives parameters literal numbers as defaults.

    `defaults` holds (parameter, number, line) for each; `forwards` the calls that hand such parameters on.
    """

    qualified_name: str
    name: str
    owner: str
    line: int
    defaults: tuple[tuple[str, float, int], ...]
    forwards: tuple[Forward, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One parsed file. `name` is what an import statement calls it, else its path without the suffix.

    `exports` are the names of a literal `__all__`, None without one; `is_open` says that names are made at
    run time (a module's `__getattr__`, a computed `__all__`), so that what it lacks cannot be told.
    """

    source: SourceFile
    name: str
    is_package: bool
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    exports: frozenset[str] | None
    is_open: bool
    references: References
    bound: frozenset[str] = frozenset()
    """Names that the module binds at its top level by assignment: constants, aliases."""
    signatures: tuple[Signature, ...] = ()

    @property
    def file(self) -> str:
        return self.source.name

    @property
    def is_test(self) -> bool:
        return self.source.is_test

    @property
    def is_side(self) -> bool:
        return self.source.is_side

    @property
    def own_names(self) -> frozenset[str]:
        """What others can import of it, submodules left out."""
        return frozenset(item.name for item in self.definitions if not item.owner) | self.bound

    def count(self, *kinds: str) -> int:
        """How many definitions of these kinds it has."""
        return sum(item.kind in kinds for item in self.definitions)

    def has_public_methods(self, owner: Definition) -> bool:
        """Whether a class does something of its own: a public method or property, not only fields."""
        return any(item.owner == owner.qualified_name and item.is_public for item in self.definitions)

    def public(self, *kinds: str) -> Iterator[Definition]:
        """Its public definitions of these kinds, in the order of lines; stubs left out."""
        for item in self.definitions:
            if item.kind in kinds and item.is_public and not item.is_stub:
                yield item
