"""The file of findings that a project knows: read, and written anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.rules.lint.baseline import baseline_of
from auditkit.rules.lint.check import LintFinding
from auditkit.store.folder.files import create_file, is_there, replace_file


def read_baseline(path: Path) -> str:
    """What the file says. Raises BadInputError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInputError(f"no such file: {path}", "--write-baseline makes it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read: {error}", "name a file of known findings") from None


def write_baseline(path: Path, findings: Iterable[LintFinding]) -> str:
    """Make the file know the findings; what it says then. Raises StoreConflictError where it cannot be written."""
    text = baseline_of(findings)
    if is_there(path):
        replace_file(path, text.encode(), path.read_bytes())
    else:
        create_file(path, text.encode())
    return text
