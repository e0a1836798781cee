"""More than a screen goes through the user's pager; on a terminal only."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from auditkit.cli.output import say_styled


def page(text: str) -> None:
    """Show text whose escapes are our own: through `$PAGER` (or less) where it is longer than the screen.

    An empty `$PAGER` or `cat` means none. A pager that cannot be started is done without.
    """
    command = shlex.split(os.environ.get("PAGER", "less"))
    width, height = shutil.get_terminal_size()
    lines = sum(max(1, -(-len(line) // max(width, 1))) for line in text.split("\n"))
    if lines < height or not command or command == ["cat"] or not _show(command, text):
        say_styled(text)


def _show(command: list[str], text: str) -> bool:
    # As git does: colours pass, and what fits stays on the screen.
    environment = {"LESS": "FRX", **os.environ}
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    try:
        pager.communicate(text.encode("utf-8", "backslashreplace") + b"\n")
    except BrokenPipeError:
        pass
    except KeyboardInterrupt:
        # Ctrl-C is the pager's to answer.
        pager.wait()
    return True
