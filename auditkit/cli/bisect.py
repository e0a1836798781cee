"""`auditkit bisect`: the first commit after which a finding reproduces, or no longer does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, run_or_exit
from auditkit.cli.completion import probe_ids, ticket_ids
from auditkit.cli.options import ArmOptions, FreshOption, TargetOptions, Words, with_cache
from auditkit.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from auditkit.model.revisions.bisection import Bisection, CommitAnswer

_MOST_FILES = 10
EXAMPLE = "Example: auditkit bisect B7-PT-01 --checkout ../trainer --good v1.0 --bad main"


@dataclass(frozen=True)
class _TargetOptions(TargetOptions):
    target: Annotated[
        Words, typer.Option("--target", metavar="MODULE:FUNCTION", help="Default: what the ticket is about.")
    ] = None


@run_or_exit
def bisect(
    ticket_id: Annotated[
        str, typer.Argument(metavar="TICKET", help="A ticket id, such as B7-PT-01.", autocompletion=ticket_ids)
    ],
    good: Annotated[str, typer.Option("--good", metavar="REV", help="A revision without the finding.")],
    bad: Annotated[str, typer.Option("--bad", metavar="REV", help="One with it, before or after the other.")],
    checkout: Annotated[
        str | None, typer.Option("--checkout", metavar="DIR", help="Default: the configuration's, else this folder.")
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            "--probe", metavar="ID", help="Which of the ticket's probes, or another one.", autocompletion=probe_ids
        ),
    ] = None,
    *,
    targets: _TargetOptions,
    runs: ArmOptions,
    tickets: TicketsOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the commit since which a ticket's finding is there, or gone.

    Its probe runs at about log2 of the commits between the two revisions, each checked out apart; nothing in the
    repository changes. Commits that give no answer are skipped and named. Stopped, it goes on with the same command.
    """
    from auditkit.workflows.configuration import checkout_of, read_configuration
    from auditkit.workflows.history.bisect import BisectRequest
    from auditkit.workflows.history.bisect import bisect as search

    repository = open_repository(tickets)
    configuration = read_configuration(runs.config, checkout, repository)
    named = targets.targets(configuration)
    request = BisectRequest(
        ticket=repository.find(ticket_id).ticket,
        checkout=checkout_of(checkout, configuration),
        good=good,
        bad=bad,
        options=with_cache(runs.with_config(configuration), fresh),
        probe=probe,
        target=named[-1] if named else None,
    )
    found = search(request, _tell)
    if as_json:
        say_json(found.to_json())
    else:
        _print(found)
    if not found.first:
        raise typer.Exit(3)


def _tell(answer: CommitAnswer, remaining: int) -> None:
    """Each answer as it comes, on a terminal: a long search shows that it moves."""
    import sys

    if sys.stderr.isatty():
        left = f"  {remaining} left" if remaining else ""
        complain(f"{answer.commit[:12]}  {_state(answer)}{left}")


def _state(answer: CommitAnswer) -> str:
    word = answer.state.value.replace("_", " ")
    return f"{word} (known)" if answer.was_known else word


def _print(found: Bisection) -> None:
    import textwrap

    say(f"{found.ticket}: {found.probe} on {found.target}")
    ends = {found.older.commit: "older end: ", found.newer.commit: "newer end: "}
    named = ""
    for answer in found.answers:
        why = textwrap.shorten(answer.why, 56, placeholder=" ...")
        say(f"  {answer.commit[:12]}  {_state(answer):<14}  {ends.get(answer.commit, '')}{why}".rstrip())
        if answer.found not in ("", "same", "lost", named):
            say(f"      {answer.found}")
            named = answer.found
    asked = sum(not answer.was_known for answer in found.answers)
    say(f"asked {asked} of {found.commit_count + 1} commits, {len(found.skipped)} without an answer")
    change = "reproduces" if found.reproduces_since else "no longer reproduces"
    commit = found.commit
    if commit is None:
        say(f"the first commit after which it {change} is one of these, and only the last gives an answer:")
        for candidate in found.candidates:
            say(f"  {candidate}")
        return
    say(f"{commit.hash} is the first commit after which it {change}")
    say(f"  {commit.date}  {commit.author}: {commit.subject}")
    for file in found.files[:_MOST_FILES]:
        say(f"  {file.name}  {file.describe()}")
    if len(found.files) > _MOST_FILES:
        say(f"  and {len(found.files) - _MOST_FILES} more files")
