"""Where a ticket's file lies: in its batch folder while there is work, then in the folder for its status."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from auditkit.model.ids import id_parts
from auditkit.model.ticket import Ticket

BATCH_FOLDER = re.compile(r"batch(\d+)", re.IGNORECASE)


def home_of(ticket: Ticket, folders: Mapping[str, Sequence[str]]) -> str | None:
    """The folder that the ticket's status calls for, where that is another one than it lies in; else None.

    `folders` are those for finished tickets with their statuses. None too where a status may lie in several,
    and for a ticket that lies in neither a batch folder nor one of these: such a project has its own order.
    """
    here = ticket.path.parent.name
    if ticket.status is None or not (here in folders or BATCH_FOLDER.fullmatch(here)):
        return None
    homes = [name for name, statuses in folders.items() if ticket.status.value in statuses]
    if not homes and not ticket.status.is_finished:
        homes = [f"batch{id_parts(ticket.id)[0]}"]
    return homes[0] if len(homes) == 1 and homes[0] != here else None
