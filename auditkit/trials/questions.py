"""The probes that a ticket is about, with their targets, and what each reports of one version of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from auditkit.config.config import Config
from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, fingerprint
from auditkit.model.runs.target import Target, split_call
from auditkit.model.ticket import Evidence, Ticket
from auditkit.probing.checkout.checkout import OpenCheckout, cited_file
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.find.blocks.blocks import blocks_of
from auditkit.probing.run.measurement import Progress, ask
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.run.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.probing.source.history.anchors import AnchoredSource, AnchorState
from auditkit.probing.source.likeness.causes import with_causes
from auditkit.probing.source.modules import Module, module_name, parse_module, source_bytes

_NAME = re.compile(r"[A-Za-z_#][\w.#]*")
_ORDINAL = re.compile(r"#\d+$")


@dataclass(frozen=True)
class Question:
    """One probe and one target. A probe that reads source never calls `target`; it is only a name."""

    probe: ProbeInfo
    target: Target
    fingerprint: str


def questions_of(
    ticket: Ticket, evidence: Evidence | None, config: Config, catalog: Mapping[str, ProbeInfo]
) -> tuple[Question, ...]:
    """Return the probe and target of each finding of the ticket. Raises BadInputError if a probe is not installed."""
    configured = {target.call: target for target in config.targets}
    found = []
    for name in ticket.findings:
        probe, _, rest = name.partition("/")
        call = _ORDINAL.sub("", rest.partition("/")[2])
        if probe not in catalog and call.startswith("run:"):
            hint = "auditkit run --tickets DIR -- COMMAND watches it again"
            raise BadInputError(f"{ticket.id}: {probe} is a law of a training run, and no probe", hint)
        if probe not in catalog:
            hint = "auditkit probe list shows all; --config names an auditkit.yaml with more"
            raise BadInputError(f"{ticket.id}: there is no probe {probe!r}", hint)
        result = evidence.result_of(name) if evidence is not None else None
        known = result.get("called") if result is not None else None
        target = configured.get(call) or (Target.from_json(json.loads(known)) if known else Target(call))
        found.append(Question(catalog[probe], target, name))
    return tuple(found)


def questions_of_boxes(ticket: Ticket, target: Target, catalog: Mapping[str, ProbeInfo]) -> tuple[Question, ...]:
    """Return the probe of each checkbox with the target, for a ticket that people wrote and no audit filed."""
    probes = dict.fromkeys(box.probe for box in ticket.boxes if box.probe in catalog)
    return tuple(Question(catalog[probe], target, fingerprint(probe, target.call)) for probe in probes)


def located_target(ticket: Ticket, checkout: Path, roots: Sequence[Path], config: Config) -> Target:
    """Return the function that `location` and `function` name, as a target of `checkout`.

    A path of another machine is matched by its longest tail that exists. Raises BadInputError if there is none.
    """
    names = [found[0].rstrip(".") for text in ticket.function.split(",") if (found := _NAME.search(text))]
    for place in ticket.places:
        file = cited_file(checkout, place.file)
        if file is None or (module := _module(file, checkout, roots)) is None:
            continue
        for name in names:
            for function in (*module.defined(), *blocks_of(module)):
                if f".{function.qualified_name}".endswith(f".{name}"):
                    configured = (target for target in config.targets if target.call == function.call)
                    return next(configured, Target(function.call))
    where = f"{ticket.location or 'no location'}, {ticket.function or 'no function'}"
    raise BadInputError(
        f"{ticket.id}: the checkout has no such function ({where})", "--target package.module:function names it"
    )


def _module(file: Path, checkout: Path, roots: Sequence[Path]) -> Module | None:
    name = module_name(file, roots) if file.suffix == ".py" else None
    parsed = parse_module(file, source_bytes(file), checkout, name) if name else None
    return parsed if isinstance(parsed, Module) else None


@dataclass(frozen=True)
class Version:
    """One version of the code, and the options with which probes run there."""

    opened: OpenCheckout
    options: RunOptions

    @cached_property
    def source(self) -> AnchoredSource:
        """The functions of the version."""
        return AnchoredSource(self.opened.path, self.options.import_roots(self.opened))

    @cached_property
    def setting(self) -> Setting:
        """How probes run there."""
        return self.options.setting(self.opened)


def results_at(
    code: Version, questions: Sequence[Question], other: Version | None, progress: Progress
) -> tuple[dict[str, ProbeResult], list[str]]:
    """Return the results by fingerprint, and where auditkit found targets that have another name there.

    A function that is not defined there under its name is found by its body in `other`, the version that has it. A lost
    one is an error, and no pass. Raises BadInputError as `ask` does.
    """
    of_targets: dict[tuple[str, ...], list[Question]] = {}
    for question in questions:
        if question.probe.scope == "target":
            of_targets.setdefault(tuple(question.target.command_words()), []).append(question)
    found: dict[str, ProbeResult] = {}
    notes: list[str] = []
    for asked in of_targets.values():
        target = asked[0].target
        call, note = _call_at(target.call, code.source, other.source if other else None)
        notes += [note] if note else []
        if not call:
            found |= {one.fingerprint: _no_result(one, Outcome.ERROR, note) for one in asked}
            continue
        run = ask(code.options, code.opened, [replace(target, call=call)], [one.probe for one in asked], progress)
        results = {result.probe: result for result in with_causes(run.results, code.opened.path)}
        for one in asked:
            found[one.fingerprint] = replace(results[one.probe.id], fingerprint=one.fingerprint, target=target.call)
    return found | _read([one for one in questions if one.probe.scope != "target"], code, progress), notes


def _call_at(call: str, here: AnchoredSource, other: AnchoredSource | None) -> tuple[str, str]:
    """Return what to call here, and a note; "" for a function that is lost."""
    is_block = bool(split_call(call)[2])
    old = other.anchor(call) if other is not None and (is_block or here.anchor(call) is None) else None
    if old is None:
        return call, ""  # It is here, or the source does not define it: only a call shows which.
    again = here.find_again(old)
    if again.state is AnchorState.LOST:
        return "", f"{call} is gone, and no {'block' if is_block else 'function'} is like it"
    return again.call, f"{call} was {again.describe()}" if again.call != call else ""


def _no_result(question: Question, outcome: Outcome, message: str) -> ProbeResult:
    probe = question.probe
    return ProbeResult(probe.id, probe.version, question.target.call, outcome, message, question.fingerprint)


def _read(questions: Sequence[Question], code: Version, progress: Progress) -> dict[str, ProbeResult]:
    """Return the results of source probes; each names what it found in the whole source, not what is sound."""
    if not questions:
        return {}
    probes = list({one.probe.id: one.probe for one in questions}.values())
    asked = SourceQuestions(probes, SourceScope.WHOLE, targets=(), options=code.options)
    results = with_causes(read_source(asked, code.opened, progress), code.opened.path)
    return {one.fingerprint: _of_subject(one, results, code.source.module_names) for one in questions}


def _of_subject(question: Question, results: Sequence[ProbeResult], modules: frozenset[str]) -> ProbeResult:
    """Return the finding, or that there is none if the subject's module was read."""
    own = [result for result in results if result.probe == question.probe.id]
    module = question.target.call.partition(":")[0]
    file = module.replace(".", "/")
    for result in own:
        if result.fingerprint == question.fingerprint:
            return result
    for result in own:
        name = result.target.removesuffix(".py").removesuffix("/__init__")
        is_about = name == result.target or file == name or name.endswith(f"/{file}")
        if result.outcome is Outcome.ERROR and is_about:
            return replace(result, fingerprint=question.fingerprint, target=question.target.call)
    if not any(name == module or name.startswith(f"{module}.") for name in modules):
        return _no_result(question, Outcome.NOT_APPLICABLE, f"the module {module} no longer exists")
    read = next((one for one in own if one.outcome is not Outcome.ERROR), None)
    if read is None:
        return _no_result(question, Outcome.ERROR, own[0].message if own else "the probe reported nothing")
    if read.outcome is Outcome.REPRODUCED:
        none = _no_result(question, Outcome.NOT_REPRODUCED, f"it is not among what the probe finds in {module}")
        return replace(none, device=read.device, evidence=read.evidence)
    return replace(read, fingerprint=question.fingerprint, target=question.target.call)
