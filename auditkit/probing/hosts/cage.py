"""The cage around every process that runs a checkout's code or somebody's probe: what it may see, and by which engine.

bubblewrap where it works, else Landlock, else none, as `engine_of` found by trying. This file decides and prepares;
`worker/process/cage.py` is the part that the caged process runs itself. See docs/design/cage.md.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.enums import CageChoice
from auditkit.probing.checkouts import scratch
from auditkit.probing.worker.process import cage as inside

ENTRY = Path(__file__).parents[1] / "worker" / "entry.py"
ENGINES = ("bubblewrap", "landlock")
FORCED = "AUDITKIT_CAGE_ENGINE"
"""An environment variable that names the one engine to try, or `none`."""

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store", "/etc/ld.so.cache",
           "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
           "/etc/hosts", "/etc/os-release", "/etc/alternatives", "/sys/devices/system")  # fmt: skip
# It hides nothing: gloo fails where it may not read of network cards what is there, and runs where nothing is.
_OF_LANDLOCK = ("/proc", "/sys/class/net", "/sys/devices/virtual/net", "/sys/bus/pci/devices",
                *map(str, Path("/sys/devices").glob("pci*")))  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_GPU_FILES = ("/sys/bus/pci", "/sys/devices", "/sys/module", "/sys/class/drm", "/run/opengl-driver")
_MOST_OPEN_FILES, _MOST_PROCESSES = 4096, 1024
_LARGEST_SCRATCH_BYTES = 2 << 30
_STARTS_WITHIN_S = 10.0


class CageError(Exception):
    """A cage that could not be built, or that a process could not enter: nothing was run."""


@dataclass(frozen=True)
class Engine:
    """What holds a process: its name and version; `lacks` is what it does not hold, or why there is none."""

    name: str = ""
    version: str = ""
    lacks: tuple[str, ...] = ()

    def describe(self) -> str:
        """Such as `bubblewrap 0.8.0`; `none` without one."""
        return f"{self.name} {self.version}" if self.name else "none"


@dataclass(frozen=True)
class Cage:
    """What a process may see: `read` and below, `write` and below, the graphics cards; and the engine that holds it."""

    engine: Engine
    read: tuple[str, ...]
    write: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    gpu: bool = False

    def open(self, environment: Mapping[str, str]) -> OpenCage:
        """Built, for one process and what it starts. Raises CageError where that fails: then nothing may be run."""
        return OpenCage(self, environment)


class OpenCage:
    """A cage that stands until it is ended, and everything in it then ends, too.

    `holder` is a descriptor of bubblewrap's process, -1 with Landlock; `group` one of a control group's processes, -1
    where that is not needed or cannot be made.
    """

    def __init__(self, cage: Cage, environment: Mapping[str, str]) -> None:
        self._cage = cage
        self._began_s = time.time()
        self._process: subprocess.Popen[bytes] | None = None
        self.holder = self.group = -1
        self._group_folder = ""
        is_landlock = cage.engine.name == "landlock"
        self._folder, self._lock = scratch.make_scratch() if is_landlock else (Path("/tmp"), -1)
        on_disk = (*cage.write, str(self._folder)) if is_landlock else cage.write
        self._free_bytes = {folder: _free_bytes(folder) for folder in on_disk}
        if not is_landlock:
            self._build(environment)
        self._join_group()
        self.spec: dict[str, Any] = {
            "engine": cage.engine.name,
            "environment": dict(environment),
            "scratch": str(self._folder),
            "limits": _limits(cage.gpu),
            "read": [*_SYSTEM, *_OF_LANDLOCK, *(_GPU_FILES if cage.gpu else ()), *cage.read],
            "listed": [*cage.listed],
            "write": [*cage.write, str(self._folder), "/dev/shm"],
            "devices": [*_DEVICES, *(gpu_devices() if cage.gpu else ())],
            "passed": [],
        }

    def is_overfull(self) -> bool:
        """Whether more was written to a disk than may be; bubblewrap's scratch folder is memory of a fixed size."""
        return any(
            free - _free_bytes(folder) > _scratch_bytes() and _written_bytes(folder, self._began_s) > _scratch_bytes()
            for folder, free in self._free_bytes.items()
        )

    def end(self) -> None:
        """End what is in it, and take its scratch folder away."""
        if self._process is None:
            scratch.remove_scratch(self._folder, self._lock)
        else:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.kill()  # with it its whole process space
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            os.close(self.holder)
        self._leave_group()

    def _join_group(self) -> None:
        """Root has no limit of processes but that of a control group; those that killed processes left are removed."""
        top = _processes_group()
        if not top:
            return
        for path in Path(top).glob("auditkit-*-*"):
            with contextlib.suppress(OSError, ValueError):
                if not os.path.exists(f"/proc/{int(path.name.split('-')[1])}"):
                    path.rmdir()
        with contextlib.suppress(OSError):
            self._group_folder = tempfile.mkdtemp(prefix=f"auditkit-{os.getpid()}-", dir=top)
            Path(self._group_folder, "pids.max").write_text(str(_MOST_PROCESSES))
            self.group = os.open(os.path.join(self._group_folder, "cgroup.procs"), os.O_WRONLY)

    def _leave_group(self) -> None:
        """End whoever is left in it, such as a daemon that Landlock cannot hold; then remove it."""
        if self.group >= 0:
            os.close(self.group)
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while self._group_folder and time.monotonic() < deadline:
            with contextlib.suppress(OSError, ProcessLookupError):
                for pid in Path(self._group_folder, "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.rmdir(self._group_folder)
                return
            time.sleep(0.002)

    def _build(self, environment: Mapping[str, str]) -> None:
        told_read, told_write = os.pipe()
        words = os.memfd_create("cage")  # not on the command line, which everybody in the cage can read
        os.write(words, os.fsencode("\0".join(_bubblewrap(self._cage, environment))))
        os.lseek(words, 0, os.SEEK_SET)
        try:
            self._process = process = _popen(
                [str(_bubblewrap_file()), "--args", str(words), "--info-fd", str(told_write), "--", "cat"],
                {"PATH": "/usr/local/bin:/usr/bin:/bin"},
                (words, told_write),
                *(subprocess.PIPE,) * 3,
                bufsize=0,
            )
        finally:
            os.close(told_write)
            os.close(words)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with os.fdopen(told_read) as told:
            try:
                process.stdin.write(b"x")  # what comes back has been through the finished cage
                if process.stdout.read(1) != b"x":
                    raise OSError(process.stderr.read().decode("utf-8", "replace").strip() or "bubblewrap ended")
                self.holder = os.pidfd_open(json.load(told)["child-pid"])
            except (OSError, ValueError) as error:
                process.kill()
                process.wait()
                raise CageError(f"the cage cannot be built: {error}") from None
            finally:
                process.stderr.close()


# By process: the thread that starts what ends with its parent. For the kernel that is a thread, and ours come and go.
_STARTERS: dict[int, ThreadPoolExecutor] = {}


def _popen(
    command: Sequence[str],
    environment: Mapping[str, str],
    pass_fds: Sequence[int],
    stdin: int,
    stdout: int,
    stderr: int,
    bufsize: int = -1,
) -> subprocess.Popen[bytes]:
    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            bufsize,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd="/",
            env=environment,
            start_new_session=True,
            pass_fds=pass_fds,
        )

    return _STARTERS.setdefault(os.getpid(), ThreadPoolExecutor(1, "cages")).submit(started).result()


def _bubblewrap(cage: Cage, environment: Mapping[str, str]) -> list[str]:
    """The options that build the cage: what is deeper is mounted later; nothing else of the disk is there."""
    size = _scratch_bytes()
    mounts: dict[str, list[str]] = {"/proc": ["--proc", "/proc"], "/dev": ["--perms", "0755", "--tmpfs", "/dev"]}
    home = os.path.abspath(environment.get("HOME", "/"))
    is_hidden = home != "/" and not is_below(home, ("/usr", *cage.read))
    for folder, size_bytes in (("/tmp", size), ("/dev/shm", size), *([(home, size // 8)] if is_hidden else [])):
        mounts[folder] = ["--size", str(size_bytes), "--tmpfs", folder]
    for device in (*_DEVICES, *(gpu_devices() if cage.gpu else ())):
        mounts[device] = ["--dev-bind-try", device, device]
    for path in (*_SYSTEM, *(_GPU_FILES if cage.gpu else ()), *cage.read):
        is_link = path in _SYSTEM and os.path.islink(path) and not path.startswith("/etc/")
        mounts[path] = ["--symlink", os.readlink(path), path] if is_link else ["--ro-bind-try", path, path]
    for path in cage.write:
        mounts[path] = ["--bind", path, path]
    ordered = sorted(mounts.items(), key=lambda each: each[0].count("/") if each[0] != "/" else 0)
    spaces = ("user", "pid", "net", "ipc", "uts")
    return [
        *(f"--unshare-{space}" for space in spaces), "--unshare-cgroup-try",
        "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "cage",
        *(word for _, words in ordered for word in words), "--remount-ro", "/", "--chdir", "/",
    ]  # fmt: skip


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or lies in one."""
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)


@functools.cache
def _bubblewrap_file() -> str | None:
    return shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin")


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    caged: OpenCage | None,
    pass_fds: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a command that runs code of others, in a cage where one is given. Raises OSError where it cannot be run."""
    if not os.access(command[0], os.X_OK):
        os.stat(command[0])
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), command[0])
    if caged is not None:
        spec = json.dumps({**caged.spec, "environment": dict(environment), "passed": list(pass_fds)})
        held_by = (caged.holder, caged.group)
        entry = [sys.executable, "-I", "-S", "-B", str(ENTRY), "--caged", spec, *map(str, held_by)]
        command, environment = [*entry, *command], {}
        pass_fds = [*pass_fds, *(fd for fd in held_by if fd >= 0)]
    return _popen(command, environment, pass_fds, stdin, stdout, stderr)


def run_in_cage(
    cage: Cage | None, command: Sequence[str], data: bytes, variables: Iterable[str], limit_s: float
) -> subprocess.CompletedProcess[bytes]:
    """What a command answers to `data`, and the end of all that it started; `variables` are its whole environment.

    Without a cage it runs as it is. Raises CageError, OSError, or subprocess.TimeoutExpired after `limit_s` seconds.
    """
    environment = {name: os.environ[name] for name in variables if name in os.environ}
    caged = cage.open(environment) if cage is not None else None
    try:
        with start(command, environment, caged, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                told, _ = process.communicate(data, limit_s)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(command, process.returncode, told)
    finally:
        if caged is not None:
            caged.end()


def library_folders() -> tuple[str, ...]:
    """What this user's environment names as folders of libraries."""
    named = (os.environ.get("CUDA_HOME", ""), *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    return tuple(each for each in named if os.path.isabs(each) and not is_below(os.path.expanduser("~"), [each]))


def gpu_devices() -> list[str]:
    """The devices of graphics cards that this machine has."""
    nvidia = [str(path) for path in sorted(Path("/dev").glob("nvidia*"))]
    return [*nvidia, *(path for path in ("/dev/dri", "/dev/kfd", "/dev/dxg") if os.path.exists(path))]


@functools.cache
def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _scratch_bytes() -> int:
    """Of a folder that may be written; bubblewrap's lie in memory."""
    return min(_LARGEST_SCRATCH_BYTES, _memory_bytes() // 8)


def _free_bytes(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _written_bytes(folder: str, since_s: float) -> int:
    """On the disk, of the files that were changed since then."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(path, name))
                total += found.st_blocks * 512 if found.st_ctime >= since_s else 0
    return total


def _limits(gpu: bool) -> dict[str, int]:
    """Of one process. CUDA reserves address space for all that the machine has: with it memory is not limited."""
    return {
        "memory_bytes": 1 << 62 if gpu else _memory_bytes() * 3 // 4,
        "file_bytes": _scratch_bytes(),
        "open_files": _MOST_OPEN_FILES,
        "processes": _MOST_PROCESSES,
    }


@functools.cache
def _processes_group() -> str:
    """The folder of this process's control group where that can limit processes; only root has no other limit."""
    if os.getuid() != 0:
        return ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            top = (
                "/sys/fs/cgroup/pids" if "pids" in controllers.split(",") else "/sys/fs/cgroup" if number == "0" else ""
            )
            folder = os.path.join(top, path.lstrip("/"))
            if top and os.access(os.path.join(folder, "cgroup.procs"), os.W_OK):
                made = tempfile.mkdtemp(prefix=f"auditkit-{os.getpid()}-", dir=folder)
                limits = os.path.exists(os.path.join(made, "pids.max"))
                os.rmdir(made)
                if limits:
                    return folder
    return ""


# Which engine.


def engine_of(choice: CageChoice) -> Engine:
    """The engine for a choice; one without a name for `off`, and where none works.

    Raises BadInputError for `require` where none does.
    """
    if choice is CageChoice.OFF:
        return Engine(lacks=("it was asked for: --cage off",))
    engine = _working(os.environ.get(FORCED, ""))
    if choice is CageChoice.REQUIRE and not engine.name:
        why = "; ".join(engine.lacks)
        raise BadInputError(f"no cage works here: {why}", "install bubblewrap, or run without one: --cage off")
    return engine


@functools.cache
def _working(forced: str) -> Engine:
    """The first engine that really runs a process, remembered: both are tried in some 30 ms."""
    reasons = []
    for name in (forced,) if forced else ENGINES:
        try:
            return _tried(name)
        except (OSError, CageError) as error:
            reasons.append(f"{name}: {error}")
    return Engine(lacks=tuple(reasons))


def _tried(name: str) -> Engine:
    """Raises OSError where it does not work."""
    if name not in ENGINES or not sys.platform.startswith("linux"):
        raise OSError("not known" if name not in ENGINES else "only on Linux")
    if not inside.can_filter():
        raise OSError("the system calls of this machine are not known")
    if name == "bubblewrap":
        if _bubblewrap_file() is None:
            raise OSError("not installed")
        said = subprocess.run([str(_bubblewrap_file()), "--version"], capture_output=True, text=True, check=False)
        engine = Engine(name, said.stdout.strip().rpartition(" ")[2], _not_held_by_bubblewrap())
    else:
        version = inside.landlock_version()
        if not version:
            raise OSError("the kernel has none")
        engine = Engine(name, f"ABI {version}", _not_held_by_landlock(version))
    opened = Cage(engine, (*interpreter_files(sys.executable), str(ENTRY.parent))).open({})
    try:
        command = [sys.executable, "-I", "-S", "-c", "print('caged')"]
        process = start(command, {}, opened, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said_out, said_wrong = process.communicate(timeout=_STARTS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise OSError("it does not start") from None
    finally:
        opened.end()
    if said_out != b"caged\n":
        raise OSError((said_wrong.decode("utf-8", "replace").strip().splitlines() or ["it does not start"])[-1])
    return engine


def _not_held_by_bubblewrap() -> tuple[str, ...]:
    processes = ("the number of processes (root has no such limit)",) if _is_unlimited() else ()
    return ("the memory of all processes together, but for each one's", *processes)


def _is_unlimited() -> bool:
    return os.getuid() == 0 and not _processes_group()


def _not_held_by_landlock(version: int) -> tuple[str, ...]:
    return (
        "the names and command lines of this user's processes, in /proc",
        "/dev/shm, which is shared with the machine",
        "modes and times of this user's files, and whether they exist",
        *_not_held_by_bubblewrap(),
        *(("abstract sockets and signals to processes of this user",) if version < 6 else ()),
    )


_DENIED_PATH = re.compile(r"\[Errno (1|2|13|30)\] [^:\]]+: '(/[^']+)'")
_DENIED_NETWORK = re.compile(r"Network is unreachable|[Nn]ame resolution|Name or service not known")


def why_denied(message: str, cage: Cage) -> str:
    """A hint where an error's message shows that the cage is what stopped a target; "" where that cannot be known."""
    if _DENIED_NETWORK.search(message):
        return "the cage has no network; --cage off is without one"
    for number, path in _DENIED_PATH.findall(message):
        if is_below(path, cage.write):
            continue
        if not is_below(path, (*_SYSTEM, *cage.read)) and (number != "2" or os.path.lexists(path)):
            return f"the cage does not show {path}; --cage-read PATH shows more, --cage off is without one"
        if number != "2" and os.access(path if os.path.exists(path) else os.path.dirname(path), os.W_OK):
            return f"the cage lets nothing be written to {path}; --cage off is without one"
    return ""


# What is needed.


@functools.cache
def interpreter_files(interpreter: str, within: str = "") -> tuple[str, ...]:
    """The folders that an interpreter needs: its installation, its environment, and what that has installed by path.

    Of one that comes with the checkout `within` nothing outside counts but a real installation of Python: its files
    could name any folder.
    """
    folders = [os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))]
    path = interpreter
    for _ in range(8):
        if not os.path.islink(path):
            break
        path = os.path.abspath(os.path.join(os.path.dirname(path), os.readlink(path)))
        folders.append(os.path.dirname(os.path.dirname(path)))
    folders.append(os.path.dirname(os.path.dirname(os.path.realpath(interpreter))))
    settings = Path(folders[0], "pyvenv.cfg")
    with contextlib.suppress(OSError):
        home = re.search(r"(?m)^home\s*=\s*(.+?)\s*$", settings.read_text("utf-8", "replace"))
        folders += [os.path.dirname(os.path.realpath(home[1]))] if home is not None else []
    found = [folder for folder in dict.fromkeys(folders) if is_below(folder, [within] if within else ())
             or _is_installation(folder)]  # fmt: skip
    linked = (path for each in found for path in _linked(each))
    linked = (path for path in linked if not within or is_below(os.path.realpath(path), [within]))
    return tuple(dict.fromkeys([*found, *linked]))


@functools.cache
def behind_script(interpreter: str) -> str:
    """The Python that a script runs, asked of it outside of the cage; any other interpreter as it is."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        with open(interpreter, "rb") as file:
            if file.read(2) != b"#!":
                return interpreter
        asked = [interpreter, "-I", "-S", "-c", "import sys; print(sys.executable)"]
        said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_STARTS_WITHIN_S)
        return said.stdout.strip() if os.access(said.stdout.strip(), os.X_OK) else interpreter
    return interpreter


def _is_installation(folder: str) -> bool:
    if folder in ("/", os.path.expanduser("~")):
        return False
    is_environment = os.path.isfile(os.path.join(folder, "pyvenv.cfg"))
    return is_environment or any(Path(folder).glob("lib*/python3*/os.py"))


def _linked(folder: str) -> Iterator[str]:
    """What is installed in an environment by its path: editable installations, by the lines and finders that say so."""
    places = [*Path(folder).glob("lib*/python3*/*-packages")]
    for file in (file for place in places for pattern in ("*.pth", "__editable__*.py") for file in place.glob(pattern)):
        with contextlib.suppress(OSError):
            text = file.read_text("utf-8", "replace")
            named = re.findall(r"""['"](/[^'"\n]+)['"]""", text) if file.suffix == ".py" else text.splitlines()
            for path in named:
                if os.path.isabs(path) and os.path.exists(path) and not is_below(os.path.expanduser("~"), [path]):
                    yield path


def checkout_files(checkout: Path, import_roots: Iterable[Path]) -> tuple[list[str], list[str], list[str]]:
    """What may be read of a checkout, what may be written, and folders whose names may be listed.

    A copy that this process made may be written to; a checkout where it lies may not. With a package come the
    packages around it, but not the folder that they lie in.
    """
    own = scratch.own_scratch_of(checkout)
    if own is not None:
        alternates = own / "repository.git" / "objects" / "info" / "alternates"
        with contextlib.suppress(OSError):
            return [str(own / "repository.git"), *alternates.read_text("utf-8").splitlines()], [str(own / "tree")], []
        return [], [str(own / "tree")], []
    top = Path(os.path.abspath(checkout))
    while (top / "__init__.py").is_file() and (top.parent / "__init__.py").is_file() and top.parent != top:
        top = top.parent
    read = [str(top), os.path.realpath(top)]
    return read, [], [str(root) for root in import_roots if not is_below(str(root), read)]
