"""Ticket ids: `B{batch}-{AGENT}-{nn}`, as in `B7-PT-01`, and the agents' codes and names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NewType

TicketId = NewType("TicketId", str)
"""An id that `parse_ticket_id` or `format_ticket_id` made, so that its form can be relied on."""

AGENT_NAMES = {"PT": "pytorch", "CR": "codereview", "DRL": "drl"}
"""The name that a ticket's Agent row carries, by the code that its id carries."""

_ID = re.compile(r"B(\d{1,4})-([A-Z][A-Z0-9]{0,15})-(\d{2,6})", re.IGNORECASE | re.ASCII)
# With a letter first, the pattern is found several times as fast as with what must not stand before it.
_MENTION = re.compile(r"B(?<![\w-]B)\d{1,4}-[A-Z][A-Z0-9]{0,15}-\d{2,6}(?![\w-])", re.ASCII)
_CODE = re.compile(r"[A-Z][A-Z0-9]{0,15}", re.ASCII)


def parse_ticket_id(text: str) -> TicketId:
    """The id in `text`, in capitals; blanks around it are allowed, nothing else is.

    Raises ValueError when `text` is no ticket id.
    """
    if not is_ticket_id(text):
        raise ValueError(f"not a ticket id: '{text}' (ids look like B7-PT-01)")
    return TicketId(text.strip().upper())


def is_ticket_id(text: str) -> bool:
    """Whether `parse_ticket_id` would take `text`."""
    return _ID.fullmatch(text.strip()) is not None


def find_ticket_ids(text: str) -> list[TicketId]:
    """Every id that `text` mentions in capitals, in the order of the text."""
    return [TicketId(match[0]) for match in _MENTION.finditer(text)]


def is_agent_code(text: str) -> bool:
    """Whether `text` can stand in a ticket id: capitals and digits, sixteen at most."""
    return _CODE.fullmatch(text) is not None


def format_ticket_id(batch: int, agent: str, number: int) -> TicketId:
    """The id of the ticket `number` of `agent` (a code such as `PT`) in `batch`.

    Two digits at least; the hundredth ticket of a batch has three. Raises ValueError when the parts
    make no id.
    """
    if batch < 0 or number < 0 or _CODE.fullmatch(agent) is None:
        raise ValueError(f"batch {batch}, agent '{agent}' and number {number} make no ticket id")
    return parse_ticket_id(f"B{batch}-{agent}-{number:02d}")


def id_parts(ticket_id: TicketId) -> tuple[int, str, int]:
    """Batch, agent code and number: also the order in which tickets are listed."""
    match = _ID.fullmatch(ticket_id)
    assert match is not None, "a TicketId is made only by parse_ticket_id"
    return int(match[1]), match[2], int(match[3])


def agent_name(code: str, agents: Mapping[str, str] = AGENT_NAMES) -> str:
    """The name in the Agent row for `code`: `PT` is `pytorch`; an unknown code is its own name.

    `agents` are names by code: ours, or with a project's own ones.
    """
    return agents.get(code.upper(), code.lower())


def agent_code(text: str, agents: Mapping[str, str] = AGENT_NAMES) -> str:
    """The code for a code or a name in any spelling: `pytorch`, `PT` and `code-review` are known.

    `agents` are names by code: ours, or with a project's own ones.
    """
    written = text.strip().upper()
    named = (code for code, name in agents.items() if code == written or _folded(name) == _folded(text))
    return next(named, written)


def named_agent(text: str, agents: Mapping[str, str] = AGENT_NAMES) -> str:
    """The agent's name for a code or a name in any spelling; `text` as it is where no agent is called so."""
    return agents.get(agent_code(text, agents), text)


def _folded(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text.casefold())
