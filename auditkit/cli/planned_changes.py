"""What a dry run would have changed, line by line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditkit.files import Plan


def changes_of(plan: Plan) -> list[str]:
    """Return a line for each new file and a unified diff of each changed one."""
    return [line for path in plan.after for line in _of_file(plan, path)]


def _of_file(plan: Plan, path: Path) -> Iterator[str]:
    after, before = plan.after[path], plan.before[path]
    if before is None:
        yield f"create {_shown(path)} ({len(after.splitlines())} lines)"
        return
    was, now = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    yield from difflib.unified_diff(was, now, _shown(path), _shown(path), lineterm="")


def _shown(path: Path) -> str:
    """Return the path as the user would write it from here."""
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near
