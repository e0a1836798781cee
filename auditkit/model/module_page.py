"""What reading the source says of one module under audit: what it holds, who imports it, how its calls flow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.codec import Record


class ImporterKind(StrEnum):
    """What kind of file imports the module."""

    PACKAGE = "package"
    CODE = "code"
    SIDE = "side"
    TEST = "test"


class Way(StrEnum):
    """What a file does with a name that it imported."""

    CALLED = "called"
    ANNOTATION = "annotation"
    NAMED = "named"


@dataclass(frozen=True)
class Mention(Record):
    """One place of an importing file that uses a name of the module, inside `function` ("" for none)."""

    way: Way
    function: str
    line: int


@dataclass(frozen=True)
class NameUse(Record):
    """One imported name of the module, "" for the module itself, with every place that uses it."""

    name: str
    mentions: tuple[Mention, ...]


@dataclass(frozen=True)
class Importer(Record, keys="file kind tests is_property_based uses"):
    """A file that imports the module, and what it does with each name.

    `tests` is how many test functions use one; `is_property_based` says that it imports hypothesis.
    """

    file: str
    kind: ImporterKind
    uses: tuple[NameUse, ...]
    tests: int = 0
    is_property_based: bool = False


@dataclass(frozen=True)
class FlowStep(Record, keys="kind text line"):
    """One step of a flow: a call into the module, a wait for the device, or a collection written out by hand."""

    text: str
    line: int
    kind: str = "call"


@dataclass(frozen=True)
class Flow(Record):
    """What one function of the checkout calls of the module, in the order of lines; `callers` call it in turn."""

    file: str
    function: str
    callers: tuple[str, ...]
    steps: tuple[FlowStep, ...]


@dataclass(frozen=True)
class Share(Record, keys="have whole lacking"):
    """How many of `whole` have a property, and the names of those that lack it."""

    whole: int
    lacking: tuple[str, ...]

    @property
    def have(self) -> int:
        return self.whole - len(self.lacking)


@dataclass(frozen=True)
class ModulePage(Record):
    """A module as its source shows it. `purpose` is the first paragraph of its docstring, "" without one.

    `annotated` are functions whose parameters and answer all have types, `documented` the public functions
    and classes with a docstring; `compiles` are the lines that name torch.compile.
    """

    file: str
    name: str
    purpose: str
    lines: int
    functions: int
    classes: int
    annotated: Share
    documented: Share
    compiles: tuple[int, ...]
    importers: tuple[Importer, ...]
    flows: tuple[Flow, ...]

    def importers_of(self, *kinds: ImporterKind) -> tuple[Importer, ...]:
        return tuple(importer for importer in self.importers if importer.kind in kinds)
