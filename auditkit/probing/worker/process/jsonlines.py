"""Strict JSON, one object a line, on a descriptor of our own.

Every line begins with a token that only the two ends know, so that a target that writes to every
descriptor it finds can neither send a message nor spoil one.
"""

import json
import math
import os
from typing import Any, Dict, List, Optional, Sequence

_LONGEST_LINE_BYTES = 1 << 20
MOST_OUTPUT_BYTES = 10 << 20
"""What a process may print before it is ended."""


class Writer:
    """Sends messages on `fd`; infinities and NaN travel as the strings "inf", "-inf", "nan".

    `further_fds` are what a process that runs a target's code must not hold, beside `fd`.
    """

    def __init__(self, fd: int, token: str, further_fds: Sequence[int] = ()) -> None:
        self.fd = fd
        self.private_fds = (fd, *further_fds)
        self.token = token

    def send(self, message: Dict[str, Any]) -> None:
        line = "\n{} {}\n".format(self.token, json.dumps(strict(message), allow_nan=False))
        data = line.encode("utf-8")
        while data:
            data = data[os.write(self.fd, data) :]


class Reader:
    """Puts the bytes of a pipe together again; what is no message of ours is dropped.

    Messages that name the folder `copy` name `original` in its place.
    """

    def __init__(self, token: str, copy: str = "", original: str = "") -> None:
        self._prefix = (token + " ").encode("ascii")
        self._buffer = b""
        self._copy, self._original = (json.dumps(path)[1:-1].encode("ascii") for path in (copy, original))

    def feed(self, data: bytes) -> List[Dict[str, Any]]:
        """The messages that `data` completes, in order."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > _LONGEST_LINE_BYTES:
            self._buffer = b""
        found = [line[len(self._prefix) :] for line in lines if line.startswith(self._prefix)]
        if self._copy:
            found = [line.replace(self._copy, self._original) for line in found]
        return [message for message in map(_message, found) if message is not None]


def _message(line: bytes) -> Optional[Dict[str, Any]]:
    """What a line says; None for one that is no object: a target that finds the token writes what it likes."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


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
