"""The user's line: the innermost frame outside torch, libraries and auditkit."""

from __future__ import annotations

import os
import sys
from typing import Any, Iterator

import torch

Place = tuple  # (file, line, function)

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB = tuple(os.path.dirname(path(os.__file__)) + os.sep for path in (os.path.abspath, os.path.realpath))
_USERS, _LIBRARY, _TORCHS = 0, 1, 2
_kinds: dict = {}
NOWHERE = ("", 0, "")


def _kind(file: str) -> int:
    kind = _kinds.get(file)
    if kind is None:
        path = os.path.abspath(file)
        generated = file.startswith("<") and not file.startswith(("<ipython-input", "<stdin>"))
        if generated or path.startswith((_OWN, _TORCH)):
            kind = _TORCHS
        elif path.startswith(_STDLIB) or "site-packages" in path or "dist-packages" in path:
            kind = _LIBRARY
        else:
            kind = _USERS
        _kinds[file] = kind
    return kind


def frames_of_stack() -> Iterator[Any]:
    """Yield the frames of the stack, the innermost first."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def where() -> Place:
    """Return the user's file, line and function; a library's line if no frame is the user's."""
    fallback = NOWHERE
    for frame in frames_of_stack():
        kind = _kind(frame.f_code.co_filename)
        if kind == _USERS:
            return place_of(frame)
        if kind == _LIBRARY and fallback is NOWHERE and "importlib" not in frame.f_code.co_filename:
            fallback = place_of(frame)
    return fallback


def called_from(*parts: str) -> bool:
    """Return whether a frame of the stack is in a file whose path contains one of `parts`."""
    return any(part in frame.f_code.co_filename for frame in frames_of_stack() for part in parts)


def place_of(frame: Any) -> Place:
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    return (os.path.abspath(code.co_filename), frame.f_lineno, "" if name == "<module>" else name)


def user_frames() -> Iterator[Any]:
    """Yield the user's frames on the stack, the innermost first."""
    return (frame for frame in frames_of_stack() if _kind(frame.f_code.co_filename) == _USERS)
