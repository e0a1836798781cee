"""One job of a sweep: which code is checked, where, what it needs, its key, and the command that runs it."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import msgspec

from auditkit.errors import BadInputError
from auditkit.model.enums import DeviceChoice

_HINT = "auditkit sweep plan FILE.yaml > plan.jsonl writes a plan"


class Resources(msgspec.Struct, frozen=True):
    """What one job needs while it runs: memory in MB, GPUs, and seconds at most. Each job has one processor core."""

    memory_mb: int
    gpus: int = 0
    time_s: float = 3600.0


class EnvironmentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The Python that runs the code: an existing `interpreter`, or an environment that auditkit makes.

    `python` and `torch` are versions, such as `3.12` and `2.9`. `requirements` are installed beside torch: packages, or
    files of the checkout (`*.txt`). `index` is where torch's wheels come from: a URL, `default` for the usual index, ""
    for uv's own choice by the device.
    """

    interpreter: str = ""
    python: str = ""
    torch: str = ""
    requirements: tuple[str, ...] = ()
    index: str = ""

    @property
    def label(self) -> str:
        """`torch 2.9, Python 3.12`, or the interpreter's path."""
        named = [f"torch {self.torch}"] * bool(self.torch) + [f"Python {self.python}"] * bool(self.python)
        return self.interpreter or ", ".join(named) or "Python of the checkout"


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One checkout at one revision, checked in one environment on one device.

    `repository` is an absolute folder, or a URL that is cloned where the job runs; `revision` is a full commit, "" for
    a folder outside git, which is checked as it is. `name` is its row in the merged matrix. `probes` are ids; empty for
    all that an audit runs. `config` is an auditkit.yaml.
    """

    key: str
    name: str
    repository: str
    revision: str
    probes: tuple[str, ...]
    environment: EnvironmentSpec
    device: DeviceChoice
    resources: Resources
    config: str = ""

    def __post_init__(self) -> None:
        if not self.key:
            msgspec.structs.force_setattr(self, "key", key_of(self))


def key_of(job: Job) -> str:
    """Return `nanoGPT-3adf61e154-torch2.9-cpu-` and a digest of all that the result depends on."""
    environment, device = job.environment, job.device
    content = msgspec.json.encode([job.repository, job.revision, job.probes, environment, device, job.config])
    path = Path(environment.interpreter)
    interpreter = path.parent.parent.name if path.parent.name == "bin" else path.name
    torch = f"torch{environment.torch}" if environment.torch else interpreter
    digest = hashlib.sha256(content).hexdigest()[:12]
    parts = (job.name.partition("@")[0], job.revision[:10], torch, device.value, digest)
    return "-".join(re.sub(r"[^\w.]+", "_", part)[:40] for part in parts if part)


def line_of(job: Job) -> str:
    """Return the line of a plan for a job, without a line end."""
    return msgspec.json.encode(job).decode("utf-8")


def read_plan(path: Path) -> list[Job]:
    """Return the jobs of a plan. Raises BadInputError with file and line for an invalid or repeated job."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}", _HINT) from None
    jobs: dict[str, Job] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            job = msgspec.json.decode(line, type=Job)
        except msgspec.DecodeError as error:
            raise BadInputError(f"{path}:{number}:1: this is not a job: {error}", _HINT) from None
        if job.key != key_of(job):
            message = f"{path}:{number}:1: the key {job.key} is not that of this job, {key_of(job)}"
            raise BadInputError(message, "plan again: the key names what the job checks")
        if job.key in jobs:
            raise BadInputError(f"{path}:{number}:1: the job {job.key} is planned twice", "remove one of the lines")
        jobs[job.key] = job
    if not jobs:
        raise BadInputError(f"{path} has no job", _HINT)
    return list(jobs.values())


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that the process of a job receives: the job, the sweep's folder, and this machine's cache.

    `cage` runs everything of the job in sandboxes. In each sandbox a process runs one `step` of it: `prepare`, or
    `audit` with the `place` and the `python` (None: the checkout's own) that were prepared.
    """

    folder: str
    cache: str
    job: Job
    cage: bool = False
    step: str = ""
    place: str = ""
    python: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs the job on any node that has this interpreter and the sweep's folder."""
        return (sys.executable, "-P", "-m", "auditkit.sweep.execution", msgspec.json.encode(self).decode("utf-8"))
