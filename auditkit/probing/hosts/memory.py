"""Answers of workers, remembered: what a job said, and all that it hangs on, so that it is not asked again.

An answer is known by the question (the job, its probe's bytes, the worker's own code, the interpreter, the
environment and the machine) and used again only where every file that its process read holds the same bytes.
Nothing but an answer is ever kept: no error, nothing unavailable, nothing whose reads are not all known.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from auditkit.probing.hosts.cage import ENTRY, Cage, CageError, run_in_cage
from auditkit.probing.hosts.protocol import Hello, Message, Read

if TYPE_CHECKING:
    from auditkit.probing.hosts.protocol import Job, Request
    from auditkit.probing.hosts.sandbox import Setting

SCHEME = 1
_ROOT = "{checkout}"
_LARGEST_FILE_BYTES, _MOST_BYTES = 64 << 20, 256 << 20
# Branches that are audited in turn: each has its own files, and so its own answer to one question.
_MOST_VARIANTS = 8
# A file system's clock may be as late as that: what changed in the moment before the start may have changed after it.
_CLOCK_NS = 5_000_000
_DESCRIBED_WITHIN_S = 30.0
# Of a job what says nothing of its question: its place in a list, where a probe lies, what may be imported early.
_NOT_ASKED = ("id", "path", "imports")


class Store(Protocol):
    """Where entries lie, by a name of hexadecimal digits."""

    folder: str

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class Entry:
    """What was said of one job, with what its session said before it."""

    messages: Sequence[Message]
    loaded_by: Mapping[str, Any]
    cuda: bool


@dataclass
class Memory:
    """All answers that one command of auditkit's `version` may use again; `fresh` asks anew, and keeps the answer."""

    store: Store
    version: str
    fresh: bool = False

    def lies_in(self, checkout: Path) -> bool:
        """Whether the checkout, or the repository that it is in, could have brought the answers itself."""
        tops = (each for each in (checkout, *checkout.absolute().parents) if (each / ".git").exists())
        top = os.path.realpath(next(tops, checkout))
        return os.path.commonpath([top, os.path.realpath(self.store.folder)]) == top

    def of(self, setting: Setting, request: Request, environment: Mapping[str, str]) -> SessionMemory | None:
        """The answers to one request; None where the interpreter says nothing of itself."""
        machine = describe(setting.python, setting.interpreter_cage())
        if machine is None:
            return None
        place = {**_machine(), "environment": dict(environment), "cage": setting.engine.describe()}
        return SessionMemory(self, setting, request, machine, place)


class SessionMemory:
    """What is known of the jobs of one request, and what is kept of it."""

    def __init__(
        self,
        memory: Memory,
        setting: Setting,
        request: Request,
        interpreter: Mapping[str, Any],
        place: Mapping[str, Any],
    ) -> None:
        self._memory = memory
        self._interpreter = interpreter
        self._files = _Files(setting)
        roots = [str(root) for root in request["import_roots"]]
        of_all = {
            "scheme": SCHEME,
            "auditkit": [memory.version, _worker_code()],
            "interpreter": [setting.interpreter, interpreter],
            "place": place,
            "target": request["target"],
            "modules": request["modules"],
            "blocks": request["blocks"],
            "roots": [self._files.named(root) for root in roots],
            "checkout": self._files.named(request["checkout"]),
            "auto_device": request["auto_device"],
            "rungs": request["rungs"],
        }
        self._of_all = _digest(json.dumps(of_all, sort_keys=True, default=vars).encode("utf-8"))

    def hello(self, cuda: bool) -> Hello:
        """What a worker would say of itself."""
        told = self._interpreter
        torch = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", told["torch"], re.MULTILINE)
        version = torch[1] if torch is not None else ""
        said = {name: told[name] for name in ("python", "executable", "platform")}
        return {"type": "hello", "torch": version, "cuda": cuda, **said}  # type: ignore[typeddict-item]

    def recall(self, job: Job) -> Entry | None:
        """What was said of a job before, where everything that it hangs on is as it was."""
        if self._memory.fresh:
            return None
        for variant in self._variants(self._name(job)):
            if self._files.state(variant["names"], has_run=False) == variant["state"]:
                text = json.dumps(variant["said"]).replace(_ROOT, json.dumps(self._files.shown)[1:-1])
                return Entry(**json.loads(text))
        return None

    def keep(self, job: Job, read: Read | None, entry: Entry, began_ns: int) -> str:
        """Keep what was said of a job by a worker that began then; else why that cannot be known to hold again."""
        if read is None or read["unknown"]:
            return read["unknown"] if read is not None else "nothing is known of what it reads"
        names = sorted(
            [f"f:{self._files.named(path)}" for path in read["files"]]
            + [f"s:{self._files.named(path)}" for path in read["searched"]]
            + [f"l:{self._files.named(path)}" for path in read["listed"]]
        )
        why_not = self._files.why_unknown(names, began_ns - _CLOCK_NS)
        if why_not:
            return why_not
        name = self._name(job)
        shown = re.escape(json.dumps(self._files.shown)[1:-1])
        said = json.loads(re.sub(shown + r"(?![\w.-])", _ROOT, json.dumps(vars(entry))))
        variant = {"names": names, "state": self._files.state(names, has_run=True), "said": said}
        others = [each for each in self._variants(name) if each["state"] != variant["state"]]
        self._memory.store.write(name, json.dumps([variant, *others[: _MOST_VARIANTS - 1]]).encode("ascii"))
        return ""

    def forget(self, job: Job) -> None:
        """Ask this job again: what it measured could not be judged."""
        self._memory.store.write(self._name(job), b"[]")

    def _name(self, job: Job) -> str:
        asked = {key: value for key, value in job.items() if key not in _NOT_ASKED}
        if "path" in job:
            asked["probe"] = [job["id"], _digest(Path(job["path"]).read_bytes())]
        return _digest(json.dumps([self._of_all, asked], sort_keys=True, default=vars).encode("utf-8"))

    def _variants(self, name: str) -> list[dict[str, Any]]:
        try:
            found = json.loads(self._memory.store.read(name))
            return [each for each in found if each.keys() == {"names", "state", "said"}]
        except (OSError, ValueError, AttributeError, TypeError):
            return []


class _Files:
    """The files of a checkout by names that hold in every copy of it, and what is in them."""

    def __init__(self, setting: Setting) -> None:
        copy, original = setting.copied
        self.root, self.shown = copy or str(setting.checkout), original or str(setting.checkout)
        self._tops = [os.path.join(top, "") for top in (self.shown, self.root, os.path.realpath(self.root))]
        self._known: dict[tuple[bool, tuple[str, ...]], str] = {}

    def named(self, path: str) -> str:
        """A path from the top of the checkout; that of any other file as it is."""
        top = next((top for top in self._tops if os.path.join(path, "").startswith(top)), "")
        return path[len(top) :] if top else path

    def state(self, names: Sequence[str], has_run: bool) -> str:
        """A digest over all that is in them, made once before and once after something `has_run`."""
        key = (has_run, tuple(names))
        if key not in self._known:
            self._known[key] = _digest("\0".join(map(self._content, names)).encode("utf-8", "surrogateescape"))
        return self._known[key]

    def why_unknown(self, names: Iterable[str], since_ns: int) -> str:
        """Why the digest over these may not be that of what was read; "" where it is."""
        size_bytes = 0
        for name in names:
            try:
                found = os.stat(self._path(name))
            except OSError:
                continue
            size_bytes += found.st_size
            if found.st_size > _LARGEST_FILE_BYTES or size_bytes > _MOST_BYTES:
                return f"it reads {name[2:]}, and {size_bytes / 1e6:,.0f} MB are too much to compare"
            if name.startswith("f:") and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                return f"it reads {name[2:]}, which is no regular file"
            if found.st_ctime_ns > since_ns:
                return f"{name[2:] or 'the checkout'} changed while it ran"
        return ""

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name[2:])

    def _content(self, name: str) -> str:
        path = self._path(name)
        try:
            if name.startswith("f:"):
                return _content_of(path, *_stamp(path))
            return json.dumps([each for each in sorted(os.listdir(path)) if name[0] == "l" or _is_module(path, each)])
        except OSError as error:
            return f"none: {error.errno}"


def _is_module(folder: str, name: str) -> bool:
    """Whether an import may find it: a module, or a folder that may be a package."""
    if name.endswith((".py", ".so", ".pyd", ".pyc", ".pth")):
        return True
    path = os.path.join(folder, name)
    return name.isidentifier() and name != "__pycache__" and os.path.isdir(path) and bool(os.listdir(path))


def _stamp(path: str) -> tuple[int, int, int, int]:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.lru_cache(maxsize=20_000)
def _content_of(path: str, *_: int) -> str:
    """The digest of a file, read once as long as nothing says that it changed."""
    return _digest(Path(path).read_bytes())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@functools.cache
def _worker_code() -> str:
    """All of the worker's own code: a development checkout changes without a new version."""
    files = sorted(ENTRY.parent.rglob("*.py"))
    return _digest(
        "".join(f"{file.relative_to(ENTRY.parent)} {_digest(file.read_bytes())}\n" for file in files).encode()
    )


@functools.cache
def _machine() -> dict[str, Any]:
    """Processor and graphics cards with their driver, as far as the kernel tells."""
    cards = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    files = [Path("/proc/driver/nvidia/version"), *cards]
    told = [re.sub(r"(?m)^(IRQ|GPU UUID|Bus|Device Minor|GPU Excluded).*$", "", _text(file)) for file in files]
    processor = re.findall(r"(?m)^(?:model name|flags|CPU part|Features)\s*:.*$", _text(Path("/proc/cpuinfo")))
    return {
        "processor": sorted(set(processor)),
        "cards": told,
        "devices": sorted(map(str, Path("/dev").glob("nvidia*"))),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@functools.cache
def describe(interpreter: str, cage: Cage | None = None) -> Mapping[str, Any] | None:
    """An interpreter's version, torch and packages, asked once in this process; None where it does not tell."""
    command = [interpreter, "-I", "-B", str(ENTRY.parent / "describe.py")]
    try:
        ended = run_in_cage(cage, command, b"", ("PATH", "HOME", "LD_LIBRARY_PATH"), _DESCRIBED_WITHIN_S)
        told = json.loads(ended.stdout)
    except (OSError, ValueError, CageError, subprocess.SubprocessError):
        return None
    return told if isinstance(told, dict) else None
