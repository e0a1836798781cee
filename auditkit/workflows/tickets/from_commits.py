"""What commit messages say of tickets: which they fix, which they only mention, and what each still needs."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditkit.errors import AuditkitError, BadInputError
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import TicketId, find_ticket_ids
from auditkit.model.tickets.ticket import Status
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.rules.tickets.lifecycle import says_what_was_done
from auditkit.store.folder.repository import Repository
from auditkit.workflows.configuration import tickets_configuration
from auditkit.workflows.tickets.resolution import Moved, ResolveRequest, resolve

_ID = r"#?B\d{1,4}-[A-Z][A-Z0-9]{0,15}-\d{2,6}(?![\w-])"
_IDS = rf"(?P<ids>{_ID}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*){_ID})*)"
# `fixes B7-PT-03, B7-PT-04`, and the subject `fix(telemetry): B7-PT-03 - the norm in float64`.
_FIXES = re.compile(
    rf"(?<![\w-])(?:fix(?:es|ed)?|clos(?:e|es|ed)|resolv(?:e|es|ed))(?:\s*\([^()\n]*\)!?\s*:|\s*!?\s*:)?\s+{_IDS}",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\b(?:not|never|no longer|cannot|without|partly|partially|almost)|n't)\s+(?:\w+\s+)?$", re.I)
_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{7,40})", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """A commit of the range: its full hash, the first line of its message, and the whole of it."""

    hash: str
    subject: str
    message: str

    @property
    def told(self) -> str:
        return f'{self.hash[:7]} "{inert_line(self.subject)}"'


@dataclass(frozen=True)
class Named:
    """A ticket that messages name, with the commits that say to fix it and those that mention it, the oldest first."""

    id: TicketId
    fixed_by: list[Commit] = field(default_factory=list)
    mentioned_by: list[Commit] = field(default_factory=list)


@dataclass(frozen=True)
class Proposal:
    """What the commits come to for one ticket: how far it would go, or why it would not."""

    named: Named
    moved: Moved | None = None
    problem: str = ""


def tickets_named(commits: Iterable[Commit]) -> list[Named]:
    """The tickets that the messages of commits (the oldest first) name, in the order of the first mention.

    A commit that another one of them reverts fixes nothing, and neither does what takes it back.
    """
    commits = list(commits)
    reverted = [match[1] for commit in commits for match in _REVERTED.finditer(commit.message)]
    found: dict[TicketId, Named] = {}
    for commit in commits:
        is_back = any(commit.hash.startswith(one) for one in reverted) or bool(_REVERTED.search(commit.message))
        fixed = set() if is_back else set(fixes_in(commit.message))
        for ticket_id in dict.fromkeys(find_ticket_ids(commit.message.upper())):
            named = found.setdefault(ticket_id, Named(ticket_id))
            (named.fixed_by if ticket_id in fixed else named.mentioned_by).append(commit)
    return list(found.values())


def fixes_in(message: str) -> Iterator[TicketId]:
    """The tickets that a message says to fix, close or resolve; not those of which it says that it does not."""
    for match in _FIXES.finditer(message):
        if not _DENIED.search(message, max(0, match.start() - 40), match.start()):
            yield from find_ticket_ids(match["ids"].upper())


def commits_of(repository: Repository, revisions: str, checkout: str | None) -> list[Commit]:
    """The commits of a range such as `v1.1..v1.2`, the oldest first. Raises BadInputError where git knows none."""
    folder = _checkout(repository, checkout)
    if revisions.startswith("-"):
        raise BadInputError(f"not a range of commits: '{inert_line(revisions)}'", "v1.1..v1.2, or HEAD~5..")
    asked = git.run_git(folder, "log", "--reverse", "-z", "--format=%H%n%s%n%B", revisions, "--")
    if asked.returncode != 0:
        told = inert_line(asked.stderr.strip().removeprefix("fatal: "))
        raise BadInputError(f"git knows no commits {revisions} in {folder}: {told}", "--checkout DIR says where")
    parts = (part.split("\n", 2) for part in asked.stdout.split("\x00") if part)
    return [Commit(one, subject, message) for one, subject, message in parts]


def propose(repository: Repository, named: Named, checkout: str | None, today: datetime.date) -> Proposal:
    """Resolve the ticket with the commits that say to fix it; as far as its proof goes, and never further.

    What cannot be done is said in the proposal, and nothing is written then.
    """
    try:
        ticket = repository.find(named.id).ticket
        if not named.fixed_by:
            return Proposal(named)
        if ticket.is_finished and ticket.status is not Status.FIXED:
            return Proposal(named, problem=f"is {ticket.status} already")
        told = ticket.resolution
        known = told.commits if told else ()
        new = [one for one in named.fixed_by if not any(one.hash.startswith(hash_) for hash_ in known)]
        says = told is not None and says_what_was_done(told)
        text = "" if says else "\n".join(dict.fromkeys(one.subject for one in named.fixed_by))
        hashes = [one.hash[:12] for one in new]
        request = ResolveRequest(Status.FIXED, text, hashes, checkout=checkout, may_say_so_already=True)
        return Proposal(named, resolve(repository, named.id, request, today))
    except AuditkitError as error:
        return Proposal(named, problem=error.message)


def subject_of(repository: Repository, ticket_id: str, commits: Sequence[str], checkout: str | None) -> str:
    """The first lines of the commits' messages, "" where the ticket's Resolution says already what was done.

    Raises BadInputError for a commit that git does not know.
    """
    told = repository.find(ticket_id).ticket.resolution
    if not commits or (told is not None and says_what_was_done(told)):
        return ""
    found = git.find_repository(_checkout(repository, checkout))
    if found is None:
        return ""
    hashes = [git.resolve_revision(found, commit) for commit in commits]
    return "\n".join(git.run_git(found.directory, "log", "-1", "--format=%s", one).stdout.strip() for one in hashes)


def _checkout(repository: Repository, named: str | None) -> Path:
    """Where the commits are: the folder that is named, configured, or around the tickets."""
    return parse_checkout(named or tickets_configuration(repository).checkout or repository.folder).directory
