"""The two ways to load a target's module: as Python imports it, and by single statements cut out of its file."""

import os
import sys
from typing import List, Sequence, Tuple

from .cut_out import CutOutFinder, statements_of

OF_BLOCKS = "#"
"""Suffix of a place whose targets are all blocks: an import would run the code around them."""
RUNGS = ("package", "cut_out")
_INSTALLED = ("site-packages", "dist-packages")


class _Prepared:
    """State of this process: the way in which it loads."""

    rung = RUNGS[0]


def current() -> str:
    """Return the way in which this process loads modules."""
    return _Prepared.rung


def prepare(rung: str, places: Sequence[str], roots: List[str]) -> None:
    """Make this process import in the way `rung`; the targets are in `places`. Call it once per process."""
    _Prepared.rung = rung
    if rung == RUNGS[0]:
        return
    for place in places:
        folder = _script_folder(module_of(place, roots)[1])
        if folder not in sys.path:
            sys.path.insert(0, folder)
    tops = [os.path.realpath(root) + os.sep for root in roots]
    CutOutFinder(lambda path: _is_own(os.path.realpath(path), tops)).install()


def module_of(place: str, roots: List[str]) -> Tuple[str, str]:
    """Return the name under which the module at `place` (dotted, or a file's path) is imported, and its file or ""."""
    if not place.endswith(".py"):
        below = [os.path.join(root, *place.split(".")) for root in roots]
        files = [path + end for path in below for end in (".py", os.sep + "__init__.py")]
        return place, next(filter(os.path.isfile, files), "")
    files = [os.path.join(root, place) for root in (os.getcwd(), *roots)]
    file = next(filter(os.path.isfile, files), os.path.abspath(place))
    inside = [root for root in roots if os.path.realpath(file).startswith(os.path.realpath(root) + os.sep)]
    root = max(inside, key=len, default=os.path.dirname(file))
    parts = os.path.relpath(os.path.realpath(file), os.path.realpath(root))[: -len(".py")].split(os.sep)
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    return ".".join(parts), file


def ways(place: str, roots: List[str]) -> Tuple[str, ...]:
    """Return the ways to try for the module at `place`, in order.

    A path with parts that are not identifiers cannot be imported; a file that trains must not be.
    """
    is_path = place.endswith(".py") and not all(map(str.isidentifier, place[: -len(".py")].split("/")))
    return RUNGS[1:] if is_path or _trains(module_of(place, roots)[1]) else RUNGS


def _trains(file: str) -> bool:
    """Return whether importing a file computes gradients; False for a file that cannot be read."""
    try:
        return statements_of(file).train
    except (OSError, ValueError, SyntaxError, RecursionError):
        return False


def _script_folder(file: str) -> str:
    """Return the folder that a file's own imports start from when it is run: its own, or its top package's parent."""
    folder = os.path.dirname(os.path.realpath(file))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _is_own(path: str, tops: List[str]) -> bool:
    return any(path.startswith(top) and not any(part in path[len(top) :] for part in _INSTALLED) for top in tops)
