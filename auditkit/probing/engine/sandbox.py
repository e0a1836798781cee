"""The setting in which probes run, and the environment of their processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.probe import Policy
from auditkit.model.runs.recorded import RecordedRun
from auditkit.probing.engine.cache import ResultCache
from auditkit.probing.engine.fork_servers import KeptWorkers

DEFAULT_TIME_LIMIT_S = 120.0
# Variables that a worker inherits. PYTHON* would undo `-I`; the others locate libraries and devices.
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
)  # fmt: skip


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker: few inherited variables, one thread, and no log output of libraries."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["KINETO_LOG_LEVEL"] = "99"  # the profiler's own messages are not the target's output
    # One thread, as torch has in a worker: numpy's threads would prevent a fork after its import.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # torch would fail to import if an installed package declares a device backend that cannot be imported here, such as
    # auditkit's own entry point in an editable install. Probes need no such backend.
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return environment


@dataclass(frozen=True)
class Setting:
    """The checkout's path and interpreter, the device, the limits.

    `copied` is that of the open checkout: messages name the original instead of the copy. `kept` are workers that have
    already loaded a module; without it each ends after one request. `cache` has the results of earlier commands.
    `rungs` are the ways to load a target, tried in turn; the worker chooses them if there are none. `recorded` are the
    calls of a run, from which inputs are built.
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
    kept: KeptWorkers | None = None
    cache: ResultCache | None = None
    rungs: tuple[str, ...] = ()
    recorded: RecordedRun | None = None
