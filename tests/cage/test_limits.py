"""Storms, daemons, floods and terminal escapes: each one works without the sandbox and ends with it."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auditkit import sandbox
from auditkit.errors import NothingMeasuredError
from auditkit.sandbox import Mounts

pytestmark = pytest.mark.process

BOUNDED_STORM = """
import os, sys, time
for number in range(400):
    if os.fork() == 0:
        time.sleep(float(sys.argv[1]))
        os._exit(0)
print("all started", flush=True)
"""
# Each process takes less than it may; all together take more.
GREEDY_FAMILY = """
import os, sys, time
for number in range(4):
    if os.fork() == 0:
        kept = b"x" * (100 << 20)
        time.sleep(5)
        os._exit(0)
for number in range(4):
    os.wait()
print("all kept", flush=True)
"""
# It leaves its session and its parent, and then changes its process id all the time.
HOPPING_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        if os.fork():
            os._exit(0)
        time.sleep(0.02)
    open(sys.argv[1], "w").write("outlived")
    os._exit(0)
"""
FLOOD = "import sys\nfor _ in range(64):\n    sys.stdout.write('x' * (1 << 20))\n"


def own(*more: str) -> Mounts:
    """What auditkit's own interpreter needs, and further folders to write."""
    return Mounts(list(sandbox.interpreters([], [])), list(more))


@pytest.mark.acceptance
def test_a_storm_of_processes_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same storm is whole without the sandbox. It is bounded, and so is its limit here."""
    plain = subprocess.run(
        [sys.executable, "-c", BOUNDED_STORM, "1"], capture_output=True, text=True, start_new_session=True
    )
    assert plain.stdout == "all started\n"
    monkeypatch.setattr(sandbox, "_MOST_PROCESSES", 100)
    began, said, told = time.monotonic(), io.BytesIO(), ""
    try:
        code = sandbox.run([sys.executable, "-c", BOUNDED_STORM, "20"], own(), said)
    except NothingMeasuredError as error:  # root has no such limit: the watch ends everything
        code, told = 3, error.message
    assert (code, told) in ((1, ""), (3, "--cage ended the command: it used more than 100 processes"))
    assert time.monotonic() - began < 15.0, "nothing was left to wait for"


def test_processes_that_take_too_much_together_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = subprocess.run([sys.executable, "-c", GREEDY_FAMILY], capture_output=True, text=True)
    assert plain.stdout == "all kept\n", "control"
    monkeypatch.setattr(sandbox, "_memory_bytes", lambda: 320 << 20)  # of which three quarters
    said = io.BytesIO()
    with pytest.raises(NothingMeasuredError, match="used more than 0 GB of memory"):
        sandbox.run([sys.executable, "-c", GREEDY_FAMILY], own(), said)
    assert said.getvalue() == b""


def test_a_daemon_that_hops_does_not_outlive_its_command(tmp_path: Path) -> None:
    outlived = {name: tmp_path / name / "mark" for name in ("without", "with")}
    for path in outlived.values():
        path.parent.mkdir()
    subprocess.run([sys.executable, "-c", HOPPING_DAEMON, str(outlived["without"])], check=True)
    folder = str(outlived["with"].parent)
    assert sandbox.run([sys.executable, "-c", HOPPING_DAEMON, str(outlived["with"])], own(folder), io.BytesIO()) == 0
    time.sleep(3.5)
    assert (outlived["without"].exists(), outlived["with"].exists()) == (True, False)


def test_a_file_larger_than_its_limit_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In scratch memory and in a named output."""
    program = "import sys; open(sys.argv[1], 'wb').write(b'x' * (8 << 20))"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "plain")], check=True)
    assert (tmp_path / "plain").stat().st_size == 8 << 20, "control"
    monkeypatch.setattr(sandbox, "_LARGEST_FILE_BYTES", 4 << 20)
    (tmp_path / "out").mkdir()
    for place in (str(tmp_path / "out" / "file"), "/tmp/file"):
        assert sandbox.run([sys.executable, "-c", program, place], own(str(tmp_path / "out")), io.BytesIO()) != 0
    assert (tmp_path / "out" / "file").stat().st_size <= 4 << 20


def test_output_is_handed_on_and_not_kept() -> None:
    """64 MB of it reach whoever asked; the relay holds one piece at a time."""

    class Counted(io.BytesIO):
        count, largest = 0, 0

        def write(self, data: object) -> int:
            self.count += len(data)  # type: ignore[arg-type]
            self.largest = max(self.largest, len(data))  # type: ignore[arg-type]
            return len(data)  # type: ignore[arg-type]

    said = Counted()
    assert sandbox.run([sys.executable, "-c", FLOOD], own(), said) == 0
    assert said.count == 64 << 20
    assert said.largest <= 1 << 16


def test_no_escape_of_the_sandbox_reaches_the_terminal(tmp_path: Path) -> None:
    """A program inside writes to its own stdout and stderr, and to the terminal by its name."""
    program = (
        "import os, sys\n"
        "os.write(1, b'\\x1b]0;title\\x07seen\\n')\n"
        "os.write(2, b'\\x1b[2Jseen\\r\\n')\n"
        "try:\n    os.write(os.open('/dev/tty', os.O_WRONLY), b'\\x1b[31mtty')\n"
        "except OSError:\n    pass\n"
    )
    run = "import sys; from tests.cage.test_limits import own; from auditkit import sandbox; "
    shown = {}
    for name, code in (("without", program), ("with", f"{run}sandbox.run([sys.executable, '-c', {program!r}], own())")):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", code])
        shown[name] = b""
        while True:
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            if not data:
                break
            shown[name] += data
        os.waitpid(pid, 0)
        os.close(terminal)
    assert b"\x1b]0;title\x07seen" in shown["without"], "control"
    assert b"\x1b[31mtty" in shown["without"], "control"
    assert b"\x1b" not in shown["with"]
    assert shown["with"].count(b"seen") == 2
