"""The first commit after which a finding reproduces, or no longer does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import auditkit
from auditkit.errors import BadInputError, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.bisection import Bisection, CommitAnswer, State
from auditkit.model.enums import Outcome
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import ProbeResult
from auditkit.model.target import Target
from auditkit.model.text import inert_line
from auditkit.model.ticket import Ticket
from auditkit.probing import git
from auditkit.probing.anchors import Anchor, AnchoredSource, FoundAgain
from auditkit.probing.catalog import load_catalog, select
from auditkit.probing.checkout import CheckoutSpec, OpenCheckout, import_roots, open_checkout, parse_checkout
from auditkit.probing.history import between, is_ancestor, merge_base, read_commit
from auditkit.rules.bisecting import choose, side_of
from auditkit.store.answer_log import AnswerLog
from auditkit.workflows.asking import Manner, ask
from auditkit.workflows.bound import Question, bound_questions, located_target
from auditkit.workflows.source_audit import SourceQuestions, SourceScope, read_source

_STATES = {Outcome.REPRODUCED: State.REPRODUCED, Outcome.NOT_REPRODUCED: State.NOT_REPRODUCED}


@dataclass(frozen=True)
class BisectRequest:
    """Which finding of which ticket, in which history.

    `good` and `bad` are revisions of `checkout` (a directory without one) that answer differently, in either
    order of time. `probe` and `target` choose among the ticket's questions, or name one that it does not ask.
    `fresh` forgets what earlier bisections of this question were told.
    """

    ticket: Ticket
    checkout: str
    good: str
    bad: str
    manner: Manner = field(default_factory=Manner)
    probe: str | None = None
    target: Target | None = None
    fresh: bool = False


Told = Callable[[CommitAnswer, int], None]
"""Told of every answer, and how many commits can still be the first one."""


def bisect(request: BisectRequest, told: Told = lambda *_: None) -> Bisection:
    """Ask the finding's probe at about log2 of the commits between two revisions.

    Each commit is checked out apart, and the function followed over renames; one that gives no answer (it
    cannot be imported, the function is not there) is skipped. Answers are kept, so that the same call goes on
    where an earlier one was stopped.

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
    asked = _Asked(request, spec, _question(request, spec, (bad, good)), told)
    older, newer = asked.ends(repository, good, bad)
    return asked.search(repository, older, newer)


def _question(request: BisectRequest, spec: CheckoutSpec, commits: Sequence[str]) -> Question:
    """The one question to ask: the ticket's first, unless the request names another."""
    catalog = load_catalog(request.manner.config.probes_dir)
    named = select(catalog, [request.probe])[0] if request.probe else None
    questions = bound_questions(request.ticket, request.manner.config, catalog)
    for question in questions:
        if named is not None and question.probe.id != named.id:
            continue
        if request.target is None or question.target.call == request.target.call:
            return question if request.target is None else replace(question, target=request.target)
    probe = named or (questions[0].probe if questions else None)
    if probe is None:
        raise BadInputError(f"{request.ticket.id} is bound to no probe", "name one: --probe CLAIM; auditkit probe list")
    target = request.target or _located(request, spec, commits)
    return Question(probe, target, "")


def _located(request: BisectRequest, spec: CheckoutSpec, commits: Sequence[str]) -> Target:
    """The function of the ticket's Location, in the first of `commits` that has it."""
    for number, commit in enumerate(commits, start=1):
        with _open(spec, commit, request.manner) as opened:
            roots = import_roots(opened.path, request.manner.config.import_roots)
            try:
                return located_target(request.ticket, opened.path, roots, request.manner.config)
            except BadInputError:
                if number == len(commits):
                    raise
    raise AssertionError("no commit to look at")


def _open(spec: CheckoutSpec, commit: str, manner: Manner) -> AbstractContextManager[OpenCheckout]:
    at = CheckoutSpec(f"{spec.text}@{commit}", spec.directory, commit)
    return open_checkout(at, manner.python or manner.config.python)


class _Asked:
    """One question, and what every commit answered so far, in this call or an earlier one."""

    def __init__(self, request: BisectRequest, spec: CheckoutSpec, question: Question, told: Told) -> None:
        self._request, self._spec, self._question, self._told = request, spec, question, told
        self._anchors: list[Anchor] = []
        self._remaining = 0
        self.answers: dict[str, CommitAnswer] = {}
        self._log = AnswerLog("bisect", self._identity())
        if request.fresh:
            self._log.forget()

    def _identity(self) -> dict[str, object]:
        """What makes two answers about one commit the same."""
        manner = self._request.manner
        return {
            "directory": str(self._spec.directory.resolve()),
            "probe": [self._question.probe.id, self._question.probe.version],
            "target": self._question.target.to_json(),
            "python": str(manner.python or manner.config.python or ""),
            "device": manner.device.value,
            "policy": {name: str(value) for name, value in manner.config.policy.items()},
            "import_roots": list(manner.config.import_roots),
            "auditkit": auditkit.__version__,
        }

    def ends(self, repository: git.Repository, good: str, bad: str) -> tuple[CommitAnswer, CommitAnswer]:
        """The older and the newer end, which answer differently: where histories parted, that commit is asked, too."""
        for commit in (bad, good):
            self._look(commit, self._question.target.call)
        one, other = self._end(bad), self._end(good)
        if is_ancestor(repository, one.commit, other.commit):
            older, newer = one, other
        elif is_ancestor(repository, other.commit, one.commit):
            older, newer = other, one
        else:
            older = self._end(merge_base(repository, good, bad))
            newer = one if one.state is not older.state else other
        if newer.state is State.ABSENT:
            raise BadInputError(
                f"{newer.commit[:12]} has no {self._question.target.call}, nor one like it",
                "name an earlier revision, at which it is still there",
            )
        if older.state is newer.state or State.REPRODUCED not in (older.state, newer.state):
            raise BadInputError(
                f"{older.commit[:12]} and {newer.commit[:12]} answer alike: {_alike(older, newer)}",
                "--good and --bad name two revisions of which one reproduces the finding and the other does not",
            )
        return older, newer

    def _end(self, commit: str) -> CommitAnswer:
        answer = self._answer(commit)
        if answer.state is not State.SKIPPED:
            return answer
        error = NothingMeasuredError if answer.torch else TargetNotLoadedError
        raise error(f"{commit[:12]} gives no answer: {answer.why}", "name another revision near it")

    def search(self, repository: git.Repository, older: CommitAnswer, newer: CommitAnswer) -> Bisection:
        olds, first, silent, misses = [older.commit], newer.commit, list[str](), 0
        commit_count = len(between(repository, first, olds))
        while True:
            candidates = between(repository, first, olds)[:-1]
            self._remaining = len(candidates)
            chosen = choose(candidates, silent, misses)
            if chosen is None:
                break
            answer = self._answer(chosen)
            side = side_of(answer, older, newer)
            if side is None:
                silent.append(chosen)
                misses += 1
            elif side is newer.state:
                first, misses = chosen, 0
            else:
                olds, misses = [*olds, chosen], 0
        return Bisection(
            ticket=self._request.ticket.id,
            probe=self._question.probe.id,
            target=self._question.target.call,
            older=older,
            newer=newer,
            first="" if candidates else first,
            candidates=(*candidates, first),
            answers=tuple(self.answers.values()),
            commit_count=commit_count,
            commit=None if candidates else read_commit(repository, first),
        )

    def _answer(self, commit: str) -> CommitAnswer:
        if commit not in self.answers:
            known = self._known(commit)
            answer = known or self._ask(commit)
            if known is None:
                self._keep(answer)
            elif known.found not in ("", "same", "lost"):
                self._look(commit, known.call)  # as the first asking saw it, for commits that are still to be asked
            self.answers[commit] = answer
            self._told(answer, self._remaining)
        return self.answers[commit]

    def _known(self, commit: str) -> CommitAnswer | None:
        said = self._log.known.get(commit)
        try:
            return CommitAnswer(**{**said, "state": State(said["state"]), "was_known": True}) if said else None
        except (TypeError, ValueError, KeyError):
            return None

    def _keep(self, answer: CommitAnswer) -> None:
        """Keep it for the next call; what another torch said under the same path is worth nothing then."""
        others = {said.get("torch") for said in self._log.known.values()} - {"", answer.torch}
        if answer.torch and others:
            self._log.forget()
        said = {**vars(answer), "state": answer.state.value}
        del said["was_known"]
        self._log.add(answer.commit, said)

    def _ask(self, commit: str) -> CommitAnswer:
        with _open(self._spec, commit, self._request.manner) as opened:
            source = self._source(opened)
            found = self._find(source)
            if found is not None and found.anchor is None:
                return self._without(commit, source)
            call = found.call if found is not None else self._question.target.call
            result, torch = self._measure(opened, replace(self._question.target, call=call))
        state = _STATES.get(result.outcome, State.SKIPPED)
        how = found.describe() if found is not None else ""
        return CommitAnswer(commit, state, inert_line(result.message), call, how, torch, result.device)

    def _without(self, commit: str, source: AnchoredSource) -> CommitAnswer:
        """The answer where the function was not found: a file that does not parse may hide it."""
        for call in dict.fromkeys([self._question.target.call, *(anchor.call for anchor in self._anchors)]):
            problem = source.problem(call)
            if problem is not None:
                why = inert_line(f"{problem.path}:{problem.line}: {problem.message}")
                return CommitAnswer(commit, State.SKIPPED, why, found="lost")
        return CommitAnswer(commit, State.ABSENT, "the function is not there, nor one like it", found="lost")

    def _source(self, opened: OpenCheckout) -> AnchoredSource:
        return AnchoredSource(opened.path, import_roots(opened.path, self._request.manner.config.import_roots))

    def _find(self, source: AnchoredSource) -> FoundAgain | None:
        """Where the function is at this commit; None where neither end defines it, so that its name is all we have."""
        if not self._anchors:
            return None
        found = _best([source.find_again(anchor) for anchor in self._anchors])
        if found.anchor is not None:
            self._remember(found.anchor)
        return found

    def _remember(self, anchor: Anchor | None) -> None:
        if anchor is not None and anchor.digest not in [known.digest for known in self._anchors]:
            self._anchors.append(anchor)

    def _look(self, commit: str, call: str) -> None:
        """Remember how the function `call` stands at a commit, if it is there."""
        with _open(self._spec, commit, self._request.manner) as opened:
            self._remember(self._source(opened).anchor(call))

    def _measure(self, opened: OpenCheckout, target: Target) -> tuple[ProbeResult, str]:
        probe = self._question.probe
        if probe.scope == "source":
            return _read(self._request.manner, opened, target, probe), ""
        run = ask(self._request.manner, opened, [target], [probe])
        return run.results[0], run.environment.torch


_ORDER = ("same", "changed", "moved", "renamed", "lost")


def _best(found: Sequence[FoundAgain]) -> FoundAgain:
    return min(found, key=lambda one: (_ORDER.index(one.state.value), -one.similarity))


def _read(manner: Manner, opened: OpenCheckout, target: Target, probe: ProbeInfo) -> ProbeResult:
    """What reading the source says of the target's module, or of the target in it."""
    config = manner.config
    questions = SourceQuestions(
        [probe], SourceScope.TARGETS, [target], config.import_roots, config.policy, config.severity, manner.time_limit_s
    )
    results = read_source(questions, opened, lambda _: None).results
    own = [result for result in results if result.target == target.call]
    unread = [result for result in results if result.outcome is Outcome.ERROR]
    if own or unread:
        return (own or unread)[0]
    # Findings about other functions of the module say nothing against this one.
    message = f"nothing about {target.call}"
    return replace(results[0], outcome=Outcome.NOT_REPRODUCED, target=target.call, message=message)


def _alike(older: CommitAnswer, newer: CommitAnswer) -> str:
    words = [answer.state.value.replace("_", " ") for answer in (older, newer)]
    return " and ".join(dict.fromkeys(words))
