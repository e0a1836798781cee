"""Whose defect a finding is: a library's, if its own function, which the target calls, has the same defect."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from auditkit.model.enums import Outcome, Severity
from auditkit.model.figure_trends import compare_figures
from auditkit.model.revisions.comparison import Trend
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.severity import Breaks
from auditkit.model.runs.target import Target
from auditkit.probing.engine.protocol import TorchCalls
from auditkit.probing.engine.results import TargetRun
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting

_MODULE = "torch.nn.utils"
_WHOLE, _PARTS = "clip_grad_norm_", ("get_total_norm", "clip_grads_with_norm_")
_SLOPE = "per tensor"
_REFUSED = "refused"


class TorchItself:
    """Results of the probes on torch's own functions; each probe runs once in a run, when a finding first needs it."""

    def __init__(self, setting: Setting, probes: Sequence[ProbeInfo]) -> None:
        self._setting = setting
        self._probes = {probe.id: probe for probe in probes}
        self._answers: dict[tuple[str, str], tuple[ProbeResult, str]] = {}
        self._lock = threading.Lock()

    def attribute(self, calls: TorchCalls, found: Sequence[ProbeResult]) -> list[ProbeResult]:
        """Attribute to torch, at P4, the findings of a target that torch's functions in `calls` have as well.

        Their outcome stays; so does a severity that the user configured.
        """
        doubted = [result.probe for result in found if _is_blamed(result, calls)]
        with self._lock:
            theirs = [answer for target in _counterparts(calls) for answer in self._ask(target, doubted)]
        return [self._attributed(result, theirs) if result.probe in doubted else result for result in found]

    def own(self, run: TargetRun) -> TargetRun:
        """Attribute every finding of a library's function to the library itself."""
        version = _version(run)
        owned = [self._owned(result, result, version) if result.severity else result for result in run.results]
        return replace(run, results=owned)

    def _ask(self, target: Target, probes: Sequence[str]) -> list[tuple[ProbeResult, str]]:
        """Run probes on torch's function, if new, and return each result with the version of torch."""
        asked = repr((target.call, sorted(target.arguments.items())))
        new = [self._probes[name] for name in probes if (asked, name) not in self._answers]
        if new:
            run = run_target(target, new, self._setting)
            version = _version(run)
            self._answers.update({(asked, result.probe): (result, version) for result in run.results})
        return [self._answers[asked, name] for name in probes]

    def _attributed(self, ours: ProbeResult, answers: Sequence[tuple[ProbeResult, str]]) -> ProbeResult:
        for theirs, version in answers:
            if theirs.probe == ours.probe and _is_as_bad(theirs, ours):
                owned = self._owned(ours, theirs, version)
                name = _function(theirs).rpartition(".")[2]
                return replace(owned, message=f"{ours.message}; {name} of torch {version} does the same")
        return ours

    def _owned(self, ours: ProbeResult, theirs: ProbeResult, version: str) -> ProbeResult:
        """Attribute a finding to the library that has the defect, with the version if it is torch."""
        severity = self._setting.policy.severities.get(ours.probe, Severity.P4)
        function = _function(theirs)
        library = function.partition(".")[0]
        owner = f"{library} {version}" if library == "torch" and version else library
        return replace(ours, severity=severity, owner=f"{owner}: {function}")


def _version(run: TargetRun) -> str:
    hello = run.session.hello if run.session is not None else None
    return hello.torch.partition("+")[0] if hello is not None else ""


def _is_blamed(result: ProbeResult, calls: TorchCalls) -> bool:
    """Return whether the finding arises where torch's functions are called, or at no particular line."""
    place = result.location
    return place is None or [place.file, place.line] in [list(line) for line in calls["lines"]]


def _counterparts(calls: TorchCalls) -> list[Target]:
    """Return torch's functions as targets; calls of both parts of `clip_grad_norm_` count as one call of it."""
    functions = {name: dict(arguments) for name, arguments in calls["functions"].items()}
    if all(part in functions for part in _PARTS):
        parts = [functions.pop(part) for part in _PARTS]
        functions[_WHOLE] = {**parts[0], **parts[1]}
    return [Target(f"{_MODULE}:{name}", arguments=arguments) for name, arguments in functions.items()]


def _is_as_bad(theirs: ProbeResult, ours: ProbeResult) -> bool:
    """Return whether torch has the same finding, at least as severe, with no better measurement.

    An exception is torch's as well if torch's function refuses the same input.
    """
    if theirs.device != ours.device:
        return False
    if ours.breaks is Breaks.STOPS and any(one.name == _REFUSED and one.value for one in theirs.measurements):
        return True
    if theirs.outcome is not Outcome.REPRODUCED:
        return False
    if theirs.severity is None or ours.severity is None or not theirs.severity.at_least(ours.severity):
        return False
    figures = compare_figures(_judged(theirs.measurements), _judged(ours.measurements))
    return all(figure.trend is not Trend.WORSE for figure in figures)


def _judged(taken: Sequence[Measurement]) -> list[Measurement]:
    """Return the fitted growth rates if there are any, else all measurements: a constant overhead is no growth."""
    slopes = [measurement for measurement in taken if measurement.unit == _SLOPE]
    return slopes or list(taken)


def _function(theirs: ProbeResult) -> str:
    """Return the public name of the library's function where the defect arises, else the target's."""
    module, _, asked = theirs.target.partition(":")
    place = theirs.location
    arises = place.function.lstrip("_") if place is not None else ""
    is_part = module == _MODULE and arises in (_WHOLE, *_PARTS)
    return f"{module}.{arises if is_part else asked}"
