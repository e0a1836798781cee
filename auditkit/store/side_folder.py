"""The folder beside the tickets that holds what is ours alone: the lock and the index."""

from __future__ import annotations

import os

SIDE_FOLDER = ".auditkit"


def make_side_folder(side: str) -> None:
    """Make the side folder where it is missing; it keeps itself out of git, whatever the repository ignores.

    Raises OSError where it cannot be made.
    """
    if os.path.isdir(side):
        return
    os.makedirs(side, exist_ok=True)
    with open(f"{side}/.gitignore", "w", encoding="ascii") as file:
        file.write("*\n")
