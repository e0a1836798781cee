"""The server of one interpreter: it imports torch once, runs nothing of a target, and forks workers.

The host sends one JSON line for each worker on the server's channel, with two descriptors: a socket on which the worker
reads its request and sends messages, and a pipe for its output. A worker runs nothing of a target either. It loads the
modules of its request in a fork (`serve/ladder.py`), and that fork runs each job in a separate fork
(`serve/children.py`). When the worker has ended, the server sends its status on the same socket, the only one that the
host trusts.
"""

import contextlib
import functools
import gc
import json
import os
import platform
import resource
import select
import signal
import socket
import sys
import traceback
from typing import Any, Dict, List, NoReturn, Optional

from . import jobs
from .base.frames import SourceRoots
from .serve import families, ladder, loading
from .serve.children import Child
from .serve.messages import Writer
from .targets import load_modules, send_load_error, why_unloaded

# The server may report the end of a worker this late. Without workers it sleeps.
_LOOK_S = 0.02
_LONGEST_REQUEST_BYTES = 1 << 16


def serve(channel_fd: int) -> None:
    """Fork a worker for each request until the host closes the channel."""
    os.set_inheritable(channel_fd, False)
    gc.disable()  # This process only imports and forks: collections took two fifths of the imports' time.
    del sys.argv[1:]  # A script that reads its command line on import gets its defaults.
    channel = socket.socket(fileno=channel_fd)
    channel.send(b".")  # tells the host that a Python runs this file
    failure: Optional[loading.LoadError] = None
    try:
        loading.import_torch()
    except loading.LoadError as error:
        failure = error
    workers: Dict[int, Writer] = {}
    compiling_workers = 0
    while True:
        readable, _, _ = select.select([channel], [], [], _LOOK_S if workers else None)
        for pid in list(workers):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                _report_end(workers.pop(pid), os.waitstatus_to_exitcode(status))
        if not readable:
            continue
        line, descriptors, _, _ = socket.recv_fds(channel, _LONGEST_REQUEST_BYTES, 2)
        if not line:
            return
        asked = json.loads(line)
        results, output_fd = Writer(descriptors[0], asked["token"]), descriptors[1]
        if failure is not None:
            send_load_error(results, failure)
            _report_end(results, 0)
        else:
            preload(asked["jobs"])
            compiling_workers += any(map(_compiles, asked["jobs"]))
            if compiling_workers > 1:  # The first one loads the compiler itself: its other jobs need not wait for it.
                _preload_compiler()
            try:
                pid = os.fork()
                if pid == 0:
                    _become_worker(results, output_fd, [channel.detach(), *(each.fd for each in workers.values())])
                workers[pid] = results
            except OSError:
                _report_end(results, os.EX_TEMPFAIL)
        os.close(output_fd)


def _report_end(results: Writer, code: int) -> None:
    """Send the exit code of a worker (negative: a signal)."""
    with contextlib.suppress(OSError):
        results.control({"type": "ended", "status": code})
    os.close(results.fd)


def preload(asked: List[Dict[str, Any]]) -> None:
    """Import what the children of these jobs need, except the compiler, once before the forks."""
    from .base import torch_internals
    from .context import context, torch_calls
    from .feed import guesses, search
    from .measure import selfcheck

    del context, search, selfcheck, torch_calls
    guesses.of_object("")  # It compiles all patterns of names, which took a sixth of the time of a child.
    if any(job.get("device") == "simulated" for job in asked):
        torch_internals.import_first("torch.distributed.tensor")  # imported by a tensor subclass's first operator
    torch_internals.import_first(*(name for job in asked for name in job.get("imports", ())))
    gc.freeze()  # A collection in a child would write to, and so copy, the memory shared with this process.


def _compiles(job: Dict[str, Any]) -> bool:
    """Return whether a job traces its target with torch.compile."""
    return job.get("instrument") == "graphs"


@functools.lru_cache(maxsize=1)
def _preload_compiler() -> None:
    """Compile something: that imports what every other compilation needs, in 3 s.

    With a CUDA device the compiler would initialize CUDA, and no child of this process could use CUDA.
    """
    from .measure import selfcheck

    if jobs.cuda_was_found():
        return
    with contextlib.suppress(selfcheck.SelfCheckError):
        selfcheck.check("graphs", "cpu", SourceRoots(os.sep))
    gc.freeze()


def _become_worker(results: Writer, output_fd: int, of_server: List[int]) -> NoReturn:
    """Serve the host's request in this fork, in a new session with its own streams; close the server's."""
    code = 1
    try:
        for fd in of_server:
            os.close(fd)
        os.setsid()
        families.die_with_parent()
        families.adopt_orphans()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGTERM, _end_all)
        for fd, standard in ((os.open(os.devnull, os.O_RDONLY), 0), (output_fd, 1), (output_fd, 2)):
            os.dup2(fd, standard)
        os.close(output_fd)
        _send_hello(results)
        with os.fdopen(os.dup(results.fd), "rb") as file:
            line = file.readline()
        if line:
            _serve_request(json.loads(line), results)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_all(*_: Any) -> NoReturn:
    """End this worker and everything that it started, when the host sends SIGTERM."""
    families.end_children()
    os._exit(1)


def _serve_request(request: Dict[str, Any], results: Writer) -> None:
    """Load the modules and run the jobs of a request; the function returns in the fork that loaded them."""
    os.chdir(request["checkout"])
    if request["modules"] and not request["is_audit"]:
        # A trial only finds a way to feed the code, and the first torch.compile takes 0.8 s.
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    try:
        if request["modules"]:
            try:
                load_modules(request)
            except loading.LoadError as error:
                if error.reason != ladder.APART:
                    raise
        results.control({"type": "loaded", **ladder.described()})
        _run_jobs(request, results)
    except OSError:
        os._exit(os.EX_TEMPFAIL)  # No process can be started: nothing of the target has run.
    except loading.LoadError as error:
        send_load_error(results, error)


def _send_hello(results: Writer) -> None:
    import torch

    results.control(
        {
            "type": "hello",
            "pid": os.getpid(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "executable": sys.executable,
            "platform": platform.platform(),
            "cuda": jobs.cuda_was_found(),
        }
    )


def _run_jobs(request: Dict[str, Any], results: Writer) -> None:
    """Run each job in a child, which loads its own target if this process has not."""
    _preload_steps(request)
    gc.freeze()
    plan = None
    for job in request["jobs"]:
        job = dict(job, plan=job.get("plan") or plan)
        results.control({"type": "start", "job": job["id"]})
        unloaded = why_unloaded(job["target"]["call"]) if job["target"] else None
        end: Dict[str, Any] = {"type": "end", "output_bytes": 0}
        if unloaded is not None:
            send_load_error(results, unloaded)
        elif job["kind"] == "probe" and job["plan"] is None:
            end.update(reason="cannot_feed", message="no plan")
        elif job["kind"] != "probe" or job["plan"].get("contract") in job["contracts"]:
            if _compiles(job):
                _preload_compiler()
            try:
                child = Child(functools.partial(jobs.run, job, request), results)
            except OSError as error:
                message = "the machine cannot start another process: {}".format(error.strerror)
                end.update(reason="no_memory", message=message)
            else:
                child.supervise(float(request["time_limit_s"]))
                plan = child.told["plan"] if isinstance(child.told.get("plan"), dict) else plan
                continue
        results.control(end)


def _preload_steps(request: Dict[str, Any]) -> None:
    """Import once what each child of a training step would import."""
    from .base import torch_internals
    from .steps import roles, search

    if any(job["target"] and job["target"].get("contract") == search.CONTRACT for job in request["jobs"]):
        torch_internals.import_first(roles.IMPORTED_BY_STEPS)
