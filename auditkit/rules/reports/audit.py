"""From a run, its tickets and the pages of its modules to an audit report. Everything in it follows from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.module_page import ModulePage
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run, count_outcomes
from auditkit.model.text import counted
from auditkit.model.ticket import Ticket
from auditkit.rules.grouping import group_by_cause
from auditkit.rules.reports.audit_items import Cause, cause_items, finding_title, other_items, source_items
from auditkit.rules.reports.audit_parts import AuditReport, Issue, Item, Plan, SectionPage, TicketState
from auditkit.rules.reports.sections import Section
from auditkit.rules.reports.words import Horizon, Label, horizon_of, in_words

_RUN_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})T")
_ORDER = tuple(Label)


@dataclass(frozen=True)
class Sources:
    """What a report is written from.

    `probes` are known definitions by id, `tickets` those of the folder, `modules` the pages of the audited
    modules; `notes` say what could not be read. `today` (ISO) stands in where the run's id has no date.
    """

    run: Run
    probes: Mapping[str, ProbeInfo]
    tickets: Sequence[Ticket] = ()
    modules: Sequence[ModulePage] = ()
    notes: tuple[str, ...] = ()
    today: str = ""


def audited_modules(run: Run) -> tuple[str, ...]:
    """The modules that a run's targets live in; without a target, those that its findings name."""
    calls = [reading.target.call for reading in run.targets]
    calls += [reading.target.finish for reading in run.targets if reading.target.finish]
    calls = calls or [result.target for result in run.results if result.outcome is Outcome.REPRODUCED]
    return tuple(dict.fromkeys(call.partition(":")[0] for call in calls))


def audit_report(sources: Sources) -> AuditReport:
    """The whole report, its items numbered and its issues in the order of severity."""
    probes = _known_probes(sources.run, sources.probes)
    run = _without_other_contracts(sources.run, probes)
    causes = causes_of(sources)
    sections, numbers = _sections(run.results, sources.modules, probes, causes)
    issues = tuple(
        sorted((_issue(cause, numbers[cause], run.fixes) for cause in causes), key=lambda issue: issue.severity)
    )
    counts = Counter(issue.severity for issue in issues)
    places = [issue.location.file for issue in issues if issue.location]
    date = _RUN_DATE.match(run.id)
    return AuditReport(
        title=_title(sources),
        date="-".join(date.groups()) if date else sources.today,
        run_id=run.id,
        environment=run.environment,
        versions=_versions(run),
        files=tuple(page.file for page in sources.modules) or tuple(dict.fromkeys(places)),
        probes=len({result.probe for result in run.results}),
        targets=tuple(dict.fromkeys(reading.target.call for reading in run.targets)),
        modules=tuple(sources.modules),
        counts={level: counts[level] for level in Severity},
        outcomes=count_outcomes(run.results),
        assessment=_assessment(run, issues),
        sections=sections,
        issues=issues,
        plan=_plan(issues),
        notes=tuple(dict.fromkeys((*run.notes, *sources.notes))),
    )


def causes_of(sources: Sources) -> list[Cause]:
    """The findings of a run by their cause, the worst first, each with the ticket that tracks it."""
    found = _findings(sources.run, _known_probes(sources.run, sources.probes))
    return [Cause(group, _ticket_of(group, sources.tickets)) for group in group_by_cause(found)]


def _known_probes(run: Run, probes: Mapping[str, ProbeInfo]) -> dict[str, ProbeInfo]:
    """The definitions of the run's probes; one that is not known any more keeps its id and its severities."""
    return {result.probe: probes.get(result.probe) or _unknown(result) for result in run.results}


def _without_other_contracts(run: Run, probes: Mapping[str, ProbeInfo]) -> Run:
    """The run less the probes that are about other kinds of targets: that a loop has no singular values is no news."""
    contracts = {reading.target.call: reading.target.contract for reading in run.targets}

    def is_asked(result: ProbeResult) -> bool:
        contract, covered = contracts.get(result.target), probes[result.probe].contracts
        is_other = contract is not None and bool(covered) and contract not in covered
        return not is_other or result.outcome is not Outcome.NOT_APPLICABLE

    kept = tuple(result for result in run.results if is_asked(result))
    return replace(run, results=kept)


def _unknown(result: ProbeResult) -> ProbeInfo:
    return ProbeInfo(
        id=result.probe,
        version=result.probe_version,
        title=f"{result.probe} (this probe's definition is not known here)",
        severity=result.severity or Severity.P4,
        scope="source" if result.is_of_source else "target",
    )


def _findings(run: Run, probes: Mapping[str, ProbeInfo]) -> Iterator[Finding]:
    for result in run.results:
        if result.outcome is Outcome.REPRODUCED:
            yield Finding(probes[result.probe], result, run.environment_of(result), run.id)


def _ticket_of(group: Sequence[Finding], tickets: Sequence[Ticket]) -> TicketState | None:
    """The ticket of findings of one cause: by fingerprint an unfinished one first, else the one that the run filed."""
    wanted = {finding.result.fingerprint for finding in group}
    states = [TicketState.of(ticket) for ticket in tickets if wanted.intersection(ticket.findings)]
    if states:
        return min(states, key=lambda state: state.is_finished)
    filed = next((finding.result.ticket for finding in group if finding.result.ticket), None)
    return TicketState(filed, "") if filed else None


@dataclass
class _Numbered:
    """The items of every section as they are numbered, and the numbers that a cause has."""

    of_cause: dict[Cause, list[str]] = field(default_factory=dict)
    code_at: dict[str, str] = field(default_factory=dict)


def _sections(
    results: Sequence[ProbeResult],
    modules: Sequence[ModulePage],
    probes: Mapping[str, ProbeInfo],
    causes: Sequence[Cause],
) -> tuple[tuple[SectionPage, ...], Mapping[Cause, tuple[str, ...]]]:
    """The sections with their items, worst first, and the numbers of each cause's items."""
    items: dict[Section, list[tuple[Item, Cause | None]]] = {section: [] for section in Section}
    for cause in causes:
        for section, item in cause_items(cause).items():
            items[section].append((item, cause))
    for part in (other_items(results, probes), source_items(modules)):
        for section, found in part.items():
            items[section] += [(item, None) for item in found]
    numbered = _Numbered()
    pages = []
    for number, section in enumerate(Section, 1):
        ordered = sorted(items[section], key=lambda pair: (_ORDER.index(pair[0].label), pair[0].severity or ""))
        pages.append(SectionPage(number, section, tuple(_number(number, ordered, numbered))))
    numbers = {cause: tuple(found) for cause, found in numbered.of_cause.items()}
    return tuple(_with_references(page, numbers) for page in pages), numbers


def _number(section: int, ordered: Sequence[tuple[Item, Cause | None]], numbered: _Numbered) -> Iterator[Item]:
    for position, (item, cause) in enumerate(ordered, 1):
        number = f"{section}.{position}"
        if cause is not None:
            numbered.of_cause.setdefault(cause, []).append(number)
        advice = []
        for one in item.advice:
            advice.append(replace(one, code_at=numbered.code_at.get(one.code, "")))
            numbered.code_at.setdefault(one.code, number)
        yield replace(item, number=number, advice=tuple(advice))


def _with_references(page: SectionPage, numbers: Mapping[Cause, tuple[str, ...]]) -> SectionPage:
    """The page whose items name the other items of their cause."""
    together = {number: found for found in numbers.values() for number in found}
    items = (
        replace(item, see=tuple(other for other in together.get(item.number, ()) if other != item.number))
        for item in page.items
    )
    return replace(page, items=tuple(items))


def _issue(cause: Cause, numbers: tuple[str, ...], fixes: Sequence[Fix]) -> Issue:
    leader, ticket = cause.leader, cause.ticket
    ran = next((fix for fix in fixes if leader.result.fingerprint in fix.mends), None)
    others = [finding.probe.id for finding in cause.findings if finding.probe.id != leader.probe.id]
    return Issue(
        severity=(ticket.severity if ticket else None) or leader.severity,
        title=finding_title(cause.findings),
        also=tuple(dict.fromkeys(others)),
        location=leader.result.location,
        ticket=ticket,
        numbers=numbers,
        first_step=f"{'; '.join(ran.changes)} (run: it mends this)" if ran else leader.probe.remediation,
        advice=leader.probe.remediation,
    )


def _plan(issues: Sequence[Issue]) -> Plan:
    """Open issues by when they are due; a deferred ticket is due later, a finished one is a question."""
    due: dict[Horizon, list[Issue]] = {horizon: [] for horizon in Horizon}
    contradicted = []
    for issue in issues:
        if issue.ticket is not None and issue.ticket.is_finished:
            contradicted.append(issue)
        elif issue.ticket is not None and issue.ticket.is_deferred:
            due[Horizon.LONG_TERM].append(issue)
        else:
            due[horizon_of(issue.severity)].append(issue)
    return Plan({horizon: tuple(found) for horizon, found in due.items()}, tuple(contradicted))


def _assessment(run: Run, issues: Sequence[Issue]) -> tuple[str, ...]:
    """Sentences that follow from the counts: how much was found, how much was asked, and by which evidence."""
    outcomes = Counter(result.outcome for result in run.results)
    return tuple(filter(None, (_worst(issues, outcomes), _asked(run, outcomes), _evidence(run), _missing(outcomes))))


def _worst(issues: Sequence[Issue], outcomes: Mapping[Outcome, int]) -> str:
    if not issues:
        has_answer = outcomes[Outcome.NOT_REPRODUCED] > 0
        return "No issue: nothing reproduced." if has_answer else "No verdict: no probe gave an answer."
    counts = Counter(issue.severity for issue in issues)
    parts = [f"{counts[level]} {in_words(level)}" for level in Severity if counts[level]]
    return (
        f"{counted(len(issues), 'issue')} behind {counted(outcomes[Outcome.REPRODUCED], 'finding')}: "
        f"{', '.join(parts)}. The worst is {in_words(issues[0].severity)}."
    )


def _asked(run: Run, outcomes: Mapping[Outcome, int]) -> str:
    targets = len({result.target for result in run.results if not result.is_of_source})
    about = [counted(targets, "target")] if targets else []
    about += ["the source"] if any(result.is_of_source for result in run.results) else []
    words = {
        Outcome.REPRODUCED: "reproduced",
        Outcome.NOT_REPRODUCED: "not reproduced",
        Outcome.NOT_APPLICABLE: "not applicable",
        Outcome.UNAVAILABLE: "without the hardware they need",
        Outcome.ERROR: "ended in an error",
    }
    parts = [f"{outcomes[outcome]} {text}" for outcome, text in words.items() if outcomes[outcome]]
    return f"{counted(len(run.results), 'answer')} about {' and '.join(about) or 'nothing'}: {', '.join(parts)}."


def _evidence(run: Run) -> str:
    """By which evidence the answers stand: a number without its device is no number."""
    kinds: Counter[str] = Counter()
    for result in run.results:
        if result.evidence is not None and result.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED):
            kinds[_kind(result)] += 1
    if not kinds:
        return ""
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    on_gpu = any(result.device == "cuda" and result.evidence is Evidence.MEASURED for result in run.results)
    return f"Evidence of the answers: {parts}.{'' if on_gpu else ' Nothing was measured on a GPU.'}"


def _kind(result: ProbeResult) -> str:
    if result.is_of_source:
        return "read from the source"
    if result.evidence is Evidence.SIMULATED or result.device == "simulated":
        return "simulated (CPU values behind a pretended CUDA device)"
    return f"{result.evidence.value if result.evidence else 'not measured'} on {result.device or 'an unknown device'}"


def _missing(outcomes: Mapping[Outcome, int]) -> str:
    missing = outcomes[Outcome.UNAVAILABLE] + outcomes[Outcome.ERROR]
    return f"Incomplete: {counted(missing, 'question')} got no answer, which is not a pass." if missing else ""


def _title(sources: Sources) -> str:
    names = [page.name for page in sources.modules]
    if len(names) == 1:
        return f"{names[0]}: Module Audit Report"
    return f"{len(names)} Modules: Audit Report" if names else "Audit Report"


def _versions(run: Run) -> tuple[str, ...]:
    """Where the numbers come from, one line for each arm: torch, device, Python."""
    environments = [arm.run.environment for arm in run.matrix] or [run.environment]
    return tuple(
        f"torch {each.torch or 'not asked'} on {each.device or 'no device'}"
        + (f" ({each.device_name})" if each.device_name else "")
        + (f", Python {each.python}" if each.python else "")
        for each in environments
    )


def uncalled_targets(targets: Iterable[str], page: ModulePage) -> list[str]:
    """The audited functions of a module that no flow of the checkout's own code calls."""
    called = {step.text.partition("()")[0] for flow in page.flows for step in flow.steps if step.kind == "call"}
    own = (target.partition(":") for target in targets)
    return [name for module, _, name in own if module == page.name and name not in called]


def count_labels(sections: Iterable[SectionPage]) -> dict[Label, int]:
    """How many items have each label."""
    counts = Counter(item.label for page in sections for item in page.items)
    return {label: counts[label] for label in Label}
