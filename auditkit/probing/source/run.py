"""Run source probes over one checkout: what each one read becomes one result for every subject, judged.

A file that does not parse is an error of that file; nothing of the checkout is imported or run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.model.enums import Evidence, Outcome, Reason
from auditkit.model.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import SOURCE_DEVICE, ProbeResult, fingerprint
from auditkit.probing.cage import CageError, ask_in_cage
from auditkit.probing.catalog import load_module
from auditkit.probing.discovery.source_index import SourceProblem
from auditkit.probing.excerpts import cut_excerpt
from auditkit.probing.judging import Judgement, JudgingFailedError, is_bundled, judge
from auditkit.probing.python_files import garbage_collection_paused
from auditkit.probing.source.context import NotApplicable, SourceContext
from auditkit.probing.source.facts import ModuleFacts
from auditkit.probing.source.index import SourceIndex


@dataclass
class _Subject:
    """What a probe yielded about one subject."""

    measurements: list[Measurement] = field(default_factory=list)
    location: Location | None = None
    notes: list[str] = field(default_factory=list)


def run_source_probes(
    probes: Sequence[ProbeInfo],
    index: SourceIndex,
    wanted: Callable[[ModuleFacts], bool],
    policy: Mapping[str, Mapping[str, Any]],
    time_limit_s: float,
    progress: Callable[[str], None],
) -> list[ProbeResult]:
    """The results of every probe: its findings, or one that says what was examined; then unreadable files.

    `wanted` says which modules the probes ask about. `progress(probe)` is called as each one starts.
    """
    results = []
    with garbage_collection_paused():
        context = SourceContext(index, wanted)
        for probe in probes:
            progress(probe.id)
            results += _run(probe, context, {**probe.policy, **policy.get(probe.id, {})}, time_limit_s)
    problems = [problem for problem in index.problems if problem.path not in _test_files(index)]
    problems += [problem for problem in context.problems if problem not in problems]
    return results + [_unread(probe, problem) for problem in problems for probe in probes]


def notes_of(index: SourceIndex) -> tuple[str, ...]:
    """What the reader of a run must know of its files: tests that do not parse, of which every word counts."""
    tests = _test_files(index)
    return tuple(
        f"{problem.path}:{problem.line}: {problem.message}; a test file: every word in it counts as a use"
        for problem in index.problems
        if problem.path in tests
    )


def _test_files(index: SourceIndex) -> set[str]:
    return {source.name for source in index.python_files if source.is_test}


def _run(probe: ProbeInfo, context: SourceContext, policy: Mapping[str, Any], time_limit_s: float) -> list[ProbeResult]:
    started = time.perf_counter()

    def without_answer(outcome: Outcome, reason: Reason | None, message: str) -> list[ProbeResult]:
        return [_result(probe, context.package, outcome, message, reason=reason)]

    if not context.modules:
        return without_answer(Outcome.NOT_APPLICABLE, None, "the checkout has no module that it asks about")
    try:
        messages = _messages(probe, context, time_limit_s)
        subjects = _by_subject(messages)
    except NotApplicable as error:
        return without_answer(Outcome.NOT_APPLICABLE, None, str(error))
    except CageError as error:
        return without_answer(Outcome.ERROR, error.reason, str(error))
    except Exception as error:
        return without_answer(Outcome.ERROR, Reason.EXCEPTION, f"{type(error).__name__}: {error}")
    if not subjects:
        return without_answer(Outcome.ERROR, Reason.PROTOCOL, "the probe examined nothing")
    duration_s = time.perf_counter() - started
    try:
        return _judged(probe, context, subjects, policy, duration_s)
    except JudgingFailedError as error:
        return without_answer(Outcome.ERROR, Reason.EXCEPTION, f"judging failed: {error}")


def _messages(probe: ProbeInfo, context: SourceContext, time_limit_s: float) -> Iterable[dict[str, Any]]:
    """What the probe yields: ours in this process, anybody else's in the cage."""
    if is_bundled(probe):
        return list(load_module(probe).measure(context))
    request = {
        "checkout": str(context.index.root),
        "import_roots": [str(root) for root in context.index.import_roots],
        "modules": [module.file for module in context.modules],
    }
    answer = ask_in_cage(Path(probe.path), request, time_limit_s)
    if "not_applicable" in answer:
        raise NotApplicable(answer["not_applicable"])
    messages: list[dict[str, Any]] = answer["messages"]
    return messages


def _by_subject(messages: Iterable[Mapping[str, Any]]) -> dict[str, _Subject]:
    """What was yielded, by subject; "" holds what was examined."""
    subjects: dict[str, _Subject] = {}
    for message in messages:
        subject = subjects.setdefault(message["subject"], _Subject())
        if message["type"] == "measurement":
            subject.measurements.append(Measurement.from_json(message))
        elif message["type"] == "location" and subject.location is None:
            subject.location = Location(message["file"], int(message["line"]), message["function"])
        elif message["type"] == "note":
            subject.notes.append(str(message["text"]))
    return subjects


def _judged(
    probe: ProbeInfo,
    context: SourceContext,
    subjects: Mapping[str, _Subject],
    policy: Mapping[str, Any],
    duration_s: float,
) -> list[ProbeResult]:
    """One result for each subject that reproduces; without any, one that says what was examined."""
    found = []
    for name, subject in subjects.items():
        if name:
            verdict = judge(probe, subject.measurements, policy)
            if verdict.outcome is Outcome.REPRODUCED:
                found.append(_finding(probe, context, name, subject, verdict))
    if found:
        return found
    examined = subjects.get("", _Subject())
    verdict = judge(probe, examined.measurements, policy)
    return [
        _result(
            probe,
            context.package,
            verdict.outcome,
            verdict.message,
            evidence=Evidence.MEASURED,
            measurements=tuple(examined.measurements),
            duration_s=duration_s,
        )
    ]


def _finding(probe: ProbeInfo, context: SourceContext, name: str, subject: _Subject, verdict: Judgement) -> ProbeResult:
    location = subject.location
    return _result(
        probe,
        name,
        verdict.outcome,
        verdict.message,
        severity=verdict.severity or probe.severity,
        evidence=Evidence.MEASURED,
        law=verdict.law,
        location=location,
        excerpt=_excerpt(context.index, location) if location is not None else None,
        measurements=tuple(subject.measurements),
        notes=tuple(subject.notes),
    )


def _excerpt(index: SourceIndex, location: Location) -> CodeExcerpt | None:
    module = index.by_file.get(location.file)
    if module is None:
        return cut_excerpt(index.root, location, None)
    return index.read_tree(module, lambda tree: cut_excerpt(index.root, location, tree.tree))


def _unread(probe: ProbeInfo, problem: SourceProblem) -> ProbeResult:
    """The result for a file that no probe could read."""
    return _result(
        probe,
        problem.path,
        Outcome.ERROR,
        f"{problem.path}:{problem.line}: {problem.message}",
        reason=Reason.NOT_PARSED,
        location=Location(problem.path, problem.line),
    )


def _result(probe: ProbeInfo, target: str, outcome: Outcome, message: str, **more: Any) -> ProbeResult:
    return ProbeResult(
        probe=probe.id,
        probe_version=probe.version,
        target=target,
        outcome=outcome,
        message=message,
        fingerprint=fingerprint(probe.id, target),
        device=SOURCE_DEVICE,
        **more,
    )
