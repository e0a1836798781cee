"""What a guard is about: a function or a method of the test's process, checked as a target of a checkout is."""

from __future__ import annotations

import contextlib
import inspect
import operator
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from auditkit.errors import BadInputError
from auditkit.model.enums import Contract, DeviceChoice, Outcome, Takes
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, fingerprint
from auditkit.model.runs.target import Target
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.session import Job
from auditkit.testing.failures import lines_of
from auditkit.testing.here import Here, has_cuda

__tracebackhide__ = True  # pytest shows the test's own line

# They fork real ranks, or trace with a compiler whose caches are the whole process's: not in the test's process.
_APART = ("ranks", "graphs", "graph_capture")


class Answer(NamedTuple):
    """The result of a probe; `line` is the place that it names, with its code, also if it is not a finding."""

    result: ProbeResult
    line: Sequence[str]

    def figures(self, name: str) -> dict[int, Any]:
        """Return a measurement by the number of tensors."""
        return {int(m.case["tensors"]): m.value for m in self.result.measurements if m.name == name}


class Subject:
    """A target, its file's root, and the device that it runs on (`auto`, `cpu`, `cuda` or `simulated`).

    `words` are those of `check`. Raises BadInputError for an object that is not a function, and for unknown words.
    """

    def __init__(self, target: Callable[..., Any] | str, root: Path, words: Mapping[str, Any]) -> None:
        function = _named(target) if isinstance(target, str) else target
        if inspect.isclass(function) or not callable(function):
            kind = "a class: name one of its methods" if inspect.isclass(function) else "no function"
            raise BadInputError(f"{target!r} is {kind}", "pass the function itself, or its module:name")
        self.root, self._function, self._finish = root, function, words["finish"]
        contracts = member(Contract, "contract", words["contract"]), member(Takes, "way to be fed", words["takes"])
        ends = ":".join(_place(self._finish)) if self._finish is not None else None
        given = dict(words["arguments"] or {}), dict(words["returns"] or {})
        self.target = Target(":".join(_place(function)), "", *contracts, ends, None, *given)
        self._device = member(DeviceChoice, "device", words["device"]) or DeviceChoice.AUTO
        self._here: type[Here] | None = None

    def ask(self, probes: Sequence[ProbeInfo]) -> list[Answer]:
        """Return the result of each probe, measured in this process."""
        here = self._session()
        found = self._results([probe for probe in probes if probe.instrument not in _APART])
        for probe in probes:
            if probe.id not in found:
                why = "forks ranks or compiles, which no test's process should: run it with auditkit probe run"
                name = fingerprint(probe.id, self.target.call)
                found[probe.id] = ProbeResult(probe.id, probe.version, self.target.call, Outcome.UNAVAILABLE, why, name)
        return [self._answer(found[probe.id], here.asked.get(probe.id)) for probe in probes]

    def contract(self) -> Contract:
        """Return the contract of the target. Raises BadInputError if nothing feeds it."""
        self._results(())
        planned = self._session().plan
        if planned is None or planned.plan is None:
            why = planned.failure.message if planned is not None and planned.failure is not None else "no plan"
            raise BadInputError(why, "give what it needs as arguments={...}, or set contract= or takes=")
        return Contract(planned.plan["contract"])

    def _results(self, probes: Sequence[ProbeInfo]) -> dict[str, ProbeResult]:
        setting = Setting(self.root, sys.executable, (), self._device)
        ended = run_target(self.target, probes, setting, session=self._session())
        return {result.probe: result for result in ended.results}

    def _session(self) -> type[Here]:
        """Return the session of this target, which remembers how to feed it."""
        if self._here is None:
            has_cuda()
            self._here = type("HereOf", (Here,), {"loaded": self._loaded(), "plan": None, "asked": {}})
        return self._here

    def _loaded(self) -> Any:
        """Return the target bound as the worker binds it; a bound method is called on its own object."""
        from auditkit.worker.base.frames import SourceRoots
        from auditkit.worker.feed.caller import Caller
        from auditkit.worker.targets import LoadedTarget, outside_package

        owner, method = _owner(self._function)
        caller = Caller(self._function, owner, method, dict(self.target.arguments), self._finish)
        top = sys.modules.get(self.target.call.partition(".")[0].partition(":")[0])
        return LoadedTarget(caller, SourceRoots(str(self.root), tuple(outside_package(top, str(self.root)))))

    def _answer(self, result: ProbeResult, job: Job | None) -> Answer:
        place = result.location or (job.location if job is not None else None)
        return Answer(result, lines_of(place, self.root) if place is not None else ())


def _named(call: str) -> Any:
    try:
        return pkgutil.resolve_name(call) if ":" in call else None
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInputError(f"{call}: {error}") from error


def _place(function: Any) -> tuple[str, str]:
    """Return module and qualified name: of what a partial calls, and of an object's class."""
    function = getattr(function, "func", function)
    named = function if hasattr(function, "__qualname__") else type(function)
    return str(named.__module__), str(named.__qualname__)


def _owner(function: Any) -> tuple[type | None, str]:
    """Return the class of a method that was taken from it, and the method's name; a bound method needs no class."""
    module, name = _place(function)
    if inspect.isfunction(function) and "." in name and not name.rpartition(".")[0].endswith("<locals>"):
        with contextlib.suppress(AttributeError, KeyError):
            path, _, method = name.rpartition(".")
            owner = operator.attrgetter(path)(sys.modules[module])
            if inspect.isclass(owner) and not isinstance(inspect.getattr_static(owner, method), staticmethod):
                return owner, method
    return None, ""


def member(kind: Any, what: str, word: str | None) -> Any:
    """Return the member of an enumeration that a word names. Raises BadInputError."""
    if word is None:
        return None
    try:
        return kind(word)
    except ValueError:
        raise BadInputError(f"no {what} is called {word!r}", f"known: {', '.join(kind)}") from None
