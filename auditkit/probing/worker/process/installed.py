"""Installed packages in two steps: where they are, then what their `.pth` files and `sitecustomize` want to run.

A fork server outside of a cage is started with `-S` and only takes the first step: an editable installation of a
checkout would otherwise run the checkout's code there. Its workers take the second one, in theirs.
"""

import contextlib
import os
import site
import sys
from typing import Any, Optional, Set

_OF_PACKAGES = ("site-packages", "dist-packages")


def find() -> None:
    """Put the folders of installed packages on the path, as Python itself does, and run nothing that lies in them."""
    if not sys.flags.no_site:
        return
    kept = {name: getattr(site, name) for name in ("addpackage", "execsitecustomize")}
    site.addpackage, site.execsitecustomize = _add_packages, _nothing  # type: ignore[assignment]
    try:
        site.main()
    finally:
        vars(site).update(kept)


def run_start_files() -> None:
    """What Python would have done at its start: once more, with the files."""
    if sys.flags.no_site:
        site.main()


def _add_packages(folder: str, name: str, known_paths: Optional[Set[str]]) -> Optional[Set[str]]:
    """Of a `.pth` file only the folders of other environments' packages, where torch may be."""
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(folder, name), encoding="utf-8") as lines:
            paths = [line.strip() for line in lines if os.path.basename(line.strip()) in _OF_PACKAGES]
        sys.path.extend(path for path in paths if os.path.isdir(path) and path not in sys.path)
    return known_paths


def _nothing(*_: Any) -> None:
    """In the place of a function of `site`."""
