"""What one ticket is about, as a search for its fix needs it: the code with the cause, and who runs that code."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Severity
from auditkit.model.runs.run import Finding, Run
from auditkit.model.runs.target import Target
from auditkit.probing.find.blocks.blocks import function_or_block
from auditkit.probing.fix.patches import FunctionFile, function_in, has_line
from auditkit.probing.source.modules import Module
from auditkit.probing.source.python_files import PythonFiles

_LOCALS = ".<locals>"


@dataclass(frozen=True)
class Cause:
    """The findings of one ticket, the worst first, and the targets that show them in the arm `arm`.

    `minor` are others of the ticket, which may stay.
    """

    findings: tuple[Finding, ...]
    targets: tuple[Target, ...]
    arm: str
    minor: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, group: Sequence[Finding], minor: Sequence[Finding] = ()) -> Cause:
        """That of a group of findings; what only reading showed has no target."""
        targets = {one.target.call: one.target for one in group if one.probe.scope == "target" and one.target}
        return cls(tuple(group), tuple(targets.values()), group[0].result.arm, tuple(minor))

    @property
    def read(self) -> tuple[Finding, ...]:
        """What reading the source found."""
        return tuple(one for one in self.findings if one.probe.scope == "source")

    def probes_of(self, target: Target) -> tuple[str, ...]:
        """The probes whose findings are about the target."""
        own = (one for one in self.findings if one.target is not None and one.target.call == target.call)
        return tuple(dict.fromkeys(one.probe.id for one in own if one.probe.scope == "target"))

    def call_in(self, files: PythonFiles) -> str:
        """What calls the function or the block with the cause; "" where no line of the checkout is known."""
        place = self.findings[0].result.location
        if place is None or place.folder:
            return ""
        inside = (function_in(files, target.call) for target in self.targets if "#" in target.call)
        for block in inside:
            if block is not None and block.file == place.file and has_line(block.function, place.line):
                return block.function.call
        return files.call_at(place.file, place.function.partition(_LOCALS)[0])


def judging_of(group: Sequence[Finding]) -> list[Finding]:
    """Return the findings that a fix has to end: those above P4, or all if none is. Minor ones may stay."""
    return [one for one in group if one.result.severity is not Severity.P4] or list(group)


def other_targets(
    files: PythonFiles, run: Run, cause: Cause, place: FunctionFile, lines: Collection[int]
) -> list[Target]:
    """The targets of the run, beside the cause's own, that are or call a function with one of the changed lines."""
    changed = [one for one in place.function.module.defined() if any(has_line(one, line) for line in lines)]
    named = re.compile("|".join(rf"\b{re.escape(one.name)}\b" for one in changed)) if changed else None
    own = {target.call for target in cause.targets}
    found: dict[str, Target] = {}
    for reading in run.targets:
        target = reading.target
        if target.call in own or target.places or not reading.answer or named is None:
            continue
        function = function_or_block(files, target.call)
        if function is not None and _knows(function.module, place.function.module) and named.search(function.text):
            found.setdefault(target.call, target)
    return list(found.values())


def _knows(module: Module, other: Module) -> bool:
    """Whether names of the other module may be meant in this one: it is the same, or imported."""
    last = other.name.rpartition(".")[2]
    return module.file == other.file or any(last in (*one.module.split("."), one.name) for one in module.imports)
