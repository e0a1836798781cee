"""Start the program with the watcher's carrier in its environment, wait for it, and end it after a limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError, StoreConflictError

VARIABLE = "AUDITKIT_WATCH"
_CARRIER = Path(__file__).resolve().parents[1] / "worker" / "watch" / "carrier"
_POLL_S = 0.05
_GRACE_S = 10.0
_OTHERS_S = 5.0
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


@dataclass(frozen=True)
class Ended:
    """How the program ended: its exit code, and the limit by which auditkit ended it, if it did."""

    code: int
    limit: str = ""


def prepare(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write what the watchers read when they begin. Raises StoreConflictError for a folder that cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in ("process-*.json*", "stop-*", "failed-*.txt", "candidates.*"):
            for old in folder.glob(pattern):
                old.unlink()
        (folder / "watch.json").write_text(json.dumps(dict(settings)), encoding="utf-8")
    except OSError as error:
        raise StoreConflictError(f"{folder} cannot be written: {error.strerror}", "name another --folder") from error


def run_command(command: Sequence[str], folder: Path, look: Callable[[], None] = lambda: None) -> Ended:
    """Run the program to its end, or to the limit of steps, which the watchers tell; call `look` meanwhile.

    The program keeps auditkit's terminal, input and output. A code above 128 is that of a signal, as in a shell.
    """
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(_CARRIER), inherited] if inherited else [str(_CARRIER)])
    environment = {**os.environ, "PYTHONPATH": path, VARIABLE: str(folder)}
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        hint = f"auditkit run -- python {command[0]}" if command[0].endswith(".py") else "check the spelling"
        raise BadInputError(f"{command[0]} cannot be started: {error.strerror}", hint) from error
    limit = ""
    with _signals_of(process):
        while process.poll() is None:
            if _has_steps(folder):
                limit = "steps"
                _end(process, folder)
                break
            look()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
    code = process.wait()
    return Ended(128 - code if code < 0 else code, limit)


def _has_steps(folder: Path) -> bool:
    """Whether every process with a watcher made the steps, or the first one did, 5 s ago."""
    stopped = [path.stat().st_mtime for path in folder.glob("stop-*")]
    is_late = bool(stopped) and time.time() - min(stopped) > _OTHERS_S
    return is_late or 0 < len(stopped) >= len([*folder.glob("process-*.json")])


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Send SIGTERM to the program and all that it started; kill what is left after ten seconds."""
    deadline = time.monotonic() + _GRACE_S
    _send(signal.SIGTERM, _family(process, folder))
    while time.monotonic() < deadline and _family(process, folder):
        time.sleep(_POLL_S)
    _send(signal.SIGKILL, _family(process, folder))


def _send(number: signal.Signals, family: set[int]) -> None:
    for pid in family:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _family(process: subprocess.Popen[bytes], folder: Path) -> set[int]:
    """The program, and all living processes that inherited its environment from it."""
    found = {process.pid} if process.poll() is None else set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{VARIABLE}={folder}\0".encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


@contextmanager
def _signals_of(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to the program. A terminal sends Ctrl-C to the program itself."""

    def forward(number: int, _: object) -> None:
        if number == signal.SIGINT and os.isatty(0):
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    old = {number: signal.signal(number, forward) for number in (signal.SIGINT, *_FORWARDED)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
