"""What is expensive to make is made once for all processes of one test run (`-n`); a share of a matrix of tests."""

from __future__ import annotations

import fcntl
import os
import pickle
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import pytest

SHARED_FOLDER = "AUDITKIT_TESTS_SHARED_FOLDER"
T = TypeVar("T")


def once(name: str, make: Callable[[], T]) -> T:
    """What `make` returns; of the processes of one test run the first makes it, the others read its file."""
    shared = os.environ.get(SHARED_FOLDER)
    if shared is None:
        return make()
    with (Path(shared) / name).open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if stored := file.read():
            return pickle.loads(stored)
        made = make()
        file.write(pickle.dumps(made))
        return made


def kept_of(share: int, names: Collection[str]) -> list[str]:
    """Return one of `share` names, the same ones in every run."""
    return [name for name in names if zlib.crc32(name.encode()) % share == 0]


def one_of(share: int, names: Collection[str]) -> list[Any]:
    """Mark all names as slow but one of `share`."""
    kept = set(kept_of(share, names))
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]
