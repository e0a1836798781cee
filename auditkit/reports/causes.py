"""The findings of a run by their cause, each with the ticket that tracks it, and the words that count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Outcome, Severity
from auditkit.model.grouping import group_by_cause
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult, Run
from auditkit.model.runs.severity import Breaks, Occurs
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, listed
from auditkit.model.ticket import Ticket
from auditkit.reports.findings import probe_of


@dataclass(frozen=True)
class Sources:
    """What a report is written from.

    `probes` are known definitions by id, `tickets` those of the folder; `notes` say what could not be read. `file` is
    the only file that the report covers, if any; `prefix` leads from the top of the repository to the checkout.
    """

    run: Run
    probes: Mapping[str, ProbeInfo]
    tickets: Sequence[Ticket] = ()
    notes: tuple[str, ...] = ()
    file: str = ""
    prefix: str = ""


@dataclass(frozen=True, eq=False)
class Cause:
    """The findings of one cause, the worst first, and the ticket that tracks them; `status` is "" if it is not read."""

    findings: tuple[Finding, ...]
    ticket: str = ""
    status: str = ""

    @property
    def worst(self) -> Finding:
        return self.findings[0]

    @property
    def results(self) -> list[ProbeResult]:
        return [finding.result for finding in self.findings]

    @property
    def telling(self) -> list[ProbeResult]:
        """The results that count: those above P4, or all if none is."""
        return [one for one in self.results if self.is_minor or one.severity is not Severity.P4]

    @property
    def is_own(self) -> bool:
        """Whether it is a defect of the checkout's own code, and no style."""
        return not (self.worst.result.owner or self.worst.result.style)

    @property
    def is_minor(self) -> bool:
        return self.worst.severity is Severity.P4

    @property
    def title(self) -> str:
        """`The norm overflows on finite gradients: collect and 2 more`."""
        leader = self.worst
        targets = list(dict.fromkeys(short_target(finding.result.target) for finding in self.findings))
        probes = {finding.probe.id for finding in self.findings if finding.probe.scope == leader.probe.scope}
        return f"{leader.probe.title}: {listed(targets, 2) if len(probes) == 1 else targets[0]}"


def causes_of(sources: Sources) -> list[Cause]:
    """The findings of a run by their cause: what breaks most for most comes first."""
    run = sources.run
    found = [
        Finding(probe_of(one, sources.probes), one, run.environment_of(one), run.id)
        for one in run.results
        if one.outcome is Outcome.REPRODUCED and one.severity is not None  # one with a ticket in the baseline has none
    ]
    groups = group_by_cause(sorted(found, key=_rank))
    causes = [Cause(group, *_ticket_of(group, sources.tickets)) for group in groups]
    return sorted(causes, key=lambda one: (_rank(one.worst)[:3], -len({each.target for each in one.telling})))


def _rank(finding: Finding) -> tuple[str, int, int, str, str]:
    one = finding.result
    breaks = list(Breaks).index(one.breaks) if one.breaks else len(Breaks)
    occurs = list(Occurs).index(one.occurs) if one.occurs else len(Occurs)
    place = f"{one.location.file}:{one.location.line:06}" if one.location else ""
    return finding.severity.value, breaks, occurs, place, one.probe


def _ticket_of(group: Sequence[Finding], tickets: Sequence[Ticket]) -> tuple[str, str]:
    """By fingerprint an unfinished ticket first, else the one that the run filed."""
    wanted = {finding.result.fingerprint for finding in group}
    tracking = [ticket for ticket in tickets if wanted.intersection(ticket.findings)]
    if tracking:
        ticket = min(tracking, key=lambda one: one.status.is_finished)
        return ticket.id, ticket.status.value
    return next((finding.result.ticket for finding in group if finding.result.ticket), ""), ""


def counts(run: Run, causes: Iterable[Cause], verbose: bool = False) -> str:
    """`Checked 2 functions and the source with 6 probes: 9 findings (1 P0, 8 P2), 24 minor, 208 passed`."""
    functions = len({result.target for result in run.results if not result.is_of_source})
    checked = [counted(functions, "function")] if functions else []
    checked += ["the source"] if any(result.is_of_source for result in run.results) else []
    arms = f" in {len(run.matrix)} environments" if len(run.matrix) > 1 else ""
    # A probe of another kind of collector does not apply to this one.
    outcomes = {name: count for name, count in run.summary.items() if count and (verbose or name != "not_applicable")}
    ignored = f", {len(run.ignored)} ignored in the source" if run.ignored else ""
    if not (checked and outcomes):
        return f"Checked {' and '.join(checked) or 'no function'}{arms}: no probe applies{ignored}"
    probes = counted(len({result.probe for result in run.results}), "probe")
    words = [_found(run, causes), *(_in_words(name, count, run) for name, count in outcomes.items())]
    return f"Checked {' and '.join(checked)}{arms} with {probes}: {', '.join(filter(None, words))}{ignored}"


def _found(run: Run, causes: Iterable[Cause]) -> str:
    """`9 findings (1 P0, 8 P2), 24 minor, 5 in libraries`: one for each cause, of however many probes and targets."""
    if not run.summary["reproduced"]:
        return ""
    kinds = Counter(
        "of style" if one.worst.result.style else "in libraries" if one.worst.result.owner
        else "minor" if one.is_minor else one.worst.severity.value
        for one in causes
    )  # fmt: skip
    others = [f"{kinds.pop(kind)} {kind}" for kind in ("minor", "in libraries", "of style") if kind in kinds]
    worst = ", ".join(f"{count} {level}" for level, count in sorted(kinds.items()))
    found = [f"{counted(kinds.total(), 'finding')} ({worst})"] if kinds else []
    return ", ".join([*found, *others]) or (f"{run.summary['reproduced']} known" if run.baseline else "0 findings")


def _in_words(outcome: str, count: int, run: Run) -> str:
    """`208 passed`, `11 need a GPU`."""
    if outcome == "unavailable":
        reasons = {result.reason for result in run.results if result.outcome == "unavailable"}
        need = "needs" if count == 1 else "need"
        return f"{count} {need} a GPU" if reasons == {"no_device"} else f"{count} unavailable"
    words = {"error": counted(count, "error"), "not_reproduced": f"{count} passed", "reproduced": ""}
    return words.get(outcome, f"{count} not applicable")


def without_result(results: Iterable[ProbeResult]) -> dict[tuple[str, str], list[ProbeResult]]:
    """Errors and missing devices by what stopped them (`error (timeout)`) and the message, the most frequent first."""
    stopped: dict[tuple[str, str], list[ProbeResult]] = {}
    for one in results:
        if one.outcome in (Outcome.ERROR, Outcome.UNAVAILABLE):
            reason = f" ({one.reason.value})" if one.reason else ""
            stopped.setdefault((f"{one.outcome.value}{reason}", one.message), []).append(one)
    return dict(sorted(stopped.items(), key=lambda each: -len(each[1])))


def in_short(advice: str) -> str:
    """The first sentence, without the full stop."""
    return advice.partition(". ")[0].removesuffix(".")
