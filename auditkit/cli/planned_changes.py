"""What a dry run would have changed, line by line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditkit.store.folder.files import Plan


def changes_of(plan: Plan) -> list[str]:
    """A line for each file that is new, moved or taken away, and a unified diff of each that is changed."""
    return [line for name in plan.after for line in _of_file(plan, name)]


def _of_file(plan: Plan, name: str) -> Iterator[str]:
    after, old = plan.after[name], plan.moves.get(name, name)
    before = plan.before.get(old)
    if after is None:
        if before is not None and name not in plan.moves.values():
            yield f"remove {_shown(name)}"
    elif before is None:
        yield f"create {_shown(name)} ({len(after.splitlines())} lines)"
    else:
        if old != name:
            yield f"move {_shown(old)} to {_shown(name)}"
        was, now = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
        yield from difflib.unified_diff(was, now, _shown(old), _shown(name), lineterm="")


def _shown(name: str) -> str:
    """As a user would name it from here."""
    near = os.path.relpath(name)
    return name if near.startswith("..") else near
