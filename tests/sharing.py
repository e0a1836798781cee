"""What is dear to make is made once for all processes of one test run (`-n`)."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

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
