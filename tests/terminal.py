"""What commands write where somebody reads them on a screen."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.project_files import ROOT

_LINES = 200


def on_a_terminal(
    words: list[str], folder: Path = ROOT, columns: int = 80, with_errors: bool = False, **environment: str
) -> str:
    """What `auditkit WORDS` writes to a terminal of so many columns; standard error is among it `with_errors`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    told = {**kept, "TERM": "xterm-256color", "PAGER": "cat", "PYTHONPATH": str(ROOT), **environment}
    errors = theirs if with_errors else subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", "auditkit", *words]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=errors, env=told):
        os.close(theirs)
        written = b""
        # Reading from a terminal that its last writer has closed is an error, not an end.
        try:
            while chunk := os.read(ours, 65536):
                written += chunk
        except OSError:
            os.close(ours)
    return written.decode("utf-8", "replace").replace("\r\n", "\n")
