"""What this process reads of the disk, and what it does that no list of files can tell: seen by an audit hook.

A host that finds the same bytes in all of it may use an answer again. What native code opens by itself is not seen,
so that native code nobody knows makes the answer one that cannot be used again.
"""

import os
import sys
import sysconfig
import tempfile
from types import ModuleType
from typing import Any, Callable, ClassVar, Dict, Optional, Set, Tuple

_WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# What the host asks the interpreter itself about, and what the machine is.
_INSTALLED = tuple(
    os.path.join(path, "")
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages", "lib-dynload")),
    }
)
_OF_MACHINE = ("/proc/", "/sys/", "/dev/")
# Extension modules that open no file by a name of their own.
_HARMLESS = frozenset(
    (
        "torch", "torchvision", "functorch", "triton", "cuda", "nvidia", "numpy", "scipy", "pandas", "sklearn", "yaml",
        "_yaml", "markupsafe", "regex", "msgspec", "orjson", "pydantic_core", "rpds", "psutil", "charset_normalizer",
        "PIL", "google", "mpmath", "gmpy2", "matplotlib", "kiwisolver", "contourpy", "cffi", "_cffi_backend", "xxhash",
        "frozenlist", "multidict", "yarl", "propcache", "aiohttp", "zstandard", "lxml", "numba", "llvmlite",
    )
)  # fmt: skip
_STARTS = "it starts processes"
_NETWORK = "it uses the network"
_UNSEEN = {
    "subprocess.Popen": _STARTS,
    "os.system": _STARTS,
    "os.posix_spawn": _STARTS,
    "os.exec": _STARTS,
    "os.fork": _STARTS,
    "os.forkpty": _STARTS,
    "pty.spawn": _STARTS,
    "socket.connect": _NETWORK,
    "socket.bind": _NETWORK,
    "socket.sendto": _NETWORK,
    "socket.getaddrinfo": _NETWORK,
    "socket.gethostbyname": _NETWORK,
    "urllib.Request": _NETWORK,
    "sqlite3.connect": "it opens a database",
}
_STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
# Forks of ours whose reads come back to this process, or to the host.
_OWN_FORKS = tuple(
    os.path.join(_WORKER, *path)
    for path in (("process", "children.py"), ("process", "ladder.py"), ("instruments", "ranks.py"))
)
_MOST_FILES = 4000


class _Seen:
    """Of this process and those that it was forked from; `unknown` is why that is not all, "" where it is."""

    is_on = False
    checkout = temporary = ""
    files: ClassVar[Set[str]] = set()
    searched: ClassVar[Set[str]] = set()
    listed: ClassVar[Set[str]] = set()
    written: ClassVar[Set[str]] = set()
    modules: ClassVar[Set[str]] = set()
    unknown = ""


def watch(checkout: str) -> None:
    """See what is read from now on, once for this process."""
    if _Seen.is_on:
        return
    _Seen.is_on, _Seen.checkout = True, os.path.join(checkout, "")
    # Not in the hook: finding it opens a file, under a lock.
    _Seen.temporary = os.path.join(tempfile.gettempdir(), "")
    _leave_to_python(_hook)
    sys.addaudithook(_hook)


def seen() -> Dict[str, Any]:
    """Files by their absolute paths, folders that an import `searched` and that were `listed`; `unknown` as above."""
    if not _Seen.is_on:  # to look through all modules took a third of the processor time of a trial
        return {"files": [], "searched": [], "listed": [], "unknown": "nobody asked what it reads"}
    _look_at_modules()
    if len(_Seen.files) > _MOST_FILES:
        _doubt("it reads more than {} files".format(_MOST_FILES))
    files = {path for path in _Seen.files if "__pycache__" not in path and path not in _Seen.written}
    return {
        "files": sorted(files)[:_MOST_FILES],
        "searched": sorted(_Seen.searched - _Seen.listed),
        "listed": sorted(_Seen.listed),
        "unknown": _Seen.unknown,
    }


def _look_at_modules() -> None:
    """Each module once, in this process or one that it was forked from."""
    for name, module in list(sys.modules.items()):
        if name in _Seen.modules:
            continue
        _Seen.modules.add(name)
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(file, str) and not _is_known(file):
            _Seen.files.add(os.path.abspath(file))
        if isinstance(file, str) and file.endswith((".so", ".pyd")) and not _is_harmless(name, file):
            _doubt("{} is native code, which may read what nobody sees".format(name.split(".")[0]))
        if name in _STARTERS:
            _doubt(_STARTS)


def add(others: Optional[Dict[str, Any]]) -> None:
    """What another process saw on the way to this one; without a word of it nobody knows."""
    if others is None:
        _doubt("a way to load it ended without a word")
        return
    _Seen.files.update(others["files"])
    _Seen.searched.update(others["searched"])
    _Seen.listed.update(others["listed"])
    _doubt(others["unknown"])


def _doubt(why: str) -> None:
    _Seen.unknown = _Seen.unknown or why


def _hook(event: str, args: Tuple[Any, ...]) -> None:
    handler = _HANDLERS.get(event)
    if handler is not None:
        handler(args)
    elif event in _UNSEEN and not (event == "os.fork" and _caller(2) in _OWN_FORKS):
        _doubt(_UNSEEN[event])


def _opened(args: Tuple[Any, ...]) -> None:
    path = _path(args[0])
    if not path or _is_known(path):
        return
    if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        _change(path)
    else:
        _Seen.files.add(path)


def _listed(args: Tuple[Any, ...]) -> None:
    path = _path(args[0] if args[0] is not None else ".")
    if path and not _is_known(path + os.sep):
        is_search = _caller(3) == "<frozen importlib._bootstrap_external>"
        (_Seen.searched if is_search else _Seen.listed).add(path)


def _changed(args: Tuple[Any, ...]) -> None:
    for path in filter(None, map(_path, args[:2])):
        _change(path)


def _change(path: str) -> None:
    """A file of its own among the temporary ones is nobody's business."""
    _Seen.written.add(path)
    if path.startswith(_Seen.checkout):
        _doubt("it writes {} of the checkout".format(path[len(_Seen.checkout) :]))
    elif not path.startswith((_Seen.temporary, *_OF_MACHINE)):
        _doubt("it writes {}".format(path))


def _loaded_library(args: Tuple[Any, ...]) -> None:
    path = _path(args[0]) if isinstance(args[0], (str, bytes)) else ""
    if os.sep in str(args[0]) and not _is_known(path):
        _doubt("it loads {}, which may read what nobody sees".format(path))


_HANDLERS: Dict[str, Callable[[Tuple[Any, ...]], None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "os.mkdir": _changed,
    "os.rename": _changed,
    "os.link": _changed,
    "os.symlink": _changed,
    "os.truncate": _changed,
    "ctypes.dlopen": _loaded_library,
}


def _path(name: Any) -> str:
    """An absolute path; "" for a descriptor."""
    if not isinstance(name, (str, bytes, os.PathLike)):
        return ""
    return os.path.abspath(os.fsdecode(name))


def _is_known(path: str) -> bool:
    if path.startswith(_Seen.checkout):
        return False
    return path.startswith((_WORKER, *_OF_MACHINE, *_INSTALLED, _compiled()))


def _compiled() -> str:
    """The folder that torch's compiler was given for this process alone."""
    return os.path.join(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or os.devnull, "")


def _is_harmless(name: str, file: str) -> bool:
    is_installed = file.startswith(_INSTALLED) and not file.startswith(_Seen.checkout)
    of_python = is_installed and "site-packages" not in file and "dist-packages" not in file
    return of_python or (is_installed and name.split(".")[0] in _HARMLESS)


def _caller(depth: int) -> str:
    return sys._getframe(depth).f_code.co_filename


def _leave_to_python(function: Callable[..., Any]) -> None:
    """What runs in the middle of a compiled function is no part of it: torch's compiler leaves its frames alone."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:  # an older torch, or none
        return
    skip = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    set_code_exec_strategy(function.__code__, skip)
