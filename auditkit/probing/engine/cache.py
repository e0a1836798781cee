"""Results of earlier commands, cached under a digest that the host computes, without input from a worker.

The digest covers every file of the checkout that a run can read there, the interpreter's packages, the worker's code,
the probe and its options, the environment and the machine. Entries are kept per checkout path, so one checkout never
supplies the results of another. Failures are not cached, nor are results of a run that changed the files of its
checkout. Cached measurements are judged again. In a sandbox there is no cache: code inside can forge every result.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import platformdirs

from auditkit import assets
from auditkit.errors import AuditkitError
from auditkit.files import write_below
from auditkit.probing.checkout.copies import walk
from auditkit.probing.engine.fork_servers import ENTRY, worker_environment
from auditkit.probing.engine.protocol import End, Hello, LoadedBy, OfJob

if TYPE_CHECKING:
    from auditkit.probing.engine.protocol import Job, Request
    from auditkit.probing.engine.sandbox import Setting

_ROOT = b"{checkout}"
_LARGEST_ENTRY_BYTES, _MOST_BYTES = 8 << 20, 64 << 20
# A larger file is identified by its size and times: reading it would take longer than the run.
_LARGEST_FILE_BYTES = 64 << 20
# Fields of a job that do not change its result: its number, the paths of its files, its early imports.
_NOT_PART = ("id", "path", "forms", "imports")


class Entry(msgspec.Struct, frozen=True):
    """The messages of one job, and the earlier ones of its session."""

    messages: list[OfJob | End]
    loaded_by: LoadedBy
    hello: Hello


@dataclass(frozen=True)
class ResultCache:
    """The results cached for one checkout path in `folder`; `fresh` reads none and writes new ones."""

    folder: Path
    version: str
    fresh: bool = False


def cache_for(checkout: Path, version: str, fresh: bool) -> tuple[ResultCache | None, bool]:
    """Return the cache of a checkout path, and whether this is the first command that uses it.

    Return None if other users may write to the folder, or if it is inside the checkout, which could then supply results
    itself.
    """
    top = Path(platformdirs.user_cache_dir("auditkit")) / "results"
    real = os.path.realpath(checkout)
    folder = top / _digest(real)[:16]
    try:
        is_new = not folder.is_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return None, True
    is_own = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if os.path.realpath(top).startswith(os.path.join(real, "")) or not is_own:
        return None, True
    return ResultCache(folder, version, fresh), is_new


class SessionCache:
    """The cached results for the jobs of one request; new ones are written after it has ended."""

    def __init__(self, cache: ResultCache, setting: Setting, request: Request) -> None:
        self._cache = cache
        copy, original = setting.copied
        self._root, self._shown = (
            json.dumps(name or str(setting.checkout))[1:-1].encode() for name in (copy, original)
        )
        self._top = Path(copy or setting.checkout)
        self._files = _files_digest(self._top)
        self._new: dict[str, Entry] = {}
        named = ("modules", "blocks", "checkout", "import_roots", "auto_device", "rungs", "recorded")
        self._of_all = [
            cache.version, _code_digest(), setting.interpreter, _packages(setting.interpreter), self._files,
            worker_environment(), _machine(), *(dict(request)[name] for name in named),
        ]  # fmt: skip

    def recall(self, job: Job) -> Entry | None:
        """Return the messages of a job from an earlier command over the same bytes; None for a damaged entry, too."""
        with contextlib.suppress(OSError, msgspec.DecodeError):
            if self._cache.fresh:
                return None
            path = self._cache.folder / self._name(job)
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                digest, _, data = file.read(_LARGEST_ENTRY_BYTES).partition(b"\n")
            if digest == _digest(data).encode("ascii"):
                return msgspec.json.decode(data.replace(_ROOT, self._shown), type=Entry)
        return None

    def keep(self, job: Job, entry: Entry) -> None:
        """Remember the messages of a job, for `close`."""
        self._new[self._name(job)] = entry

    def close(self) -> None:
        """Write the new results, unless the files of the checkout changed meanwhile."""
        if not self._new or _files_digest(self._top) != self._files:
            return
        _delete_oldest(self._cache.folder.parent)
        for name, entry in self._new.items():
            data = msgspec.json.encode(entry).replace(self._shown, _ROOT)
            if len(data) < _LARGEST_ENTRY_BYTES:
                with contextlib.suppress(AuditkitError):  # A full disk costs only the cache.
                    write_below(self._cache.folder, name, _digest(data).encode("ascii") + b"\n" + data)

    def _name(self, job: Job) -> str:
        """Return the digest of all that a result depends on, with the same checkout path in every copy."""
        asked: dict[str, Any] = {key: value for key, value in job.items() if key not in _NOT_PART}
        if "path" in job:  # and the module that probes share
            shared = str(assets.bundled_dir("probes") / "forms.py")
            asked["probe"] = [job["id"], *map(_content, (job["path"], shared))]
        text = json.dumps([self._of_all, asked], sort_keys=True, default=vars).encode("utf-8")
        return _digest(text.replace(self._root, _ROOT))


def _files_digest(top: Path) -> str:
    """Return a digest of every file below `top` except hidden folders and virtual environments, which copies lack."""
    return _digest(
        [[name, _content(entry.path)] for entry, name in walk(top) if not entry.is_dir(follow_symlinks=False)]
    )


@functools.cache
def _code_digest() -> str:
    return _digest([[str(path), _content(str(path))] for path in sorted(ENTRY.parent.rglob("*.py"))])


@functools.cache
def _packages(interpreter: str) -> str:
    """Return a digest of an interpreter's packages, from its folders, without starting it.

    It covers the interpreter's version and that of each distribution, and the files of editable installs. A folder of
    distributions that a .pth file names is read as such: the bytes of a torch in it would take 5 s.
    """
    real = os.path.realpath(interpreter)
    prefixes = dict.fromkeys(os.path.dirname(os.path.dirname(each)) for each in (os.path.abspath(interpreter), real))
    told: list[Any] = [real, *map(_stamp, (real, *(os.path.join(prefix, "pyvenv.cfg") for prefix in prefixes)))]
    folders = [folder for prefix in prefixes for folder in sorted(Path(prefix).glob("lib*/python3*/*-packages"))]
    for folder in folders:  # it grows
        for path in sorted(folder.iterdir()):
            told.append([path.name, _stamp(os.path.join(path, "RECORD") if path.suffix == ".dist-info" else str(path))])
            if path.suffix == ".pth" or path.name.startswith("__editable__"):
                named = re.findall(r"(?m)^(/.+?)\s*$|['\"](/[^'\"\n]+)['\"]", path.read_text("utf-8", "replace"))
                linked = [Path(each) for pair in named for each in pair if os.path.isdir(each)]
                holds = {each: any(each.glob("*.dist-info")) for each in linked}
                folders += [each for each in linked if holds[each] and each not in folders]
                told += [_files_digest(each) for each in linked if not holds[each]]
    return _digest(told)


@functools.cache
def _machine() -> list[str]:
    """Return the processor and graphics cards with their driver, from the kernel's files."""
    nvidia = Path("/proc/driver/nvidia")
    told = ""
    for file in (Path("/proc/cpuinfo"), nvidia / "version", *sorted(nvidia.glob("gpus/*/information"))):
        with contextlib.suppress(OSError):
            told += file.read_text(encoding="utf-8", errors="replace")
    return sorted(set(re.findall(r"(?m)^(?:model name|flags|CPU part|Features|NVRM|Model).*:.*$", told)))


def _stamp(path: str) -> list[int]:
    """Return file attributes that change with its content."""
    try:
        found = os.lstat(path)
    except OSError:
        return []
    return [found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _content(path: str) -> Any:
    """Return the digest of a file's bytes, a link's target, or the stamp of anything else."""
    stamp = _stamp(path)
    if stamp and stat.S_ISLNK(stamp[0]):
        return os.readlink(path)
    is_read = stamp and stat.S_ISREG(stamp[0]) and stamp[2] <= _LARGEST_FILE_BYTES
    return _content_at(path, *stamp) if is_read else stamp


@functools.lru_cache(maxsize=20_000)
def _content_at(path: str, *_: int) -> str:
    try:
        return _digest(Path(path).read_bytes())
    except OSError as error:
        return f"unreadable: {error.errno}"


def _digest(value: Any) -> str:
    """Return the digest of bytes, or of a value as JSON."""
    return hashlib.sha256(value if isinstance(value, bytes) else json.dumps(value).encode("utf-8")).hexdigest()


def _delete_oldest(top: Path) -> None:
    """Remove the oldest entries if all together are too large."""
    held_bytes = 0
    with contextlib.suppress(OSError):  # Another auditkit may rename or remove its temporary files.
        for path in sorted(top.glob("*/*"), key=os.path.getmtime, reverse=True):
            held_bytes += path.stat().st_size
            if held_bytes > _MOST_BYTES:
                path.unlink()
