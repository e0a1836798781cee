"""Jobs as tasks of an existing Ray cluster.

Ray runs in a process of its own (`python -m auditkit.sweep.engines.ray_cluster`), because it writes to its driver's
stdout, sets its signals, and aborts it when the cluster is lost. That process reads one task a line and writes one end
a line; the end of its input ends all tasks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Container, Mapping, Sequence
from typing import IO, Any

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.sweep.engines.node import run_command
from auditkit.sweep.engines.protocol import Ended, EngineSettings, Task

_CONNECTED_WITHIN_S, _REACHED_WITHIN_S = 90.0, 5.0
_ENDED_WITHIN_S = 60.0
_CANCELLED_WITHIN_S, _KILLED_WITHIN_S = 20.0, 10.0
"""Longer than a command is given to end."""
_IN_FLIGHT_PER_CORE = 2
"""A core that is free gets its next task at once."""
_OF_RAY = ("OMP_NUM_THREADS",)
"""Ray makes a worker use a thread for each core that its task requests; on other engines torch decides."""
_LOOK_S = 0.2


class RayCluster:
    """A Ray cluster: each job is a task with its processor cores, memory and GPUs, which Ray never retries.

    Options: `address`, `HOST:PORT` of the head node; without it RAY_ADDRESS, or the cluster of this machine. Raises
    BadInputError if Ray is not installed, or if no cluster responds.
    """

    left_behind: Container[str] = ()  # the tasks end with their driver

    def __init__(self, settings: EngineSettings) -> None:
        settings.check_options("Ray", ("address",))
        if importlib.util.find_spec("ray") is None:
            raise BadInputError(
                "Ray is not installed here", "in a clone of auditkit: pip install '.[ray]', here and on every node"
            )
        self._logs = settings.folder / "logs"
        self._words = self._logs / "ray-driver.log"
        given = {"address": settings.options.get("address", ""), "name": settings.name, "jobs": settings.jobs}
        with open(self._words, "wb") as words:
            self._driver = subprocess.Popen(
                [sys.executable, "-P", "-m", "auditkit.sweep.engines.ray_cluster", json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                cwd=self._logs,  # Ray's workers look for modules where its driver runs
                start_new_session=True,  # Ctrl-C is this process's
            )
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._input, self._output = self._driver.stdin, self._driver.stdout
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        try:
            self.capacity = self._connected()
        except BaseException:
            self._driver.kill()
            self.close()
            raise

    def _connected(self) -> int:
        deadline = time.monotonic() + _CONNECTED_WITHIN_S
        while time.monotonic() < deadline:
            for message in self._messages(1.0):
                if "error" in message:
                    raise BadInputError(message["error"], message["hint"])
                return int(message["capacity"])
        raise BadInputError(f"Ray's cluster did not respond within {_CONNECTED_WITHIN_S:g} s", "see `ray status`")

    def submit(self, task: Task) -> None:
        need = {"CPU": task.resources.cpus, "memory": task.resources.memory_mb * 1_000_000, "GPU": task.resources.gpus}
        log = str(self._logs / f"{task.key}.log")
        order = {"key": task.key, "command": task.command, "log": log, "need": need}
        try:
            self._input.write(json.dumps(order).encode("ascii") + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._lost() from None

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        return [Ended(**message) for message in self._messages(timeout_s)]

    def close(self) -> None:
        # The end of its input tells the driver to end all tasks, and itself.
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._driver.wait(_ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        self._selector.close()
        self._output.close()
        with contextlib.suppress(OSError):
            if self._driver.returncode == 0:
                self._words.unlink()

    def _messages(self, timeout_s: float) -> list[dict[str, Any]]:
        """Return the driver's messages as soon as there is one. Raises BadInputError if it is gone."""
        if not self._selector.select(timeout_s):
            return []
        block = os.read(self._output.fileno(), 1 << 20)
        if not block:
            raise self._lost()
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [json.loads(line) for line in lines]

    def _lost(self) -> BadInputError:
        words = self._words.read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((f": {inert_line(line)[:300]}" for line in reversed(words) if line.strip()), "")
        hint = f"{self._words} shows more; run the same command again to continue"
        return BadInputError(f"the connection to Ray's cluster is lost{last}", hint)


# In the process of Ray's own.


def _say(output: IO[str], **message: Any) -> None:
    output.write(json.dumps(message) + "\n")
    output.flush()


class _Driver:
    def __init__(self, ray: Any, output: IO[str]) -> None:
        self._ray, self._output = ray, output
        self._keys: dict[Any, str] = {}
        self._run = ray.remote(run_command)

    def serve(self, orders: queue.SimpleQueue[str | None]) -> None:
        """Run the tasks of the orders until one is None."""
        while True:
            try:
                line = orders.get(block=not self._keys, timeout=None)
            except queue.Empty:
                self._collect()
                continue
            if line is None:
                break
            self._submit(json.loads(line))
        self._cancel()

    def _submit(self, task: Mapping[str, Any]) -> None:
        key, need = task["key"], task["need"]
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= count for name, count in need.items()) for node in nodes):
            missing = f"{need['CPU']} cores, {need['memory'] // 1_000_000:,} MB and {need['GPU']} GPUs"
            reason = f"no node of the Ray cluster has {missing}"
            _say(self._output, key=key, exit_code=None, reason=reason, again=False)
            return
        # A lost task runs again at the driver's word, which counts the attempts.
        run = self._run.options(
            name=key, num_cpus=need["CPU"], memory=need["memory"], num_gpus=need["GPU"], max_retries=0
        )
        self._keys[run.remote(task["command"], task["log"], _OF_RAY)] = key

    def _collect(self) -> None:
        ended, _ = self._ray.wait(list(self._keys), num_returns=1, timeout=_LOOK_S)
        if ended:
            ended, _ = self._ray.wait(list(self._keys), num_returns=len(self._keys), timeout=0)
        for task in ended:
            key = self._keys.pop(task)
            try:
                code, reason, node = self._ray.get(task)
            except self._ray.exceptions.LocalRayletDiedError as error:
                # No task can run any more: none is to lose an attempt.
                raise SystemExit("the node of Ray's that this machine is part of is gone") from error
            except self._ray.exceptions.RayError as error:
                code, (reason, node) = None, _reason_of(self._ray.exceptions, error)
            _say(self._output, key=key, exit_code=code, reason=reason, node=node)

    def _cancel(self) -> None:
        """End every task with its processes; a task that does not end loses its worker."""
        for force, timeout_s in ((False, _CANCELLED_WITHIN_S), (True, _KILLED_WITHIN_S)):
            if self._keys:
                for task in self._keys:
                    self._ray.cancel(task, force=force)
                ended, _ = self._ray.wait(list(self._keys), num_returns=len(self._keys), timeout=timeout_s)
                for task in ended:
                    del self._keys[task]


def _reason_of(kinds: Any, error: Exception) -> tuple[str, str]:
    """Return why Ray has no result of a task, and its node if Ray names it."""
    named = re.search(r"Node IP: ([^\s,]+)", str(error), re.IGNORECASE)
    reasons = {
        kinds.NodeDiedError: "its node is lost",
        kinds.OutOfMemoryError: "Ray killed it: its node had no memory left",
        kinds.WorkerCrashedError: "Ray's worker that ran it was killed, perhaps because memory ran out",
    }
    other = f"Ray: {type(error).__name__}: {inert_line(str(error))[:300]}"
    reason = next((words for kind, words in reasons.items() if isinstance(error, kind)), other)
    return reason, named.group(1) if named else ""


def main(given: Mapping[str, Any]) -> int:
    """Serve until the input ends; return the exit code."""
    import ray
    import ray.exceptions

    output = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    address = given["address"] or os.environ.get("RAY_ADDRESS", "")
    found = re.fullmatch(r"([^/]+):(\d+)", address)
    try:
        if found:  # Ray itself tries for minutes
            reached = (found.group(1).strip("[]"), int(found.group(2)))
            socket.create_connection(reached, _REACHED_WITHIN_S).close()
        ray.init(address=address or "auto", namespace=given["name"], log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        where = f"at {address}" if address else "here"
        hint = "`ray start --head` starts one; name it with the option address=HOST:PORT"
        _say(output, error=f"no Ray cluster {where}: {inert_line(str(error))[:400]}", hint=hint)
        return 2
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray's own handler ends this process at once
    cores = int(ray.cluster_resources().get("CPU", 1))
    _say(output, capacity=given["jobs"] or max(2, _IN_FLIGHT_PER_CORE * cores))
    orders: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(orders,), daemon=True).start()
    _Driver(ray, output).serve(orders)
    ray.shutdown()
    return 0


def _read(orders: queue.SimpleQueue[str | None]) -> None:
    for line in sys.stdin:
        orders.put(line)
    orders.put(None)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
