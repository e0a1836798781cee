"""Run source probes on one checkout: one judged result for every subject.

A file that does not parse is an error of that file; nothing of the checkout is imported or run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditkit.model.enums import Evidence, Outcome, Reason
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.met_by import MetBy
from auditkit.model.runs.probe import Policy, ProbeInfo
from auditkit.model.runs.recorded import RecordedRun
from auditkit.model.runs.run import SOURCE_DEVICE, ProbeResult
from auditkit.probing.engine.catalog import load_module
from auditkit.probing.engine.judgement import stdout_is_stderr
from auditkit.probing.engine.results import Asked
from auditkit.probing.source.excerpts import cut_excerpt
from auditkit.probing.source.files import is_test_file
from auditkit.probing.source.index import SourceIndex
from auditkit.probing.source.modules import Module
from auditkit.probing.source.python_files import garbage_collection_paused
from auditkit.probing.source_probes.context import NotApplicable, SourceContext

_Subject = tuple[list[Measurement], list[Location]]
"""The measurements of a probe about one subject, and its locations, of which the first counts."""


def run_source_probes(
    probes: Sequence[ProbeInfo],
    index: SourceIndex,
    wanted: Callable[[Module], bool],
    policy: Policy,
    started: Callable[[str], None] = lambda _: None,
    recorded: RecordedRun | None = None,
) -> Iterator[ProbeResult]:
    """Yield the results of every probe: its findings, or one that says what was examined; then unreadable files.

    `wanted` selects the modules to check. `started(probe)` is called when each probe starts. `recorded` has the callers
    of functions in a run.
    """
    with garbage_collection_paused():
        context = SourceContext(index, wanted)
        for probe in probes:
            started(probe.id)
            yield from _run(probe, context, policy, recorded)
    # Every word of a test file that does not parse counts as a use.
    problems = [problem for problem in index.problems if not is_test_file(problem.path)]
    for problem in dict.fromkeys([*problems, *context.problems]):
        text = f"{problem.path}:{problem.line}: {problem.message}"
        for probe in probes:
            asked = Asked(probe, problem.path, SOURCE_DEVICE, policy)
            place = Location(problem.path, problem.line)
            yield asked.unanswered(Outcome.ERROR, Reason.NOT_PARSED, text, location=place)


def _run(probe: ProbeInfo, context: SourceContext, policy: Policy, recorded: RecordedRun | None) -> list[ProbeResult]:
    started = time.perf_counter()
    asked = Asked(probe, context.index.package, SOURCE_DEVICE, policy)

    def unanswered(outcome: Outcome, reason: Reason | None, message: str) -> list[ProbeResult]:
        return [asked.unanswered(outcome, reason, message)]

    if not context.modules:
        return unanswered(Outcome.NOT_APPLICABLE, None, "the checkout has no module that it checks")
    try:
        with stdout_is_stderr():
            subjects = _by_subject(list(load_module(probe).measure(context)))
    except NotApplicable as error:
        return unanswered(Outcome.NOT_APPLICABLE, None, str(error))
    except (Exception, SystemExit) as error:
        return unanswered(Outcome.ERROR, Reason.EXCEPTION, f"{type(error).__name__}: {error}")
    if not subjects:
        return unanswered(Outcome.ERROR, Reason.PROTOCOL, "the probe examined nothing")
    duration_s = time.perf_counter() - started
    return _findings(asked, context.index, subjects, recorded) or [
        _judged(asked, context.index, subjects.get("", ([], [])), duration_s=duration_s)
    ]


def _by_subject(messages: Iterable[Mapping[str, Any]]) -> dict[str, _Subject]:
    """Return the messages by subject; "" has the examined counts."""
    subjects: dict[str, _Subject] = {}
    for message in messages:
        measurements, locations = subjects.setdefault(message["subject"], ([], []))
        if message["type"] == "measurement":
            measurements.append(Measurement.from_json(message))
        elif message["type"] == "location":
            locations.append(Location(message["file"], int(message["line"]), message["function"]))
    return subjects


def _findings(
    asked: Asked, index: SourceIndex, subjects: Mapping[str, _Subject], recorded: RecordedRun | None
) -> list[ProbeResult]:
    """Return one result for each reproduced subject; the error of a probe that cannot judge one."""
    judged = [
        _judged(replace(asked, subject=name, recorded=_met_by(recorded, name, subject[1])), index, subject)
        for name, subject in subjects.items()
        if name
    ]
    failed = next((result for result in judged if result.outcome is Outcome.ERROR), None)
    if failed is not None:
        return [asked.unanswered(failed.outcome, failed.reason, failed.message)]
    return [result for result in judged if result.outcome is Outcome.REPRODUCED]


def _met_by(recorded: RecordedRun | None, subject: str, locations: Sequence[Location]) -> MetBy | None:
    """Who called the function of a finding in the recorded run, or a block of it."""
    block = f"{locations[0].file}:{locations[0].function}#" if locations else subject
    calls = recorded.calls if recorded is not None else ()
    found = next((call for call in calls if call == subject or call.startswith(block)), None)
    return recorded.met_by(found) if recorded is not None and found is not None else None


def _judged(asked: Asked, index: SourceIndex, subject: _Subject, duration_s: float = 0.0) -> ProbeResult:
    def excerpt(location: Location) -> CodeExcerpt | None:
        return cut_excerpt(index.path, location)

    measurements, locations = subject
    place = locations[0] if locations else None
    return asked.judged(measurements, Evidence.READ, place, excerpt, checkout=index.path, duration_s=duration_s)
