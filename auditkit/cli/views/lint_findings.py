"""What `ticket lint` found, for people: a line each, groups by rule, or counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from auditkit.cli.output import complain, is_terminal, say_styled
from auditkit.cli.views.terminal import BOLD, DIM, WARNING, cut, page, screen_width, styled

if TYPE_CHECKING:
    from pathlib import Path

    from auditkit.workflows.lint.lint import LintFinding, LintReport

BY = ("file", "rule", "count")
_STYLES = {"error": "\x1b[91m", "warn": WARNING, "info": "\x1b[36m"}
_MOST_OF_A_RULE = 10
"""So many findings of a rule are shown on a terminal, where there are other rules too."""
_MANY = 40
_MOST_FREQUENT = 3


def print_findings(findings: Sequence[LintFinding], by: str) -> None:
    """Print the findings; without a word for `by` as a terminal or a pipe usually gets them."""
    on_screen = is_terminal()
    by = by or ("rule" if on_screen else "file")
    if by == "file":
        lines = list(map(_line, findings))
    elif by == "rule":
        lines = list(_groups(_by_rule(findings), on_screen))
    else:
        lines = list(_counts(_by_rule(findings)))
    if lines and on_screen:
        page("\n".join(lines))
    elif lines:
        say_styled("\n".join(lines))


def tell(report: LintReport, baseline: Path | None, is_written: bool) -> None:
    """What was changed and left out, and one line that sums up, on stderr."""
    from auditkit.model.text import inert_line

    for change in report.changes:
        complain(f"fixed {inert_line(str(change.file))}: {change.rule} {inert_line(change.message)}")
    if is_written:
        complain(f"{report.known} findings are known now: {baseline}")
    elif report.gone:
        complain(f"{report.gone} findings of {baseline} are gone: --write-baseline takes them out")
    counts = report.summary
    parts = [f"{counts[level]} {level}" for level in _STYLES]
    unread = f"; {report.broken} cannot be read" if report.broken else ""
    known = f"; {report.known} known already" if report.known and not is_written else ""
    tickets = "1 ticket" if report.count == 1 else f"{report.count} tickets"
    complain(f"{tickets} checked: {', '.join(parts)}{unread}{known}")
    if len(report.findings) > _MANY and baseline is None:
        groups = sorted(_by_rule(report.findings), key=len, reverse=True)[:_MOST_FREQUENT]
        often = ", ".join(f"{group[0].rule} {len(group)} times" for group in groups)
        complain(f"most often: {often}\n--ignore leaves rules out, --baseline FILE --write-baseline what is there now")


def _by_rule(findings: Iterable[LintFinding]) -> list[list[LintFinding]]:
    """The findings of each rule; errors first, then what is found most often."""
    groups: dict[tuple[str, str], list[LintFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.level.value), []).append(finding)
    levels = list(_STYLES)
    return sorted(groups.values(), key=lambda group: (levels.index(group[0].level.value), -len(group), group[0].rule))


def _line(finding: LintFinding) -> str:
    from auditkit.model.text import inert_line

    return f"{_place(finding)}: {finding.rule} {_level(finding)}: {inert_line(finding.message)}"


def _place(finding: LintFinding) -> str:
    from auditkit.model.text import inert_line

    return f"{inert_line(finding.path)}:{finding.line}:{finding.column}"


def _level(finding: LintFinding) -> str:
    return styled(finding.level.value, _STYLES[finding.level.value])


def _groups(groups: Sequence[list[LintFinding]], on_screen: bool) -> Iterator[str]:
    """Each rule with its places; a message that all of them share stands beside the rule."""
    from auditkit.model.text import inert_line

    for number, group in enumerate(groups):
        if number:
            yield ""
        messages = {inert_line(finding.message) for finding in group}
        is_one = len(messages) == 1
        told = messages.pop() if is_one else _title(group)
        if on_screen:
            taken = len(f"{group[0].rule} {group[0].level.value}:  ({len(group)})")
            told = cut(told, max(screen_width() - taken, 1))
        yield f"{styled(group[0].rule, BOLD)} {_level(group[0])}: {told} ({len(group)})"
        most = _MOST_OF_A_RULE if on_screen and len(groups) > 1 else len(group)
        for finding in group[:most]:
            line = _place(finding) if is_one else f"{_place(finding)}: {inert_line(finding.message)}"
            yield "  " + (cut(line, screen_width() - 2) if on_screen else line)
        if len(group) > most:
            yield styled(f"  {len(group) - most} more: --select {group[0].rule}", DIM)


def _counts(groups: Sequence[list[LintFinding]]) -> Iterator[str]:
    rows = [(group[0].rule, _level(group[0]), str(len(group)), _files(group), _title(group)) for group in groups]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for rule, level, count, files, title in rows:
        yield f"{rule:<{widths[0]}}  {level:<{widths[1]}}  {count:>{widths[2]}}  {files:>{widths[3]}}  {title}"


def _files(group: Sequence[LintFinding]) -> str:
    count = len(Counter(finding.path for finding in group))
    return "in 1 file" if count == 1 else f"in {count} files"


def _title(group: Sequence[LintFinding]) -> str:
    from auditkit.workflows.lint.lint import title_of

    return title_of(group[0].rule)
