"""The code under audit: a directory, or one revision of it, with its Python interpreter."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from auditkit.errors import BadInputError, nearest_names
from auditkit.probing.checkout import git
from auditkit.probing.checkout.reading import read_file

_SOURCE_FOLDERS = ("src", "lib", "python")
_ENVIRONMENTS = (".venv", "venv")


@dataclass(frozen=True)
class CheckoutSpec:
    """`DIR` or `DIR@REV` as the user wrote it (`text`), split; `revision` is "" without one."""

    text: str
    directory: Path
    revision: str

    @property
    def folder(self) -> str:
        """The directory as the user wrote it."""
        return self.text.removesuffix(f"@{self.revision}") if self.revision else self.text

    def at(self, revision: str) -> CheckoutSpec:
        """Return the same directory at another revision; unchanged for ""."""
        return CheckoutSpec(f"{self.folder}@{revision}", self.directory, revision) if revision else self


@dataclass(frozen=True)
class OpenCheckout:
    """A checkout that can be read and imported from inside its `open_checkout` block.

    `path` is the folder of the files, `source` the directory that the user named (the same one unless `at_revision`),
    `label` its text, `revision` the full commit or "" outside git, `dirty` whether the files differ from that commit,
    `interpreter` the Python that runs them, and `notes` explain these choices. `copied` names the folder of a copy and
    its original; both are "" without a copy.
    """

    path: Path
    source: Path
    label: str
    revision: str
    dirty: bool
    at_revision: bool
    interpreter: Path
    notes: tuple[str, ...] = ()
    copied: tuple[str, str] = ("", "")


def parse_checkout(text: str | Path) -> CheckoutSpec:
    """Split `DIR` or `DIR@REV`; an existing directory with the whole text wins.

    Of several possible splits the one with the longest existing directory is used, so that `@` may occur in the
    directory's name and in the revision (`repo@HEAD@{1}`). Raises BadInputError if there is no such directory or the
    revision is empty.
    """
    text = str(text)
    whole = Path(text).expanduser()
    if text and whole.is_dir():
        return CheckoutSpec(text, _absolute(whole), "")
    for at in reversed([index for index, character in enumerate(text) if character == "@" and index > 0]):
        directory, revision = Path(text[:at]).expanduser(), text[at + 1 :]
        if not directory.is_dir():
            continue
        if not revision:
            raise BadInputError(f"no revision after the @ of {text!r}", f"name one: {text}HEAD")
        return CheckoutSpec(text, _absolute(directory), revision)
    raise BadInputError(*_no_directory(text))


def cited_file(checkout: Path, written: str) -> Path | None:
    """Return the checkout's file that a ticket's path means, without leading folders of another machine."""
    parts = [part for part in written.strip("`* ").split("/") if part not in ("", ".", "..")]
    tails = (checkout.joinpath(*parts[start:]) for start in range(len(parts)))
    return next((path for path in tails if path.is_file()), None)


def _no_directory(text: str) -> tuple[str, str]:
    path = Path(text).expanduser()
    if path.is_file():
        return f"{text} is a file, not a directory", f"name the folder that holds it: {path.parent}"
    if text.startswith("@"):
        return f"no directory before the @ of {text!r}", f"name it: .{text}"
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    nearest = nearest_names(path.name.partition("@")[0], siblings)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "name a directory, or DIR@REVISION of a repository"
    return f"no such directory: {text}", hint


@contextlib.contextmanager
def open_checkout(checkout: str | Path | CheckoutSpec, python: str | Path | None = None) -> Iterator[OpenCheckout]:
    """Open the files of a checkout for reading and importing, with the interpreter to use.

    A revision is a git worktree in a temporary directory, removed at the end of the block. The audited repository is
    only read; see docs/design/checkouts.md. Raises BadInputError for a missing directory, revision or interpreter.
    """
    spec = checkout if isinstance(checkout, CheckoutSpec) else parse_checkout(checkout)
    interpreter, notes = choose_interpreter(spec.directory, python)
    if spec.revision:
        with _at_revision(spec, interpreter) as opened:
            yield replace(opened, notes=opened.notes + notes)
    else:
        yield replace(_as_it_lies(spec, interpreter), notes=notes)


def apart_from(opened: OpenCheckout, tickets: Path | None) -> OpenCheckout:
    """Return the checkout, not dirty if only the folder of tickets changed."""
    repository = git.find_repository(opened.source) if opened.dirty and tickets is not None else None
    return replace(opened, dirty=git.is_dirty(repository, tickets)) if repository is not None else opened


def _as_it_lies(spec: CheckoutSpec, interpreter: Path) -> OpenCheckout:
    repository = git.find_repository(spec.directory)
    if repository is not None and not repository.has_work_tree:
        raise BadInputError(
            f"{spec.text} is a git repository without files of its own",
            f"name a revision to check out: {spec.text}@HEAD",
        )
    revision = git.current_revision(repository) if repository else ""
    dirty = bool(repository and revision and git.is_dirty(repository))
    return OpenCheckout(spec.directory, spec.directory, spec.text, revision, dirty, False, interpreter)


@contextlib.contextmanager
def _at_revision(spec: CheckoutSpec, interpreter: Path) -> Iterator[OpenCheckout]:
    repository = _repository_of(spec)
    commit = git.resolve_revision(repository, spec.revision)
    with scratch_directory() as scratch:
        # The tree keeps the directory's own name, which tracebacks show.
        tree = scratch / "tree" / (spec.directory.name.removesuffix(".git") or "checkout")
        tree.parent.mkdir()
        git.check_out(repository, commit, scratch / "repository.git", tree)
        path = tree / repository.prefix
        if not path.is_dir():
            raise BadInputError(
                f"{spec.revision} has no directory {repository.prefix}",
                "it came later or had another name then: name the repository's top, or an earlier folder",
            )
        yield OpenCheckout(path, spec.directory, spec.text, commit, False, True, interpreter)


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Create a temporary directory and remove it afterwards, also on exceptions, Ctrl-C and SIGTERM."""
    with (
        _terminating_signals_raise(),
        tempfile.TemporaryDirectory(prefix="auditkit-", ignore_cleanup_errors=True) as name,
    ):
        yield Path(name).resolve()


@contextlib.contextmanager
def _terminating_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, instead of ending the process at once.

    Handlers of the host program stay; outside the main thread, Python allows no handlers.
    """
    restore: list[tuple[signal.Signals, Callable[[int, FrameType | None], object] | int | None]] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                restore.append((number, signal.signal(number, _raise_exit)))
    try:
        yield
    finally:
        for number, handler in restore:
            signal.signal(number, handler)


def _raise_exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _repository_of(spec: CheckoutSpec) -> git.Repository:
    if not git.git_is_installed():
        raise BadInputError(
            f"git is not installed, so {spec.text} cannot be checked out",
            "install git, or name a directory without @REVISION",
        )
    repository = git.find_repository(spec.directory)
    if repository is None:
        raise BadInputError(
            f"{spec.directory} is not in a git repository, so it has no revision {spec.revision!r}",
            f"name the directory alone: {spec.text[: -len(spec.revision) - 1]}",
        )
    return repository


def choose_interpreter(directory: Path, python: str | Path | None = None) -> tuple[Path, tuple[str, ...]]:
    """Return the interpreter for a checkout, and notes on the choice.

    It is `python` (a path, or a command found on PATH) if given; otherwise that of `.venv` or `venv` in `directory`;
    otherwise the running one. Raises BadInputError if `python` is missing or cannot be executed.
    """
    if python is not None:
        return _named_interpreter(str(python)), ()
    notes: list[str] = []
    for environment in _ENVIRONMENTS:
        candidate = directory / environment / "bin" / "python"
        if _is_executable(candidate):
            return candidate, tuple(notes)
        if os.path.lexists(candidate):
            notes.append(f"{candidate} cannot be executed, so it was passed over")
    return Path(sys.executable), tuple(notes)


def _named_interpreter(python: str) -> Path:
    is_command = os.sep not in python and not python.startswith("~")
    path = _absolute(Path((shutil.which(python) if is_command else None) or python).expanduser())
    if _is_executable(path):
        return path
    if path.is_file():
        raise BadInputError(f"{python} cannot be executed", f"chmod +x {path}, or name another interpreter")
    raise BadInputError(
        f"no such Python interpreter: {python}", "give the path of a python executable, such as .venv/bin/python"
    )


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _absolute(path: Path) -> Path:
    """Make a path absolute but keep symbolic links: a virtual environment's python must stay one."""
    return Path(os.path.abspath(path))


def import_roots(path: Path, configured: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the directories to import a checkout's modules from.

    `configured` ones (relative to `path`) are used as they are. By default: the checkout, and its `src`, `lib` and
    `python` if they contain Python code that is not imported as `src.module`. Inside a package (`path` has an
    `__init__.py`), the directory above the outermost package. Raises BadInputError if a configured one does not exist.
    """
    if configured:
        roots = tuple(_absolute(path / root) for root in configured)
        if missing := [root for root, found in zip(configured, roots, strict=True) if not found.is_dir()]:
            raise BadInputError(f"{path} has no import root {missing[0]}", "import roots are folders of the checkout")
        return roots
    if (path / "__init__.py").is_file():
        return (outermost_package(path).parent,)
    folders = (path / name for name in _SOURCE_FOLDERS)
    return (path, *(folder for folder in folders if _holds_python(folder)))


def outermost_package(path: Path) -> Path:
    """Return the outermost package around a folder; the folder itself if it is in none."""
    while (path / "__init__.py").is_file() and (path.parent / "__init__.py").is_file() and path.parent != path:
        path = path.parent
    return path


def _holds_python(folder: Path) -> bool:
    if not folder.is_dir() or _is_imported_as_package(folder):
        return False
    for entry in folder.iterdir():
        if entry.suffix == ".py" and entry.is_file() and entry.name != "__init__.py":
            return True
        # Either __init__.py or any module: namespace packages lack the former.
        if entry.name.isidentifier() and entry.is_dir() and next(entry.glob("*.py"), None):
            return True
    return False


def _is_imported_as_package(folder: Path) -> bool:
    """Return whether `src` is imported as a package, and does not only have a stray `src/__init__.py`."""
    if not (folder / "__init__.py").is_file():
        return False
    statement = re.compile(rb"^\s*(from|import)\s+" + re.escape(os.fsencode(folder.name)) + rb"\b", re.MULTILINE)
    files = itertools.chain(folder.parent.glob("*.py"), folder.rglob("*.py"))
    return any(statement.search(read_file(file) or b"") for file in files if file.is_file())
