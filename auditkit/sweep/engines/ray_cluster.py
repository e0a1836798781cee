"""Jobs as tasks of a Ray cluster that is there already. Ray itself is loaded in a process of its own: ray_driver.py."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Container, Sequence
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.sweep.engines.protocol import Ended, EngineSettings, Task

_OPTIONS = ("address",)
_CONNECTED_WITHIN_S = 90.0
# Longer than the driver gives its tasks.
_ENDED_WITHIN_S = 60.0


class RayCluster:
    """A Ray cluster: each job is a task with its processor cores, memory and graphics cards, that Ray never retries.

    Options: `address`, `HOST:PORT` of the head node; without it what RAY_ADDRESS names, or the cluster that this
    machine is part of. Raises BadInputError where Ray is not installed, or where no cluster answers.
    """

    # They end with their driver.
    left_behind: Container[str] = ()

    def __init__(self, settings: EngineSettings) -> None:
        unknown = next((name for name in settings.options if name not in _OPTIONS), None)
        if unknown is not None:
            raise BadInputError(f"the Ray engine has no option '{unknown}'", f"one of {', '.join(_OPTIONS)}")
        if importlib.util.find_spec("ray") is None:
            raise BadInputError(
                "Ray is not installed here", "in a clone of auditkit: pip install '.[ray]', here and on every node"
            )
        self._logs = settings.folder / "logs"
        self._words = self._logs / "ray-driver.log"
        told = {"address": settings.options.get("address", ""), "name": settings.name, "jobs": settings.jobs}
        with open(self._words, "wb") as words:
            self._driver = subprocess.Popen(
                [sys.executable, "-P", "-m", "auditkit.sweep.engines.ray_driver", json.dumps(told)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                # Ray has its workers look for modules where its driver runs.
                cwd=self._logs,
                # Ctrl-C is this process's: it says what is to end.
                start_new_session=True,
            )
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._told, self._said = self._driver.stdin, self._driver.stdout
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._said, selectors.EVENT_READ)
        try:
            self._capacity = self._connected()
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
        raise BadInputError(f"Ray's cluster did not answer within {_CONNECTED_WITHIN_S:g} s", "`ray status` says more")

    @property
    def capacity(self) -> int:
        return self._capacity

    def submit(self, task: Task) -> None:
        need = task.resources
        asked = {
            "key": task.key,
            "command": task.command,
            "log": str(self._logs / f"{task.key}.log"),
            "cpus": need.cpus,
            "memory": need.memory_mb * 1_000_000,
            "gpus": need.gpus,
        }
        try:
            self._told.write(json.dumps(asked).encode("ascii") + b"\n")
            self._told.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        return [Ended(**message) for message in self._messages(timeout_s)]

    def close(self) -> None:
        # The end of its input tells the driver to end all tasks, and itself.
        with contextlib.suppress(OSError):
            self._told.close()
        try:
            self._driver.wait(_ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        self._selector.close()
        self._said.close()
        with contextlib.suppress(OSError):
            if self._driver.returncode == 0:
                self._words.unlink()

    def _messages(self, timeout_s: float) -> list[dict[str, Any]]:
        """What the driver said, as soon as it says something. Raises BadInputError where it is gone."""
        if not self._selector.select(timeout_s):
            return []
        block = os.read(self._said.fileno(), 1 << 20)
        if not block:
            raise self._gone()
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [json.loads(line) for line in lines]

    def _gone(self) -> BadInputError:
        words = self._words.read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((f": {inert_line(line)[:300]}" for line in reversed(words) if line.strip()), "")
        return BadInputError(
            f"the connection to Ray's cluster is lost{last}",
            f"{self._words} says more; the same command goes on where this one ended",
        )
