"""Commands that hold a ticket against measurements: verify, claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.completion import probe_ids
from auditkit.cli.options import ArmOptions, CheckoutOption, ConfigOption, TargetOptions, Words
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket.common import IdArgument, app, say_change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditkit.model.tickets.claim import JudgedClaim
    from auditkit.workflows.proof.before_after_runs import Check
    from auditkit.workflows.proof.verify import Verification

_REVISION_DIGITS = 12


@app.command(epilog="Example: auditkit ticket verify B7-PT-01 --checkout ../trainer --at 3f2a9c1")
@write_or_exit
def verify(
    ticket_id: IdArgument,
    checkout: CheckoutOption = None,
    at: Annotated[
        str, typer.Option("--at", metavar="REV", help="The fix; default: the files as they lie.", show_default=False)
    ] = "",
    base: Annotated[
        str,
        typer.Option(
            "--base", metavar="REV", help="The broken code; default: where the evidence found it.", show_default=False
        ),
    ] = "",
    probe: Annotated[
        Words,
        typer.Option(
            "--probe",
            metavar="ID",
            help="Only this probe, or a further one (repeatable).",
            autocompletion=probe_ids,
        ),
    ] = None,
    *,
    targets: TargetOptions,
    runs: ArmOptions,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a ticket's probes on the fix, and tick what that proves.

    What they measure is written into the ticket. Red first: a box is ticked only if its probe reproduces on the broken
    code and no longer on the fix. PROVEN, STILL_REPRODUCED, VACUOUS (it passes on the broken code), NOT_MEASURED,
    UNBOUND (a person's). Boxes are bound with `ticket edit ID bound 1=PROBE`. No status is moved.

    Exit 0 when all is proven, 1 when something still reproduces or proves nothing, 3 when something could not be
    measured, 5 when the target could not be loaded.
    """
    from auditkit.cli.runs.progress import progress
    from auditkit.workflows.configuration import checkout_of, read_configuration
    from auditkit.workflows.proof.verify import VerifyRequest, exit_code
    from auditkit.workflows.proof.verify import verify as verify_ticket

    repository = open_repository(tickets)
    configuration = read_configuration(runs.config, checkout, repository)
    request = VerifyRequest(
        checkout=checkout_of(checkout, configuration),
        options=runs.with_config(configuration),
        at=at,
        base=base,
        probes=tuple(probe or ()),
        targets=targets.targets(configuration, checkout),
    )
    with progress() as told:
        done = verify_ticket(repository, ticket_id, request, told)
    if as_json:
        say_json(done.to_json())
    else:
        _print(done)
    for note in done.notes:
        complain(f"note: {note}")
    raise typer.Exit(int(exit_code(done)))


@app.command(epilog="Example: auditkit ticket claim B7-PT-03 '400MB' 'PROBE peak_extra_bytes = 400 MB @ params=100M'")
@write_or_exit
def claim(
    ticket_id: IdArgument,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The words that claim it.")] = None,
    claimed: Annotated[
        str | None, typer.Argument(metavar="[CLAIM]", help="PROBE NAME = VALUE [UNIT] [±10%] [@ case=value].")
    ] = None,
    line: Annotated[int | None, typer.Option("--line", min=1, help="The line, where TEXT stands in several.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the claim behind TEXT out.")] = False,
    config: ConfigOption = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mark a number in a ticket as a claim, or list its claims.

    The evidence confirms or refutes each. A claim is a comment behind TEXT that Markdown does not show; docs/claims.md
    has all of its forms. Without TEXT: exit 1 where one is refuted or cannot be read.
    """
    from auditkit.errors import BadInputError, ExitCode
    from auditkit.store.reading.claim_comments import judged_claims
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.tickets.ticket_edits import mark_claim, unmark_claim

    repository = open_repository(tickets)
    if text is None:
        entry = repository.find(ticket_id)
        claims = judged_claims(entry.document, entry.ticket)
        if as_json:
            say_json({"schema_version": 1, "id": ticket_id.upper(), "claims": [one.to_json() for one in claims]})
        else:
            _print_claims(claims)
        bad = any(one.state.value in ("REFUTED", "MALFORMED") for one in claims)
        raise typer.Exit(int(ExitCode.FINDINGS if bad else ExitCode.OK))
    if remove is (claimed is not None):
        raise BadInputError("mark it as what?", f"auditkit ticket claim {ticket_id} TEXT CLAIM, or TEXT --remove")
    if claimed is None:
        change = unmark_claim(repository, ticket_id, text, line)
    else:
        change = mark_claim(repository, ticket_id, text, claimed, read_configuration(config, None, repository), line)
    judged = judged_claims(change.after.document, change.after.ticket)
    say_change(
        change, as_json, "claim taken out" if remove else "claim marked", claims=[one.to_json() for one in judged]
    )
    if not as_json:
        _print_claims([one for one in judged if one.claim.written == " ".join((claimed or "").split())])


def _print(done: Verification) -> None:
    before, after = done.change.before.ticket, done.change.after.ticket
    dirty = " with uncommitted changes" if done.is_dirty else ""
    say(f"{after.id} at {done.revision[:_REVISION_DIGITS] or 'no revision'}{dirty}")
    for check in done.checks:
        _print_check(check, may_stay=check.question.fingerprint in after.may_stay)
    if done.items:
        say("")
    for item in done.items:
        mark = "x" if item.is_done else " "
        say(f"  [{mark}] {item.number}  {item.proof.state.value}  {item.item.text}")
        if item.item.condition:
            say(f"         {item.item.condition}: {item.proof.reason}")
    changed = [(was.is_done, now.is_done) for was, now in zip(before.verification, after.verification, strict=True)]
    ticked, unticked = changed.count((False, True)), changed.count((True, False))
    say("")
    again = f", {unticked} taken back: red again" if unticked else ""
    wrote = f"evidence in {done.change.after.file}" if done.change.is_edit else "nothing new to write"
    say(f"{ticked} ticked{again}; {wrote}")
    _print_claims(done.claims)
    if done.missing:
        say(f"{after.id} is {after.status_written}; fixed still lacks:")
    for one in done.missing:
        say(f"  - {one.problem}")


def _print_check(check: Check, may_stay: bool) -> None:
    minor = " (P4: may stay)" if may_stay else ""
    say(f"{check.question.probe.id}  {check.question.target.call}: {check.proof.state.value}{minor}")
    base, fix = check.base_sighting, check.fix.result
    revision = check.base.commit[:_REVISION_DIGITS]
    if base is not None:
        origin = " (as found)" if check.as_found is not None else ""
        say(f"  base {revision}{origin}: {base.outcome.value.replace('_', ' ')}: {base.message}")
    else:
        say(f"  no base: {check.base.why_not}")
    say(f"  fix: {fix.outcome.value.replace('_', ' ')}: {fix.message}")


def _print_claims(claims: Iterable[JudgedClaim]) -> None:
    for judged in claims:
        claim = judged.claim
        beside = f"'{claim.beside}' " if claim.beside else ""
        say(f"line {claim.line}: {judged.state.value} {beside}({claim.written}): {judged.message}")
