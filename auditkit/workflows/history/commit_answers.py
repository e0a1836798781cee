"""What one question gets from one commit: checked out apart, the function found again, and asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from auditkit.model.enums import Outcome
from auditkit.model.revisions.bisection import CommitAnswer, State
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, open_checkout
from auditkit.probing.source_code.history.anchors import Anchor, AnchoredSource, FoundAgain
from auditkit.workflows.audit.measurement import ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.audit.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.workflows.proof.ticket_questions import Question

_STATES = {Outcome.REPRODUCED: State.REPRODUCED, Outcome.NOT_REPRODUCED: State.NOT_REPRODUCED}
_ORDER = ("same", "changed", "moved", "renamed", "lost")


class CommitAnswers:
    """One question about one function, asked of commits; `answers` are in their order, and `told` hears of each."""

    def __init__(
        self,
        spec: CheckoutSpec,
        options: RunOptions,
        question: Question,
        told: Callable[[CommitAnswer], None],
    ) -> None:
        self._spec, self._options, self._question, self._told = spec, options, question, told
        self._anchors: list[Anchor] = []
        self.answers: dict[str, CommitAnswer] = {}

    def of(self, commit: str) -> CommitAnswer:
        """The answer of a commit, asked if nobody knows it."""
        if commit not in self.answers:
            self.answers[commit] = self._ask(commit)
            self._told(self.answers[commit])
        return self.answers[commit]

    def look(self, commit: str, call: str) -> None:
        """Remember how the function `call` stands at a commit, if it is there."""
        with open_checkout(self._spec.at(commit), self._options.interpreter) as opened:
            self._remember(self._source(opened).anchor(call))

    def _ask(self, commit: str) -> CommitAnswer:
        with open_checkout(self._spec.at(commit), self._options.interpreter) as opened:
            source = self._source(opened)
            found = self._find(source)
            if found is not None and found.anchor is None:
                return self._without(commit, source)
            call = found.call if found is not None else self._question.target.call
            result, torch = self._measure(opened, replace(self._question.target, call=call))
        state = _STATES.get(result.outcome, State.SKIPPED)
        how = found.describe() if found is not None else ""
        said = inert_line(result.message)
        return CommitAnswer(commit, state, said, call, how, torch, result.device, was_known=result.remembered)

    def _without(self, commit: str, source: AnchoredSource) -> CommitAnswer:
        """The answer where the function was not found: a file that does not parse may hide it."""
        for call in dict.fromkeys([self._question.target.call, *(anchor.call for anchor in self._anchors)]):
            problem = source.problem(call)
            if problem is not None:
                why = inert_line(f"{problem.path}:{problem.line}: {problem.message}")
                return CommitAnswer(commit, State.SKIPPED, why, found="lost")
        return CommitAnswer(commit, State.ABSENT, "the function is not there, nor one like it", found="lost")

    def _source(self, opened: OpenCheckout) -> AnchoredSource:
        return AnchoredSource(opened.path, self._options.import_roots(opened))

    def _find(self, source: AnchoredSource) -> FoundAgain | None:
        """Where the function is at this commit; None where neither end defines it, so that its name is all we have."""
        if not self._anchors:
            return None
        again = (source.find_again(anchor) for anchor in self._anchors)
        found = min(again, key=lambda one: (_ORDER.index(one.state.value), -one.similarity))
        if found.anchor is not None:
            self._remember(found.anchor)
        return found

    def _remember(self, anchor: Anchor | None) -> None:
        if anchor is not None and anchor.digest not in [known.digest for known in self._anchors]:
            self._anchors.append(anchor)

    def _measure(self, opened: OpenCheckout, target: Target) -> tuple[ProbeResult, str]:
        probe = self._question.probe
        if probe.scope == "source":
            return _read(self._options, opened, target, probe), ""
        run = ask(self._options, opened, [target], [probe])
        return run.results[0], run.environment.torch


def _read(options: RunOptions, opened: OpenCheckout, target: Target, probe: ProbeInfo) -> ProbeResult:
    """What reading the source says of the target's module, or of the target in it."""
    questions = SourceQuestions([probe], SourceScope.TARGETS, [target], options)
    results = read_source(questions, opened).results
    own = [result for result in results if result.target == target.call]
    unread = [result for result in results if result.outcome is Outcome.ERROR]
    if own or unread:
        return (own or unread)[0]
    # Findings about other functions of the module say nothing against this one.
    message = f"nothing about {target.call}"
    return replace(results[0], outcome=Outcome.NOT_REPRODUCED, target=target.call, message=message)
