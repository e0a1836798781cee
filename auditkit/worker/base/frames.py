"""Which line of the checkout is running: the innermost frame whose file is under the source roots."""

import functools
import linecache
import os
import re
import sys
import traceback
from types import FrameType, TracebackType
from typing import Dict, List, NamedTuple, Optional, Tuple

_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


# If the target is torch's own code, these frames are between its line and the operator it calls.
_MACHINERY = (
    "torch/_dynamo/", "torch/_compile.py", "torch/_ops.py", "torch/_tensor.py", "torch/overrides.py",
    "torch/utils/_python_dispatch.py", "torch/utils/_contextlib.py", "torch/_prims_common/", "torch/autograd/",
)  # fmt: skip
_TO_A_DEVICE = re.compile(r"\.to\([^()]*\(|\.copy_\(")
_HOST = re.compile(r"(?<![a-z])(cpu|host|pinned|pin_memory|offload\w*|numpy|tolist)(?![a-z])", re.IGNORECASE)


class Site(NamedTuple):
    """A line of the checkout: path relative to its root, forward slashes."""

    file: str
    line: int
    function: str

    def to_json(self) -> dict:
        return {"file": self.file, "line": self.line, "function": self.function}


class SourceRoots:
    """The folders that count as the checkout when a frame is attributed.

    `extra` allows folders under site-packages, if the target is an installed package.
    """

    def __init__(self, root: str, extra: Tuple[str, ...] = ()) -> None:
        self.root = os.path.realpath(root)
        self._extra = tuple(os.path.realpath(path) for path in extra)
        self._relative: Dict[str, Optional[str]] = {}

    def relative(self, filename: str) -> Optional[str]:
        """Return `filename` relative to the checkout, or None if it is not part of it."""
        if filename not in self._relative:
            self._relative[filename] = self._find(filename)
        return self._relative[filename]

    def means_host(self, site: Optional[Site]) -> bool:
        """Return whether a copy to the host at a line is meant.

        A copy into a buffer, or to a device that a call returns, goes to the host only because there is no device,
        unless the function mentions the host before that line.
        """
        lines = linecache.getlines(os.path.join(self.root, site.file))[: site.line] if site is not None else []
        if not lines or not _TO_A_DEVICE.search(lines[-1]):
            return True
        start = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].lstrip().startswith("def ")), 0)
        return _HOST.search("".join(lines[start:])) is not None

    def _find(self, filename: str) -> Optional[str]:
        if filename.startswith("<"):
            return None
        path = _real_path(filename)
        for extra in self._extra:
            if path == extra or path.startswith(extra + os.sep):
                relative = os.path.relpath(path, os.path.dirname(extra)).replace(os.sep, "/")
                return None if relative.startswith(_MACHINERY) else relative
        # Check below the root only: the checkout itself may be in site-packages, as the specimen of a wheel is.
        if path.startswith(self.root + os.sep) and not any(part in path[len(self.root) :] for part in _INSTALLED):
            return os.path.relpath(path, self.root).replace(os.sep, "/")
        return None

    def folder(self, file: str) -> str:
        """Return the folder to which the name `file` is relative: that of an installed package, "" for the checkout."""
        first = file.partition("/")[0]
        return next((os.path.dirname(path) for path in self._extra if os.path.basename(path) == first), "")

    def innermost(self, frame: Optional[FrameType] = None) -> Optional[Site]:
        """Return the checkout's line that is running now, seen from `frame` (default: the caller's)."""
        current = frame if frame is not None else sys._getframe(1)
        while current is not None:
            relative = self.relative(current.f_code.co_filename)
            if relative is not None:
                return Site(relative, current.f_lineno, name_of(current))
            current = current.f_back  # type: ignore[assignment]
        return None

    def of_traceback(self, error_traceback: Optional[TracebackType]) -> Optional[Site]:
        """Return the checkout's line closest to where an exception was raised."""
        found = None
        for frame, line in traceback.walk_tb(error_traceback):
            relative = self.relative(frame.f_code.co_filename)
            if relative is not None:
                found = Site(relative, line, name_of(frame))
        return found


def _real_path(file: str) -> str:
    """Return the file in the real path of its folder; thousands of modules are in few folders."""
    return os.path.join(_real_folder(os.path.dirname(file)), os.path.basename(file))


@functools.lru_cache(maxsize=None)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def name_of(frame: FrameType) -> str:
    """Return the function's qualified name; Python 3.10 knows only the plain one."""
    name: str = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return name


def most_common(sites: List[Optional[Site]]) -> Optional[Site]:
    """Return the site that occurs most often, the first one of equals; None without any."""
    counts: Dict[Site, int] = {}
    for site in sites:
        if site is not None:
            counts[site] = counts.get(site, 0) + 1
    return max(counts, key=lambda site: counts[site]) if counts else None


def chain(error: Optional[BaseException]) -> List[BaseException]:
    """Return an exception and its causes and contexts, the last raised first."""
    found: List[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
