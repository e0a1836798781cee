"""Where and how probes run, and what their processes get of the environment."""

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
# What a worker may inherit. PYTHON* would change what `-I` promises; the rest finds libraries and devices.
_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
)  # fmt: skip


def worker_environment() -> dict[str, str]:
    """The environment of a worker: little of ours, and what keeps it to one thread and its own output."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["KINETO_LOG_LEVEL"] = "99"  # the profiler's own start and stop lines are not the target's output
    # One thread, as torch has in a worker: numpy's own would be a reason not to fork what has imported it.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    # torch would fail to import with a package that names a device backend and cannot be imported here, as auditkit's
    # own entry point where it is installed from a folder. Probes measure on the CPU and on CUDA, which need none.
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return environment


@dataclass(frozen=True)
class Setting:
    """The checkout's path and interpreter, the device, the limits.

    `copied` is that of the open checkout: what a worker reports of the copy is reported of what was copied.
    `kept` are workers that have loaded a module already; without it each ends after one request. `cache` has the
    results of earlier commands. `rungs` are the ways to load a target that are tried in turn; without them those that
    make sense for it. `recorded` are the calls of a run, from which inputs are built.
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
