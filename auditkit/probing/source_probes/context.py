"""What a source probe gets as `ctx`: the modules to check, the checks that read them, and its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from auditkit.model.enums import Evidence
from auditkit.probing.source.index import SourceIndex
from auditkit.probing.source.links import Links
from auditkit.probing.source.modules import Module, SourceProblem
from auditkit.probing.source_probes import style
from auditkit.probing.source_probes.tensor_flow import HAS_TENSORS, FunctionReads, ModuleReads

_T = TypeVar("_T")


class NotApplicable(Exception):
    """The probe does not apply to this checkout; the text says why."""


class SourceContext:
    """One checkout for source probes; see docs/design/source.md.

    `modules` are those to check, without tests; uses of their names are searched everywhere.
    """

    NotApplicable = NotApplicable

    def __init__(self, index: SourceIndex, wanted: Callable[[Module], bool]) -> None:
        self.index = index
        self.modules = tuple(item for item in index.all_modules if not item.is_test and wanted(item))
        self.problems: list[SourceProblem] = []
        """Files whose code a check could not fully follow."""

    @cached_property
    def links(self) -> Links:
        return Links(reversed(self.index.all_modules))

    def check(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the findings of the check `name` of style.py as measurements and locations, and what it examined."""
        for found in getattr(style, name)(self):
            if isinstance(found, style.Finding):
                for row, value, unit, case in found.rows:
                    yield self.measurement(found.subject, row, value, unit, **case)
                yield self.location(found.subject, found.module, found.line, found.function)
            else:
                yield from self.examined(**found)

    def reads_in_loops(self, module: Module) -> list[FunctionReads]:
        """Return the functions that read tensors back in loops; none if the file has no tensors."""
        if not HAS_TENSORS.search(self.index.source_of(module)):
            return []
        return self.followed(module, lambda tree: ModuleReads(tree).functions())

    def followed(self, module: Module, read: Callable[[Module], Iterable[_T]]) -> list[_T]:
        """Return the findings of a check in a module; code nested too deeply becomes a problem of its file."""
        try:
            return list(read(module))
        except RecursionError:
            self.problems.append(SourceProblem(module.file, 1, "nested too deeply to be followed"))
            return []

    def measurement(self, subject: str, name: str, value: Any, unit: str, /, **case: Any) -> dict[str, Any]:
        """Return a measurement about `subject`: a function (`package.module:name`), a module, a parameter."""
        said = {"type": "measurement", "subject": subject, "name": name, "value": value, "unit": unit, "case": case}
        return {**said, "evidence": Evidence.READ}

    def examined(self, **counts: int) -> Iterator[dict[str, Any]]:
        """Yield how much was examined: `examined(functions=12)`, besides the number of files."""
        for name, count in {"files": len(self.modules), **counts}.items():
            yield self.measurement("", f"{name}_examined", count, "count")

    def location(self, subject: str, module: Module, line: int, function: str = "") -> dict[str, Any]:
        """Return the ticket's location in the checkout."""
        return {"type": "location", "subject": subject, "file": module.file, "line": line, "function": function}
