"""What a ticket without a bound probe is about: its categories, then the words of its title, then its prose."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.rules.tickets.subject import subject_of
from auditkit.store.reading.reader import read_ticket

OVERFLOW, UNDERFLOW = "norm_overflows_on_finite_grads", "norm_underflows_to_zero"
MEMORY, SYNCS, SPARSE = "peak_memory_grows_with_params", "syncs_grow_with_tensors", "fails_on_sparse_grads"
NUMERICS, RESOURCES = "Numerical stability", "Memory leak / resource issue"


def ticket(title: str, category: str, summary: str = "", description: str = "") -> Ticket:
    text = f"""# Finding Ticket: {title}

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `B7-PT-01` |

## Summary

**One-line summary:** {summary}

- [x] {category}

## Detailed Description

{description}
"""
    return read_ticket(text.encode(), PurePath("B7-PT-01.md"))


@pytest.mark.parametrize(
    ("told", "reproduced", "subject"),
    [
        (ticket("Norm overflow", NUMERICS), (OVERFLOW, UNDERFLOW, SPARSE, MEMORY), (OVERFLOW,)),
        (ticket("x", NUMERICS, "may overflow or underflow"), (OVERFLOW, UNDERFLOW), (OVERFLOW, UNDERFLOW)),
        (ticket("Large allocation", RESOURCES, "", "The peak memory doubles."), (OVERFLOW, MEMORY), (MEMORY,)),
        (ticket("Large allocation", RESOURCES, "overflow of memory"), (OVERFLOW, MEMORY), (MEMORY,)),
        (ticket("Something else", NUMERICS), (OVERFLOW, UNDERFLOW, SYNCS), (OVERFLOW, UNDERFLOW)),
        (ticket("Norm overflow", NUMERICS), (MEMORY, SYNCS), ()),
    ],
)
def test_subjects(told: Ticket, reproduced: tuple[str, ...], subject: tuple[str, ...]) -> None:
    assert subject_of(told, reproduced, load_catalog()) == subject
