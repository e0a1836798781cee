"""The messages that a worker sends: one JSON object a line, each begun with a token that only the two ends know.

A target that writes to every descriptor can neither send a message nor spoil one. `probing/engine/protocol.py` has the
same table as types; decoding a line there is its whole validation.
"""

import json
import math
import os
from typing import Any, Dict, List, Sequence

MESSAGES = {
    # Of the worker itself.
    "hello": ("pid", "python", "torch", "executable", "platform", "cuda"),
    "loaded": ("rung", "placeholders", "package_error", "why"),
    "idle": (),
    "ended": ("status",),
    "start": ("job",),
    "end": ("reason", "message", "output_bytes"),
    # Of a job.
    "load_error": ("reason", "message", "hint", "missing"),
    "plan": ("plan", "rung", "placeholders", "package_error"),
    "measurement": ("name", "value", "unit", "case", "evidence"),
    "location": ("location",),
    "note": ("text",),
    "device": ("name",),
    "took": ("seconds",),
    "checked": (),
    "not_applicable": ("message",),
    "unavailable": ("message", "reason"),
    "failed": ("reason", "message", "hint", "missing"),
}  # type: Dict[str, Sequence[str]]
"""The fields of each message."""
CONTROL = b"!"
"""Begins a line about the process that sends it, which its parent reads and does not pass on."""
LONGEST_LINE_BYTES = 1 << 20
MOST_OUTPUT_BYTES = 10 << 20
"""What a process may print before it is ended."""


class Writer:
    """Sends messages on `fd`; infinities and NaN travel as the strings "inf", "-inf", "nan".

    A process that runs a target's code must not hold `private_fds`.
    """

    def __init__(self, fd: int, token: str) -> None:
        self.fd = fd
        self.private_fds: Sequence[int] = (fd,)
        self.token = token

    def send(self, message: Dict[str, Any]) -> None:
        """Send a message of a job."""
        self.write(encoded(message))

    def control(self, message: Dict[str, Any]) -> None:
        """Send a message about this process itself; no job can send one in its worker's name."""
        self.write(CONTROL + encoded(message))

    def write(self, line: bytes) -> None:
        data = b"\n" + self.token.encode("ascii") + b" " + line + b"\n"
        while data:
            data = data[os.write(self.fd, data) :]


class Lines:
    """Puts the bytes of a pipe together again; what does not begin with the token is dropped."""

    def __init__(self, token: str) -> None:
        self._prefix = (token + " ").encode("ascii")
        self._buffer = b""

    def feed(self, data: bytes) -> List[bytes]:
        """The lines that `data` completes, without their token. One that is too long is cut, and so is no JSON."""
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest[:LONGEST_LINE_BYTES]
        return [line[len(self._prefix) :][:LONGEST_LINE_BYTES] for line in lines if line.startswith(self._prefix)]


def encoded(message: Dict[str, Any]) -> bytes:
    return json.dumps(strict(message), allow_nan=False).encode("ascii")


def decoded(line: bytes) -> Dict[str, Any]:
    """The object that a line holds, empty for none: a target that finds the token writes what it likes."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def new_token() -> str:
    """A token for one pipe."""
    return os.urandom(8).hex()


def strict(value: Any) -> Any:
    """`value` as JSON has it: infinities and NaN as words, keys as texts, tuples as lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return value
