"""The work of a child process, which may crash: find a plan, run one probe, or check an instrument."""

import os
import time
from typing import Any, Dict

from .base.frames import SourceRoots
from .serve import ladder, loading, placeholders
from .serve.messages import Writer
from .targets import LoadedTarget, load_target


def run(job: Dict[str, Any], request: Dict[str, Any], results: Writer) -> None:
    """Load the target of a job and run it."""
    if job["kind"] == "selfcheck":
        _send_selfcheck(results, job, request)
        return
    loaded = load_target(results, job["target"], request)
    if loaded is not None:
        results.control({"plan": run_job(job, request, results, loaded)})


def _send_selfcheck(results: Writer, job: Dict[str, Any], request: Dict[str, Any]) -> None:
    """Check that an instrument reads its known toy on a device, for `auditkit doctor`."""
    from .measure.selfcheck import SelfCheckError, check

    try:
        if job["device"] == "cuda":
            _first_cuda_use(results)
        check(job["instrument"], job["device"], SourceRoots(request["checkout"]))
    except SelfCheckError as error:
        results.send({"type": "failed", "reason": "self_check", "message": str(error)})
        return
    results.send({"type": "checked"})


def run_job(job: Dict[str, Any], request: Dict[str, Any], results: Writer, loaded: LoadedTarget) -> Any:
    """Run one job in a child: find the plan and return it, or run one probe."""
    import torch

    # With one thread, sums and temporaries do not depend on the machine's cores, and no thread waits for a busy core.
    torch.set_num_threads(1)
    started = time.monotonic()
    plan = None
    if job["kind"] == "plan":
        plan = _send_plan(results, job["target"], request["auto_device"], loaded)
    else:
        _send_probe(results, job, request, loaded)
    results.send({"type": "took", "seconds": time.monotonic() - started})
    return plan


def _send_plan(results: Writer, target: Dict[str, Any], auto_device: bool, loaded: LoadedTarget) -> Any:
    from .base.refusals import CannotFeedError, CannotReadError
    from .context.torch_calls import torch_calls
    from .feed.search import find_plan_anywhere
    from .steps import search as step_search

    try:
        if target.get("contract") == step_search.CONTRACT:
            plan, found = step_search.find_plan(loaded.caller, target, loaded.roots), {}
        else:
            plan = find_plan_anywhere(loaded.caller, target, auto_device and cuda_was_found())
            found = torch_calls(plan, loaded.caller, loaded.roots)
    except (CannotFeedError, CannotReadError) as error:
        message = "{}: {}".format(target["call"], error)
        results.send({"type": "failed", "reason": error.reason, "message": message})
        return None
    except placeholders.PlaceholderTouched as error:
        _send_touched(results, error.path)
        return None
    said = plan._replace(torch_calls=found).to_json()
    results.send({"type": "plan", "plan": said, **ladder.described()})
    return said


def _send_touched(results: Writer, path: str) -> None:
    """Report the absent object that the target used."""
    results.send({"type": "failed", "reason": "placeholder", **loading.absence(path)})


def _send_probe(results: Writer, job: Dict[str, Any], request: Dict[str, Any], loaded: LoadedTarget) -> None:
    from .base.refusals import CannotFeedError, NotApplicable, TargetRaised, Unavailable
    from .context.context import Context
    from .feed.plan import Plan
    from .measure.ranks import RanksFailed
    from .measure.selfcheck import SelfCheckError, check

    plan = Plan.from_json(job["plan"])
    device = _device(job, plan, request["auto_device"])
    if device == "cpu" and plan.device != "cpu":
        elsewhere = "use --device auto" if "simulated" in job["devices"] else "this probe needs a GPU for it"
        text = "the target runs only with CUDA: {}".format(elsewhere)
        results.send({"type": "unavailable", "reason": "no_device", "message": text})
        return
    why_not = plan.why_not_asked(job["instrument"])
    if why_not:
        results.send({"type": "not_applicable", "message": why_not})
        return
    context = Context(plan, loaded.caller, device, loaded.roots, job["options"])
    placeholders.forget()
    try:
        if device == "cuda" and job["instrument"] != "ranks":  # ranks use CUDA themselves, and must be forked before it
            _first_cuda_use(results)
        check(job["instrument"], device, loaded.roots)
        for message in loading.load_probe(job["path"], job["forms"]).measure(context):
            results.send(message)
        placeholders.raise_if_touched()  # The target may have caught it.
    except NotApplicable as reason:
        results.send({"type": "not_applicable", "message": str(reason)})
    except Unavailable as error:
        results.send({"type": "unavailable", "reason": error.reason, "message": str(error)})
    except (SelfCheckError, RanksFailed, CannotFeedError) as error:
        results.send({"type": "failed", "reason": error.reason, "message": str(error)})
    except placeholders.PlaceholderTouched as error:
        _send_touched(results, error.path)
    except TargetRaised as error:
        results.send(context.location(error.site))
        results.send({"type": "failed", "reason": "exception", "message": "the target raises {}".format(error)})


def _device(job: Dict[str, Any], plan: Any, is_auto: bool) -> str:
    """Return the device of a probe: `auto` means CUDA if it exists, else the simulated device if a device is needed."""
    if is_auto and cuda_was_found() and "cuda" in job["devices"]:
        return "cuda"
    needs_device = is_auto and plan.device != "cpu" and job["device"] == "cpu"
    return "simulated" if needs_device and "simulated" in job["devices"] else str(job["device"])


def _first_cuda_use(results: Writer) -> None:
    """Initialize CUDA in this child and send the device's name; this warms up before any count."""
    import torch

    torch.ones(1, device="cuda").add_(1).item()
    results.send({"type": "device", "name": torch.cuda.get_device_name()})


def cuda_was_found() -> bool:
    """Return whether NVML finds a CUDA device; torch.cuda itself would initialize CUDA before the fork."""
    import torch

    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    return bool(torch.cuda.is_available())
