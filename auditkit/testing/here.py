"""Do the jobs of a worker in this process, and leave it as it was."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.target import Target
from auditkit.probing.engine.protocol import Hello, LoadedBy, decode
from auditkit.probing.engine.protocol import Job as Request
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.session import Job, Session
from auditkit.testing.failures import GuardUnavailable
from auditkit.worker.serve.messages import strict

__tracebackhide__ = True  # pytest shows the test's own line

_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


class Here(Session):
    """A session whose jobs run here, on a target that is loaded already.

    `loaded` is that target as `worker/targets.py` has it; `plan` says how to feed it, once that is known; `asked` holds
    the jobs that ended, by their ids.
    """

    loaded: Any
    plan: Job | None
    asked: dict[str, Job]

    def __init__(self, setting: Setting, jobs: Sequence[Request], target: Target | None = None, **_: Any) -> None:
        self.hello: Hello | None = None
        self.device_name = self.apart = ""
        self.failure, self.loaded_by = None, LoadedBy()
        told = target.to_json() if target is not None else {}
        self._jobs: list[Request] = [{**job, "target": told} for job in jobs]
        self._request = {"auto_device": setting.device is DeviceChoice.AUTO}

    def jobs(self, started: Callable[[str], None] = lambda _: None) -> Iterator[Job]:
        """Yield each job as it ends."""
        with undisturbed(self.loaded.roots):
            self.hello = _hello()
            for request in self._jobs:
                started(request["id"])
                yield self._job(request)

    def _job(self, request: Request) -> Job:
        if request["kind"] == "plan" and self.plan is not None:
            return self.plan
        job = Job(request["id"], has_ended=True)
        plan = request.get("plan") or (self.plan.plan if self.plan is not None else None)
        if request["kind"] == "plan" or (plan is not None and plan["contract"] in request["contracts"]):
            _run({**request, "plan": plan}, self._request, job, self.loaded)
        if request["kind"] == "plan":
            type(self).plan = job
        self.asked[job.id] = job
        return job


def _run(request: dict[str, Any], of_all: dict[str, Any], job: Job, loaded: Any) -> None:
    """Do what a worker's child does; `job` takes the messages."""
    from auditkit.worker import jobs

    class Messages:
        def send(self, message: dict[str, Any]) -> None:
            job.take(cast("Any", decode(json.dumps(strict(message)).encode("utf-8"))))

    jobs.run_job(request, of_all, cast("Any", Messages()), loaded)


def _hello() -> Hello:
    import torch

    return Hello(
        pid=os.getpid(),
        python=platform.python_version(),
        torch=torch.__version__,
        executable=sys.executable,
        platform=sys.platform,
        cuda=has_cuda(),
    )


def has_cuda() -> bool:
    """Whether torch finds a CUDA device. Raises GuardUnavailable without torch, or with one that is too old.

    Import torch's compiler, too: any optimizer's constructor does, and in a guard's block that import would see the
    functions of torch that the guard replaces. A failed one leaves `torch._dynamo` half loaded for the whole process.
    """
    from auditkit.worker.serve.loading import LoadError, import_torch

    # The profiler's own start and stop lines would stand in what pytest shows of a failing test.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    try:
        import_torch()
    except LoadError as error:
        raise GuardUnavailable(f"{error.message} ({error.hint})" if error.hint else error.message) from None
    import torch

    from auditkit.worker.base.torch_internals import import_first

    import_first("torch._dynamo")
    return torch.cuda.is_available()


@contextlib.contextmanager
def undisturbed(roots: Any) -> Iterator[None]:
    """Let the simulated device know the modules below `roots`, and let warnings be no errors.

    Afterwards torch, its random numbers and Python's are as they were.
    """
    has_cuda()
    import torch

    from auditkit.worker.simulated.tensor import State

    threads, numbers, nvml = torch.get_num_threads(), random.getstate(), os.environ.get(_NVML)
    before, devices = State.roots, State.device_count
    State.roots = roots
    cuda = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings(action="ignore"), torch.random.fork_rng(cuda), torch.enable_grad():
            yield
    finally:
        State.roots, State.device_count = before, devices
        torch.set_num_threads(threads)
        random.setstate(numbers)
        if nvml is None:
            os.environ.pop(_NVML, None)
