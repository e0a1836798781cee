"""A ticket's questions asked in one checkout: what each probe saw there, also of what has another name by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.runs.target import split_call
from auditkit.probing.checkouts.checkout import OpenCheckout
from auditkit.probing.source_code.history.anchors import AnchoredSource, AnchorState
from auditkit.probing.source_code.likeness.causes import with_causes
from auditkit.workflows.audit.measurement import Progress, ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.audit.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.workflows.verification.questions import Question


@dataclass(frozen=True)
class Answer:
    """The result of one probe; `note` says where auditkit found its target, if not under the target's own name."""

    result: ProbeResult
    note: str = ""


def answers_in(
    opened: OpenCheckout,
    source: AnchoredSource,
    questions: Sequence[Question],
    options: RunOptions,
    other: AnchoredSource | None = None,
    progress: Progress | None = None,
) -> dict[str, Answer]:
    """The answers of an open checkout, by fingerprint, one for every question; `source` are its functions.

    A function that is not defined there under its name is looked for by what it says in `other`, the source
    that knows it; one that is lost is an error, and no pass. Raises BadInputError as `ask` does.
    """
    progress = progress or Progress()
    of_targets: dict[tuple[str, ...], list[Question]] = {}
    for question in questions:
        if question.probe.scope == "target":
            of_targets.setdefault(tuple(question.target.command_words()), []).append(question)
    answers: dict[str, Answer] = {}
    for asked in of_targets.values():
        target = asked[0].target
        call, note = _call_here(target.call, source, other)
        if not call:
            answers |= {one.fingerprint: Answer(_without_answer(one, Outcome.ERROR, note), note) for one in asked}
            continue
        run = ask(options, opened, [replace(target, call=call)], [one.probe for one in asked], progress)
        answers |= _answers(asked, run, opened, note)
    of_source = [question for question in questions if question.probe.scope != "target"]
    return answers | _read(of_source, opened, source, options, progress)


_GONE = "{} is not there any more, nor a function like it"


def _call_here(call: str, here: AnchoredSource, other: AnchoredSource | None) -> tuple[str, str]:
    """What to call here, and what to say of it; "" for a function that is lost."""
    is_block = bool(split_call(call)[2])
    old = other.anchor(call) if other is not None and (is_block or here.anchor(call) is None) else None
    if old is None:
        return call, ""  # It is here, or it is no function of the source: only calling it tells.
    found = here.find_again(old)
    if found.state is AnchorState.LOST:
        return "", f"{call} is gone, and no block is like it" if is_block else _GONE.format(call)
    return found.call, f"{call} was {found.describe()}" if found.call != call else ""


def _without_answer(question: Question, outcome: Outcome, message: str) -> ProbeResult:
    return ProbeResult(
        probe=question.probe.id,
        probe_version=question.probe.version,
        target=question.target.call,
        outcome=outcome,
        message=message,
        fingerprint=question.fingerprint,
    )


def _answers(asked: Sequence[Question], run: Run, opened: OpenCheckout, note: str) -> dict[str, Answer]:
    results = {result.probe: result for result in with_causes(run.results, opened.path)}
    return {
        one.fingerprint: Answer(
            replace(results[one.probe.id], fingerprint=one.fingerprint, target=one.target.call), note
        )
        for one in asked
    }


def _read(
    asked: Sequence[Question], opened: OpenCheckout, source: AnchoredSource, options: RunOptions, progress: Progress
) -> dict[str, Answer]:
    """What reading the whole source says of each subject: source probes name what they found, not what is sound."""
    if not asked:
        return {}
    probes = list({one.probe.id: one.probe for one in asked}.values())
    questions = SourceQuestions(probes, SourceScope.WHOLE, targets=(), options=options)
    results = with_causes(read_source(questions, opened, progress).results, opened.path)
    return {one.fingerprint: Answer(_of_subject(one, results, source.module_names)) for one in asked}


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
