"""A finding as the Markdown of its ticket, and the ticket that a reader will find in it."""

from __future__ import annotations

import datetime
import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from auditkit.model.enums import Severity
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.probe import CATEGORIES, ProbeInfo
from auditkit.model.runs.run import BUNDLED, Finding
from auditkit.model.runs.target import short_target
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import AGENT_NAMES, TicketId
from auditkit.model.tickets.ticket import Ticket
from auditkit.rendering import markdown
from auditkit.rendering.blame import line_costs, statement_text
from auditkit.rendering.environment import render
from auditkit.rendering.evidence import device_of, excerpt_text, render_banner, render_evidence
from auditkit.rendering.hand_ticket import REVIEWERS, Draft, ticket_of_draft

MOST_VISIBLE = 120
"""Lines that are read to the end; what a fix changes is folded where a ticket would have more."""
# Lines that links to the other tickets of a run add afterwards.
_LINKS = 5

_LOCAL_PARTS = re.compile(r"(\.?<locals>\.)?<(listcomp|genexpr|setcomp|dictcomp|lambda)>$")


def ticket_of(
    findings: Sequence[Finding],
    ticket_id: TicketId,
    today: datetime.date,
    domain: str = "",
    agents: Mapping[str, str] = AGENT_NAMES,
) -> Ticket:
    """What `render_ticket` with the same arguments will say, as a reader of tickets reads it."""
    leader = findings[0]
    lines = _lines(leader)
    draft = Draft(
        title=f"{_subject(findings)}: {leader.probe.title}",
        severity=leader.severity,
        files=(_location(leader).file,),
        lines=(lines,) if any(lines) else (),
        function=_function(leader),
        domains=(domain,),
        categories=[box for finding in findings for box in finding.probe.categories],
    )
    return replace(
        ticket_of_draft(draft, ticket_id, today, agents),
        summary=_summary(findings),
        fingerprints=tuple(finding.result.fingerprint for finding in _in_block_order(findings)),
    )


def render_ticket(
    findings: Sequence[Finding],
    ticket_id: TicketId,
    today: datetime.date,
    domain: str = "",
    command: str = "",
    related: Sequence[str] = (),
    agents: Mapping[str, str] = AGENT_NAMES,
) -> bytes:
    """The whole file of a new ticket, in the look of `templates/ticket.md.j2`.

    `findings` have one cause; the first one, which is the worst, gives the title. What is recommended was run;
    where nothing was that suffices, the ticket says so and shows the probe's own example. `command` is what the user
    ran, for the appendix; `related` are lines such as `B7-PT-02: same function`; `agents` are agents' names by code.
    """
    leader = findings[0]
    firsts = _one_of_each_probe(findings)
    judging = [one for one in findings if one.severity is not Severity.P4] or findings
    targets = list(dict.fromkeys(finding.result.target for finding in findings))
    page = functools.partial(
        render,
        "ticket.md.j2",
        ticket=ticket_of(findings, ticket_id, today, domain, agents),
        others=[one for one in firsts[1:] if _is_graver(one, leader)],
        minor=[one for one in firsts[1:] if not _is_graver(one, leader)],
        targets=targets if len(targets) > 1 else (),
        is_of_modules=leader.is_of_module,
        boxes=CATEGORIES,
        blame=statement_text(leader),
        costs=line_costs(leader.result),
        why=_why(leader),
        excerpt=excerpt_text(leader.result.excerpt),
        banner=render_banner([device_of(finding) for finding in findings]).decode().rstrip("\n"),
        evidence_blocks=_evidence_blocks(findings),
        fixes=list({finding.fix.difference: finding.fix for finding in findings if finding.fix}.values()),
        unmended=_unmended(findings, firsts),
        advised=[one for one in firsts if one.fix is None and one.probe.remediation and _is_graver(one, leader)],
        example=next((one.probe.remediation_code for one in firsts if one.fix is None and _is_graver(one, leader)), ""),
        checks=_checks(judging),
        may_stay=_minor(findings, judging),
        verifications=[
            (_subjects(findings, finding.probe), item, finding.probe.id)
            for finding in firsts
            if finding in judging and _is_graver(finding, leader)
            for item in finding.probe.verification
        ],
        command=inert_line(command),
        run_id=leader.run_id,
        reviewers=REVIEWERS,
        related=tuple(related),
    )
    whole = page(is_folded=False)
    return page(is_folded=True) if len(markdown.visible(whole.decode())) > MOST_VISIBLE - _LINKS else whole


def _why(finding: Finding) -> str:
    """Who is hurt, and where the probe says why, which a reader of one ticket has read for the last."""
    shown = markdown.code(f"auditkit probe show {finding.probe.id}")
    told = f"{finding.result.why[0].upper()}{finding.result.why[1:]}. " if finding.result.why else ""
    return f"{told}Why it matters and how it was asked: {shown}, or docs/probes.md#{finding.probe.id} of auditkit."


def _is_graver(finding: Finding, leader: Finding) -> bool:
    """Whether it has advice and conditions of its own: of a minor one the ticket asks that it goes with the rest."""
    return finding is leader or finding.severity is not Severity.P4


def _unmended(findings: Sequence[Finding], firsts: Sequence[Finding]) -> str:
    """That no fix was run for some of the probes of a ticket, or for none, and why; "" where each has its fix."""
    without = [finding for finding in firsts if finding.fix is None]
    if not without:
        return ""
    named = ", ".join(markdown.code(finding.probe.id) for finding in without)
    if len(without) < len(firsts) and all(finding.severity is Severity.P4 for finding in without):
        return f"With it these minor ones still reproduce: {named}."
    about = f" for {named}" if len(without) < len(firsts) else ""
    reasons = "; ".join(dict.fromkeys(finding.no_fix for finding in without if finding.no_fix))
    if not reasons and all(finding.probe.scope == "source" for finding in findings):
        reasons = "not tried: this was read from the source"
    return f"No fix stands here{about}: {markdown.line(reasons or 'not tried')}."


def _subjects(findings: Sequence[Finding], probe: ProbeInfo) -> str:
    """Of what a sentence about a probe that reads the whole source is to be read: of these findings, no others."""
    if probe.scope != "source":
        return ""
    named = dict.fromkeys(one.result.target for one in findings if one.probe.id == probe.id)
    return f"{', '.join(map(markdown.code, named))}: "


def _evidence_blocks(findings: Sequence[Finding]) -> list[str]:
    blocks: list[str] = []
    above: list[str] = []
    for finding in _in_block_order(findings):
        blocks.append(render_evidence(finding, above=above).decode().rstrip("\n"))
        above.append(finding.result.fingerprint)
    return blocks


def _in_block_order(findings: Sequence[Finding]) -> list[Finding]:
    """Those of one probe together, the probes in the order of their first finding."""
    probes = [finding.probe.id for finding in _one_of_each_probe(findings)]
    return sorted(findings, key=lambda finding: probes.index(finding.probe.id))


def _one_of_each_probe(findings: Sequence[Finding]) -> list[Finding]:
    firsts: dict[str, Finding] = {}
    for finding in findings:
        firsts.setdefault(finding.probe.id, finding)
    return list(firsts.values())


def _checks(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """Each command that asks again, what it is to say of these findings and no others, and its probe."""
    asked: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        subjects = asked.setdefault((check_command(finding), finding.probe.id), [])
        subjects += [finding.result.target] if finding.probe.scope == "source" else []
    return [
        (
            command,
            f"no longer names {', '.join(map(markdown.code, subjects))}" if subjects else "no longer reproduces",
            probe,
        )
        for (command, probe), subjects in asked.items()
    ]


def _minor(findings: Sequence[Finding], judging: Sequence[Finding]) -> list[str]:
    """What a fix may leave as it is, by its probe; by its target, too, where the probe is graver through another."""
    graver = {one.probe.id for one in judging}
    minor = [one for one in findings if one not in judging]
    return list(
        dict.fromkeys(
            f"{markdown.code(one.probe.id)}"
            + (f" through {markdown.code(short_target(one.result.target))}" if one.probe.id in graver else "")
            for one in minor
        )
    )


def check_command(finding: Finding) -> str:
    """The command that asks the same question again, from the top of the repository, of the checkout as it is then.

    A probe that reads the source asks about the whole checkout.
    """
    target = finding.target.command_words() if finding.target else ["--target", finding.result.target]
    if finding.probe.scope == "source":
        target = []
    probe = finding.asked_as or finding.result.probe
    if finding.environment.checkout == BUNDLED:
        words = ["auditkit", "audit", "--probe", probe, *target[:2], *finding.options]
    else:
        words = ["auditkit", "probe", "run", probe, "--checkout", finding.source or ".", *target, *finding.options]
    return " ".join(shlex.quote(inert_line(word)) for word in words)


def _subject(findings: Sequence[Finding]) -> str:
    """What a title is about: the target, or where several lead to one statement its function."""
    leader = findings[0]
    targets = {finding.result.target for finding in findings}
    if len(targets) == 1:
        return short_target(leader.result.target)
    if leader.is_of_module:
        return f"{len(targets)} modules"
    return _function(leader).removesuffix("()")


def _summary(findings: Sequence[Finding]) -> str:
    """The worst finding as a sentence, and the names of the other probes that have the same cause."""
    others = [f"{finding.probe.id} ({finding.result.severity})" for finding in _one_of_each_probe(findings)[1:]]
    text = _sentence(findings[0].result.message)
    if findings[0].is_of_module and len(findings) > 1:
        text = f"{inert_line(findings[0].result.target)}: {text} Other modules with it: {len(findings) - 1}."
    if others:
        named = " and ".join([*filter(None, [", ".join(others[:-1])]), others[-1]])
        text += f" The same statement makes {named} reproduce."
    return markdown.line(text)


def _sentence(text: str) -> str:
    """`text` with a capital and a full stop, unless it starts with a name or ends with another mark."""
    line = inert_line(text)
    if re.match(r"[a-z]+[ ,]", line):
        line = line[0].upper() + line[1:]
    return line if not line or line.endswith((".", "!", "?")) else f"{line}."


def _function(finding: Finding) -> str:
    location = finding.result.location
    name = (location.function if location else "") or short_target(finding.result.target)
    name = _LOCAL_PARTS.sub("", inert_line(name)).replace(".<locals>", "")
    if not (location and location.function) and ":" not in finding.result.target:
        return name  # a module
    is_called = name and not name.endswith(")") and not name.rpartition(".")[2][:1].isupper()
    return f"{name}()" if is_called else name


def _location(finding: Finding) -> Location:
    result = finding.result
    if result.location is not None:
        return result.location
    if result.excerpt is not None:
        return Location(result.excerpt.file, result.excerpt.first_line)
    return Location("", 0)


def _lines(finding: Finding) -> tuple[int, int]:
    """The statement's lines, or the one line that is known; the lines around it are code evidence."""
    statement, line = finding.result.statement, _location(finding).line
    return (statement.first, statement.last) if statement is not None else (line, line)
