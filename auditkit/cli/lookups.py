"""What words on the command line mean: a tickets folder, its agents, a word of a closed vocabulary."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import TypeVar

    from auditkit.store.config.config import Config

    _R = TypeVar("_R")

_DEFAULT = "tickets"


def tickets_folder(named: Path | str | None) -> str:
    """The named folder, that of ./auditkit.yaml, or `tickets`; raises BadInputError where it is not there."""
    folder = os.fspath(named) if named else _configured() or _DEFAULT
    if not os.path.isdir(folder):
        from auditkit.errors import BadInputError

        problem = f"{folder} is no folder" if os.path.exists(folder) else f"no tickets folder: {folder}"
        raise BadInputError(problem, "name the folder: --tickets DIR")
    if os.path.exists(f"{folder}/.auditkit/unfinished-command"):
        from pathlib import Path

        from auditkit.cli.output import complain
        from auditkit.store.folder.journal import mend_if_killed

        if told := mend_if_killed(Path(folder)):
            complain(f"note: {told}")
    return folder.rstrip("/") or folder


def configured_agents(folder: str) -> Mapping[str, str] | None:
    """The agents' names by code, ours and those of the tickets' auditkit.yaml; None where there is no such file."""
    config = _config(folder)
    return config.agents if config else None


def choose(parse: Callable[[str], _R], text: str, known: Iterable[str], what: str = "") -> _R:
    """`parse(text)`, its ValueError turned into one that names the nearest of `known`.

    The message is "no such `what`", or without it the error's own. Raises BadInputError.
    """
    from auditkit.errors import BadInputError, nearest_names

    try:
        return parse(text)
    except ValueError as error:
        names = list(known)
        near = nearest_names(text, names)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(names)}"
        raise BadInputError(f"no such {what}: '{text}'" if what else str(error), hint) from None


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
