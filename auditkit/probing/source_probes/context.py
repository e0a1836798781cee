"""What a source probe is handed: the modules it asks about, instruments that read them, and what it yields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, TypeVar

from auditkit.model.enums import Evidence
from auditkit.probing.discovery.candidates import collects_by_itself
from auditkit.probing.source_code.facts import Definition, ModuleFacts
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_code.modules import Module, SourceProblem
from auditkit.probing.source_probes.collections_by_hand import MAY_FINISH, Collection, collection_of, finishers_of
from auditkit.probing.source_probes.instances import is_result_class, made_names
from auditkit.probing.source_probes.partial_exports import PartialExport, partial_export
from auditkit.probing.source_probes.private_api import PrivateUse, imports_private, may_read_private, unguarded_uses
from auditkit.probing.source_probes.repeated_defaults import RepeatedDefault, decides_by, repeated_defaults
from auditkit.probing.source_probes.tensor_flow.module_reads import HAS_TENSORS, FunctionReads, ModuleReads
from auditkit.probing.source_probes.uses import Use, Uses

_T = TypeVar("_T")
_ONE_RELEASE = re.compile(r"===?\s*\d|~=\s*\d+\.\d+\.\d|<=?\s*\d+\.[1-9]")
# At the top: what an example or an archived version below requires says nothing of the checkout.
_DECLARES = re.compile(
    r"^(pyproject\.toml|setup\.(cfg|py)|([^/]*requirements|requirements/)[^/]*\.(txt|in)|environment\.ya?ml)$"
)


class NotApplicable(Exception):
    """The probe's question makes no sense for this checkout; the text says why."""


class SourceContext:
    """One checkout as source probes see it; see docs/design/source.md.

    `modules` are those that the run is about, never tests; whatever names them is looked for everywhere.
    """

    NotApplicable = NotApplicable

    def __init__(self, index: SourceIndex, wanted: Callable[[ModuleFacts], bool]) -> None:
        self.index = index
        self.modules = tuple(item for item in index.modules if not item.is_test and wanted(item))
        self.problems: list[SourceProblem] = []
        """Files whose code an instrument could not follow to its end."""

    @property
    def package(self) -> str:
        """What stands for the checkout as a whole: its one package, else "source"."""
        return self.index.package

    @property
    def has_tests(self) -> bool:
        return self.index.has_tests

    @cached_property
    def uses(self) -> Uses:
        return Uses(self.index)

    # --- definitions ---

    def is_hook(self, item: Definition) -> bool:
        """Whether a method may be called by a framework: a base of its class lies outside the checkout."""
        return item.kind == "method" and not self._has_own_bases(item.module, item.owner, set())

    def _has_own_bases(self, module: str, owner: str, seen: set[tuple[str, str]]) -> bool:
        facts = self.index.by_name.get(module)
        known = facts.definitions if facts is not None else ()
        found = next((item for item in known if item.kind == "class" and item.qualified_name == owner), None)
        if facts is None or found is None or (module, owner) in seen:
            return False
        seen.add((module, owner))
        return all(self._is_own_base(facts, base, seen) for base in found.bases)

    def _is_own_base(self, facts: ModuleFacts, base: str, seen: set[tuple[str, str]]) -> bool:
        if base in ("object", "ABC", "abc.ABC", "Generic"):
            return True
        if any(item.kind == "class" and item.qualified_name == base for item in facts.definitions):
            return self._has_own_bases(facts.name, base, seen)
        targets = self.uses.links.dotted_targets(facts, base)
        return any(self._has_own_bases(module, name, seen) for module, name, rest in targets if not rest)

    def is_named_by_a_test(self, module: ModuleFacts, item: Definition) -> bool:
        """Whether a test names a function or class, or one of a class's public methods; an example is a test."""
        methods = [other for other in module.definitions if other.owner == item.qualified_name and other.is_public]
        named = [item, *(methods if item.kind == "class" else ())]
        if any(other.has_example for other in named) or f"_{item.name.lower()}_" in self._names_of_tests:
            return True
        # A comment or docstring of a test counts, where the name is no everyday word.
        if (("_" in item.name) or item.name != item.name.lower()) and item.name in self.index.words_of_tests:
            return True
        return any(self.use_of(other).tests for other in named)

    @cached_property
    def _names_of_tests(self) -> str:
        """The names of test functions, classes and files, each between underscores."""
        tests = [module for module in self.index.modules if module.is_test]
        names = [item.name for module in tests for item in module.definitions]
        names += [module.file.rpartition("/")[2].removesuffix(".py") for module in tests]
        return " ".join({f"_{name.lower().replace('test', '_test_')}_" for name in names})

    # --- instruments ---

    def tree(self, module: ModuleFacts) -> Module:
        """The module's syntax tree, with its functions and classes by name."""
        return self.index.tree_of(module)

    def use_of(self, definition: Definition) -> Use:
        """Who names a definition, in the whole checkout."""
        return self.uses.of(definition)

    def reads_in_loops(self, module: ModuleFacts) -> list[FunctionReads]:
        """The functions that read tensors back once for each of many; none where nothing names tensors."""
        if not HAS_TENSORS.search(self.index.source_of(module)):
            return []
        return self._followed(module, lambda tree: ModuleReads(tree).functions())

    def collectors(self, module: ModuleFacts) -> set[str]:
        """The qualified names of the functions and methods that return statistics of the gradients that they read."""
        return set(
            self._followed(module, lambda tree: (f.qualified_name for f in tree.defined() if collects_by_itself(f)))
        )

    def private_uses(self, module: ModuleFacts) -> list[PrivateUse]:
        """The unguarded uses of torch's private names."""
        reads_attributes = may_read_private(self.index.source_of(module), module.imports)
        if not reads_attributes and not imports_private(module.imports):
            return []
        return self._followed(module, lambda tree: unguarded_uses(tree, reads_attributes))

    def finishers(self) -> Iterator[Collection]:
        """Every function that finishes what others collect, with who collects it and where that is done by hand."""
        for module in self.modules:
            if MAY_FINISH.search(self.index.source_of(module)):
                for finisher in self._followed(module, finishers_of):
                    if finisher.keys or self._is_own_class(module, finisher.record):
                        text = min(finisher.keys) if finisher.keys else finisher.record.rpartition(".")[2]
                        holding = [self.tree(other) for other in self._own_code_with(text)]
                        yield collection_of(finisher, module, holding)
                        for other in holding:
                            self.index.let_go(other)

    def _is_own_class(self, module: ModuleFacts, written: str) -> bool:
        """Whether a name in an annotation is a class of the checkout."""
        if any(item.kind == "class" and item.qualified_name == written for item in module.definitions):
            return True
        return any(True for _ in self.uses.links.dotted_targets(module, written))

    def _own_code_with(self, text: str) -> Iterator[ModuleFacts]:
        """The modules that are no tests and hold `text`."""
        word = text.encode()
        return (item for item in self.index.modules if not item.is_test and word in self.index.source_of(item))

    def results_nobody_makes(self) -> Iterator[tuple[ModuleFacts, Definition]]:
        """The dataclasses for results that no code of the checkout makes; tests do not count."""
        results = [
            (module, item) for module in self.modules for item in filter(is_result_class, module.public("class"))
        ]
        holding = self.index.own_code_by_word({item.name for _, item in results})
        used = {
            other.file: self.index.read_tree(other, made_names)
            for other in {user.file: user for users in holding.values() for user in users}.values()
        }
        for module, item in results:
            if not any(item.name in used[other.file] for other in holding[item.name]):
                yield module, item

    def partial_exports(self) -> Iterator[PartialExport]:
        """The modules whose package exports some of their names and lacks others that are imported from outside."""
        for module in self.modules:
            found = partial_export(module, self.uses)
            if found is not None:
                yield found

    def repeated_defaults(self) -> Iterator[RepeatedDefault]:
        """The repeated thresholds of which at least one stands in `modules`, and by which code beside them decides."""
        own = {module.name for module in self.modules}
        every = (module for module in self.index.modules if not module.is_test)
        for repeated in repeated_defaults(every, self.uses):
            modules = {place.module.name: place.module for place in repeated.places}
            decides = partial(decides_by, parameter=repeated.parameter)
            if own & modules.keys() and any(self.index.read_tree(module, decides) for module in modules.values()):
                yield repeated

    def pin(self, package: str) -> str:
        """How the checkout's own requirements hold `package` to one release, such as `torch==2.9.1`; "" where not."""
        pattern = re.compile(rf"(?<![\w.-]){package}(?![\w.-])(?:\[[^\]]*\])?\s*\(?([<>=!~][^;\"'\n#]*)")
        for source in self.index.files:
            if _DECLARES.search(source.name):
                for found in pattern.finditer(self.index.text_of(source)):
                    if _ONE_RELEASE.search(found[1]):
                        return f"{package}{found[1]}".strip(" ),")
        return ""

    def _followed(self, module: ModuleFacts, read: Callable[[Module], Iterable[_T]]) -> list[_T]:
        """What an instrument finds in a module; code nested too deeply becomes a problem of its file."""
        try:
            return self.index.read_tree(module, lambda tree: list(read(tree)))
        except RecursionError:
            self.problems.append(SourceProblem(module.file, 1, "nested too deeply to be followed"))
            return []

    # --- what a probe yields ---

    def measurement(self, subject: str, name: str, value: Any, unit: str, /, **case: Any) -> dict[str, Any]:
        """Something that was read, about `subject`: a function (`package.module:name`), a module, a parameter."""
        said = {"type": "measurement", "subject": subject, "name": name, "value": value, "unit": unit, "case": case}
        return {**said, "evidence": Evidence.READ}

    def examined(self, **counts: int) -> Iterator[dict[str, Any]]:
        """What was looked at where nothing was found: `examined(functions=12)`, beside the number of files."""
        for name, count in {"files": len(self.modules), **counts}.items():
            yield self.measurement("", f"{name}_examined", count, "count")

    def location(self, subject: str, module: ModuleFacts, line: int, function: str = "") -> dict[str, Any]:
        """Where in the checkout it stands: the ticket's Location."""
        return {"type": "location", "subject": subject, "file": module.file, "line": line, "function": function}

    def note(self, subject: str, text: str) -> dict[str, Any]:
        """Something that the reader of a finding must know."""
        return {"type": "note", "subject": subject, "text": text}
