"""Moving a ticket: to a status whose conditions it has to meet, with a resolution, with a sign-off."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.rendering.markdown import code, line, prose
from auditkit.rules.tickets.fix_proof import unproven
from auditkit.rules.tickets.lifecycle import (
    CHAIN,
    Missing,
    check_transition,
    missing_for_fixed,
    next_first,
    says_what_was_done,
    steps_to,
)
from auditkit.store.config.config import Config
from auditkit.store.edits import resolution
from auditkit.store.edits.fields import edit_field
from auditkit.store.edits.reopening import reopened
from auditkit.store.edits.status import with_status
from auditkit.store.folder.repository import Change, Entry, Repository
from auditkit.store.folder.status_folders import folders_of, place_of, placed
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from auditkit.workflows.configuration import reviewer_name, tickets_configuration
from auditkit.workflows.fixes.fix_history import FixHistory
from auditkit.workflows.tickets.named_tests import TestedCode

_HASH = re.compile(r"[0-9a-f]{7,40}", re.IGNORECASE)
_SHOWN = 12


@dataclass(frozen=True)
class Move:
    """Where a ticket is to go: `checkout` is where its commits are looked up, `force` writes what is missing."""

    status: Status
    reason: str = ""
    commits: Sequence[str] = ()
    checkout: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Moved:
    """The change that was made, and what the ticket still lacks for the status that was asked for."""

    change: Change
    missing: tuple[Missing, ...] = ()

    @property
    def steps(self) -> list[Missing]:
        """What is missing, what is to be done next first."""
        return next_first(self.missing)


def move(repository: Repository, ticket_id: str, wanted: Move, today: datetime.date) -> Moved:
    """Give the ticket another status; nothing is written when it has it already.

    Raises BadInputError where the lifecycle has no such step, or where `fixed` lacks something and `force`
    is not set: each thing is named. With `force` they are named in the ticket.
    """
    config = tickets_configuration(repository)
    wanted = replace(wanted, commits=_hashes(wanted.commits, wanted.checkout or config.checkout or repository.folder))
    folders = folders_of(config, repository.folder)
    lacking: tuple[Missing, ...] = ()

    def edit(entry: Entry) -> Document:
        nonlocal lacking
        if entry.ticket.status is wanted.status and not wanted.commits:
            return entry.document
        changed = _entry(entry, resolution.name_commits(entry.document, wanted.commits))
        if entry.ticket.status is wanted.status:
            return changed.document
        reason = wanted.reason
        if wanted.status is Status.FIXED:
            reason = reason or _commits_as_reason(changed) or ("forced" if wanted.force else "")
        _check_step(entry, wanted.status, reason, needs_reason=wanted.status is not Status.FIXED)
        if wanted.status is Status.FIXED:
            history = fix_history(repository, config, wanted.checkout)
            lacking = lacking_for_fixed(changed.ticket, history, config.agents)
            if lacking and not wanted.force:
                raise _not_ready(entry, lacking)
            reason = _forced(reason, lacking)
        if entry.ticket.is_finished and not wanted.status.is_finished:
            changed = _entry(changed, reopened(changed.document, today))
        document = with_status(changed.document, wanted.status, reason, today)
        place_of(entry, ticket_of(document), folders)
        return document

    change = repository.change(ticket_id, edit)
    return Moved(placed(repository, change, folders), lacking)


@dataclass(frozen=True)
class ResolveRequest:
    """How a ticket ends: the status, why or by what, the commits and tests of the fix.

    With `may_say_so_already` no text is needed where the ticket's Resolution says what was done.
    """

    status: Status
    text: str
    commits: Sequence[str] = ()
    tests: Sequence[str] = ()
    checkout: str | None = None
    may_say_so_already: bool = False


def resolve(repository: Repository, ticket_id: str, request: ResolveRequest, today: datetime.date) -> Moved:
    """Fill in the Resolution and move the ticket, in one write.

    The steps before `fixed` are taken for the user. Where `fixed` lacks something (a sign-off can only
    follow the resolution), the ticket goes as far as in-review, and the outcome says what is missing.
    Raises BadInputError for a ticket that is finished or deferred, and for a text that says nothing.
    """
    if not request.text.strip() and not request.may_say_so_already:
        raise _says_nothing()
    config = tickets_configuration(repository)
    folders = folders_of(config, repository.folder)
    lacking: tuple[Missing, ...] = ()
    checkout = request.checkout or config.checkout or repository.folder
    request = replace(request, commits=_hashes(request.commits, checkout))
    code_of_tests = TestedCode.around(checkout, request.commits)
    code_of_tests.check(request.tests)

    def edit(entry: Entry) -> Document:
        nonlocal lacking
        old, told = entry.ticket.status, entry.ticket.resolution
        if not request.text.strip() and (told is None or not says_what_was_done(told)):
            raise _says_nothing(f"{entry.ticket.id}: ")
        if old is not None and old is not request.status and not steps_to(old, request.status):
            _check_step(entry, request.status, request.text or "said in the Resolution")
        changed = _entry(entry, _resolved(entry.document, request, today))
        target = request.status
        if target is Status.FIXED:
            history = fix_history(repository, config, request.checkout)
            lacking = lacking_for_fixed(changed.ticket, history, config.agents)
            target = Status.IN_REVIEW if lacking else target
        if old is target or (old is Status.FIXED and target is Status.IN_REVIEW):
            return changed.document
        reason = line(request.text) or _commits_as_reason(changed)
        changed = _before_last_step(changed, target)
        document = with_status(changed.document, target, reason if target is request.status else "", today)
        place_of(entry, ticket_of(document), folders)
        return document

    change = repository.change(ticket_id, edit)
    return Moved(placed(repository, change, folders), lacking)


@dataclass(frozen=True)
class Start:
    """Who takes a ticket, and whether to look into it or to mend it; `takes_over` from whoever has it."""

    who: str
    is_fix: bool = False
    takes_over: bool = False


def start(repository: Repository, ticket_id: str, wanted: Start, today: datetime.date) -> Change:
    """Give the ticket to somebody, and move it to investigating or fix-in-progress unless it is further already.

    Raises BadInputError where somebody else has it, or where it is in review, put off or finished.
    """
    target = Status.FIX_IN_PROGRESS if wanted.is_fix else Status.INVESTIGATING

    def edit(entry: Entry) -> Document:
        ticket = entry.ticket
        if ticket.status in (Status.IN_REVIEW, Status.FIXED):
            back = f"auditkit ticket status {ticket.id} {'open --reason ...' if ticket.is_finished else target}"
            raise BadInputError(f"{ticket.id} is {ticket.status} already", f"back again: {back}")
        if ticket.assignee.casefold() not in ("", wanted.who.casefold()) and not wanted.takes_over:
            raise BadInputError(f"{ticket.id} is assigned to {ticket.assignee}", f"--take gives it to {wanted.who}")
        changed = _entry(entry, edit_field(entry.document, "assignee", wanted.who))
        if ticket.status is not None and ticket.status in CHAIN[CHAIN.index(target) :]:
            return changed.document
        if ticket.status is not None and not steps_to(ticket.status, target):
            _check_step(entry, target, "")
        return with_status(_before_last_step(changed, target).document, target, "", today)

    return repository.change(ticket_id, edit)


def _before_last_step(entry: Entry, target: Status) -> Entry:
    """The ticket one step before `target`: the steps before the last one need no reason, and are not written down."""
    steps = steps_to(entry.ticket.status, target) if entry.ticket.status is not None else ()
    return _entry(entry, entry.document.set_field("Status", steps[-2].value)) if len(steps) > 1 else entry


def _says_nothing(whose: str = "") -> BadInputError:
    return BadInputError(f"{whose}nothing says what was done", '--text "scaled the sum", or --commit HASH')


def signer(repository: Repository, ticket: Ticket, agent: str | None) -> str:
    """As whom `agent`, or the one that reported the finding, signs. Raises BadInputError where that names nobody."""
    who = line(agent if agent is not None else ticket.agent).strip("`")
    if not who or "`" in who:
        raise BadInputError("who signs off?", "--agent pytorch")
    return reviewer_name(who, tickets_configuration(repository).agents)


def sign_off(repository: Repository, ticket_id: str, agent: str | None, note: str, today: datetime.date) -> Change:
    """Write into the Resolution that `agent`, or the one that reported the finding, accepts it."""

    def edit(entry: Entry) -> Document:
        name = signer(repository, entry.ticket, agent)
        return resolution.sign_off(entry.document, name, today.isoformat(), line(note))

    return repository.change(ticket_id, edit)


def _resolved(document: Document, request: ResolveRequest, today: datetime.date) -> Document:
    is_fix = request.status in (Status.FIXED, Status.ALREADY_FIXED)
    if request.text.strip():
        titles = resolution.FIX if is_fix else resolution.RATIONALE
        document = resolution.tell(document, titles, prose(request.text))
    document = resolution.name_commits(document, request.commits)
    if request.tests:
        names = [code(test).strip("`") for test in request.tests]
        document = resolution.name_all(document, resolution.TESTS, [name for name in names if name])
    return resolution.date_fix(document, today.isoformat()) if is_fix else document


def fix_history(repository: Repository, config: Config, checkout: str | None) -> FixHistory:
    """Of the named checkout, else of the configured one, else of the repository around the tickets."""
    return FixHistory(checkout or config.checkout or repository.folder)


def _entry(entry: Entry, document: Document) -> Entry:
    return Entry(entry.file, document, ticket_of(document))


def _check_step(entry: Entry, new: Status, reason: str, needs_reason: bool = True) -> None:
    old = entry.ticket.status
    if old is None:
        return
    permission = check_transition(old, new, reason if needs_reason else reason or "checked below")
    if not permission.is_allowed:
        raise BadInputError(f"{entry.ticket.id}: {permission.problem}", permission.hint)


def lacking_for_fixed(ticket: Ticket, history: FixHistory, agents: Mapping[str, str]) -> tuple[Missing, ...]:
    """What the ticket lacks for `fixed`; `agents` are their names by code."""
    commits = ticket.resolution.commits if ticket.resolution else ()
    there = [block.fingerprint for block in ticket.evidence if block.outcome == Outcome.REPRODUCED]
    reproducing = [fingerprint for fingerprint in there if fingerprint not in ticket.may_stay]
    still_to_prove = unproven(ticket, lambda revision: history.holds(commits, revision))
    return missing_for_fixed(ticket, tuple(history.problems(commits)), reproducing, agents, still_to_prove)


def _hashes(commits: Sequence[str], checkout: str | Path) -> list[str]:
    """Hashes as they are written; HEAD, a tag or another name of a commit as the hash that it has now."""
    return [commit.lower() if _HASH.fullmatch(commit) else _hash_of(commit, checkout) for commit in commits]


def _hash_of(name: str, checkout: str | Path) -> str:
    found = git.find_repository(parse_checkout(checkout).directory)
    if found is None:
        raise BadInputError(f"not a commit hash: '{line(name)}'", "--checkout DIR says whose name it is")
    return git.resolve_revision(found, name)[:_SHOWN]


def _commits_as_reason(entry: Entry) -> str:
    told = entry.ticket.resolution
    return f"commit {', '.join(told.commits)}" if told and told.commits else ""


def _forced(reason: str, lacking: Sequence[Missing]) -> str:
    if not lacking:
        return reason
    items = "; ".join(item.problem for item in lacking)
    return f"{reason}; forced, missing: {items}" if reason not in ("", "forced") else f"forced, missing: {items}"


def _not_ready(entry: Entry, lacking: Sequence[Missing]) -> BadInputError:
    items = "".join(f"\n  - {item.problem}" for item in lacking)
    hints = "; ".join(dict.fromkeys(item.hint for item in next_first(lacking)))
    return BadInputError(f"{entry.ticket.id} is not ready for fixed:{items}", f"{hints}; --force writes these down")
