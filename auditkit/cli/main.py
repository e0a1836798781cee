"""The `auditkit` command: its sandbox, its Typer application, and the exit code."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 5 ms
    from collections.abc import Callable
    from typing import NoReturn


def main() -> None:
    """Run the command line, and end the process with its exit code: 130 after Ctrl-C, however early that came."""
    end = os._exit
    os._exit = _raising_exit(end)  # type: ignore[assignment]  # mypy also requires the parameter's name
    try:
        code = _exit_code()
    except KeyboardInterrupt:  # while what reports it was not loaded yet
        os.write(2, b"interrupted\n")
        code = 130
    finally:
        os._exit = end
    if code == 130:
        import signal

        # Python ends by the signal itself where that met code made of text, as dataclasses are, unless it is blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    raise SystemExit(code)


def _raising_exit(end: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """Make an `os._exit` that raises SystemExit in this process, and ends any process that is forked from it.

    The `judge` and the source probes of the user's own run in this process: `os._exit(0)` in one of them would end
    the command without output and with the exit code of a pass.
    """
    command = os.getpid()

    def exit_or_raise(status: int) -> NoReturn:
        if os.getpid() == command:
            raise SystemExit(f"os._exit({status})")
        end(status)

    return exit_or_raise


def _exit_code() -> int | str | None:
    """What the command ends with: 4 if its output is lost, but not for a reader that has left (`| head -1`)."""
    from auditkit.cli.output import INTERRUPTED, complain, complain_of, discard

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it stays open
    code: int | str | None = 0
    lost = ""
    try:
        from auditkit.cli.cage import restart

        sys.argv[1:], ended_with = restart(sys.argv[1:])
        if ended_with is not None:
            raise SystemExit(ended_with)
        from auditkit.cli.application import application

        # One name in help and for the shell's completion, however it was started.
        application(sys.argv[1:])(prog_name="auditkit")
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:  # before a command has begun
        complain("interrupted")
        code = INTERRUPTED
    except OSError as error:
        if error.filename is None:
            lost = str(error.strerror)
            discard(sys.stdout)
        else:  # a file that no part of ours expected to fail
            from auditkit.errors import BadInputError

            code = complain_of(BadInputError(f"{error.filename}: {error.strerror}"), "--json" in sys.argv)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if stream is sys.stdout and not isinstance(error, BrokenPipeError):
                lost = lost or str(error.strerror)
            discard(stream)
    if not lost:
        return code
    from auditkit.errors import ExitCode

    complain(f"error: the output cannot be written: {lost}")
    return int(ExitCode.STORE_CONFLICT)
