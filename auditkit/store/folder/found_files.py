"""Which files lie in a tickets folder; in a dry run those that would after what it has planned so far."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from auditkit.model.tickets.ids import TicketId
from auditkit.store.folder import files
from auditkit.store.folder.second_names import second_names
from auditkit.store.folder.walk import markdown_files, named_files, walk


def files_of(folder: Path) -> list[Path]:
    """Every Markdown file below the folder, hidden folders and links to folders left out.

    A folder that cannot be listed is among them: reading it says why.
    """
    found = [folder / name for name in markdown_files(str(folder))]
    return found if files.plan is None else _as_planned(folder, files.plan.after, found)


def files_named(folder: Path, ticket_id: TicketId) -> list[Path]:
    """The files that are named by an id, without the second names of any."""
    if files.plan is None:
        found = [folder / name for name in named_files(str(folder), ticket_id)]
    else:
        # Listed once: a hundred times takes 4 s of 10,000 files. What others do meanwhile is found by the writing.
        named = files.plan.named.get(folder) or files.plan.named.setdefault(folder, _by_stem(folder))
        ours = {name: data for name, data in files.plan.after.items() if name.upper().endswith(f"/{ticket_id}.MD")}
        found = _as_planned(folder, ours, named.get(ticket_id, ()))
    if any(file.exists() and file.stat().st_nlink > 1 for file in found):
        second = second_files(folder)
        found = [file for file in found if file not in second]
    return found


def second_files(folder: Path) -> dict[Path, Path]:
    """Files that have another name too, each with its own one, as `second_names` tells them."""
    return {folder / name: folder / own for name, own in second_names(str(folder), walk(str(folder))).items()}


def _by_stem(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for name in markdown_files(str(folder)):
        found.setdefault(name.rpartition("/")[2][:-3].upper(), []).append(folder / name)
    return found


def _as_planned(folder: Path, after: Mapping[str, bytes | None], found: Iterable[Path]) -> list[Path]:
    names = {os.path.abspath(file): file for file in found}
    top = os.path.abspath(folder)
    for name, data in after.items():
        if data is None:
            names.pop(name, None)
        elif name.startswith(top + os.sep) and name.endswith(".md"):
            names[name] = folder / os.path.relpath(name, top)
    return sorted(names.values())
