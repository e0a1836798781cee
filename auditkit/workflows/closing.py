"""Moving a ticket: to a status whose conditions it has to meet, with a resolution, with a sign-off."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.ticket import Status
from auditkit.probing import git
from auditkit.probing.checkout import CheckoutSpec, parse_checkout
from auditkit.probing.git import is_ancestor
from auditkit.rendering.markdown import code, line, prose
from auditkit.rules.fixed import unproven
from auditkit.rules.lifecycle import Missing, check_transition, missing_for_fixed, steps_to
from auditkit.store.config import find_config, read_config
from auditkit.store.document import Document
from auditkit.store.edits import resolution
from auditkit.store.evidence import says_reproduced
from auditkit.store.reader import ticket_of
from auditkit.store.repository import Change, Entry, Repository, with_status
from auditkit.workflows.agents import configured_agents, reviewer_name
from auditkit.workflows.placing import configured_folders, placed


@dataclass(frozen=True)
class Move:
    """Where a ticket is to go: `checkout` is where its commits are looked up, `force` writes what is missing."""

    status: Status
    reason: str = ""
    commits: Sequence[str] = ()
    checkout: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Outcome:
    """The change that was made, and what the ticket still lacks for the status that was asked for."""

    change: Change
    missing: tuple[Missing, ...] = ()


def move(repository: Repository, ticket_id: str, wanted: Move, today: datetime.date) -> Outcome:
    """Give the ticket another status; nothing is written when it has it already.

    Raises BadInputError where the lifecycle has no such step, or where `fixed` lacks something and `force`
    is not set: each thing is named. With `force` they are named in the ticket.
    """
    lacking: tuple[Missing, ...] = ()

    def edit(entry: Entry) -> Document:
        nonlocal lacking
        if entry.ticket.status is wanted.status and not wanted.commits:
            return entry.document
        changed = _entry(entry, resolution.name_commits(entry.document, _checked_hashes(wanted.commits)))
        if entry.ticket.status is wanted.status:
            return changed.document
        reason = wanted.reason
        if wanted.status is Status.FIXED:
            reason = reason or _commits_as_reason(changed) or ("forced" if wanted.force else "")
        _check_step(entry, wanted.status, reason, needs_reason=wanted.status is not Status.FIXED)
        if wanted.status is Status.FIXED:
            lacking = lacking_for_fixed(changed, repository, wanted.checkout)
            if lacking and not wanted.force:
                raise _not_ready(entry, lacking)
            reason = _forced(reason, lacking)
        return with_status(changed, wanted.status, reason, today)

    change = repository.change(ticket_id, edit)
    return Outcome(placed(repository, change, configured_folders(repository)), lacking)


@dataclass(frozen=True)
class ResolveRequest:
    """How a ticket ends: the status, why or by what, the commits and tests of the fix."""

    status: Status
    text: str
    commits: Sequence[str] = ()
    tests: Sequence[str] = ()
    checkout: str | None = None


def resolve(repository: Repository, ticket_id: str, request: ResolveRequest, today: datetime.date) -> Outcome:
    """Fill in the Resolution and move the ticket, in one write.

    The steps before `fixed` are taken for the user. Where `fixed` lacks something (a sign-off can only
    follow the resolution), the ticket goes as far as in-review, and the outcome says what is missing.
    Raises BadInputError for a ticket that is finished or deferred, and for a text that says nothing.
    """
    if not request.text.strip():
        raise BadInputError("a resolution says something", '--text "..."')
    lacking: tuple[Missing, ...] = ()

    def edit(entry: Entry) -> Document:
        nonlocal lacking
        old = entry.ticket.status
        if old is not None and old is not request.status and not steps_to(old, request.status):
            _check_step(entry, request.status, request.text)
        changed = _entry(entry, _resolved(entry.document, request, today))
        target = request.status
        if target is Status.FIXED:
            lacking = lacking_for_fixed(changed, repository, request.checkout)
            target = Status.IN_REVIEW if lacking else target
        if old is target or (old is Status.FIXED and target is Status.IN_REVIEW):
            return changed.document
        steps = steps_to(old, target) if old is not None else ()
        if len(steps) > 1:
            # The steps before the last one need no reason, so only the last one is written down.
            changed = _entry(changed, changed.document.set_field("Status", steps[-2].value))
        return with_status(changed, target, line(request.text) if target is request.status else "", today)

    change = repository.change(ticket_id, edit)
    return Outcome(placed(repository, change, configured_folders(repository)), lacking)


def sign_off(repository: Repository, ticket_id: str, agent: str | None, note: str, today: datetime.date) -> Change:
    """Write into the Resolution that `agent`, or the one that reported the finding, accepts it."""

    def edit(entry: Entry) -> Document:
        who = line(agent if agent is not None else entry.ticket.agent).strip("`")
        if not who or "`" in who:
            raise BadInputError("who signs off?", "--agent pytorch")
        return resolution.sign_off(entry.document, reviewer_name(who, repository), today.isoformat(), line(note))

    return repository.change(ticket_id, edit)


def _resolved(document: Document, request: ResolveRequest, today: datetime.date) -> Document:
    is_fix = request.status in (Status.FIXED, Status.ALREADY_FIXED)
    document = resolution.tell(document, resolution.FIX if is_fix else resolution.RATIONALE, prose(request.text))
    document = resolution.name_commits(document, _checked_hashes(request.commits))
    if request.tests:
        names = [code(test).strip("`") for test in request.tests]
        document = resolution.name_all(document, resolution.TESTS, [name for name in names if name])
    return resolution.date_fix(document, today.isoformat()) if is_fix else document


def _entry(entry: Entry, document: Document) -> Entry:
    return Entry(entry.file, document, ticket_of(document))


def _check_step(entry: Entry, new: Status, reason: str, needs_reason: bool = True) -> None:
    old = entry.ticket.status
    if old is None:
        return
    verdict = check_transition(old, new, reason if needs_reason else reason or "checked below")
    if not verdict.is_allowed:
        raise BadInputError(f"{entry.ticket.id}: {verdict.problem}", verdict.hint)


def lacking_for_fixed(entry: Entry, repository: Repository, checkout: str | None) -> tuple[Missing, ...]:
    """What the ticket lacks for `fixed`; `checkout` is where its commits are looked up, as in `commit_problems`."""
    document, told = entry.document, entry.ticket.resolution
    blocks = [block for block in document.evidence if block.fingerprint]
    reproducing = [
        block.fingerprint for block in blocks if says_reproduced(document.data[block.span.start : block.span.end])
    ]
    commits = told.commits if told else ()
    problems = commit_problems(commits, repository.folder, checkout)
    after = _contains(commits, repository.folder, checkout)
    return missing_for_fixed(
        entry.ticket, tuple(problems), reproducing, configured_agents(repository), unproven(entry.ticket, after)
    )


def _contains(commits: Sequence[str], tickets: Path, checkout: str | None) -> Callable[[str], bool]:
    """Whether a revision contains every one of `commits`."""

    def contains(revision: str) -> bool:
        found = git.find_repository(_commits_in(tickets, checkout).directory)
        return found is not None and all(is_ancestor(found, commit, revision) for commit in commits)

    return contains


def _commits_in(tickets: Path, checkout: str | None) -> CheckoutSpec:
    """Where commits are looked up: the named checkout, that of ./auditkit.yaml, or what is around the tickets."""
    config = find_config(Path()) if checkout is None else None
    return parse_checkout(checkout or (read_config(config).checkout if config else None) or tickets)


def commit_problems(commits: Sequence[str], tickets: Path, checkout: str | None) -> Iterator[str]:
    """What git says against the commits: none of that name, or on no branch.

    They are looked up in `checkout` (`DIR` or `DIR@REV`, whose history has to hold them), else in that of
    ./auditkit.yaml, else in the repository around the tickets.
    """
    if not commits:
        return
    spec = _commits_in(tickets, checkout)
    repository = git.find_repository(spec.directory)
    if repository is None:
        yield f"{spec.directory} is in no git repository, so its commits cannot be looked up"
        return
    for commit in commits:
        found = git.run_git(repository.directory, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
        if found.returncode != 0:
            yield f"commit {commit} is not in {spec.directory}"
        elif not _is_reachable(repository, found.stdout.strip(), spec.revision):
            yield f"commit {commit} is not in the history of {spec.revision or 'any branch'} of {spec.directory}"


def _is_reachable(repository: git.Repository, commit: str, revision: str) -> bool:
    ancestor = git.run_git(repository.directory, "merge-base", "--is-ancestor", commit, revision or "HEAD")
    if ancestor.returncode == 0 or revision:
        return ancestor.returncode == 0
    branches = git.run_git(repository.directory, "for-each-ref", "--count=1", f"--contains={commit}", "refs/heads")
    return bool(branches.stdout.strip())


def _checked_hashes(commits: Sequence[str]) -> list[str]:
    for commit in commits:
        if not 7 <= len(commit) <= 40 or set(commit.lower()) - set("0123456789abcdef"):
            raise BadInputError(f"not a commit hash: '{line(commit)}'", "git log --oneline shows them: 3f2a9c1")
    return [commit.lower() for commit in commits]


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
    hints = "; ".join(dict.fromkeys(item.hint for item in lacking))
    return BadInputError(f"{entry.ticket.id} is not ready for fixed:{items}", f"{hints}; --force writes these down")
