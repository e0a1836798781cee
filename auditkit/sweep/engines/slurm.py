"""Jobs in the queue of a Slurm cluster, submitted through submitit as arrays; Slurm says when and where each runs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import pickle
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.sweep.engines.node import last_words, run_command
from auditkit.sweep.engines.protocol import Ended, EngineSettings, Task
from auditkit.sweep.jobs import Resources

_OPTIONS = ("partition", "account", "qos", "constraint", "exclude", "poll_s")
_COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
# Administrators want few calls per minute; the folder shows the end of a job sooner.
_POLL_S = 10.0
_IN_QUEUE = 1000
# The process that starts a job's own, in MB.
_STARTER_MB = 64
# A job ends itself when its time is up: Slurm's limit is for one that does not.
_AFTER_LIMIT_S = 120.0
_CALL_WITHIN_S = 60.0
_SILENT_AT_MOST_S = 600.0
# What a job wrote on its node may come into sight so much later.
_SEEN_WITHIN_S = 5.0
# Many may be killed at once: they wait for one look at the queue together.
_KILLED_POLL_S = 1.0
# Slurm's default gives a cancelled job 30 s to end.
_CANCELLED_WITHIN_S = 120.0
_OVER = frozenset(
    ["BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"]
)
_REASONS = {
    "CANCELLED": "it was cancelled in Slurm",
    "TIMEOUT": "Slurm ended it at its time limit",
    "OUT_OF_MEMORY": "Slurm killed it: out of memory",
    "NODE_FAIL": "its node is lost",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "Slurm gave its node to another job",
    "DEADLINE": "Slurm ended it at its deadline",
}
# What a full queue is refused with; as soon as some have ended, the rest is taken.
_FULL = re.compile(r"MaxSubmit|QOS policy|temporarily|MaxJob|job array specification", re.IGNORECASE)
_UNREACHABLE = re.compile(r"Unable to contact|Connection refused|Socket timed out")


class SlurmQueue:
    """A Slurm cluster's queue: each job has its cores, memory, graphics cards and time limit, and is never requeued.

    Options: `partition`, `account`, `qos`, `constraint`, `exclude`, and `poll_s`, the seconds between two looks at the
    queue. auditkit takes over jobs that an earlier sweep of the same folder left. Raises BadInputError where submitit
    or Slurm is not installed, or where the controller does not respond.
    """

    def __init__(self, settings: EngineSettings) -> None:
        settings.check_options("Slurm", _OPTIONS)
        if importlib.util.find_spec("submitit") is None:
            raise BadInputError(
                "submitit is not installed here",
                "in a clone of auditkit: pip install '.[slurm]', here and on every node",
            )
        missing = next((name for name in _COMMANDS if shutil.which(name) is None), None)
        if missing is not None:
            raise BadInputError(f"this machine has no {missing}", "start the sweep on a login node of the cluster")
        self._poll_s = _seconds(settings.options)
        self._options = {name: text for name, text in settings.options.items() if name != "poll_s"}
        self._name, self._logs = settings.name, settings.folder / "logs"
        self._folder = settings.folder / "slurm"
        # The pickles of this folder are loaded, so no other user may write there.
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._waiting: list[Task] = []
        self._running: dict[str, Task] = {}
        self._ended: list[Ended] = []
        self._gone: dict[str, float] = {}
        self._killed: dict[str, float] = {}
        self._states: dict[str, tuple[str, str]] = {}
        self._submitted_at = self._polled_at = float("-inf")
        self._answered_at = time.monotonic()
        array = re.search(r"MaxArraySize\s*=\s*(\d+)", _call("scontrol", "show", "config"))
        self._capacity = settings.jobs or _IN_QUEUE
        self._array = min(self._capacity, int(array.group(1)) - 1 if array else _IN_QUEUE) or 1
        self._left = self._found()

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def left_behind(self) -> Container[str]:
        return self._left

    def submit(self, task: Task) -> None:
        if self._left.get(task.key, ("", ()))[1] == task.command:
            self._running[self._left.pop(task.key)[0]] = task
        else:
            self._waiting.append(task)

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        deadline = time.monotonic() + timeout_s
        while True:
            if self._left:
                # No task claimed them: their jobs are of another plan.
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
        self._waiting.clear()
        deadline = time.monotonic() + _CANCELLED_WITHIN_S
        while (self._running or self._left) and not self._is_empty():
            if time.monotonic() > deadline:
                said = f"jobs of this sweep may still be in Slurm's queue after {_CANCELLED_WITHIN_S:g} s"
                raise BadInputError(
                    said, f"squeue --name={self._name} lists them, scancel --name={self._name} ends them"
                )
            time.sleep(0.5)
        self._running, self._left = {}, {}

    def _is_empty(self) -> bool:
        """Cancel what is in the queue; whether nothing was."""
        with contextlib.suppress(BadInputError):
            _call("scancel", f"--name={self._name}", f"--user={os.getuid()}")
            return all(state in _OVER for state, _ in self._queue().values())
        return False

    # Into the queue.

    def _submit_waiting(self) -> None:
        """Submit one array for all waiting jobs with the same resources, once between two looks at the queue."""
        if not self._waiting or time.monotonic() - self._submitted_at < self._poll_s:
            return
        groups: dict[Resources, list[Task]] = defaultdict(list)
        for task in self._waiting:
            groups[task.resources].append(task)
        self._waiting = []
        for resources, tasks in groups.items():
            while tasks and self._submit_array(resources, tasks[: self._array]):
                tasks = tasks[self._array :]
            self._waiting += tasks
        self._submitted_at = time.monotonic()

    def _submit_array(self, resources: Resources, tasks: list[Task]) -> bool:
        """Whether the queue accepted it, or refuses it for good."""
        try:
            jobs = self._submitted(resources, tasks)
        except Exception as error:
            words = _refusal(str(error))
            if _UNREACHABLE.search(words):
                raise BadInputError(f"Slurm takes no jobs: {words}", "run the same command again later") from None
            if _FULL.search(words) and (self._running or len(tasks) > 1):
                # The queue accepts jobs again when some have ended; a smaller array may fit now.
                self._array = max(1, len(tasks) // 2)
                return False
            self._ended += [Ended(task.key, None, f"Slurm rejects it: {words}", again=False) for task in tasks]
            return True
        for job, task in zip(jobs, tasks, strict=True):
            self._running[job.job_id] = task
        return True

    def _submitted(self, resources: Resources, tasks: list[Task]) -> list[Any]:
        import submitit

        executor = submitit.SlurmExecutor(self._folder, max_num_timeout=0)
        executor.update_parameters(
            job_name=self._name,
            cpus_per_task=resources.cpus,
            # Slurm's M are 2**20 bytes.
            mem=f"{math.ceil((resources.memory_mb + _STARTER_MB) * 1e6 / 2**20)}M",
            time=math.ceil((resources.time_s + _AFTER_LIMIT_S) / 60),
            array_parallelism=self._capacity,
            stderr_to_stdout=True,
            # In the batch step itself: no second step, and signals reach it there, too.
            use_srun=False,
            # The driver counts the attempts and resubmits a lost task. The folder contains no modules to import.
            additional_parameters={"no-requeue": True, "chdir": str(self._folder)},
            **({"gres": f"gpu:{resources.gpus}"} if resources.gpus else {}),
            **self._options,
        )
        # submitit prints sbatch's words, and raises with them, too.
        with contextlib.redirect_stderr(io.StringIO()), executor.batch():
            return [executor.submit(run_command, task.command, self._log(task)) for task in tasks]

    def _log(self, task: Task) -> str:
        return str(self._logs / f"{task.key}.log")

    def _found(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """The jobs of this sweep that are in the queue, with their commands; of others submitit's files are removed."""
        live = {job for job, (state, _) in self._queue().items() if state not in _OVER}
        arrays = {job.partition("_")[0] for job in live}
        for path in self._folder.iterdir():
            if re.split("[_.]", path.name)[0] not in arrays:
                path.unlink(missing_ok=True)
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for job in live:
            try:
                command, log = pickle.loads((self._folder / f"{job}_submitted.pkl").read_bytes()).args
                found[Path(log).stem] = job, command
            except Exception:
                # No task can claim it: it is cancelled with the unclaimed ones.
                found[job] = job, ()
        return found

    # Out of the queue.

    def _collect(self) -> None:
        if not self._running:
            return
        seen = {entry.name for entry in os.scandir(self._folder)}
        for job in list(self._running):
            if f"{job}_0_result.pkl" in seen:
                self._take(job)
        if self._running and time.monotonic() - self._polled_at >= self._poll_s and self._poll():
            for job in list(self._running):
                self._take_lost(job)

    def _take(self, job: str) -> None:
        """A job that wrote how its command ended."""
        path = self._folder / f"{job}_0_result.pkl"
        try:
            outcome, told = pickle.loads(path.read_bytes())
        except Exception as error:
            outcome, told = "error", str(error)
        code, reason, node = told if outcome == "success" else (None, f"submitit: {_refusal(told)}", "")
        if code != 0:
            if job not in self._killed or time.monotonic() - self._polled_at >= _KILLED_POLL_S:
                self._poll()
            state = self._states.get(job, ("", ""))[0]
            if code is not None and code < 0 and state and state not in _OVER and self._waits(job):
                return  # who sent the signal is known as soon as Slurm has put the job away
            reason = _REASONS.get(state, reason)
        self._end(job, Ended(self._running[job].key, code, reason, node))

    def _waits(self, job: str) -> bool:
        return time.monotonic() - self._killed.setdefault(job, time.monotonic()) < _SEEN_WITHIN_S

    def _take_lost(self, job: str) -> None:
        """A job that Slurm runs no more and that wrote nothing."""
        state, node = self._states.get(job, ("", ""))
        if state and state not in _OVER:
            self._gone.pop(job, None)
            return
        since = self._gone.setdefault(job, time.monotonic())
        if time.monotonic() - since < min(_SEEN_WITHIN_S, self._poll_s):
            return
        said = f"Slurm reports {state or 'nothing of it'}"
        lines = last_words(str(self._folder / f"{job}_0_log.out")).splitlines()
        said += f": {inert_line(lines[-1])[:300]}" if lines else ""
        self._end(job, Ended(self._running[job].key, None, _REASONS.get(state, said), node))

    def _end(self, job: str, ended: Ended) -> None:
        del self._running[job]
        self._gone.pop(job, None)
        self._killed.pop(job, None)
        self._ended.append(ended)
        for name in ("submitted.pkl", "0_result.pkl", *(["0_log.out"] if ended.exit_code == 0 else [])):
            (self._folder / f"{job}_{name}").unlink(missing_ok=True)

    def _poll(self) -> bool:
        """Whether the controller says what is in the queue. Raises BadInputError where it has not done so for long."""
        self._polled_at = time.monotonic()
        try:
            self._states = self._queue()
        except BadInputError:
            if time.monotonic() - self._answered_at > _SILENT_AT_MOST_S:
                raise
            return False
        self._answered_at = time.monotonic()
        return True

    def _queue(self) -> dict[str, tuple[str, str]]:
        """The state and the node of each job of this sweep that Slurm still knows."""
        lines = _call(
            "squeue",
            "--noheader",
            "--array",
            "--states=all",
            f"--name={self._name}",
            f"--user={os.getuid()}",
            "--format=%i|%T|%N",
        ).splitlines()
        fields = (line.split("|") for line in lines if line.count("|") == 2)
        return {job: (state, node) for job, state, node in fields}


def _call(*command: str) -> str:
    """What a command of Slurm's prints. Raises BadInputError where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CALL_WITHIN_S)
        words = done.stderr if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        words = str(error)
    if words:
        raise BadInputError(f"{command[0]}: {inert_line(words)[:300]}", "`sinfo` shows whether Slurm responds here")
    return done.stdout


def _refusal(words: str) -> str:
    """The lines of sbatch's words, or of another's, that say why."""
    lines = re.findall(r"error: ([^\n]+)", words)
    return inert_line("; ".join(lines) or words)[-300:]


def _seconds(options: Any) -> float:
    text = options.get("poll_s", str(_POLL_S))
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise BadInputError(f"the option poll_s of the Slurm engine is a number of seconds, not {text!r}")
    return float(text)
