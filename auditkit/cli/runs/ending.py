"""How the report of a run ends: what to do first and why, what is known and what is new, the next command."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auditkit.cli.runs.causes import Cause, causes_of, tickets_of

if TYPE_CHECKING:
    from auditkit.audit.audit import AuditRequest
    from auditkit.model.runs.probe import ProbeInfo
    from auditkit.model.runs.run import ProbeResult, Run

_MOST = 3
_LONGEST_REMEDY = 110
_SENTENCE, _CLAUSE = (re.compile(rf"(.+?)[{ends}](?=\s|$)", re.DOTALL) for ends in (".", ".;:"))


@dataclass(frozen=True)
class Step:
    """What to do next: why, and the words of a command."""

    title: str
    words: tuple[str, ...]

    def command_lines(self, width: int | None) -> str:
        """The command as it can be pasted: on a terminal of `width`, a shell's line continuations keep it whole."""
        lines = ["  auditkit"]
        for word in map(shlex.quote, self.words):
            if width is not None and len(lines[-1]) + len(word) + len(" \\") >= width:
                lines[-1] += " \\"
                lines.append("    " + word)
            else:
                lines[-1] += f" {word}"
        return "\n".join(lines)


def answer(run: Run, catalog: Mapping[str, ProbeInfo]) -> Iterator[str]:
    """Yield the three worst kinds of finding (severity, place, what breaks, what fixes it), or that there is none."""
    from auditkit.model.runs.candidates import not_checked
    from auditkit.model.text import counted

    kinds: dict[str, list[Cause]] = {}
    causes = _own_causes(run)
    for cause in causes:
        if _is_tracked(cause):
            kinds.setdefault(cause.worst.probe, []).append(cause)
    if kinds:
        yield "What to do first:"
    elif causes:
        subject = "Nothing that was checked" if not_checked(run.candidates) else "Nothing here"
        yield f"{subject} breaks training: what reproduced is minor (P4)."
    elif run.baseline is not None:
        yield "Nothing is new."
    elif any(result.owner for result in run.results):
        yield "Every finding belongs to a library: there is nothing to fix in this checkout."
    elif not run.summary["reproduced"]:
        yield f"Nothing {'that was checked ' if not_checked(run.candidates) else ''}reproduced."
    for number, (probe, (cause, *others)) in enumerate(list(kinds.items())[:_MOST], start=1):
        info = catalog.get(probe)
        tickets = "".join(f"  {ticket}" for ticket in tickets_of(cause.findings))
        more = f", and at {counted(len(others), 'more place')}" if others else ""
        remedy = f"{_in_short(info.remediation)}." if info and info.remediation else probe
        yield f"{number}. {cause.place}{tickets}{more}: {remedy}"


def _in_short(remedy: str) -> str:
    """The first sentence, or its first clause where it is long, without the full stop."""
    found = _SENTENCE.match(remedy)
    if found is None or len(found[1]) > _LONGEST_REMEDY:
        found = _CLAUSE.match(remedy)
    return found[1] if found else remedy


def counts(run: Run, verbose: bool) -> str:
    """Return how much was checked, and the outcomes."""
    from auditkit.model.text import counted

    functions = len({result.target for result in run.results if not result.is_of_source})
    checked = [counted(functions, "function")] if functions else []
    checked += ["the source"] if any(result.is_of_source for result in run.results) else []
    arms = f" in {len(run.matrix)} environments" if run.matrix else ""
    # A probe of another kind of collector does not apply to this one.
    outcomes = {name: count for name, count in run.summary.items() if count and (verbose or name != "not_applicable")}
    ignored = f", {len(run.ignored)} ignored in the source" if run.ignored else ""
    if checked and outcomes:
        probes = counted(len({result.probe for result in run.results}), "probe")
        listed = ", ".join(_in_words(outcome, count, run) for outcome, count in outcomes.items())
        return f"Checked {' and '.join(checked)}{arms} with {probes}: {listed}{ignored}"
    return f"Checked {' and '.join(checked) or 'no function'}{arms}: no probe applies{ignored}"


def ticket_counts(run: Run, tickets: Path | None) -> Iterator[str]:
    """Yield how many of the tickets are new."""
    from auditkit.model.text import counted

    filed = [result for result in run.results if result.ticket]
    if tickets is None or not filed:
        return
    done = Counter(tickets_of(filed).values())
    again = f" ({done['open again']} open again)" if done["open again"] else ""
    known = done.total() - done["new"]
    yield f"{counted(done.total(), 'ticket')} in {tickets}: {done['new']} new, {known} known{again}"


def _in_words(outcome: str, count: int, run: Run) -> str:
    """`36 findings`, `208 passed`, `11 need a GPU`."""
    from auditkit.model.text import counted

    if outcome == "reproduced":
        return _found(run) or (f"{count} known" if run.baseline else "0 findings")
    if outcome == "error":
        return counted(count, "error")
    if outcome == "unavailable":
        reasons = {result.reason for result in run.results if result.outcome == "unavailable"}
        need = "needs" if count == 1 else "need"
        return f"{count} {need} a GPU" if reasons == {"no_device"} else f"{count} unavailable"
    return f"{count} passed" if outcome == "not_reproduced" else f"{count} not applicable"


def _found(run: Run) -> str:
    """`9 findings (1 P0, 8 P2), 24 minor, 5 in libraries`: one for each cause, of however many probes and targets."""
    from auditkit.model.text import counted

    levels = Counter(cause.worst.severity.value for cause in _own_causes(run) if cause.worst.severity)
    minor = levels.pop("P4", 0)
    of_others = len(causes_of(result for result in run.results if result.owner))
    of_style = len(causes_of(result for result in run.results if result.style))
    worst = ", ".join(f"{count} {level}" for level, count in sorted(levels.items()))
    found = [f"{counted(levels.total(), 'finding')} ({worst})"] if levels else []
    for count, kind in ((minor, "minor"), (of_others, "in libraries"), (of_style, "of style")):
        found += [f"{count} {kind}"] if count else []
    return ", ".join(found)


def beside_tickets(run: Run) -> Iterator[str]:
    """How many findings the tickets knew before, with those that came back and those that are gone; none unasked."""
    found = run.baseline
    if found is None:
        return
    at = f" at {found.against[:12]}" if found.against else ""
    yield f"{found.in_words()}, by the tickets in {found.tickets}{at}"
    yield from (f"    again: {one.fingerprint}: {one.why}" for one in found.new if one.ticket)
    yield from (f"    gone: {one.fingerprint}: {one.why}, {one.ticket} is open" for one in found.gone)
    yield from (f"    not checked: {one.fingerprint}: {one.why}, {one.ticket} is open" for one in found.unasked)


def nothing_audited(run: Run) -> list[str]:
    """Return that no collector has a result, and why; nothing if one has."""
    from auditkit.audit.audit import load_failures

    failures = [] if run.matrix else load_failures(run)
    if not failures:
        return []
    why = failures[0].message.partition("\n")[0].rstrip(":").removeprefix("nothing was measured: ")
    said = [f"Nothing was audited: {why}."]
    read = [result for result in run.results if result.is_of_source]
    if read and (run.no_target is not None or len(read) < len(run.results)):
        shows = "the findings above come from it" if any(result.severity for result in read) else "it found nothing"
        said.append(f"auditkit only read its source and measured nothing: {shows}.")
    return said


def next_step(run: Run, request: AuditRequest, wants_tickets: bool) -> Step | None:
    """Return the command that a reader of the report needs next, or None."""
    if run.no_target is not None:
        return _way_to_a_target(run, request)
    own = _own_causes(run)
    filed = next(iter(tickets_of(result for cause in own for result in cause.findings)), "")
    if filed:
        title = f"Next, the evidence of {filed} and its fix:"
        folder = request.tickets or (run.baseline.tickets if run.baseline else "tickets")
        return Step(title, ("ticket", "show", filed, "--tickets", str(folder)))
    if request.tickets is None and wants_tickets and any(map(_is_tracked, own)):
        folder = run.baseline.tickets if run.baseline else "tickets"
        return Step("Next, a ticket for each, with its evidence and its fix:", _typed(request, "--tickets", folder))
    causes = own or causes_of(run.results)
    if not causes or any(name.endswith(".py") for name in request.probes):
        return None
    config = ("--config", str(request.config.path)) if request.config.probes_dir else ()
    title = "Next, how the worst is measured and what fixes it:"
    return Step(title, ("probe", "show", causes[0].worst.probe, *config))


def _is_tracked(cause: Cause) -> bool:
    """Whether a ticket is filed of it: what is minor gets none."""
    return cause.worst.severity != "P4"


def _own_causes(run: Run) -> list[Cause]:
    """What breaks or may break by this checkout's own code."""
    return causes_of(result for result in run.results if not (result.owner or result.style))


def _way_to_a_target(run: Run, request: AuditRequest) -> Step:
    """How a collector is named that was not found, or not enough known of."""
    asked: list[ProbeResult] = [result for result in run.results if not result.is_of_source]
    lacks_modules = bool(asked) and asked[0].reason is not None and asked[0].reason.is_not_loaded
    if lacks_modules or (run.no_target is not None and run.no_target.is_import):
        title = "Next, install what is missing, or name the interpreter that has it:"
        return Step(title, _typed(request, "--python", "VENV/bin/python"))
    if asked:
        title = "Next, give the arguments of the likeliest collector (one --argument each):"
        return Step(title, _typed(request, "--target", asked[0].target, "--argument", "NAME=VALUE"))
    title = "Next, name a function that measures, clips or logs gradients:"
    return Step(title, _typed(request, "--target", "module:function", "--contract", "grad_norm"))


def _typed(request: AuditRequest, *more: str) -> tuple[str, ...]:
    """What the user ran, with further options; another interpreter or folder takes the place of the one before."""
    words = shlex.split(request.command)[1:]
    renewed = {"--python", "--tickets"} & set(more) | {"--against"}
    kept = (
        word
        for before, word in zip(["", *words], words, strict=False)
        if word not in ("--no-tickets", "--new-only") and not {before, word.partition("=")[0]} & renewed
    )
    return (*kept, *more)
