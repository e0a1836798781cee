"""Jobs in the queue of a Slurm cluster, submitted through submitit as arrays; Slurm says when and where each runs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import pickle
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.sweep.engines.engine import Ended, Task, last_words, run_command, sweep_name
from auditkit.sweep.jobs import Resources

_POLL_S = 10.0
"""Administrators want at most a call in some seconds; a job that ended well shows in the folder before."""
_IN_QUEUE = 1000
_STARTER_MB = 64
"""The process that starts a job's own."""
_AFTER_LIMIT_S = 120.0
"""A job ends itself when its time is up: Slurm's limit is for one that does not."""
_CALL_WITHIN_S = 60.0
_CANCELLED_WITHIN_S = 120.0
"""Slurm gives a cancelled job 30 s to end, unless the administrator changed that."""
_REASONS = {
    "CANCELLED": "it was cancelled in Slurm",
    "TIMEOUT": "Slurm ended it at its time limit",
    "OUT_OF_MEMORY": "Slurm killed it: out of memory",
    "NODE_FAIL": "its node is lost",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "Slurm gave its node to another job",
    "DEADLINE": "Slurm ended it at its deadline",
}
_OVER = {*_REASONS, "COMPLETED", "FAILED", ""}
"""The states of a job that has ended; "" for one that Slurm no longer knows."""
_FULL = re.compile(r"MaxSubmit|QOS policy|temporarily|MaxJob|job array specification", re.IGNORECASE)
"""How sbatch refuses what a full queue takes later, and an array that is too large."""
_UNREACHABLE = re.compile(r"Unable to contact|Connection refused|Socket timed out")


class SlurmQueue:
    """A Slurm cluster's queue: each job has its core, memory, GPUs and time limit, and is never requeued.

    `poll_s` is the seconds between two looks at the queue; the other options are sbatch's. auditkit takes over jobs
    that an earlier sweep of the same folder left. Raises BadInputError if submitit or Slurm is not installed, or if
    the controller does not respond.
    """

    OPTIONS = ("partition", "account", "qos", "constraint", "exclude", "poll_s")

    def __init__(self, folder: Path, jobs: int | None, options: Mapping[str, str]) -> None:
        if importlib.util.find_spec("submitit") is None:
            hint = "in a clone of auditkit: pip install '.[slurm]', here and on every node"
            raise BadInputError("submitit is not installed here", hint)
        self._options = dict(options)
        poll_s = self._options.pop("poll_s", str(_POLL_S))
        if not re.fullmatch(r"\d+(\.\d+)?", poll_s):
            raise BadInputError(f"the option poll_s of the Slurm engine is a number of seconds, not {poll_s!r}")
        self._poll_s = float(poll_s)
        self._name, self._logs, self._folder = sweep_name(folder), folder / "logs", folder / "slurm"
        # auditkit loads submitit's pickles from it: no other user may put one there.
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._waiting: list[Task] = []
        self._running: dict[str, Task] = {}
        self._ended: list[Ended] = []
        self._gone: set[str] = set()
        self._submitted_at = self._polled_at = float("-inf")
        self.capacity = self._array = jobs or _IN_QUEUE
        self._left = self._found()

    def submit(self, task: Task) -> None:
        if self._left.get(task.key, ("", ()))[1] == task.command:
            self._running[self._left.pop(task.key)[0]] = task
        else:
            self._waiting.append(task)

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        deadline = time.monotonic() + timeout_s
        while True:
            if self._left:  # they are of another plan
                _call("scancel", *(job for job, _ in self._left.values()))
                self._left = {}
            self._submit_waiting()
            self._collect()
            ended, self._ended = self._ended, []
            left_s = deadline - time.monotonic()
            if ended or left_s <= 0:
                return ended
            time.sleep(min(left_s, 0.5))

    def close(self) -> None:
        deadline = time.monotonic() + _CANCELLED_WITHIN_S
        while self._running or self._left:
            with contextlib.suppress(BadInputError):
                _call("scancel", f"--name={self._name}", f"--user={os.getuid()}")
                if all(state in _OVER for state, _ in self._queue().values()):
                    return
            if time.monotonic() > deadline:
                message = f"jobs of this sweep may still be in Slurm's queue after {_CANCELLED_WITHIN_S:g} s"
                hint = f"squeue --name={self._name} lists them, scancel --name={self._name} ends them"
                raise BadInputError(message, hint)
            time.sleep(0.5)

    # Into the queue.

    def _submit_waiting(self) -> None:
        """Submit one array for all waiting jobs with the same resources, once between two looks at the queue."""
        if not self._waiting or time.monotonic() - self._submitted_at < self._poll_s:
            return
        waiting, self._waiting = self._waiting, []
        for resources in dict.fromkeys(task.resources for task in waiting):
            tasks = [task for task in waiting if task.resources == resources]
            while tasks and self._submit_array(resources, tasks[: self._array]):
                tasks = tasks[self._array :]
            self._waiting += tasks
        self._submitted_at = time.monotonic()

    def _submit_array(self, resources: Resources, tasks: list[Task]) -> bool:
        """Return whether the queue accepted the tasks or rejects them for good."""
        try:
            jobs = self._submitted(resources, tasks)
        except Exception as error:
            words = inert_line("; ".join(re.findall(r"error: ([^\n]+)", str(error))) or str(error))[-300:]
            if _UNREACHABLE.search(words):
                raise BadInputError(f"Slurm takes no jobs: {words}", "run the same command again later") from None
            if _FULL.search(words) and (self._running or len(tasks) > 1):
                # The queue accepts jobs again when some have ended; a smaller array may fit now.
                self._array = max(1, len(tasks) // 2)
                return False
            self._ended += [Ended(task.key, None, f"Slurm rejects it: {words}", again=False) for task in tasks]
            return True
        self._running |= {job.job_id: task for job, task in zip(jobs, tasks, strict=True)}
        return True

    def _submitted(self, resources: Resources, tasks: list[Task]) -> list[Any]:
        import submitit

        executor = submitit.SlurmExecutor(self._folder, max_num_timeout=0)
        executor.update_parameters(
            job_name=self._name,
            cpus_per_task=1,
            # Slurm's M are 2**20 bytes.
            mem=f"{math.ceil((resources.memory_mb + _STARTER_MB) * 1e6 / 2**20)}M",
            time=math.ceil((resources.time_s + _AFTER_LIMIT_S) / 60),
            array_parallelism=self.capacity,
            stderr_to_stdout=True,
            # In the batch step itself: no second step, and signals reach it there, too.
            use_srun=False,
            # The sweep's driver submits a lost job again. This folder holds no modules.
            additional_parameters={"no-requeue": True, "chdir": str(self._folder)},
            **({"gres": f"gpu:{resources.gpus}"} if resources.gpus else {}),
            **self._options,
        )
        # submitit prints what sbatch printed, and raises an error with the same text.
        with contextlib.redirect_stderr(io.StringIO()), executor.batch():
            logs = [str(self._logs / f"{task.key}.log") for task in tasks]
            return [executor.submit(run_command, task.command, log) for task, log in zip(tasks, logs, strict=True)]

    def _found(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the jobs of this sweep in the queue, with their commands."""
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for job in (job for job, (state, _) in self._queue().items() if state not in _OVER):
            try:
                command, log = pickle.loads((self._folder / f"{job}_submitted.pkl").read_bytes()).args
                found[Path(log).stem] = job, command
            except Exception:  # no task can be it, so that it is cancelled
                found[job] = job, ()
        return found

    # Out of the queue.

    def _collect(self) -> None:
        """Take a job that ended well as soon as it has written so; of others Slurm knows the reason."""
        if not self._running:
            return
        states = None
        if time.monotonic() - self._polled_at >= self._poll_s:
            self._polled_at = time.monotonic()
            with contextlib.suppress(BadInputError):  # a controller that restarts
                states = self._queue()
        written = set(os.listdir(self._folder))
        for job, task in list(self._running.items()):
            code, reason, node = None, "", ""
            has_written = f"{job}_0_result.pkl" in written
            if has_written:
                outcome, told = pickle.loads((self._folder / f"{job}_0_result.pkl").read_bytes())
                is_told = outcome == "success"  # else submitit itself failed
                code, reason, node = told if is_told else (None, f"submitit: {inert_line(str(told))[-300:]}", "")
            if code != 0:
                state, at = states.get(job, ("", "")) if states is not None else ("not known", "")
                if state not in _OVER:
                    continue
                if not has_written and job not in self._gone:
                    self._gone.add(job)  # its file may be visible at the next look
                    continue
                log = last_words(self._folder / f"{job}_0_log.out")
                said = f"Slurm reports {state or 'nothing of it'}{f': {log}' if log else ''}"
                reason, node = _REASONS.get(state, reason or said), node or at
            del self._running[job]
            self._ended.append(Ended(task.key, code, reason, node))
            for name in ("submitted.pkl", "0_result.pkl", *(["0_log.out"] if code == 0 else [])):
                (self._folder / f"{job}_{name}").unlink(missing_ok=True)

    def _queue(self) -> dict[str, tuple[str, str]]:
        """Return the state and the node of each job of this sweep that Slurm still knows."""
        words = ("--noheader", "--array", "--states=all", f"--name={self._name}", f"--user={os.getuid()}")
        fields = (line.split("|") for line in _call("squeue", *words, "--format=%i|%T|%N").splitlines())
        return {each[0]: (each[1], each[2]) for each in fields if len(each) == 3}


def _call(*command: str) -> str:
    """Return what a command of Slurm's prints. Raises BadInputError if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CALL_WITHIN_S)
        words = done.stderr if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        words = str(error)
    if words:
        hint = "start the sweep on a login node, where `sinfo` shows that Slurm responds"
        raise BadInputError(f"{command[0]}: {inert_line(words)[:300]}", hint)
    return done.stdout
