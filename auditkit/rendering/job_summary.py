"""A run as Markdown for the summary of a CI job and for a comment: inert, and never longer than a host shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from auditkit.model.enums import Outcome
from auditkit.model.runs.baseline import Tracked
from auditkit.model.runs.candidates import not_checked
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import counted, shortened
from auditkit.rendering.markdown import code
from auditkit.rules.reports.findings import findings_of, places_of

MOST_BYTES = 900_000
"""GitHub drops a summary of more than 1 MiB without a word."""
_LONGEST = 300
_HEAD = ("| | Where | What reproduced | Evidence | Ticket | Fingerprint |", "|---|---|---|---|---|---|")


def job_summary(run: Run, prefix: str = "", most_bytes: int = MOST_BYTES) -> bytes:
    """What is new, or what was found, first; then what got no answer, what is known, and what is gone.

    Whatever a target said stands in code spans, where no host makes a link, a picture or a mention of it. Of what does
    not fit, the last line says how much it is.
    """
    lines = list(_lines(run, prefix))
    space = most_bytes - 200
    for number, line in enumerate(lines):
        space -= len(line.encode("utf-8")) + 1
        if space < 0:
            rows = sum(line.startswith(("| ", "- ")) and line not in _HEAD for line in lines[number:])
            left = (
                f"**Left out: {counted(rows, 'line')} more.** `auditkit export RUN.json --csv FILE` has every answer."
            )
            lines[number:] = ["", left]
            break
    return ("\n".join(lines) + "\n").encode("utf-8")


def _lines(run: Run, prefix: str) -> Iterator[str]:
    found, baseline, environment = findings_of(run), run.baseline, run.environment
    count = len(baseline.new) if baseline else len(found)
    yield f"## auditkit: {counted(count, 'new finding' if baseline else 'finding') if count else _nothing(run)}"
    yield ""
    missed = not_checked(run.candidates)
    yield from [f"**{missed}.**", ""] if missed else []
    if baseline is not None:
        against = f" at {code(baseline.against[:12])}" if baseline.against else ""
        yield f"{baseline.in_words()}, by the tickets in {code(baseline.tickets)}{against}."
    outcomes = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in run.summary.items() if number)
    torch = (
        code(f"torch {environment.torch}, {environment.device_name}") if environment.torch else "the source was read"
    )
    yield f"{outcomes or 'No question was asked'}; {torch}; {environment.sandbox_in_words}."
    left_out = Counter(each.excluded for each in run.candidates if each.excluded)
    if left_out:
        reasons = ", ".join(f"{number} {_code(reason)}" for reason, number in left_out.items())
        yield f"Collectors that were left out: {reasons}."
    if baseline is None:
        yield from _table("Findings", found, run, prefix, {})
    else:
        new, known = ({one.fingerprint: one for one in those} for those in (baseline.new, baseline.known))
        yield from _table("New", [each for each in found if each.fingerprint in new], run, prefix, new)
    yield from _silent(run.results)
    if baseline is not None:
        yield from _table("Known", [each for each in found if each.fingerprint in known], run, prefix, known)
        yield from _listed("Gone", baseline.gone)
        yield from _listed("Not asked", baseline.unasked)
    yield from ["", f"Run {code(run.id)}."]


def _nothing(run: Run) -> str:
    silent = run.summary["error"] + run.summary["unavailable"]
    questions = counted(silent, "question")
    return f"nothing {'new' if run.baseline else 'found'}" + (f", {questions} without an answer" if silent else "")


def _table(title: str, found: list[ProbeResult], run: Run, prefix: str, tracked: dict[str, Tracked]) -> Iterator[str]:
    places = places_of(run, prefix) if found else {}
    yield from ["", f"### {title} ({len(found)})", "", *_HEAD] if found else []
    for each in found:
        place, one = places[each.fingerprint], tracked.get(each.fingerprint)
        ticket = one.why if one and title == "New" else one.ticket if one else each.ticket
        cells = (
            each.severity or "", _code(f"{place.file}:{place.line}"), _code(each.message),
            each.evidence or "", _code(ticket or ""), _code(each.fingerprint),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _silent(results: Iterable[ProbeResult]) -> Iterator[str]:
    """Errors and missing devices: each reason once, with what it stopped."""
    stopped: dict[tuple[Outcome, str], list[ProbeResult]] = {}
    for result in results:
        if result.outcome in (Outcome.ERROR, Outcome.UNAVAILABLE):
            stopped.setdefault((result.outcome, result.message), []).append(result)
    if stopped:
        yield from ["", "### Without an answer, which is no pass", ""]
    for (outcome, message), without in sorted(stopped.items(), key=lambda item: item[0][0]):
        named = _code(without[0].fingerprint) if len(without) == 1 else counted(len(without), "question")
        yield f"- {outcome}, {named}: {_code(message)}"


def _listed(title: str, those: tuple[Tracked, ...]) -> Iterator[str]:
    yield from ["", f"### {title} ({len(those)})", ""] if those else []
    yield from (f"- {_code(one.ticket)} {_code(one.fingerprint)}: {_code(one.why)}" for one in those)


def _code(text: str) -> str:
    return code(shortened(text, _LONGEST))
