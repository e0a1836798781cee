"""Where clones and environments are kept."""

from __future__ import annotations

from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.store.cache_folder import private_folder


def cache_folder() -> Path:
    """The user's own. Raises BadInputError where no folder is the user's alone: what lies there is run."""
    place = private_folder("sweep")
    if not place:
        raise BadInputError("no cache folder is yours alone", "chmod go-w it, or name another: --cache DIR")
    return Path(place)
