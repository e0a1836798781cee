"""The messages that a worker sends: one JSON object per line, after a token that only the two ends know.

A target that writes to every descriptor can neither forge nor break a message. `probing/engine/protocol.py` has the
messages as types; decoding a line there validates it.
"""

import json
import math
import os
from typing import Any, Dict, List

CONTROL = b"!"
"""Prefix of a line for the parent process, which does not forward it."""
LONGEST_LINE_BYTES = 1 << 20
MOST_OUTPUT_BYTES = 10 << 20
"""A process that prints more is ended."""


class Writer:
    """Sends messages on `fd`; infinities and NaN are sent as the strings "inf", "-inf", "nan".

    A process that runs a target's code must not have the `fd` of its worker.
    """

    def __init__(self, fd: int, token: str) -> None:
        self.fd = fd
        self.token = token

    def send(self, message: Dict[str, Any]) -> None:
        """Send a message of a job."""
        self.write(encoded(message))

    def control(self, message: Dict[str, Any]) -> None:
        """Send a message about this process itself, which no job can send for its worker."""
        self.write(CONTROL + encoded(message))

    def write(self, line: bytes) -> None:
        data = b"\n" + self.token.encode("ascii") + b" " + line + b"\n"
        while data:
            data = data[os.write(self.fd, data) :]


class Lines:
    """Joins the bytes of a pipe to lines, and drops lines without the token."""

    def __init__(self, token: str) -> None:
        self._prefix = (token + " ").encode("ascii")
        self._buffer = b""

    def feed(self, data: bytes) -> List[bytes]:
        """Return the lines that `data` completes, without their token.

        A line that is too long is cut, so it is not JSON.
        """
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest[:LONGEST_LINE_BYTES]
        return [line[len(self._prefix) :][:LONGEST_LINE_BYTES] for line in lines if line.startswith(self._prefix)]


def encoded(message: Dict[str, Any]) -> bytes:
    return json.dumps(strict(message), allow_nan=False).encode("ascii")


def decoded(line: bytes) -> Dict[str, Any]:
    """Return the object of a line; empty if there is none, since a target that finds the token can write any line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def new_token() -> str:
    """Return a token for one pipe."""
    return os.urandom(8).hex()


def strict(value: Any) -> Any:
    """Return `value` as JSON allows it: infinities and NaN as words, keys as strings, tuples as lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return value
