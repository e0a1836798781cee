"""Make candidate targets of functions that return statistics of gradients, with evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from auditkit.model.enums import Contract
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.target import Target
from auditkit.probing.find import answers, vocabulary
from auditkit.probing.find.answers import consumed_keys
from auditkit.probing.find.collector_calls import CollectorCalls, marked_parameters, may_read_gradients
from auditkit.probing.find.gradient_flow import GradientFlow, trace, updates_parameters
from auditkit.probing.find.gradient_names import clips, is_about_figures, is_named_for_clipping
from auditkit.probing.source.modules import Function

_TRAINS = "it trains: it calls backward or an optimizer"
_DIFFERENTIATES = "it differentiates: no optimizer sees these gradients"


@dataclass(frozen=True)
class Candidate:
    """A function that looks like a collector; the worker finds out how to feed it.

    `call` is `module:qualified.name`. `finish_candidates` are in order of likelihood. `arguments` are extra keyword
    arguments, and `obstacles` say why auditkit does not try it. `covered_by` are the public candidates that call this
    private one: auditkit audits it through them. `places` call a library's function; only a block has a `last_line`.
    """

    call: str
    file: str
    line: int
    contract_guess: Contract
    finish_candidates: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    obstacles: tuple[str, ...] = ()
    covered_by: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    last_line: int | None = None

    def as_target(self) -> Target:
        """Return the target with the first guesses."""
        return Target(
            call=self.call,
            contract=self.contract_guess,
            finish=next(iter(self.finish_candidates), None),
            arguments=self.arguments,
            places=self.places,
        )


class Candidates:
    """Makes candidates of the collectors of a checkout."""

    def __init__(self, calls: CollectorCalls) -> None:
        self.calls = calls
        self.finishers = find_finishers(calls)
        self.passed_over: list[FoundCandidate] = []

    def read(self) -> Iterator[Candidate]:
        """Yield every candidate, and one more for each flag that changes its result.

        Then `passed_over` has the functions that handle gradients and are not candidates, with the reason.
        """
        for function, flow in self.calls.joiners.items():
            if flow.differentiates:
                self._pass_over(function, _DIFFERENTIATES)
        for function, flow in self.calls.collectors.items():
            why = self._why_not(function, flow)
            is_near = flow.grad_reads or flow.reductions or flow.returns_statistics or flow.clips or flow.stores
            if why or not is_near:
                why = why or "it only logs what other functions compute"
                self._pass_over(function, why)
                continue
            candidate = self._candidate(function, flow)
            yield candidate
            for flag in answers.flags_of(function):
                yield replace(candidate, arguments={flag: True})

    def _pass_over(self, function: Function, why: str) -> None:
        place = (function.call, function.module.file, function.node.lineno)
        self.passed_over.append(FoundCandidate(*place, excluded=why))

    def _why_not(self, function: Function, flow: GradientFlow) -> str:
        """Say why a function with statistics of gradients is not a candidate; "" for a candidate."""
        why = why_excluded(function, flow)
        if not why and self.calls.trains_through(function):
            why = _TRAINS
        # `self.bad = self.has_overflow()` in a private method only stores another function's result.
        if not why and _is_private(function):
            tells = flow.returns_statistics or flow.clips or flow.reports or flow.reductions
            why = "" if tells else "it only stores the result of another function"
        return why

    def _callers(self, function: Function) -> Iterator[str]:
        """Yield the public collectors that call a private one, at any depth."""
        if not _is_private(function):
            return
        waiting, seen = [function], {function}
        while waiting:
            callee = waiting.pop()
            for caller in self.calls.callers(callee):
                if caller not in seen:
                    seen.add(caller)
                    waiting.append(caller)
                    if not (_is_private(caller) or why_excluded(caller, self.calls.collectors[caller])):
                        yield caller.call

    def _candidate(self, function: Function, flow: GradientFlow) -> Candidate:
        return Candidate(
            call=function.call,
            file=function.module.file,
            line=function.node.lineno,
            contract_guess=_contract(function, flow),
            finish_candidates=tuple(item.call for item in pair(function, self.finishers, self.calls)),
            covered_by=tuple(self._callers(function)),
        )


def _contract(function: Function, flow: GradientFlow) -> Contract:
    """Guess what a function returns, from its source; a trial that calls it corrects the guess."""
    several = answers.returns_several(function)
    is_limit = is_named_for_clipping(function.name) and not clips(function.name)
    if flow.clips:
        return Contract.GRAD_STATS if several else Contract.GRAD_NORM
    if "hook" in function.name and flow.stores and function.owner is not None:
        return Contract.MONITOR
    # `get_clip_coef` returns a factor, not a norm.
    is_other = answers.tells_flags(function, flow) or is_about_figures(function.name) or is_limit
    is_norm = bool(flow.returns or flow.stores) and not (flow.reports and not flow.returns)
    return Contract.GRAD_NORM if is_norm and not (several or is_other) else Contract.GRAD_STATS


def collects_by_itself(function: Function) -> bool:
    """Return whether a function reads gradients and returns statistics of them, without its helpers."""
    if not may_read_gradients(function):
        return False
    flow = trace(function.node, marked_parameters(function), lambda _call, _given: None)
    return flow.returns_statistics and not why_excluded(function, flow)


def why_excluded(function: Function, flow: GradientFlow) -> str:
    """Say why a function with statistics is not a collector (part of training, not for users); "" for a collector."""
    if function.name.startswith("__") and function.name.endswith("__") and function.name != "__call__":
        return "Python calls it, not a user"
    if function.decorators & vocabulary.NOT_CALLED:
        return f"it is decorated with {', '.join(sorted(function.decorators & vocabulary.NOT_CALLED))}"
    if vocabulary.AUTOGRAD.fullmatch(function.name) is not None and "hook" not in function.name:
        return "it is a forward or backward pass"
    if flow.trains:
        return _TRAINS
    return "it updates parameters" if updates_parameters(function.nodes) else ""


def _is_private(function: Function) -> bool:
    return any(part.startswith("_") for part in function.qualified_name.split("."))


_READS_TO_HOST = re.compile(r"\.(item|tolist|cpu|numpy)\(")


@dataclass(frozen=True)
class Finisher:
    """A function whose only argument is a collector's result; `keys` are the text keys that it reads of it."""

    function: Function
    keys: tuple[str, ...]
    is_named: bool


def find_finishers(calls: CollectorCalls) -> list[Finisher]:
    """Return the functions that could finish a collection: by name, or because they copy a mapping to the host."""
    found = []
    for function in calls.files.functions():
        if function in calls.collectors or len(function.required) != 1 or function.name.startswith("__"):
            continue
        named = bool(vocabulary.FINISH_NAME.fullmatch(function.name.lstrip("_")))
        if not named and not _READS_TO_HOST.search(function.text):
            continue
        item = function.required[0]
        keys = tuple(consumed_keys(function, item.arg))
        if named or keys:
            found.append(Finisher(function, keys, named))
    return found


def pair(collector: Function, finishers: list[Finisher], calls: CollectorCalls) -> list[Function]:
    """Return the finishers that fit a collector, best first: those that read its keys, then those that share its name.

    Functions that the collector itself calls are excluded.
    """
    produced = set(calls.produced_keys(collector))
    scored = []
    for finisher in finishers:
        function = finisher.function
        is_of_another = function.is_bound and function.owner is not collector.owner
        if function is collector or is_of_another or calls.calls(collector, function):
            continue
        is_namesake = finisher.is_named and _subject(function.name) == _subject(collector.name)
        if produced.issuperset(finisher.keys) and (finisher.keys or is_namesake):
            scored.append((2 * bool(finisher.keys) + is_namesake, function))
    scored.sort(key=lambda entry: -entry[0])
    return [function for _, function in scored]


def _subject(name: str) -> str:
    """Return what a name is about: `collect_norms_async` and `materialize_norms` are both about `norms`."""
    stem = vocabulary.COLLECT_WORDS.sub("", name.lstrip("_").removesuffix("_async"))
    match = vocabulary.FINISH_NAME.fullmatch(stem)
    return (match.group(2) or "").strip("_") if match else stem
