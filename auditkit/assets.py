"""Where the shipped `templates/` and `probes/` lie, from a checkout and from an installed wheel."""

from __future__ import annotations

import functools
from pathlib import Path

from auditkit.errors import BadInputError

_PACKAGE_DIR = Path(__file__).resolve().parent


def bundled_dir(name: str) -> Path:
    """The folder `templates` or `probes`: of the wheel first, of our own checkout otherwise.

    Raises BadInputError when neither is there (a damaged installation).
    """
    installed = _PACKAGE_DIR / "_bundled" / name
    if installed.is_dir():
        return installed
    root = _PACKAGE_DIR.parent
    if (root / name).is_dir() and _is_our_checkout(root):
        return root / name
    raise BadInputError(
        f"auditkit's own folder '{name}' is missing: {installed}", "install auditkit again, in a clone: pip install ."
    )


@functools.cache
def _is_our_checkout(root: Path) -> bool:
    """Whether `root` holds our own pyproject.toml, and not some other project's."""
    try:
        return '\nname = "torch-auditkit"\n' in (root / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
