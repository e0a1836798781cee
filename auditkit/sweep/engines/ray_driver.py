"""Ray's side of the engine: reads one task a line, writes one end a line; ends all tasks when its input ends.

A process of its own, because Ray writes to its driver's stdout, sets its signals, and aborts it when a cluster is lost.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

from auditkit.model.text import inert_line
from auditkit.sweep.engines.node import run_command

# What waits in Ray beside the tasks that run: a core that is free gets its next task at once.
_IN_FLIGHT_PER_CORE = 2
# Ray has a worker use a thread for each core that its task asks for; on other engines torch decides.
_OF_RAY = ("OMP_NUM_THREADS",)
_LOOK_S = 0.2
_REACHED_WITHIN_S = 5.0
# Longer than a command is given to end.
_CANCELLED_WITHIN_S = 20.0
_KILLED_WITHIN_S = 10.0
_NODES_KNOWN_FOR_S = 5.0


def _say(said: IO[str], **message: Any) -> None:
    said.write(json.dumps(message) + "\n")
    said.flush()


class _Driver:
    def __init__(self, ray: Any, said: IO[str]) -> None:
        self._ray = ray
        self._said = said
        self._keys: dict[Any, str] = {}
        self._nodes: list[dict[str, float]] = []
        self._asked_nodes = float("-inf")
        self._run = ray.remote(run_command)

    def serve(self, asked: queue.SimpleQueue[str | None]) -> None:
        """Run what is asked for until None is."""
        while True:
            try:
                line = asked.get(block=not self._keys, timeout=None)
            except queue.Empty:
                self._collect(_LOOK_S)
                continue
            if line is None:
                break
            self._submit(json.loads(line))
        self._cancel()

    def _submit(self, task: Mapping[str, Any]) -> None:
        need = {"CPU": task["cpus"], "memory": task["memory"], "GPU": task["gpus"]}
        if not any(all(node.get(name, 0) >= count for name, count in need.items()) for node in self._alive()):
            said = f"{need['CPU']} cores, {task['memory'] // 1_000_000:,} MB and {need['GPU']} graphics cards"
            _say(
                self._said,
                key=task["key"],
                exit_code=None,
                reason=f"no node of the Ray cluster has {said}",
                again=False,
            )
            return
        run = self._run.options(
            name=task["key"],
            num_cpus=task["cpus"],
            memory=task["memory"],
            num_gpus=task["gpus"],
            # What is lost is asked again by whoever counts the attempts.
            max_retries=0,
        )
        self._keys[run.remote(task["command"], task["log"], _OF_RAY)] = task["key"]

    def _alive(self) -> list[dict[str, float]]:
        """What the nodes have in all."""
        if time.monotonic() - self._asked_nodes > _NODES_KNOWN_FOR_S:
            self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._asked_nodes = time.monotonic()
        return self._nodes

    def _collect(self, timeout_s: float) -> None:
        ended, _ = self._ray.wait(list(self._keys), num_returns=1, timeout=timeout_s)
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
                reason, node = _reason_of(self._ray.exceptions, error)
                code = None
            _say(self._said, key=key, exit_code=code, reason=reason, node=node)

    def _cancel(self) -> None:
        """End every task with its processes; whoever does not end by then loses its worker, and ends with that."""
        for force, timeout_s in ((False, _CANCELLED_WITHIN_S), (True, _KILLED_WITHIN_S)):
            if self._keys:
                for task in self._keys:
                    self._ray.cancel(task, force=force)
                ended, _ = self._ray.wait(list(self._keys), num_returns=len(self._keys), timeout=timeout_s)
                for task in ended:
                    del self._keys[task]


def _reason_of(kinds: Any, error: Exception) -> tuple[str, str]:
    """Why Ray has no answer of a task, and the node it was on where Ray says so."""
    words = inert_line(str(error))[:300]
    named = re.search(r"Node IP: ([^\s,]+)", str(error), re.IGNORECASE)
    node = named.group(1) if named else ""
    if isinstance(error, kinds.NodeDiedError):
        return "its node is lost", node
    if isinstance(error, kinds.OutOfMemoryError):
        return "Ray killed it: its node had no memory left", node
    if isinstance(error, kinds.WorkerCrashedError):
        return "Ray's worker that ran it was killed, perhaps for want of memory", node
    return f"Ray: {type(error).__name__}: {words}", node


def _connect(ray: Any, address: str, name: str) -> None:
    """Raises ConnectionError, RuntimeError or OSError where no cluster can be used."""
    address = address or os.environ.get("RAY_ADDRESS", "")
    found = re.fullmatch(r"([^/]+):(\d+)", address)
    if found:
        # Ray tries for minutes.
        socket.create_connection((found.group(1).strip("[]"), int(found.group(2))), _REACHED_WITHIN_S).close()
    ray.init(address=address or "auto", namespace=name, log_to_driver=False, logging_level="ERROR")


def main(told: Mapping[str, Any]) -> int:
    """Serve until the input ends; the exit code."""
    import ray
    import ray.exceptions

    said = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    address = told["address"] or os.environ.get("RAY_ADDRESS", "")
    try:
        _connect(ray, address, told["name"])
    except Exception as error:
        where = f"at {address}" if address else "here"
        hint = "`ray start --head` starts one; name it with the option address=HOST:PORT"
        said.write(
            json.dumps({"error": f"no Ray cluster {where}: {inert_line(str(error))[:400]}", "hint": hint}) + "\n"
        )
        said.flush()
        return 2
    # Ray's own handler ends this process at once.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    driver = _Driver(ray, said)
    cores = int(ray.cluster_resources().get("CPU", 1))
    _say(said, capacity=told["jobs"] or max(2, _IN_FLIGHT_PER_CORE * cores))
    asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    driver.serve(asked)
    ray.shutdown()
    return 0


def _read(asked: queue.SimpleQueue[str | None]) -> None:
    for line in sys.stdin:
        asked.put(line)
    asked.put(None)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
