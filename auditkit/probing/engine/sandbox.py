"""The setting in which probes run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.probe import Policy
from auditkit.model.runs.recorded import RecordedRun
from auditkit.probing.engine.cache import ResultCache

DEFAULT_TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class Setting:
    """The checkout's path and interpreter, the device, the limits.

    `copied` is that of the open checkout: messages name the original instead of the copy. `cache` has the results of
    earlier commands. `rungs` are the ways to load a target, tried in turn; the worker chooses them if there are none.
    `recorded` are the calls of a run, from which inputs are built.
    """

    checkout: Path
    interpreter: str
    import_roots: tuple[Path, ...]
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = Policy()  # noqa: RUF009 - it is frozen
    cancelled: threading.Event = field(default_factory=threading.Event)
    copied: tuple[str, str] = ("", "")
    cache: ResultCache | None = None
    rungs: tuple[str, ...] = ()
    recorded: RecordedRun | None = None
