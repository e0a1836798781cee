"""Which tickets folder a command means, and whose agents."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from auditkit.store.config.config import Config

_DEFAULT = "tickets"


def tickets_folder(named: Path | str | None) -> str:
    """The named folder, that of ./auditkit.yaml, or `tickets`; raises BadInputError where it is not there."""
    folder = os.fspath(named) if named else _configured() or _DEFAULT
    if not os.path.isdir(folder):
        from auditkit.errors import BadInputError

        problem = f"{folder} is no folder" if os.path.exists(folder) else f"no tickets folder: {folder}"
        raise BadInputError(problem, "name the folder: --tickets DIR")
    return folder.rstrip("/") or folder


def configured_agents(folder: str) -> Mapping[str, str] | None:
    """The agents' names by code, ours and those of the tickets' auditkit.yaml; None where there is no such file."""
    config = _config(folder)
    return config.agents if config else None


def _configured() -> str:
    config = _config()
    folder = os.fspath(config.tickets or "") if config else ""
    # What lies below this folder is named from here, as a user would.
    return os.path.relpath(folder) if folder.startswith(os.getcwd() + os.sep) else folder


def _config(folder: str | None = None) -> Config | None:
    from auditkit.store.config.config_file import config_near

    path = config_near(folder)
    if path is None:
        return None
    from auditkit.store.config.config import read_config

    return read_config(path)
