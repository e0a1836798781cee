"""A file under two names, as a move leaves it that was killed between its two steps: which name is its own."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from auditkit.store.folder.walk import Stamp, Stamps


def second_names(folder: str, found: Stamps) -> Mapping[str, str]:
    """The names of files that have another one among `found`, each with the one that is the file's own.

    That is the one that says the ticket's id and lies where its status belongs. Links to a file are no names of it.
    """
    stamps = [stamp for stamp in found.values() if stamp is not None]
    if len({stamp[0] for stamp in stamps}) == len(stamps):
        return {}
    names: dict[Stamp, list[str]] = {}
    for name, stamp in found.items():
        if stamp is not None and not os.path.islink(f"{folder}/{name}"):
            names.setdefault(stamp, []).append(name)
    several = [sorted(group) for group in names.values() if len(group) > 1]
    return {name: own for group in several for own in [_own(folder, group)] for name in group if name != own}


def _own(folder: str, names: Sequence[str]) -> str:
    from pathlib import PurePath

    from auditkit.store.folder.folder_names import statuses_of_folder
    from auditkit.store.reading.reader import brief_of, read_file

    read = read_file(f"{folder}/{names[0]}", PurePath(names[0]), brief_of)
    if not isinstance(read, tuple):
        return names[0]
    ticket = read[1]

    def faults(name: str) -> tuple[bool, bool]:
        path = PurePath(name)
        statuses = statuses_of_folder(path.parent.name)
        is_filed = ticket.status is None or (
            ticket.status.value in statuses if ticket.status.is_finished else not statuses
        )
        return path.stem.upper() != ticket.id, not is_filed

    return min(names, key=faults)
