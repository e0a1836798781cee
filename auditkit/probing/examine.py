"""What an interpreter on this machine can measure: each instrument on each of its devices, checked on its toy."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.model.enums import Reason
from auditkit.probing.sandbox import Worker, make_request

DEVICES = ("cuda", "simulated", "cpu")
_INSTRUMENTS = ("syncs", "launches", "memory", "mutation", "graphs")
# torch.compile takes tensors of a real device alone.
_NEVER = {("graphs", "simulated")}
_TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class InstrumentState:
    """Whether `instrument` may be believed on `device`, and why not."""

    instrument: str
    device: str
    works: bool
    message: str = ""


@dataclass
class Examination:
    """What the interpreter said of itself, and the state of every instrument."""

    environment: dict[str, Any] = field(default_factory=dict)
    states: list[InstrumentState] = field(default_factory=list)
    reason: Reason | None = None
    failure: str = ""
    hint: str = ""


def examine(interpreter: str) -> Examination:
    """Start a worker in `interpreter` and check every instrument on every device that it can measure."""
    jobs = [
        {"id": f"{instrument}/{device}", "kind": "selfcheck", "instrument": instrument, "device": device}
        for device in DEVICES
        for instrument in _INSTRUMENTS
        if (instrument, device) not in _NEVER
    ]
    found = Examination()
    with tempfile.TemporaryDirectory() as nowhere:
        request = make_request(None, Path(nowhere), (), jobs, _TIME_LIMIT_S)
        try:
            _collect(Worker(interpreter, request, _TIME_LIMIT_S), found)
        except OSError as error:
            found.reason, found.failure = Reason.NO_INTERPRETER, f"{interpreter} cannot be started: {error.strerror}"
    if not found.environment and not found.failure:
        found.reason, found.failure = Reason.PROTOCOL, f"{interpreter} ended before it answered"
    return found


def _collect(worker: Worker, found: Examination) -> None:
    instrument = device = ""
    failure: str | None = None
    for message in worker.messages():
        kind = message.get("type")
        if kind == "hello":
            found.environment = message
        elif kind == "load_error":
            found.reason = Reason(message["reason"])
            found.failure, found.hint = message["message"], message.get("hint", "")
        elif kind == "device":
            found.environment["device_name"] = message["name"]
        elif kind == "start":
            instrument, device = message["job"].split("/")
            failure = "it did not answer"
        elif kind == "checked":
            failure = None
        elif kind == "failed":
            failure = message["message"]
        elif kind == "end":
            found.states.append(_state(instrument, device, failure, message, found))


def _state(
    instrument: str, device: str, failure: str | None, end: dict[str, Any], found: Examination
) -> InstrumentState:
    if device == "cuda" and not found.environment.get("cuda"):
        return InstrumentState(instrument, device, False, "there is no CUDA device")
    if end.get("status") != "ok":
        failure = end.get("message", failure)
    return InstrumentState(instrument, device, failure is None, failure or "")
