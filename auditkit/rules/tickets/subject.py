"""Which findings a ticket is about that people wrote without binding it to a probe."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.tickets.ticket import Ticket

# Words of probes' ids that every ticket about a collector may use.
_COMMON = frozenset((
    "norm", "grads", "gradients", "tensors", "params", "after", "call", "with", "input", "inputs", "result", "type",
    "looks", "under", "runs", "work", "other",
))  # fmt: skip
_SHORTEST = 4
_STEM = 6


def subject_of(ticket: Ticket, reproduced: Collection[str], catalog: Mapping[str, ProbeInfo]) -> tuple[str, ...]:
    """Of the probes that reproduce, those whose id's own words the ticket uses, in its title and summary first.

    Only probes of the categories that the ticket ticks, where it ticks any. Without a word in common all of
    those; nothing where no probe of its categories reproduces.
    """
    ticked = {name.casefold() for name in ticket.categories}
    fitting = [
        name
        for name in reproduced
        if not ticked or any(category.casefold() in ticked for category in catalog[name].categories)
    ]
    for texts in ((ticket.title, ticket.summary), (ticket.description, ticket.recommended_fix)):
        found = _naming(fitting, texts)
        if found:
            return found
    return tuple(fitting)


def _naming(probes: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    words = re.findall(r"[a-z]+", " ".join(texts).casefold())
    stems = {word[:_STEM] for word in words if len(word) >= _SHORTEST}
    return tuple(name for name in probes if any(word[:_STEM] in stems for word in _own_words(name)))


def _own_words(probe: str) -> list[str]:
    return [word for word in probe.split("_") if len(word) >= _SHORTEST and word not in _COMMON]
