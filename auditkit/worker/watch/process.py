"""One process and its file, which is written at the start, every few seconds, and at any kind of end."""

from __future__ import annotations

import atexit
import functools
import json
import os
import platform
import socket
import sys
import time
from typing import Any

import torch

VERSION = 1
_INTERVAL_S, _SHARE = 3.0, 0.003


def start(folder: str) -> None:
    """Watch this process, with the settings in the folder's `watch.json`, and start to write its file."""
    with open(os.path.join(folder, "watch.json"), encoding="utf-8") as file:
        process = Process(folder, json.load(file))
    if process.watch():
        process.write_at_the_end()
    process.write()


class Process:
    """The watched process; a forked child is a separate process."""

    def __init__(self, folder: str, config: dict) -> None:
        self.folder, self.config = folder, config
        self.watcher: Any = None
        self.patches: Any = None
        self.reason = ""
        self.began = time.time()
        self.wrote_at, self.wrote_s = 0.0, 0.0
        self.is_fork = False
        self.group: dict = {}

    def watch(self) -> bool:
        """Install the wrappers if torch is new enough."""
        if not hasattr(torch, "hash_tensor"):
            self.reason = "torch %s is too old: auditkit run needs torch 2.9 or later" % torch.__version__
            return False
        from .patches import Patches
        from .watcher import Watcher

        self.watcher = Watcher(self.config, self.folder and os.path.join(self.folder, "candidates.json"))
        if self.folder:
            self.watcher.stop, self.watcher.stepped = self._stop, self._stepped
        self.patches = Patches(self.watcher)
        self.patches.install()
        return True

    def _stepped(self) -> None:
        is_late = time.monotonic() - self.wrote_at > max(_INTERVAL_S, self.wrote_s / _SHARE)
        if is_late or self.watcher.count == 1:
            self.write()

    def write_at_the_end(self) -> None:
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._forked)
        for name in ("_exit", "execv", "execve"):
            setattr(os, name, self._ending(getattr(os, name)))

    def _ending(self, original: Any) -> Any:
        @functools.wraps(original)
        def end(*args: Any) -> Any:
            self.finish()
            return original(*args)

        return end

    def _forked(self) -> None:
        """Let a forked child record its own steps; until its first step it writes nothing."""
        self.is_fork, self.began, self.wrote_at, self.group = True, time.time(), 0.0, {}
        self.watcher.reset()

    def _stop(self) -> None:
        """Write the file after the requested number of steps, then notify the host."""
        self.write()
        with open(os.path.join(self.folder, "stop-%s" % self._name()), "w"):
            pass

    def finish(self) -> None:
        if self.is_fork and not self.watcher.count:
            return
        self.watcher.guarded("end", self.watcher.ended)
        self.write(ended=True)

    def _name(self) -> str:
        return "%s-%d-%d" % (socket.gethostname()[:40], os.getpid(), int(self.began * 1000))

    def write(self, ended: bool = False) -> None:
        """Replace the process's file; errors of the folder do not affect the program."""
        began = time.monotonic()
        try:
            path = os.path.join(self.folder, "process-%s.json" % self._name())
            data = json.dumps(self.document(ended), default=str)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(data)
            os.replace(path + ".new", path)
        except Exception:
            pass
        self.wrote_at = time.monotonic()
        self.wrote_s = self.wrote_at - began
        if self.watcher is not None:
            self.watcher.cost_s += self.wrote_s if not ended else 0.0

    def document(self, ended: bool) -> dict:
        recorded = self.watcher.to_json() if self.watcher is not None else {}
        if recorded and torch.distributed.is_available() and torch.distributed.is_initialized():
            # A program may end its process group before its last file is written.
            self.group = {"rank": torch.distributed.get_rank(), "world": torch.distributed.get_world_size()}
        return {
            "version": VERSION, "began": self.began, "ended": ended, "reason": self.reason, "argv": sys.argv[:50],
            "executable": sys.executable, "python": platform.python_version(), "torch": str(torch.__version__),
            "platform": "-".join(os.uname()[:1] + os.uname()[2:5:2]),
            "identity": identity() | self.group, "device": _device() if recorded else ["cpu", ""],
            **recorded,
        }  # fmt: skip


def identity() -> dict:
    """Return which rank of which job this process is, from its launcher's variables."""
    variables = os.environ.get
    rank, world = variables("RANK") or variables("SLURM_PROCID"), variables("WORLD_SIZE") or variables("SLURM_NTASKS")
    return {
        "rank": int(rank) if rank and rank.isdigit() else 0,
        "world": int(world) if world and world.isdigit() else 1,
        "job": variables("TORCHELASTIC_RUN_ID") or variables("SLURM_JOB_ID") or variables("RAY_JOB_ID") or "",
        "restart": int(variables("TORCHELASTIC_RESTART_COUNT") or 0),
    }


def _device() -> list:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return ["cuda", torch.cuda.get_device_name()]
    return ["cpu", os.uname().machine]
