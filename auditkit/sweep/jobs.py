"""One job of a sweep: what is asked of which code, where, what it needs, its key, and the command that does it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar

from auditkit.errors import BadInputError
from auditkit.model.codec import Record, encode
from auditkit.model.enums import DeviceChoice

_MODULE = "auditkit.sweep.execution"
KEY_DIGITS = 12
_NOT_IN_KEY = ("key", "name", "revision_name", "resources")
_SHORT_REVISION = 10


@dataclass(frozen=True)
class Resources(Record):
    """What one job needs while it runs: memory in MB, graphics cards, processor cores, and seconds at most."""

    memory_mb: int
    gpus: int = 0
    cpus: int = 1
    time_s: float = 3600.0


@dataclass(frozen=True)
class EnvironmentSpec(Record, keys="interpreter? python? torch? requirements? index?"):
    """The Python that runs the code: an `interpreter` that is there, or one to be made.

    `python` and `torch` are versions, such as `3.12` and `2.9`. `requirements` are what is installed beside torch; what
    names a file of the checkout is read there, and None means nothing. `index` is where
    torch's wheels come from: a URL, `default` for the usual one, "" for uv's own choice by the device.
    """

    interpreter: str = ""
    python: str = ""
    torch: str = ""
    requirements: tuple[str, ...] | None = None
    index: str = ""

    @property
    def label(self) -> str:
        """`torch 2.9, Python 3.12`, or the interpreter's path."""
        named = [f"torch {self.torch}"] * bool(self.torch) + [f"Python {self.python}"] * bool(self.python)
        return self.interpreter or ", ".join(named) or "Python of the checkout"


@dataclass(frozen=True)
class Settings(Record, keys="time_limit_s? exclude? config? targets? style?"):
    """How a job asks: seconds for each probe, paths that are passed over, an auditkit.yaml, named targets."""

    time_limit_s: float = 120.0
    exclude: tuple[str, ...] = ()
    config: str = ""
    targets: tuple[str, ...] = ()
    style: bool = False


@dataclass(frozen=True)
class Job(
    Record,
    keys="key name repository revision revision_name probes environment device resources settings?",
):
    """One checkout at one revision, asked in one environment on one device.

    `repository` is an absolute folder, or a URL that is cloned where the job runs; `revision` a full commit, "" for a
    folder outside git, which is asked as it lies. `name` is its row in the merged matrix. `probes` are ids, none for
    all that an audit asks.
    """

    schema_version: ClassVar[int] = 1

    key: str
    name: str
    repository: str
    revision: str
    revision_name: str
    probes: tuple[str, ...]
    environment: EnvironmentSpec
    device: DeviceChoice
    resources: Resources
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", key_of(self))


def key_of(job: Job) -> str:
    """`nanoGPT-3adf61e154-torch2.9-cpu-` and a digest of all that the answer hangs on; the name of a file."""
    asked = {one.name: encode(getattr(job, one.name)) for one in fields(job) if one.name not in _NOT_IN_KEY}
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode("ascii")).hexdigest()[:KEY_DIGITS]
    environment = job.environment
    torch = f"torch{environment.torch}" if environment.torch else _short(environment.interpreter)
    name = job.name.partition("@")[0]
    parts = (name, job.revision[:_SHORT_REVISION], torch, job.device.value, digest)
    return "-".join(re.sub(r"[^\w.]+", "_", part)[:40] for part in parts if part)


def _short(interpreter: str) -> str:
    """`t29` of `/envs/t29/bin/python`."""
    path = Path(interpreter)
    return path.parent.parent.name if path.parent.name == "bin" else path.name


def write_plan(jobs: Iterable[Job]) -> Iterator[str]:
    """A line of JSON for each job, without a line end."""
    for job in jobs:
        yield json.dumps(job.to_json(), separators=(",", ":"))


def read_plan(path: Path) -> list[Job]:
    """The jobs of a plan. Raises BadInputError with file and line for what is no job, and for a key twice."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadInputError(f"{path}: {why}", "auditkit sweep plan FILE.yaml > plan.jsonl writes a plan") from None
    jobs: dict[str, Job] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            job = Job.from_json(json.loads(line))
        except ValueError as error:
            hint = "a plan is what auditkit sweep plan FILE.yaml prints, one job a line"
            raise BadInputError(f"{path}:{number}:1: no job: {error}", hint) from None
        if job.key != key_of(job):
            said = f"{path}:{number}:1: the key {job.key} is not that of this job, {key_of(job)}"
            raise BadInputError(said, "plan again: a key says what was asked")
        if job.key in jobs:
            raise BadInputError(f"{path}:{number}:1: the job {job.key} is planned twice", "remove one of the lines")
        jobs[job.key] = job
    if not jobs:
        raise BadInputError(f"{path} has no job", "auditkit sweep plan FILE.yaml > plan.jsonl writes a plan")
    return list(jobs.values())


@dataclass(frozen=True)
class Order(Record):
    """All that the process of a job receives: the job, the sweep's folder, and this machine's clones and environments.

    The job may begin `attempts` times. `interpreters` maps versions of torch to interpreters that replace environments.
    `cage` runs everything of the job in a sandbox.
    """

    folder: str
    attempts: int
    cache: str
    job: Job
    clones: str = ""
    interpreters: Mapping[str, str] = field(default_factory=dict)
    cage: bool = False


def command_of(order: Order) -> tuple[str, ...]:
    """Return the command that runs a job on any node that has this interpreter and the sweep's folder."""
    text = json.dumps(order.to_json(), separators=(",", ":"))
    return (sys.executable, "-P", "-m", _MODULE, text)
