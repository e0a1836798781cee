"""The cage for probes that are not ours: a process without our environment, our modules and our input.

A probe that comes with an audited checkout may hang, end its process, print, or look for secrets; in the
cage it can spoil its own results and no others.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auditkit import assets
from auditkit.model.enums import Reason

_PROGRAM = Path(__file__).parent / "caged_probe.py"
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")


class ForeignProbeError(Exception):
    """The probe's process gave no answer; `reason` says what happened to it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def ask_in_cage(probe: Path, request: Mapping[str, Any], time_limit_s: float, wanted: str = "answer") -> dict[str, Any]:
    """What the probe's file answers to one of the requests of `caged_probe`, and the end of all that it started.

    `wanted` is what an answer is called in a message. Raises ForeignProbeError where there is none.
    """
    package = Path(assets.__file__).parent
    asked = {"path": str(probe.resolve()), "package": str(package), **request}
    with subprocess.Popen(
        [sys.executable, "-I", "-B", str(_PROGRAM)],
        stdin=subprocess.PIPE,  # closed before the probe's file is run
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        start_new_session=True,
    ) as process:
        try:
            told, _ = process.communicate(json.dumps(asked).encode("utf-8"), time_limit_s)
        except subprocess.TimeoutExpired:
            raise ForeignProbeError(Reason.TIMEOUT, f"no {wanted} within {time_limit_s:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    try:
        answer: dict[str, Any] = json.loads(told)
    except ValueError:
        text = f"the probe's process ended with status {process.returncode} and without {_a(wanted)}"
        raise ForeignProbeError(Reason.EXIT, text) from None
    if "error" in answer:
        raise ForeignProbeError(Reason.EXCEPTION, str(answer["error"]))
    return answer


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
