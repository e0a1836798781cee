"""A ticket's questions asked in one checkout: what each probe saw there, also of what has another name by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from auditkit.model.enums import Outcome
from auditkit.model.run import Environment, ProbeResult, Run
from auditkit.model.target import Target
from auditkit.probing.anchors import AnchoredSource, AnchorState
from auditkit.probing.causes import with_causes
from auditkit.probing.checkout import OpenCheckout
from auditkit.probing.discovery.source_index import module_name, source_files
from auditkit.workflows.bound import Question
from auditkit.workflows.measuring import Progress, ask
from auditkit.workflows.run_options import RunOptions
from auditkit.workflows.source_audit import SourceQuestions, SourceScope, read_source, source_environment


@dataclass(frozen=True)
class Seen:
    """What one probe said of one question; `note` says where its target was found, if not under its own name."""

    result: ProbeResult
    environment: Environment
    run_id: str = ""
    note: str = ""


def anchored(opened: OpenCheckout, manner: RunOptions) -> AnchoredSource:
    """The functions of an open checkout, found through its configured import roots."""
    return AnchoredSource(opened.path, manner.import_roots(opened))


def see(
    questions: Sequence[Question],
    opened: OpenCheckout,
    manner: RunOptions,
    label: str,
    other: AnchoredSource | None = None,
    progress: Progress | None = None,
) -> dict[str, Seen]:
    """The answers by fingerprint, one for every question.

    A function that is not defined here under its name is looked for by what it says in `other`, the source
    that knows it; one that is lost is an error, and no pass. Raises BadInputError as `ask` does.
    """
    progress = progress or Progress()
    about_targets = [question for question in questions if question.probe.scope == "target"]
    seen = _see_source([one for one in questions if one not in about_targets], opened, manner, label, progress)
    here = anchored(opened, manner) if about_targets else None
    for target in dict.fromkeys(_Named(question.target) for question in about_targets):
        asked = [question for question in about_targets if _Named(question.target) == target]
        call, note = _call_here(target.target.call, here, other) if here is not None else (target.target.call, "")
        if not call:
            seen |= {one.fingerprint: _lost(one, opened, label, note) for one in asked}
            continue
        run = ask(manner, opened, [replace(target.target, call=call)], [one.probe for one in asked], progress, label)
        seen |= _answers(asked, run, opened, note)
    return seen


class _Named:
    """A target as a key: its mappings cannot be hashed."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._words = tuple(target.command_words())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)


def _call_here(call: str, here: AnchoredSource, other: AnchoredSource | None) -> tuple[str, str]:
    """What to call here, and what to say of it; "" for a function that is lost."""
    old = other.anchor(call) if other is not None and here.anchor(call) is None else None
    if old is None:
        return call, ""  # It is here, or it is no function of the source: only calling it tells.
    found = here.find_again(old)
    if found.state is AnchorState.LOST:
        return "", f"{call} is not there any more, nor a function like it"
    return found.call, f"{call} was {found.describe()}"


def _lost(question: Question, opened: OpenCheckout, label: str, note: str) -> Seen:
    return Seen(_without_answer(question, Outcome.ERROR, note), source_environment(label, opened), note=note)


def _without_answer(question: Question, outcome: Outcome, message: str) -> ProbeResult:
    return ProbeResult(
        probe=question.probe.id,
        probe_version=question.probe.version,
        target=question.target.call,
        outcome=outcome,
        message=message,
        fingerprint=question.fingerprint,
    )


def _answers(asked: Sequence[Question], run: Run, opened: OpenCheckout, note: str) -> dict[str, Seen]:
    results = {result.probe: result for result in with_causes(run.results, opened.path)}
    environment = replace(run.environment, dirty=opened.dirty)
    return {
        one.fingerprint: Seen(
            replace(results[one.probe.id], fingerprint=one.fingerprint, target=one.target.call),
            environment,
            run.id,
            note,
        )
        for one in asked
    }


def _see_source(
    asked: Sequence[Question], opened: OpenCheckout, manner: RunOptions, label: str, progress: Progress
) -> dict[str, Seen]:
    """What reading the whole source says of each subject: source probes name what they found, not what is sound."""
    if not asked:
        return {}
    questions = SourceQuestions(
        probes=list({one.probe.id: one.probe for one in asked}.values()),
        scope=SourceScope.WHOLE,
        targets=(),
        options=manner,
    )
    results = with_causes(read_source(questions, opened, progress).results, opened.path)
    environment = source_environment(label, opened)
    roots = manner.import_roots(opened)
    modules = frozenset(name for file in source_files(opened.path) if (name := module_name(file, roots)) is not None)
    return {one.fingerprint: Seen(_of_subject(one, results, modules), environment) for one in asked}


def _of_subject(question: Question, results: Sequence[ProbeResult], modules: frozenset[str]) -> ProbeResult:
    """The finding, or that there is none where the subject's module was read."""
    own = [result for result in results if result.probe == question.probe.id]
    named = next((result for result in own if result.fingerprint == question.fingerprint), None)
    if named is not None:
        return named
    module = question.target.call.partition(":")[0]
    broken = next((one for one in own if one.outcome is Outcome.ERROR and _is_of(one.target, module)), None)
    if broken is not None:
        return replace(broken, fingerprint=question.fingerprint, target=question.target.call)
    if not any(name == module or name.startswith(f"{module}.") for name in modules):
        return _without_answer(question, Outcome.NOT_APPLICABLE, f"there is no module {module} any more")
    said = next((one for one in own if one.outcome is not Outcome.ERROR), None)
    if said is None:
        return _without_answer(question, Outcome.ERROR, own[0].message if own else "the probe said nothing")
    if said.outcome is Outcome.REPRODUCED:
        message = f"it is not among what the probe finds in {module}"
        found = _without_answer(question, Outcome.NOT_REPRODUCED, message)
        return replace(found, device=said.device, evidence=said.evidence)
    return replace(said, fingerprint=question.fingerprint, target=question.target.call)


def _is_of(target: str, module: str) -> bool:
    """Whether an error is that of the whole probe, or of the module's file."""
    if not target.endswith(".py"):
        return True
    name = target.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name == module or name.endswith(f".{module}")
