"""Which tickets folder a command means."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_DEFAULT = "tickets"
_CONFIG = "auditkit.yaml"


def tickets_folder(named: Path | str | None) -> str:
    """The named folder, that of ./auditkit.yaml, or `tickets`; raises BadInputError where it is not there."""
    folder = os.fspath(named) if named else _configured() or _DEFAULT
    if not os.path.isdir(folder):
        from auditkit.errors import BadInputError

        problem = f"{folder} is no folder" if os.path.exists(folder) else f"no tickets folder: {folder}"
        raise BadInputError(problem, "name the folder: --tickets DIR")
    return folder.rstrip("/") or folder


def _configured() -> str:
    # Only a folder that has the file pays for YAML.
    if not os.path.isfile(_CONFIG):
        return ""
    from pathlib import Path

    from auditkit.store.config import read_config

    folder = os.fspath(read_config(Path(_CONFIG)).tickets or "")
    # What lies below this folder is named from here, as a user would.
    return os.path.relpath(folder) if folder.startswith(os.getcwd() + os.sep) else folder
