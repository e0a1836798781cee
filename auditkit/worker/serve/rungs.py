"""The ways to load a target's module, from the whole package to single statements cut out of its file."""

import os
import sys
from types import ModuleType
from typing import Any, List, Sequence, Set, Tuple

from . import placeholders
from .cut_out import CutOutFinder, statements_of

OF_BLOCKS = "#"
"""Suffix of a place whose targets are all blocks: an import would run the code around them."""
RUNGS = ("package", "file", "placeholders", "cut_out")
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
    modules = [module_of(place, roots) for place in places]
    if rung == RUNGS[0]:
        return
    parents: Set[str] = set()
    for name, file in modules:
        folder = _script_folder(file)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        parts = name.split(".")
        parents.update(".".join(parts[:end]) for end in range(1, len(parts)))
    is_cut_out = rung == "cut_out"
    tops = [os.path.realpath(root) + os.sep for root in roots]
    CutOutFinder(
        lambda path: _is_own(os.path.realpath(path), tops),
        lambda found: not is_cut_out and found not in parents,
        _failed if is_cut_out else None,
    ).install()
    if rung != "file":
        placeholders.install(roots)


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

    A path with parts that are not identifiers is not in a package. A file that trains when it is imported is only cut
    out.
    """
    is_path = place.endswith(".py") and not all(map(str.isidentifier, place[: -len(".py")].split("/")))
    if _trains(module_of(place, roots)[1]):
        return RUNGS[-1:]
    return RUNGS[1:] if is_path else RUNGS


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


def _failed(module: ModuleType, name: str, error: BaseException) -> Any:
    why = "{}.{} could not be made: {}: {}".format(
        module.__name__, name, type(error).__name__, " ".join(str(error).split())[:200]
    )
    return placeholders.stand_in("{}.{}".format(module.__name__, name), why)
