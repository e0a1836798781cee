"""The files of the project, and how our own tests start its commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from auditkit.cli import application  # noqa: F401 - what the forks run
from auditkit.cli.main import main
from auditkit.probing.engine import fork_servers

ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("auditkit", "probes", "templates", "tickets", "tests", "docs", "benchmarks", ".ci")
_TEXT = {".py", ".md", ".j2", ".json", ".toml", ".txt", ".yaml", ".yml", ".svg", ""}


def project_files() -> list[Path]:
    """Every text file that belongs to the project: no caches, no build output, no virtual environment."""
    # In a worktree of git .git is a file, with the path of the repository.
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    below = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(path for path in top + below if path.suffix in _TEXT and "__pycache__" not in path.parts)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and all that it printed."""

    code: int
    stdout: str
    stderr: str


def auditkit(
    *arguments: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    time_limit_s: float = 300.0,
) -> Ended:
    """`auditkit ARGUMENTS...` in a process of its own, whose output is read when it has ended.

    It is a fork of this one, which has imported what a command takes 0.4 to 0.7 s of processor time to import; where
    the environment is another one, which modules may read when they are imported, an interpreter is started. Its
    workers are forked from the server of this process: a server of its own would import torch again, for 3 s.
    """
    words = list(map(str, arguments))
    if environment is not None:
        return run_program([sys.executable, "-P", "-m", "auditkit", *words], cwd, environment, time_limit_s)
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # a fork beside xdist's threads
            _running_server()
            child = os.fork()
        if not child:
            _become_command(words, cwd, (stdout.fileno(), stderr.fileno()), time_limit_s)
        status = os.waitpid(child, 0)[1]
        printed = [_text_of(stream) for stream in (stdout, stderr)]
    return Ended(os.waitstatus_to_exitcode(status), *printed)


def _running_server() -> fork_servers.Server:
    """Return the server of this interpreter, started."""
    server = fork_servers.server_for(sys.executable)
    server.start()
    return server


def _become_command(words: Sequence[str], cwd: Path | None, outputs: tuple[int, int], time_limit_s: float) -> NoReturn:
    """Run the command in this fork and end it; what it inherits of this process's workers stays this process's."""
    code: Any = 1
    shared: dict[Any, fork_servers.Server] = {}
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, output in enumerate(outputs, 1):
            os.dup2(output, number)
        sys.stdin, sys.stdout = open(0), open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, time_limit_s)
        os.environ.update(our_environment())
        os.chdir(cwd or os.curdir)
        shared = {key: each for key, each in fork_servers._SERVERS.items() if each._channel is not None}
        fork_servers._SERVERS.clear()
        fork_servers._SERVERS.update(list(shared.items())[-1:])  # the one of `_running_server`
        sys.argv = ["auditkit", *words]
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        for key in shared:
            fork_servers._SERVERS.pop(key, None)
        fork_servers.end_servers()
        sys.stdout.flush()
        os._exit(code)


def _text_of(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def run_program(
    command: Sequence[str],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    time_limit_s: float = 300.0,
) -> Ended:
    """Any command, with our own checkout first among the places that Python imports from."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**our_environment(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=time_limit_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def our_environment() -> dict[str, str]:
    """This process's environment, with our checkout importable and no colours."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
