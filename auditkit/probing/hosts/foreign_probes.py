"""Probes that are not ours: each in a process without our environment, our modules and our input, and in the cage.

A probe that comes with an audited checkout may hang, end its process, print, or look for secrets; there it can
spoil its own results and no others. Whatever is said of the cage: a probe needs nothing that it keeps away.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from auditkit import assets
from auditkit.model.enums import CageChoice, Reason
from auditkit.probing.hosts.cage import Cage, CageError, checkout_files, engine_of, interpreter_files, run_in_cage

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
    engine = engine_of(CageChoice.AUTO)
    read = (*interpreter_files(sys.executable), str(package), asked["path"], *_checkout_of(request))
    cage = Cage(engine, tuple(dict.fromkeys(read))) if engine.name else None
    command = [sys.executable, "-I", "-B", str(_PROGRAM)]
    try:
        ended = run_in_cage(cage, command, json.dumps(asked).encode("utf-8"), _ENVIRONMENT, time_limit_s)
    except subprocess.TimeoutExpired:
        raise ForeignProbeError(Reason.TIMEOUT, f"no {wanted} within {time_limit_s:g} s") from None
    except CageError as error:
        raise ForeignProbeError(Reason.PROTOCOL, str(error)) from None
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        text = f"the probe's process ended with status {ended.returncode} and without {_a(wanted)}"
        raise ForeignProbeError(Reason.EXIT, text) from None
    if "error" in answer:
        raise ForeignProbeError(Reason.EXCEPTION, str(answer["error"]))
    return answer


def _checkout_of(request: Mapping[str, Any]) -> Iterator[str]:
    """The source that a probe reads; one that only judges reads none."""
    if "checkout" in request:
        read, write, _ = checkout_files(Path(request["checkout"]), map(Path, request["import_roots"]))
        yield from (*read, *write)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
