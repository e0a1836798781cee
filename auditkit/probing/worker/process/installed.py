"""Installed packages in two steps: where they are, then what their `.pth` files and `sitecustomize` want to run.

A fork server is started with `-S` and only takes the first step: an editable installation of a checkout would
otherwise run the checkout's code outside of the cage. Its workers take the second one, in theirs.
"""

import site
import sys
from typing import Any

_NAMES = ("addpackage", "execsitecustomize")


def find() -> None:
    """Put the folders of installed packages on the path, as Python itself does, and run nothing that lies in them."""
    kept = {name: getattr(site, name) for name in _NAMES}
    for name in kept:
        setattr(site, name, _nothing)
    try:
        site.main()
    finally:
        vars(site).update(kept)


def run_start_files() -> None:
    """What Python would have done at its start: once more, with the files."""
    if sys.flags.no_site:
        site.main()


def _nothing(*_: Any) -> None:
    """In the place of a function of `site`."""
