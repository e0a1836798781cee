"""The findings of a run by cause: one entry for each statement that causes some, the worst first."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditkit.model.runs.cause import Statement
    from auditkit.model.runs.run import ProbeResult

_WORDS = {"created": "new", "reopened": "open again", "joined": "known, this is new in it", "refreshed": "known"}
"""What was done to a ticket, said of the ticket; the first that fits where a run did several of them."""
_MOST_TARGETS, _MOST_MODULES = 3, 3


@dataclass(frozen=True)
class Cause:
    """Findings at one statement, or of one probe about whole modules; the worst is the first."""

    findings: tuple[ProbeResult, ...]

    @property
    def worst(self) -> ProbeResult:
        return self.findings[0]

    @property
    def place(self) -> str:
        """`src/stats.py:18`; of whole modules the first of their places."""
        from auditkit.model.text import counted

        others = len({result.location for result in self.findings}) - 1 if _is_of_module(self.worst) else 0
        return place_of(self.worst) + (f" and {counted(others, 'more place')}" if others else "")

    @property
    def tickets(self) -> str:
        """`B1-PT-01 (new)`, "" where none is filed."""
        done = tickets_of(self.findings)
        return ", ".join(f"{ticket} ({action})" for ticket, action in done.items())

    def lines(self, in_full: bool, titles: Mapping[str, str]) -> Iterator[str]:
        """Severity, place, what is wrong, the number of the worst probe, and who meets it; `in_full` of every probe."""
        yield f"{self.worst.severity}  {self.place}{self._functions(in_full)}" + "".join(
            f"  {each}" for each in [self.tickets] if each
        )
        what = titles.get(self.worst.probe, self.worst.probe)
        yield f"    {what}: {self.worst.why}" if self.worst.why else f"    {what}"
        probes = list(dict.fromkeys(result.probe for result in self.findings))
        for probe in probes if in_full else probes[:1]:
            yield from self._probe_lines([each for each in self.findings if each.probe == probe], in_full)
        if probes[1:] and not in_full:
            yield f"    also {', '.join(probes[1:])} (-v)"
        met_by = self.worst.met_by
        if met_by is not None and (met_by.callers or met_by.entry_points) and not _is_of_module(self.worst):
            yield f"    Met by: {met_by.sentence()}"

    def _probe_lines(self, found: list[ProbeResult], in_full: bool) -> Iterator[str]:
        first = found[0]
        severity = f"{first.severity} " if first.severity != self.worst.severity else ""
        evidence = "" if first.evidence in (None, "measured", "read") else f" ({first.evidence})"
        messages = list(dict.fromkeys(words_of(result) for result in found))
        most = len(messages) if in_full else _MOST_MODULES if _is_of_module(first) else 1
        for message in messages[:most]:
            yield f"    {severity}{first.probe}{evidence}: {message}"
        if messages[most:]:
            yield f"      and {len(messages) - most} more like it (-v)"

    def _functions(self, in_full: bool) -> str:
        """The function of the statement, and the targets that met it there."""
        from auditkit.model.runs.target import short_target

        location = self.worst.location
        inside = location.function if location and not _is_of_module(self.worst) else ""
        targets = dict.fromkeys(short_target(each.target) for each in self.findings if not each.is_of_source)
        others = [target for target in targets if target != inside]
        shown = others if in_full else others[:_MOST_TARGETS]
        more = f" and {len(others) - len(shown)} more" if others[len(shown) :] else ""
        through = f"through {', '.join(shown)}{more}" if shown else ""
        return "".join(f" {part}" for part in (f"in {inside}" if inside else "", through) if part)


def causes_of(results: Iterable[ProbeResult]) -> list[Cause]:
    """The findings among `results`, by what causes them: what breaks most for most comes first."""
    groups: dict[Hashable, list[ProbeResult]] = {}
    found = sorted((each for each in results if each.severity), key=_rank)
    blamed = dict.fromkeys(each.statement for each in found if each.statement and not each.is_of_source)
    for result in found:
        groups.setdefault(_key(result, blamed), []).append(result)
    causes = [Cause(tuple(group)) for group in groups.values()]
    return sorted(causes, key=lambda cause: (_rank(cause.worst)[:3], -len({each.target for each in cause.findings})))


def tickets_of(findings: Iterable[ProbeResult]) -> dict[str, str]:
    """The tickets of some findings, each with what became of it in this run."""
    actions: dict[str, set[str]] = {}
    for result in findings:
        if result.ticket:
            actions.setdefault(result.ticket, set()).add(result.ticket_action)
    return {
        ticket: next((word for action, word in _WORDS.items() if action in done), "unchanged")
        for ticket, done in actions.items()
    }


def _rank(result: ProbeResult) -> tuple[str, int, int, str, str]:
    from auditkit.model.runs.severity import Breaks, Occurs

    breaks = list(Breaks).index(result.breaks) if result.breaks else len(Breaks)
    occurs = list(Occurs).index(result.occurs) if result.occurs else len(Occurs)
    place = f"{result.location.file}:{result.location.line:06}" if result.location else ""
    return str(result.severity), breaks, occurs, place, result.probe


def _key(result: ProbeResult, blamed: Iterable[Statement]) -> Hashable:
    """What findings of one cause share, as their tickets do (docs/design/grouping.md)."""
    if result.ticket and result.ticket_action in ("created", "joined"):
        return result.ticket
    if _is_of_module(result):
        return result.probe
    if result.statement is None and result.location is None:
        return result.fingerprint
    read_in = (each for each in blamed if result.is_of_source and result.is_read_in(each))
    return next(read_in, result.copy_of or result.statement) or (result.probe, result.location)


def _is_of_module(result: ProbeResult) -> bool:
    return result.is_of_source and ":" not in result.target


def place_of(result: ProbeResult) -> str:
    """`src/stats.py:18`; the target where no line is known."""
    return f"{result.location.file}:{result.location.line}" if result.location else result.target


def words_of(result: ProbeResult) -> str:
    """What the probe says; of source with what it speaks of, where the place does not say that."""
    from auditkit.model.runs.target import short_target
    from auditkit.model.text import inert_line

    inside = result.location.function if result.location else ""
    about = f"{result.target}: " if result.is_of_source and short_target(result.target) != inside else ""
    return inert_line(about + result.message)
