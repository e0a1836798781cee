"""The table of a fix: the result of each of its probes without it and with it."""

from __future__ import annotations

from collections.abc import Sequence

from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import ChangeKind, Judgement
from auditkit.model.runs.fix import FixRow
from auditkit.model.runs.run import ProbeResult
from auditkit.trials.answers import Answers


def rows_of(tried: Sequence[tuple[Answers, Answers, Judgement]]) -> tuple[FixRow, ...]:
    """Return a row for each probe whose result a fix improves, the ticket's own first, once for all targets."""
    rows: dict[str, FixRow] = {}
    for is_finding in (True, False):
        for base, arm, verdict in tried:
            before, after = ({one.probe: one for one in side.results} for side in (base, arm))
            for change in verdict.changes:
                if change.is_finding is is_finding and change.kind in (ChangeKind.GONE, ChangeKind.BETTER):
                    row = FixRow(change.probe, in_short(before[change.probe]), in_short(after[change.probe]))
                    rows.setdefault(change.probe, row)
    return tuple(rows.values())


def row_of_read(finding: ProbeResult) -> FixRow:
    """The row of what reading had found and does not find any more."""
    return FixRow(finding.probe, in_short(finding), "is no longer read there")


def in_short(result: ProbeResult) -> str:
    """`P2, 3.25 bytes per gradient byte`; `does not reproduce (0.2 bytes per gradient byte)`."""
    if result.outcome is Outcome.REPRODUCED:
        severity = result.severity.value if result.severity else "reproduces"
        return f"{severity}, {result.law or result.message}"
    law = f" ({result.law})" if result.law else ""
    quiet = {Outcome.NOT_REPRODUCED: "does not reproduce", Outcome.NOT_APPLICABLE: "does not apply"}
    return quiet[result.outcome] + law if result.outcome in quiet else f"no result: {result.message}"
