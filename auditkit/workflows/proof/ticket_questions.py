"""What a ticket asks: its probes with their targets, from its evidence, its boxes, or the place that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import fingerprint
from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts.checkout import OpenCheckout, cited_file, import_roots
from auditkit.probing.discovery.blocks.blocks import blocks_of
from auditkit.probing.hosts.catalog import select
from auditkit.probing.source_code.modules import Module, module_name, parse_module, source_bytes
from auditkit.store.config.config import Config
from auditkit.workflows.configuration import catalog_of
from auditkit.workflows.proof.box_commands import CODE, commands_in

_NAME = re.compile(r"[A-Za-z_#][\w.#]*")
_ORDINAL = re.compile(r"#\d+$")


@dataclass(frozen=True)
class Question:
    """One probe about one target, and the fingerprint that its finding has or would have.

    For a probe that reads source, `target` is only a name: it is never called.
    """

    probe: ProbeInfo
    target: Target
    fingerprint: str


def questions_of(
    ticket: Ticket,
    config: Config,
    checkouts: Iterable[OpenCheckout],
    probes: Sequence[str] = (),
    targets: Sequence[Target] = (),
) -> tuple[Question, ...]:
    """What the evidence and the boxes of the ticket ask, or what `probes` do; of `targets` as they are described.

    A probe that the evidence does not know is asked about `targets`, those of the evidence, or the function of the
    Location in the first of `checkouts` that has it. Raises BadInputError for a ticket that asks nothing.
    """
    catalog = catalog_of(config)
    described = {target.call: target for target in targets}
    bound: dict[str, list[Question]] = {}
    for one in bound_questions(ticket, config, catalog):
        question = replace(one, target=described.get(one.target.call, one.target))
        bound.setdefault(one.probe.id, []).append(question)
    for one in _further_questions(ticket, bound, catalog):
        bound[one.probe.id].append(replace(one, target=described.get(one.target.call, one.target)))
    names = probes or [*bound, *(item.probe for item in ticket.verification if item.probe)]
    if not names:
        raise BadInputError(
            f"{ticket.id} is bound to no probe",
            f"--probe CLAIM, or bind a box: auditkit ticket edit {ticket.id} bound 1=CLAIM; auditkit probe list",
        )
    asked = select(catalog, names)
    others = list(targets) or list({one.target.call: one.target for own in bound.values() for one in own}.values())
    if not others and any(probe.id not in bound for probe in asked):
        others = [first_located(ticket, checkouts, config)]
    questions: dict[str, Question] = {}
    for probe in asked:
        further = [Question(probe, target, fingerprint(probe.id, target.call)) for target in others]
        for question in bound.get(probe.id, further):
            questions.setdefault(question.fingerprint, question)
    return tuple(questions.values())


def _further_questions(
    ticket: Ticket, bound: Mapping[str, Sequence[Question]], catalog: Mapping[str, ProbeInfo]
) -> list[Question]:
    """What the commands of bound boxes ask of targets that the evidence for their probe does not know."""
    found = []
    for item in ticket.verification:
        known = {one.target.call for one in bound.get(item.probe, ())}
        for command in commands_in(item.text) if known else ():
            if item.probe in command.probes and catalog[item.probe].scope == "target":
                found += [
                    Question(catalog[item.probe], target, fingerprint(item.probe, target.call))
                    for target in command.targets
                    if ":" in target.call and target.call not in known
                ]
    return list({one.fingerprint: one for one in found}.values())


def bound_questions(ticket: Ticket, config: Config, catalog: Mapping[str, ProbeInfo]) -> tuple[Question, ...]:
    """The questions of the ticket's evidence blocks, in their order; without blocks of its bound boxes' commands.

    How a target is fed is what the configuration says of it, else what the ticket's own commands say. Raises
    BadInputError for a probe that is not in `catalog`.
    """
    asked = _commands(ticket)
    found = []
    for block in ticket.evidence:
        probe_id, _, call = block.fingerprint.split("/", 2) if block.fingerprint.count("/") > 1 else ("", "", "")
        call = _ORDINAL.sub("", call)
        if not probe_id:
            continue
        found.append(Question(_probe(probe_id, catalog), _fed(call, config, asked), block.fingerprint))
    if found:
        return tuple(found)
    boxes = [item.probe for item in ticket.verification if item.probe]
    return tuple(
        Question(_probe(probe_id, catalog), target, fingerprint(probe_id, target.call))
        for probe_id in dict.fromkeys(boxes)
        for target in asked.values()
    )


def located_target(ticket: Ticket, checkout: Path, roots: Sequence[Path], config: Config) -> Target:
    """The function that the ticket's Location names, as a target of `checkout`; its feeding is tried out.

    Paths of another machine (`/home/somebody/repository/src/...`) are matched by their longest tail that
    exists. Raises BadInputError where the Location names no such function.
    """
    cells = [text for _, text in CODE.findall(ticket.function)] or [ticket.function]
    names = [found[0].rstrip(".") for text in cells if (found := _NAME.search(text))]
    for written in ticket.files:
        file = cited_file(checkout, written)
        if file is None or (module := _module(file, checkout, roots)) is None:
            continue
        for name in names:
            for function in (*module.defined(), *blocks_of(module)):
                if f".{function.qualified_name}".endswith(f".{name}"):
                    return _fed(function.call, config, {})
    where = ", ".join(map(inert_line, ticket.files)) or "no file"
    raise BadInputError(
        f"{ticket.id}: its Location ({where}; {inert_line(ticket.function) or 'no function'}) names no function "
        f"of this checkout",
        "--target package.module:function",
    )


def first_located(ticket: Ticket, checkouts: Iterable[OpenCheckout], config: Config) -> Target:
    """`located_target` in the first of `checkouts` that has the function; raises as it does for the last one."""
    failure = BadInputError(f"{ticket.id}: there is no checkout to look for its function in")
    for opened in checkouts:
        try:
            return located_target(ticket, opened.path, import_roots(opened.path, config.import_roots), config)
        except BadInputError as error:
            failure = error
    raise failure


def _fed(call: str, config: Config, asked: Mapping[str, Target]) -> Target:
    configured = next((target for target in config.targets if target.call == call), None)
    return configured or asked.get(call) or Target(call)


def _commands(ticket: Ticket) -> dict[str, Target]:
    """The targets of the commands that the ticket's boxes hold as code, by what they call."""
    found: dict[str, Target] = {}
    for item in ticket.verification:
        for command in commands_in(item.text):
            for target in command.targets:
                found.setdefault(target.call, target)
    return found


def _probe(probe_id: str, catalog: Mapping[str, ProbeInfo]) -> ProbeInfo:
    if probe_id not in catalog:
        raise BadInputError(
            f"the ticket is bound to the probe {inert_line(probe_id)}, which is not here",
            "auditkit probe list shows all; --config names an auditkit.yaml with more",
        )
    return catalog[probe_id]


def _module(file: Path, checkout: Path, roots: Sequence[Path]) -> Module | None:
    name = module_name(file, roots) if file.suffix == ".py" else None
    parsed = parse_module(file, source_bytes(file), checkout, name) if name else None
    return parsed if isinstance(parsed, Module) else None
