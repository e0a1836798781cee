"""Who types: the name under which a person comments and takes tickets."""

from __future__ import annotations

from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.probing.checkouts import git
from auditkit.rendering.markdown import line


def person(folder: Path, named: str | None, option: str) -> str:
    """The name that `option` says, else git's user.name in that folder. Raises BadInputError where there is none."""
    if named is None and git.git_is_installed():
        named = git.run_git(folder, "config", "--get", "user.name").stdout.strip()
    name = line(named or "").strip()
    if not name:
        raise BadInputError("nobody is named", f"{option} NAME, or git config user.name NAME")
    return name
