"""The folder beside the tickets that holds what is ours alone: the lock, and texts that could not be written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from auditkit.errors import StoreConflictError
from auditkit.store.folder import files

SIDE_FOLDER = ".auditkit"
RECOVERY = "recovery"


def make_side_folder(folder: Path) -> Path:
    """The side folder of a tickets folder, both made where missing; it keeps itself out of git.

    Raises OSError where it cannot be made, and StoreConflictError where a link stands in its place: a
    repository can hold one that leads anywhere.
    """
    side = folder / SIDE_FOLDER
    if files.plan is not None:
        raise StoreConflictError(f"{side}: a dry run makes no folder")
    folder.mkdir(parents=True, exist_ok=True)
    if _make(side):
        with open(os.open(side / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w") as file:
            file.write("*\n")
    return side


def make_recovery_folder(folder: Path) -> Path:
    """The folder for texts that could not be written; raises as `make_side_folder` does."""
    recovery = make_side_folder(folder) / RECOVERY
    _make(recovery)
    return recovery


def _make(path: Path) -> bool:
    """Make one folder; False where it is there already."""
    try:
        path.mkdir()
    except FileExistsError:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise StoreConflictError(
                f"{path} is a link; nothing is written through it", "remove the link; auditkit makes a folder there"
            ) from None
        if not stat.S_ISDIR(mode):
            raise
        return False
    return True
