"""The probes that a ticket is about, with their targets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import fingerprint
from auditkit.model.runs.target import Target
from auditkit.model.ticket import Evidence, Ticket
from auditkit.probing.checkouts.checkout import cited_file
from auditkit.probing.discovery.blocks.blocks import blocks_of
from auditkit.probing.source_code.modules import Module, module_name, parse_module, source_bytes
from auditkit.store.config.config import Config

_NAME = re.compile(r"[A-Za-z_#][\w.#]*")
_ORDINAL = re.compile(r"#\d+$")
# Words of probes' ids that every ticket about a collector may use.
_COMMON = frozenset((
    "norm", "grads", "gradients", "tensors", "params", "after", "call", "with", "input", "inputs", "result", "type",
    "looks", "under", "runs", "work", "other",
))  # fmt: skip
_SHORTEST, _STEM = 4, 6


@dataclass(frozen=True)
class Question:
    """One probe and one target. A probe that reads source never calls `target`; it is only a name."""

    probe: ProbeInfo
    target: Target
    fingerprint: str


def questions_of(
    ticket: Ticket, evidence: Evidence | None, config: Config, catalog: Mapping[str, ProbeInfo]
) -> tuple[Question, ...]:
    """Return a question for each finding of the ticket. Raises BadInputError for a probe that is not installed."""
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
        words = result.get("target_words", ()) if result is not None else ()
        target = configured.get(call) or Target.from_command_words(words) or Target(call)
        found.append(Question(catalog[probe], target, name))
    return tuple(found)


def questions_of_boxes(ticket: Ticket, target: Target, catalog: Mapping[str, ProbeInfo]) -> tuple[Question, ...]:
    """Return a question for each box of a probe, for a ticket that people wrote and no audit filed."""
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


def probes_in_words(
    ticket: Ticket, text: str, reproduced: Sequence[str], catalog: Mapping[str, ProbeInfo]
) -> tuple[str, ...]:
    """Return the reproduced probes that a ticket without findings is about.

    They are those of whose ids the title, else the text, has the most words; all of them if it has none.
    """
    for words in (ticket.title, text):
        stems = {word[:_STEM] for word in re.findall(r"[a-z]+", words.casefold()) if len(word) >= _SHORTEST}
        named = {probe: _words_in(probe, stems) for probe in reproduced if probe in catalog}
        most = max(named.values(), default=0)
        if most:
            return tuple(probe for probe, count in named.items() if count == most)
    return tuple(reproduced)


def _words_in(probe: str, stems: set[str]) -> int:
    own = (word for word in probe.split("_") if len(word) >= _SHORTEST and word not in _COMMON)
    return sum(word[:_STEM] in stems for word in own)
