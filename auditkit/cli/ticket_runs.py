"""The verbs of `auditkit ticket` that run probes; loaded only for them, as their options take long to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.common import JsonOption, TicketsOption, command, option, ticket_folder
from auditkit.cli.options import ArmOptions, TargetOption, TargetOptions, Words
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket import (
    CheckoutOption,
    Chosen,
    IdsArgument,
    app,
    configuration_near,
    place_of,
    say_written,
)
from auditkit.errors import BadInputError

if TYPE_CHECKING:
    from auditkit.tickets.document import Document
    from auditkit.tickets.store import TicketFolder
    from auditkit.trials.verify import Verification, VerifyRequest


@command(app, "ticket new --title 'step() ignores the scaler' --location trainer/loop.py:88", writes=True)
def new(
    title: Annotated[str, option("--title", "What is wrong, in one line.", "TEXT")],
    severity: Annotated[str, typer.Option("--severity", metavar="P")] = "P2",
    location: Annotated[str, typer.Option("--location", metavar="FILE:LINE")] = "",
    batch: Annotated[int | None, typer.Option("--batch", metavar="N", min=0)] = None,
    agent: Annotated[str | None, option("--agent", "pytorch, drl, ... or a code.", "NAME")] = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a ticket by hand. `audit --probe ID --target T --tickets DIR` files what a probe reproduces."""
    from auditkit.model.text import inert_line
    from auditkit.model.ticket import Box, Ticket, agent_code
    from auditkit.tickets.body import domain_of
    from auditkit.tickets.document import FIX, REPRODUCE, new_document
    from auditkit.tickets.front_matter import check_field
    from auditkit.tickets.lifecycle import today
    from auditkit.tickets.lint import TEMPLATE_TEXTS

    folder = ticket_folder(tickets, must_exist=False)
    config = configuration_near(folder)
    number = next(one for one in (batch, config.batch, 1) if one is not None)
    code = agent_code(agent or config.agent or "PT", config.agents)
    level, problem = check_field("severity", severity.upper())
    if problem:
        raise BadInputError(f"severity cannot be {severity!r}", problem)

    def make(ticket_id: str) -> Document:
        ticket = Ticket(
            id=ticket_id,
            title=inert_line(title),
            severity=level,
            location=inert_line(location),
            domain=domain_of(location) if location else "",
            batch=number,
            agent=config.agents.get(code, code.lower()),
            created=today(),
            boxes=(Box("(how to check the fix)"),),
        )
        what, how, fix = TEMPLATE_TEXTS
        return new_document(ticket, [("", what), (REPRODUCE, how), (FIX, fix)], folder.path(ticket_id))

    say_written([(None, folder.create(number, code, make))], as_json)


@command(app, "ticket verify B7-PT-01 --checkout ../trainer --at 77ab310", writes=True)
def verify(
    ids: IdsArgument = None,
    at: Annotated[str, option("--at", "The fix. Default: the files as they are.", "REV")] = "",
    base: Annotated[str, option("--base", "The broken code. Default: where the findings reproduced.", "REV")] = "",
    patch: Annotated[Path | None, option("--patch", "Try this diff or Python code.", "FILE")] = None,
    recommended: Annotated[bool, option("--recommended", "Try the code of the ticket's Fix.")] = False,
    *,
    target: TargetOption = None,
    runs: ArmOptions,
    probe: Annotated[Words, typer.Option("--probe", metavar="ID")] = None,
    chosen: Chosen,
    checkout: CheckoutOption = None,
) -> None:
    """Run a ticket's probes on the broken code and on the fix.

    The fix is a revision (--at, or the files as they are), a patch, or the ticket's recommended code in a copy of the
    checkout. A finding is proven only if its probe reproduces before the fix and does not after it. For a revision,
    auditkit writes the proof and ticks the boxes that it proves. Exit 0: proven or sufficient; 1: not; 3: not measured.
    """
    from auditkit.trials.verify import verify_commit, verify_patch

    if patch is not None and recommended:
        raise BadInputError("--patch and --recommended exclude each other")
    if at and (patch is not None or recommended):
        raise BadInputError(
            "--at is a fix that is committed; --patch and --recommended are not", "use one of the three"
        )
    folder = ticket_folder(chosen.tickets)
    found = []
    for ticket_id in chosen.ids(folder, ids):
        request = _verify_request(
            folder, ticket_id, target, runs, checkout, at=at, base=base, probes=tuple(probe or ())
        )
        tried = patch is not None or recommended
        found.append(verify_patch(folder, request, patch) if tried else verify_commit(folder, request))
        if not chosen.as_json:
            _print_verification(found[-1])
    if chosen.as_json:
        documents = [one.to_json() for one in found]
        say_json(documents[0] if len(documents) == 1 else {"schema_version": 1, "tickets": documents})
    code = max((one.exit_code for one in found), key=lambda one: (one != 0, -one))
    if code:
        raise typer.Exit(int(code))


def _verify_request(
    folder: TicketFolder, ticket_id: str, target: Words, runs: ArmOptions, checkout: str | None, **more: Any
) -> VerifyRequest:
    from auditkit.probing.run.configuration import read_configuration
    from auditkit.trials.verify import VerifyRequest

    config = read_configuration(runs.config, checkout) if checkout or runs.config else configuration_near(folder)
    named = TargetOptions(target).targets(config, checkout)
    where = checkout or config.checkout or str(place_of(folder, None).folder)
    return VerifyRequest(ticket_id, where, runs.with_config(config), target=named[0] if named else None, **more)


def _print_verification(found: Verification) -> None:
    say(f"{found.ticket}: {found.verdict}" + (f": {found.reason}" if found.reason and not found.arms else ""))
    for checked in found.findings:
        say(f"  {checked.state.value:<12}  {checked.before} -> {checked.after}  {checked.fingerprint}")
    for arm in found.arms:
        say(f"  {arm.code.name}: {arm.judgement.text}" + (f" ({arm.judgement.reason})" if arm.judgement.reason else ""))
        for change in arm.judgement.changes:
            if change.is_finding or change.kind.value not in ("same", "still reproduces"):
                say(f"    {change.probe}: {change.kind.value}{f', {change.told}' if change.told else ''}")
    for note in found.notes:
        complain(f"note: {note}")
    for box in found.ticked:
        say(f"  ticked: {box}")


@command(app, "ticket fix B7-PT-01 --apply", writes=True)
def fix(
    ids: IdsArgument = None,
    apply: Annotated[bool, option("--apply", "Write the diff into the files if it is sufficient.")] = False,
    *,
    target: TargetOption = None,
    runs: ArmOptions,
    chosen: Chosen,
    checkout: CheckoutOption = None,
) -> None:
    """Show a ticket's diff and run it again; --apply writes it."""
    from auditkit.audit.fix_again import look_for_fix
    from auditkit.trials.verify import apply_fix, verify_patch

    folder = ticket_folder(chosen.tickets)
    documents, worst = [], 0
    for ticket_id in chosen.ids(folder, ids):
        request = _verify_request(folder, ticket_id, target, runs, checkout)
        look_for_fix(folder, request)
        found, files = apply_fix(folder, request) if apply else (verify_patch(folder, request), ())
        documents.append({**found.to_json(), "applied": list(files)})
        worst = max(worst, int(found.exit_code))
        if not chosen.as_json:
            say(found.difference.rstrip("\n"))
            _print_verification(found)
            for file in files:
                say(f"  changed {file}; git diff shows it, and git restore undoes it")
    if chosen.as_json:
        say_json(documents[0] if len(documents) == 1 else {"schema_version": 1, "tickets": documents})
    if worst:
        raise typer.Exit(worst)
