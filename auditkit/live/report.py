"""The report of a watched run as text: continue or stop, since which step, how much was seen; then the findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from auditkit.live.recording import Recording
from auditkit.live.watch import Watched, catalog
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.run import ProbeResult
from auditkit.model.text import inert_line, shortened
from auditkit.reports.causes import Sources
from auditkit.reports.export import json_text
from auditkit.reports.html.page import html_page
from auditkit.reports.run_page import run_page
from auditkit.reports.sarif import run_sarif

MOST_LINES = 40
_MOST_MESSAGE = 400


def report(watched: Watched, most_lines: int = MOST_LINES) -> list[str]:
    """At most 40 lines."""
    recording, ended = watched.recording, watched.ended
    end = f"The program ended with exit code {ended.code}." if ended.code else ""
    end = f"auditkit ended the program: the limit of {ended.limit} was reached." if ended.limit else end
    if not recording.trained:
        return [f"NOT WATCHED: {_why_nothing(recording)}", *([end] if end else [])]
    head = [headline(watched), _about(watched), _held(watched)]
    tail = [*_tail(watched), *([end] if end else [])]
    lines: list[str] = []
    for number, result in enumerate(watched.findings):
        if len(head) + len(lines) + len(tail) + 3 > most_lines:
            more = len(watched.findings) - number
            lines.append(f"and {more} more findings: --save FILE or --html FILE shows all")
            break
        lines += _finding_lines(result)
    return [*map(inert_line, head), *lines, *map(inert_line, tail)]


def document(watched: Watched, form: str) -> bytes:
    """Return the run in one of the forms `save`, `sarif` and `html`, as of an audit."""
    if form == "html":
        notes = (headline(watched), _about(watched), _held(watched))
        return html_page(run_page(Sources(watched.run, catalog(), notes=notes)))
    return json_text(watched.run.to_json() if form == "save" else run_sarif(watched.run, catalog()))


def _why_nothing(recording: Recording) -> str:
    """Why there is nothing to judge, and what to do."""
    if recording.reasons:
        return recording.reasons[0]
    if not recording.loaded:
        return (
            "no process of the command loaded the watcher: it never imported torch, or its interpreter ignores "
            "PYTHONPATH (-I, -E, a container, a launcher that resets the environment). Install auditkit into that "
            "environment, or pass PYTHONPATH and AUDITKIT_WATCH on."
        )
    failed = [each.errors["step"]["reason"] for each in recording.loaded if "step" in each.data.get("errors", {})]
    if failed:
        return f"auditkit failed in the program's optimizer steps: {failed[0]}"
    compiled = {each[0] for process in recording.loaded for each in process.data.get("compiles", ())}
    for what in ("training step", "optimizer"):
        if what in compiled:
            return f"the program compiles its {what}, and auditkit puts no wrapper into compiled code."
    backwards = sum(process.data.get("backwards", 0) for process in recording.loaded)
    return f"{backwards} backwards and no step of a torch.optim.Optimizer that auditkit can see."


def headline(watched: Watched) -> str:
    """Whether to continue or to stop, and since when."""
    findings = watched.findings
    by_severity = {
        severity: count for severity in Severity if (count := sum(result.severity is severity for result in findings))
    }
    counts = ", ".join(f"{count} {severity.value}" for severity, count in by_severity.items())
    errors = watched.run.summary["error"]
    unsure = f" Laws that ended in an error: {errors}." if errors else ""
    worst = findings[0].severity if findings else None
    if worst in (Severity.P0, Severity.P1):
        broken = [result for result in findings if result.severity in (Severity.P0, Severity.P1)]
        since = min(first_step(result) for result in broken)
        return f"BROKEN since step {since}: {counts}. Weights after step {since} are suspect.{unsure}"
    if watched.ended.code and not watched.ended.limit:
        return f"STOPPED: the program failed; no P0 or P1 before that. {counts}{'.' if counts else ''}{unsure}".rstrip()
    if findings:
        return f"CONTINUE: no P0 or P1 in the watched steps; {counts}.{unsure}"
    return f"CONTINUE: no finding in the watched steps.{unsure}"


def first_step(result: ProbeResult) -> int:
    return next((int(each.value) for each in result.measurements if each.name == "first_step"), 0)


def _about(watched: Watched) -> str:
    recording, environment = watched.recording, watched.run.environment
    changed = " (changed)" if environment.dirty else ""
    commit = f"commit {environment.revision[:7]}{changed}" if environment.revision else "no commit"
    ranks = len({process.rank for process in recording.trained})
    kinds = sorted(
        {each["dtype"] for process in recording.trained for each in process.parameters if each["optimizers"]}
    )
    groups = {(name, len(ranks)) for process in recording.trained for name, ranks in process.groups.items()}
    sizes = sorted({f"{name.rpartition(' [')[0] or name.split()[0]}{count}" for name, count in groups})
    what = f"{recording.world} ranks: {''.join(f'{size}, ' for size in sizes)}" if recording.world > 1 else ""
    if recording.world == 1 and len(recording.trained) > 1:
        what = f"{len(recording.trained)} processes trained; the first: "
    count = sum(each["numel"] for each in recording.main.parameters if each["optimizers"])
    what += f"{count:,} parameters in {', '.join(kinds) or 'no dtype'} on {environment.device}"
    parts = [what, commit, f"watched {recording.watched:,} of {recording.steps:,} steps"]
    if recording.world > 1 or ranks > 1:
        parts.append(f"{ranks} of {max(recording.world, ranks)} ranks reported")
    cost = max(process.cost_s / max(process.run_s, 1e-9) for process in recording.trained)
    return " · ".join([*parts, f"cost {100 * cost:.1f} %"])


def _held(watched: Watched) -> str:
    summary = watched.run.summary
    parts = [f"Passed {summary['not_reproduced']}", f"not applicable {summary['not_applicable']}"]
    if summary["error"]:
        parts.append(f"ERROR {summary['error']}")
    compiled = {place[0] for process in watched.recording.trained for place in process.compiles}
    if compiled:
        parts.append(f"NOT WATCHED: compiled {', '.join(sorted(compiled))}")
    if watched.accepted:
        parts.append(f"accepted {len(watched.accepted)}")
    saves = [save for process in watched.recording.trained for save in process.checkpoints["saves"] if save["path"]]
    broken = [first_step(each) for each in watched.findings if each.severity in (Severity.P0, Severity.P1)]
    good = [save for save in saves if not save["bad"] and (not broken or save["step"] <= min(broken))]
    if good:
        last = max(good, key=lambda save: save["step"])
        parts.append(f"last good checkpoint: {Path(last['path']).name} (step {last['step']})")
    elif saves:
        parts.append("no good checkpoint")
    return " · ".join(parts)


def _finding_lines(result: ProbeResult) -> Iterator[str]:
    place = f"{result.location.file}:{result.location.line}" if result.location else "unknown line"
    simulated = " (simulated)" if result.evidence and result.evidence.value == "simulated" else ""
    yield inert_line(f"{result.severity} {result.probe}{simulated}  {place}  {', '.join(result.notes)}")
    ticket = f" [ticket {result.ticket}: {result.ticket_action}]" if result.ticket else ""
    yield f"   {inert_line(shortened(result.message, _MOST_MESSAGE))}{ticket}"


def _tail(watched: Watched) -> Iterator[str]:
    for note in watched.run.notes[:3]:
        yield f"note: {shortened(note, 200)}"
    errors = [result for result in watched.run.results if result.outcome is Outcome.ERROR]
    for result in errors[:3]:
        yield f"error: {result.probe}: {shortened(result.message, 200)}"
    findings = watched.findings
    if findings and findings[0].severity is not Severity.P4:
        first = findings[0]
        place = f" at {first.location.file}:{first.location.line}" if first.location else ""
        yield f"What to do first: {catalog()[first.probe].remediation.removesuffix('.')}{place}."
