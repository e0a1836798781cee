"""Jobs as tasks of an existing Ray cluster.

Ray runs in a process of its own (`python -m auditkit.sweep.engines.ray_cluster`), because it writes to its driver's
stdout, sets its signals, and aborts it when the cluster is lost. A pipe carries tasks to that process and their ends
back; when the pipe closes, it ends all tasks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.sweep.engines.engine import Ended, Task, last_words, run_command, sweep_name

_CONNECTED_WITHIN_S, _REACHED_WITHIN_S = 90.0, 5.0
_ENDED_WITHIN_S = 60.0
_CANCELLED_WITHIN_S, _KILLED_WITHIN_S = 20.0, 10.0
"""Longer than a command is given to end."""
_IN_QUEUE = 1000
_OF_RAY = ("OMP_NUM_THREADS",)
"""Ray makes a worker use a thread for each core that its task requests; on other engines torch decides."""
_LOOK_S = 0.2
_REASONS = {
    "NodeDiedError": "its node is lost",
    "OutOfMemoryError": "Ray killed it: its node had no memory left",
    "WorkerCrashedError": "Ray's worker that ran it was killed, perhaps because memory ran out",
}


class RayCluster:
    """A Ray cluster: each job is a task with its processor core, memory and GPUs, which Ray never retries.

    `address` is `HOST:PORT` of the head node; without it RAY_ADDRESS, or the cluster of this machine. Raises
    BadInputError if Ray is not installed, or if no cluster responds.
    """

    OPTIONS = ("address",)

    def __init__(self, folder: Path, jobs: int | None, options: Mapping[str, str]) -> None:
        if importlib.util.find_spec("ray") is None:
            hint = "in a clone of auditkit: pip install '.[ray]', here and on every node"
            raise BadInputError("Ray is not installed here", hint)
        self._logs = folder / "logs"
        self._words = self._logs / "ray-driver.log"
        self._pipe, theirs = multiprocessing.Pipe()
        self.capacity = jobs or _IN_QUEUE
        given = (str(theirs.fileno()), options.get("address", ""), sweep_name(folder))
        with open(self._words, "wb") as words, theirs:
            self._driver = subprocess.Popen(
                [sys.executable, "-P", "-m", "auditkit.sweep.engines.ray_cluster", *given],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                pass_fds=[theirs.fileno()],
                cwd=self._logs,  # Ray's workers look for modules where its driver runs
                start_new_session=True,  # Ctrl-C is this process's
            )
        try:
            if not self._pipe.poll(_CONNECTED_WITHIN_S):
                raise BadInputError(f"Ray's cluster did not respond within {_CONNECTED_WITHIN_S:g} s", "`ray status`")
            if refusal := self._received():
                raise BadInputError(*refusal)
        except BaseException:
            self._driver.kill()
            self.close()
            raise

    def submit(self, task: Task) -> None:
        try:
            self._pipe.send((task, str(self._logs / f"{task.key}.log")))
        except OSError:
            raise self._lost() from None

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        found: list[Ended] = []
        while self._pipe.poll(0 if found else timeout_s):
            found.append(self._received())
        return found

    def close(self) -> None:
        self._pipe.close()
        try:
            self._driver.wait(_ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        if self._driver.returncode == 0:
            self._words.unlink(missing_ok=True)

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> BadInputError:
        last = last_words(self._words)
        hint = f"{self._words} shows more; run the same command again to continue"
        return BadInputError(f"the connection to Ray's cluster is lost{f': {last}' if last else ''}", hint)


# In the process of Ray's own.


class _Driver:
    def __init__(self, ray: Any, pipe: Connection) -> None:
        self._ray, self._pipe = ray, pipe
        self._keys: dict[Any, str] = {}
        self._run = ray.remote(run_command)

    def serve(self) -> None:
        """Run the tasks that arrive until the pipe closes."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                if self._pipe.poll(0 if self._keys else None):
                    self._submit(*self._pipe.recv())
                else:
                    self._collect()
        # Each task ends with its processes; a task that does not end loses its worker.
        for force, timeout_s in ((False, _CANCELLED_WITHIN_S), (True, _KILLED_WITHIN_S)):
            if self._keys:
                for task in self._keys:
                    self._ray.cancel(task, force=force)
                _, left = self._ray.wait(list(self._keys), num_returns=len(self._keys), timeout=timeout_s)
                self._keys = {task: self._keys[task] for task in left}

    def _submit(self, task: Task, log: str) -> None:
        memory = task.resources.memory_mb * 1_000_000
        need = {"CPU": 1, "memory": memory, "GPU": task.resources.gpus}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= count for name, count in need.items()) for node in nodes):
            missing = f"a core, {task.resources.memory_mb:,} MB and {task.resources.gpus} GPUs"
            self._pipe.send(Ended(task.key, None, f"no node of the Ray cluster has {missing}", again=False))
            return
        # The sweep's driver, which counts the attempts, submits a lost task again.
        run = self._run.options(name=task.key, num_cpus=1, memory=memory, num_gpus=need["GPU"], max_retries=0)
        self._keys[run.remote(task.command, log, _OF_RAY)] = task.key

    def _collect(self) -> None:
        ended, _ = self._ray.wait(list(self._keys), num_returns=1, timeout=_LOOK_S)
        for task in ended:
            key = self._keys.pop(task)
            try:
                code, reason, node = self._ray.get(task)
            except self._ray.exceptions.LocalRayletDiedError as error:
                # No task can run any more: none is to lose an attempt.
                raise SystemExit("the node of Ray's that this machine is part of is gone") from error
            except self._ray.exceptions.RayError as error:
                kind, named = type(error).__name__, re.search(r"Node IP: ([^\s,]+)", str(error), re.IGNORECASE)
                reason = _REASONS.get(kind, f"Ray: {kind}: {inert_line(str(error))[:300]}")
                code, node = None, named.group(1) if named else ""
            self._pipe.send(Ended(key, code, reason, node))


def main(descriptor: str, address: str, name: str) -> int:
    """Serve until the pipe closes; return the exit code."""
    import ray
    import ray.exceptions

    pipe = Connection(int(descriptor))
    address = address or os.environ.get("RAY_ADDRESS", "")
    found = re.fullmatch(r"([^/]+):(\d+)", address)
    try:
        if found:  # Ray itself tries for minutes
            reached = (found.group(1).strip("[]"), int(found.group(2)))
            socket.create_connection(reached, _REACHED_WITHIN_S).close()
        ray.init(address=address or "auto", namespace=name, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        where = f"at {address}" if address else "here"
        hint = "`ray start --head` starts one; name it with the option address=HOST:PORT"
        pipe.send((f"no Ray cluster {where}: {inert_line(str(error))[:400]}", hint))
        return 2
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray's own handler ends this process at once
    pipe.send(())
    _Driver(ray, pipe).serve()
    ray.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
