"""Where the GPU's evidence is measured: the device, or, in preflight, the CPU with what stands for `torch.cuda`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import torch

from benchmarks.gpu_rows import Document, StoppedError

ROOT = Path(__file__).resolve().parents[1]
PREFLIGHT = "preflight on the CPU: no evidence"
Item = TypeVar("Item")
Shape = tuple[int, ...]

# What the tests' environment has and a machine with a GPU need not have: preflight's commands go without.
_NOT_NEEDED = ("hypothesis", "scipy", "jsonschema", "xdist", "markdown_it", "nh3", "mypy")
_WITHOUT_THEM = f"""\
import runpy, sys
sys.modules.update(dict.fromkeys({_NOT_NEEDED}))
sys.path[0], sys.argv = {str(ROOT)!r}, sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_STOP_S = 8.0


class _Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self._at_s = 0.0

    def record(self) -> None:
        self._at_s = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        return (end._at_s - self._at_s) * 1e3


def _nothing(*_: object) -> None:
    """The CPU has nothing to wait for."""


# What the parts use of torch.cuda: steps of a captured graph run at once, and its replay does nothing.
_PRETENDED_CUDA = SimpleNamespace(
    Event=_Event,
    CUDAGraph=lambda: SimpleNamespace(replay=_nothing),
    Stream=lambda: SimpleNamespace(wait_stream=_nothing),
    current_stream=lambda: SimpleNamespace(wait_stream=_nothing),
    graph=contextlib.nullcontext,
    stream=contextlib.nullcontext,
    synchronize=_nothing,
    empty_cache=_nothing,
    get_device_properties=lambda _: SimpleNamespace(memory_clock_rate=1000, memory_bus_width=8),
)


class Ended(NamedTuple):
    """The exit code, None where the time was up, and what was printed."""

    code: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Machine:
    """`device` is where tensors lie and probes are asked; `cuda` is torch.cuda, or what stands for it.

    A preflight may ask one of `share` collectors alone.
    """

    is_preflight: bool
    share: int = 1

    @property
    def device(self) -> str:
        return "cpu" if self.is_preflight else "cuda"

    @property
    def cuda(self) -> Any:
        return _PRETENDED_CUDA if self.is_preflight else torch.cuda

    def shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes of a model, in preflight some tiny ones of as many dimensions."""
        if self.is_preflight:
            return [tuple(min(size, 6) for size in shape) for shape in shapes[:4]]
        return list(shapes)

    def some(self, items: Sequence[Item]) -> list[Item]:
        """The items, or those of a preflight's share."""
        return list(items[:: self.share if self.is_preflight else 1])

    def describe(self, revision: str) -> Document:
        """What every figure depends on, and whether it is evidence at all."""
        import triton

        return {
            "is_preflight": self.is_preflight,
            "device": PREFLIGHT if self.is_preflight else torch.cuda.get_device_name(),
            "memory_bytes": 0 if self.is_preflight else torch.cuda.mem_get_info()[1],
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "triton": triton.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "revision": revision or git_revision() or f"sources {digest_of_sources()}",
        }

    def run_module(self, words: Sequence[str], folder: Path) -> Ended:
        """How `python -m WORDS` ended in `folder`; what it had said by then where the row's time was up."""
        start = ["-c", _WITHOUT_THEM] if self.is_preflight else ["-m"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment["XDG_CACHE_HOME"] = str(folder)
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            child = subprocess.Popen(
                [sys.executable, *start, *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                code: int | None = child.wait()
            except StoppedError:
                code = None
                # As Ctrl-C does: pytest still says what it has, and an audit ends its workers.
                child.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_STOP_S)
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        said = [(folder / name).read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr")]
        return Ended(code, *said)


def git_revision() -> str:
    """The commit of the checkout, with a mark where files differ from it; empty without git."""
    git = ["git", "-C", str(ROOT)]
    with contextlib.suppress(OSError):
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        # Code alone: the results of the part before would be a change, too.
        status = [*git, "status", "--porcelain", "--", "*.py"]
        changed = subprocess.run(status, capture_output=True, text=True, check=False)
        if head.returncode == 0:
            return head.stdout.strip() + (" with changes" if changed.stdout.strip() else "")
    return ""


def digest_of_sources() -> str:
    """Names the code that was measured where there is no git: `git archive` of the same revision has the same one."""
    digest = hashlib.sha256()
    for folder in ("auditkit", "probes", "benchmarks", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
