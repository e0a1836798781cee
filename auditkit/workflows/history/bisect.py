"""The first commit after which a finding reproduces, or no longer does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from auditkit.errors import BadInputError, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.revisions.bisection import Bisection, CommitAnswer, State
from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, parse_checkout
from auditkit.probing.checkouts.git import between, is_ancestor, merge_base
from auditkit.probing.hosts.catalog import select
from auditkit.probing.source_code.history.changes import read_commit
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.configuration import catalog_of
from auditkit.workflows.history.commit_answers import CommitAnswers
from auditkit.workflows.proof.revisions import Revisions
from auditkit.workflows.proof.ticket_questions import Question, bound_questions, first_located


@dataclass(frozen=True)
class BisectRequest:
    """Which finding of which ticket, in which history.

    `good` and `bad` are revisions of `checkout` (a directory without one) that answer differently, in either
    order of time. `probe` and `target` choose among the ticket's questions, or name one that it does not ask.
    """

    ticket: Ticket
    checkout: str
    good: str
    bad: str
    options: RunOptions = field(default_factory=RunOptions)
    probe: str | None = None
    target: Target | None = None


Told = Callable[[CommitAnswer, int], None]
"""Told of every answer, and how many commits can still be the first one."""


def bisect(request: BisectRequest, told: Told = lambda *_: None) -> Bisection:
    """Ask the finding's probe at about log2 of the commits between two revisions.

    Each commit is checked out apart, and the function followed over renames; one that gives no answer (it
    cannot be imported, the function is not there) is skipped. Where the options have a memory, the same
    call goes on where an earlier one was stopped.

    Raises BadInputError for revisions that are not there, have no common history, or answer alike;
    TargetNotLoadedError or NothingMeasuredError where one of the two gives no answer.
    """
    spec = parse_checkout(request.checkout)
    repository = git.find_repository(spec.directory)
    if spec.revision or repository is None:
        raise BadInputError(
            f"{inert_line(request.checkout)} is not the directory of a git repository",
            "--checkout DIR, with the revisions as --good REV --bad REV",
        )
    good, bad = (git.resolve_revision(repository, revision) for revision in (request.good, request.bad))
    if good == bad:
        raise BadInputError(f"{request.good} and {request.bad} are the same commit, {good[:12]}")
    search = _Search(request, spec, repository, _question(request, spec, (bad, good)), told)
    return search.run(*search.ends(good, bad))


def _question(request: BisectRequest, spec: CheckoutSpec, commits: Sequence[str]) -> Question:
    """The one question to ask: the ticket's first, unless the request names another."""
    catalog = catalog_of(request.options.config)
    named = select(catalog, [request.probe])[0] if request.probe else None
    questions = bound_questions(request.ticket, request.options.config, catalog)
    for question in questions:
        if named is not None and question.probe.id != named.id:
            continue
        if request.target is None or question.target.call == request.target.call:
            return question if request.target is None else replace(question, target=request.target)
    probe = named or (questions[0].probe if questions else None)
    if probe is None:
        raise BadInputError(f"{request.ticket.id} is bound to no probe", "name one: --probe CLAIM; auditkit probe list")
    with Revisions(spec, request.options) as code:
        checkouts = (code.open(commit) for commit in commits)
        target = request.target or first_located(request.ticket, checkouts, request.options.config)
    return Question(probe, target, "")


class _Search:
    """The bisection of one question over one repository."""

    def __init__(
        self, request: BisectRequest, spec: CheckoutSpec, repository: git.Repository, question: Question, told: Told
    ) -> None:
        self._request, self._repository, self._question, self._remaining = request, repository, question, 0
        self._asked = CommitAnswers(spec, request.options, question, lambda answer: told(answer, self._remaining))

    def ends(self, good: str, bad: str) -> tuple[CommitAnswer, CommitAnswer]:
        """The older and the newer end, which answer differently; where histories parted, that commit is asked, too."""
        for commit in (bad, good):
            self._asked.look(commit, self._question.target.call)
        one, other = self._end(bad), self._end(good)
        if is_ancestor(self._repository, one.commit, other.commit):
            older, newer = one, other
        elif is_ancestor(self._repository, other.commit, one.commit):
            older, newer = other, one
        else:
            older = self._end(merge_base(self._repository, good, bad))
            newer = one if one.state is not older.state else other
        self._check(older, newer)
        return older, newer

    def _end(self, commit: str) -> CommitAnswer:
        answer = self._asked.of(commit)
        if answer.state is not State.SKIPPED:
            return answer
        error = NothingMeasuredError if answer.torch else TargetNotLoadedError
        raise error(f"{commit[:12]} gives no answer: {answer.why}", "name another revision near it")

    def _check(self, older: CommitAnswer, newer: CommitAnswer) -> None:
        if newer.state is State.ABSENT:
            raise BadInputError(
                f"{newer.commit[:12]} has no {self._question.target.call}, nor one like it",
                "name an earlier revision, at which it is still there",
            )
        if older.state is newer.state or State.REPRODUCED not in (older.state, newer.state):
            words = dict.fromkeys(answer.state.value.replace("_", " ") for answer in (older, newer))
            raise BadInputError(
                f"{older.commit[:12]} and {newer.commit[:12]} answer alike: {' and '.join(words)}",
                "--good and --bad name two revisions of which one reproduces the finding and the other does not",
            )

    def run(self, older: CommitAnswer, newer: CommitAnswer) -> Bisection:
        """Halve what lies between the ends until one commit is left, or only such as give no answer."""
        olds, first, silent, misses = [older.commit], newer.commit, list[str](), 0
        commit_count = len(between(self._repository, first, olds))
        while True:
            candidates = between(self._repository, first, olds)[:-1]
            self._remaining = len(candidates)
            chosen = choose(candidates, silent, misses)
            if chosen is None:
                break
            side = side_of(self._asked.of(chosen), older, newer)
            misses = misses + 1 if side is None else 0
            if side is None:
                silent.append(chosen)
            elif side is newer.state:
                first = chosen
            else:
                olds.append(chosen)
        commit, files = (None, ()) if candidates else read_commit(self._repository, first)
        return Bisection(
            ticket=self._request.ticket.id,
            probe=self._question.probe.id,
            target=self._question.target.call,
            older=older,
            newer=newer,
            first="" if candidates else first,
            candidates=(*candidates, first),
            answers=tuple(self._asked.answers.values()),
            commit_count=commit_count,
            commit=commit,
            files=files,
        )


def side_of(answer: CommitAnswer, older: CommitAnswer, newer: CommitAnswer) -> State | None:
    """The end of the bisection that this commit is like; None for one that says nothing.

    A commit without the function says nothing, unless the older end has none either: then the finding is not
    there yet. So does one without the finding in that case.
    """
    if answer.state is newer.state:
        return newer.state
    if answer.state is older.state:
        return older.state
    if older.state is State.ABSENT and answer.state is State.NOT_REPRODUCED:
        return older.state
    return None


def choose(candidates: Sequence[str], silent: Sequence[str], misses: int) -> str | None:
    """The commit to ask, of `candidates` with the best one first; None where all of them are silent.

    After `misses` silent ones in a row it moves away from the best in steps that double: commits that cannot
    be imported come in rows, and each of them costs as much as an answer.
    """
    known = set(silent)
    open_ = [commit for commit in candidates if commit not in known]
    return open_[min(2**misses - 1, len(open_) - 1)] if open_ else None
