"""How tickets hang together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.tickets.ids import TicketId


class RelationKind(StrEnum):
    """What another ticket is to this one."""

    DUPLICATE = "duplicate"
    RELATED = "related"
    BLOCKS = "blocks"
    BLOCKED_BY = "blocked-by"

    @property
    def inverse(self) -> RelationKind:
        """What this ticket is to the other one."""
        return _INVERSE.get(self, self)


_INVERSE = {RelationKind.BLOCKS: RelationKind.BLOCKED_BY, RelationKind.BLOCKED_BY: RelationKind.BLOCKS}


@dataclass(frozen=True)
class Relation(Record, keys="id kind kind_written note form line"):
    """One entry of Related Findings.

    `id` is "" where the entry names no ticket. `kind` is None where the word is not known or, as in a
    bullet list, none is given; `kind_written` keeps it. `form` is `table`, `bullet` or `text`; `line` is
    1-based and `written` the line as it stands.
    """

    id: TicketId | str
    kind: RelationKind | None
    kind_written: str
    note: str
    form: str
    line: int
    written: str = ""

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"id": self.id or None}


def parse_relation(text: str) -> RelationKind:
    """The kind that `text` is, in any spelling; raises ValueError."""
    kind = read_relation(text)
    if kind is None:
        raise ValueError(f"no such relation: '{text}'")
    return kind


def read_relation(text: str) -> RelationKind | None:
    """The kind that `text` means, None where it means none: `Blocked by` is `blocked-by`."""
    folded = re.sub(r"[\s_-]+", "-", re.sub(r"[*`]", "", text).strip().casefold())
    return next((kind for kind in RelationKind if kind.value == folded), None)
