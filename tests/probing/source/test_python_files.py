"""A checkout's files are read once, whoever asks and however many at a time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.probing.source.python_files import PythonFiles

FILES = 200


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns a thousand times as often as they usually do."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 1000)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty")
def test_two_threads_find_the_same_functions(tmp_path: Path) -> None:
    """One that asks for a file which the other is reading waits for it; it was told that the file is empty."""
    for number in range(FILES):
        (tmp_path / f"part{number}.py").write_text("def f():\n    pass\n", encoding="utf-8")
    files = PythonFiles(tmp_path, [tmp_path])
    start = threading.Barrier(2)
    found: list[list[object]] = [[], []]

    def ask(number: int) -> None:
        start.wait()
        found[number] += [files.function(f"part{part}:f") for part in range(FILES)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found[0]
    assert found[0] == found[1]
