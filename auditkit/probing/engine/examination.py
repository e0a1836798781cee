"""What an interpreter on this machine can measure: each instrument on each of its devices, checked on its toy."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from auditkit.probing.engine import protocol
from auditkit.probing.engine.protocol import Failure
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.session import Job, Session

DEVICES = ("cuda", "simulated", "cpu")
_INSTRUMENTS = ("syncs", "launches", "memory", "mutation", "graphs", "steps")
# torch.compile accepts only tensors of a real device; training steps run on the host.
_NEVER = {("graphs", "simulated"), ("steps", "simulated"), ("steps", "cuda")}
_TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class InstrumentState:
    """Whether `instrument` can be trusted on `device`, and why not."""

    instrument: str
    device: str
    works: bool
    message: str = ""


@dataclass(frozen=True)
class Examination:
    """The interpreter's properties and the state of every instrument; or why it cannot be used."""

    environment: Mapping[str, Any]
    states: Sequence[InstrumentState]
    failure: Failure | None = None


def examine(interpreter: str) -> Examination:
    """Start a worker in `interpreter` and check every instrument on every device."""
    jobs: list[protocol.Job] = [
        {"id": f"{instrument}/{device}", "kind": "selfcheck", "instrument": instrument, "device": device}
        for device in DEVICES
        for instrument in _INSTRUMENTS
        if (instrument, device) not in _NEVER
    ]
    with tempfile.TemporaryDirectory() as nowhere:
        session = Session(Setting(Path(nowhere), interpreter, (), time_limit_s=_TIME_LIMIT_S), jobs)
        states = [_state(job, session.has_cuda) for job in session.jobs()]
    said = msgspec.structs.asdict(session.hello) if session.hello is not None else {}
    said.pop("pid", None)
    named = {"device_name": session.device_name} if session.device_name else {}
    return Examination({**said, **named}, states, session.failure)


def _state(job: Job, has_cuda: bool) -> InstrumentState:
    instrument, device = job.id.split("/")
    if device == "cuda" and not has_cuda:
        return InstrumentState(instrument, device, False, "there is no CUDA device")
    why = job.failure.message if job.failure is not None else "it did not respond"
    return InstrumentState(instrument, device, job.checked, "" if job.checked else why)
