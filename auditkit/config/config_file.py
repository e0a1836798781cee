"""Which auditkit.yaml a command reads; light, so that a command pays for paths and YAML only where there is one."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

CONFIG_NAME = "auditkit.yaml"


def config_in(folder: str | Path) -> Path | None:
    """The auditkit.yaml of a folder, None where it has none."""
    if not os.path.isfile(os.path.join(folder, CONFIG_NAME)):
        return None
    from pathlib import Path

    return Path(folder, CONFIG_NAME)


def config_near(tickets: str | Path | None = None) -> Path | None:
    """The auditkit.yaml of this folder, else that above the tickets, None where neither has one."""
    return config_in("") or (config_in(os.path.dirname(os.path.abspath(tickets))) if tickets else None)
