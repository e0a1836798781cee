"""Which files belong to a checkout, and which of them auditkit checks: nothing vendored, built or archived."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from auditkit.errors import BadInputError
from auditkit.model.text import counted, inert_line
from auditkit.probing.checkout import git
from auditkit.probing.checkout.reading import read_file, read_text

TEST_FOLDERS = frozenset({"tests", "test"})
VENDORED_FOLDERS = frozenset({
    "third_party", "thirdparty", "3rdparty", "vendor", "vendored", "_vendor", "extern", "external",
})  # fmt: skip
_FOREIGN_FOLDERS = VENDORED_FOLDERS | {
    "build", "dist", "node_modules", "site-packages", "dist-packages", "__pycache__", "__pypackages__", "venv",
    "env", "virtualenv",
}  # fmt: skip
TEST_FILE = re.compile(r"(test_.*|(.*_)?tests?|conftest)\.py")
_ARCHIVES = re.compile(r"_?(archived?|archives|old|deprecated|obsolete|attic|graveyard)")

_SIDE_FOLDERS = frozenset((
    "scripts", "examples", "example", "benchmarks", "benchmark", "docs", "tools", "archive", "_archive", "old",
    "notebooks", "demo", "demos", "experiments", "testing",
))  # fmt: skip
_DATED_FOLDER = re.compile(r"20\d\d(-?)(0[1-9]|1[0-2])\1([0-2]\d|3[01])(?!\d).*")
"""`2024-10-10_Muon`, `20260430_adamh`: archived experiments of that day."""
_SETTING_SUFFIXES = frozenset((".toml", ".cfg", ".ini", ".yaml", ".yml", ".json", ".ipynb", ".sh", ".bat", ".in"))
_SETTING_NAMES = frozenset(("Makefile", "Dockerfile", "Justfile", "justfile"))
_PROSE_SUFFIXES = frozenset((".md", ".rst", ".txt"))
_SETUP_FILES = frozenset(("setup.py", "pyproject.toml", "setup.cfg"))
_LICENCE = re.compile(r"(LICEN[SC]E|COPYING)(\..*)?", re.IGNORECASE)
_COPYRIGHT = re.compile(rb"^.*copyright.*\d{4}.*$", re.IGNORECASE | re.MULTILINE)
_MOST_NAMED = 4
_LOCK_FILES = frozenset(("package-lock.json", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock"))


class SourceFile(NamedTuple):
    """One file: `name` is relative to the checkout, with forward slashes.

    `kind` is `python`, `settings` (YAML, TOML, notebooks or scripts that may name functions) or `prose`.
    """

    path: Path
    name: str
    kind: str


def is_test_file(name: str) -> bool:
    """Return whether a file is a test: by its own name, or by that of a folder around it."""
    *folders, last = name.split("/")
    return not TEST_FOLDERS.isdisjoint(folders) or TEST_FILE.fullmatch(last) is not None


def is_in_side_folder(file: str) -> bool:
    """Return whether a file is among examples, scripts, archives, dated records or helpers of tests."""
    return any(part in _SIDE_FOLDERS or _DATED_FOLDER.fullmatch(part) for part in file.split("/")[:-1])


def list_files(root: Path, kinds: Sequence[str] = ("python", "settings", "prose")) -> list[SourceFile]:
    """Return the checkout's files sorted by name: no links, hidden, vendored, built and environment folders.

    Files that git ignores (copies of code beside logs) are skipped, and files with unprintable names: such a name fits
    in no ticket and no import.
    """
    return sorted(_listed(root, kinds), key=attrgetter("name"))


def source_files(root: Path, with_tests: bool = False) -> Iterator[Path]:
    """Yield the Python files among them, each folder's own first; no tests by default."""
    return (each.path for each in _listed(root, ("python",)) if with_tests or not is_test_file(each.name))


def _listed(root: Path, kinds: Sequence[str]) -> Iterator[SourceFile]:
    ignored = _ignored_by_git(root)
    for path in files_below(root, is_foreign):
        kind = _kind(path.name)
        if kind in kinds and not path.is_symlink() and path.is_file():
            name = path.relative_to(root).as_posix()
            if inert_line(name) == name and ignored.isdisjoint(_with_folders(name)):
                yield SourceFile(path, name, kind)


def files_below(root: Path, is_left_out: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield every file below a folder, except in folders that are left out, sorted in each folder."""
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not is_left_out(Path(folder, name)))
        yield from (Path(folder, name) for name in sorted(files))


def is_foreign(folder: Path) -> bool:
    """Return whether a folder has third-party or generated files: vendored, built, hidden, a virtual environment."""
    return (
        folder.name in _FOREIGN_FOLDERS
        or folder.name.startswith(".")
        or folder.name.endswith(".egg-info")
        or (folder / "pyvenv.cfg").is_file()
    )


def _ignored_by_git(root: Path) -> frozenset[str]:
    """Return the files and the folders, `logs/`, that git ignores; none of a checkout that is no repository."""
    if not (root / ".git").exists():
        return frozenset()
    with contextlib.suppress(BadInputError, OSError):
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        listed = git.run_git(root, *words)
        if listed.returncode == 0:
            return frozenset(listed.stdout.split("\0"))
    return frozenset()


def _with_folders(name: str) -> list[str]:
    """Return `a/`, `a/b/` and `a/b/c.py` for `a/b/c.py`."""
    return [name[: end + 1] for end, letter in enumerate(name) if letter == "/"] + [name]


def _kind(name: str) -> str:
    suffix = os.path.splitext(name)[1]
    if suffix == ".py":
        return "" if name.startswith(".") else "python"  # `.mutmut-config.py` is read by its tool
    if name in _LOCK_FILES:
        return ""
    if suffix in _SETTING_SUFFIXES or name in _SETTING_NAMES:
        return "settings"
    return "prose" if suffix in _PROSE_SUFFIXES else ""


class LeftOut:
    """The files of a checkout that auditkit does not check: vendored and archived ones, and those of `exclude`.

    Each of `exclude` is a path below the checkout or a pattern in which `*` matches anything. A folder is vendored by
    its name, as a submodule, or because it has a setup file and another owner's licence.
    """

    def __init__(self, root: Path, exclude: Sequence[str] = ()) -> None:
        self._root = root
        self._exclude = {pattern: pattern.removeprefix("./").rstrip("/") for pattern in exclude}
        self._copyrights = _copyrights(root)
        modules = read_text(root / ".gitmodules")
        self._submodules = set(re.findall(r"^\s*path\s*=\s*(.+?)/?\s*$", modules, re.MULTILINE))
        self._folders: dict[str, tuple[str, str]] = {"": ("", "")}

    def place_of(self, file: str) -> str:
        """Return the outermost folder (or pattern) for which a file is left out; "" if it is checked."""
        return self._place(file)[0]

    def sentences(self, collectors: Iterable[str] = ()) -> list[str]:
        """Say in one line what is left out and why; then name each pattern that no Python file matches.

        `collectors` are the files of all collectors, checked or not.
        """
        below = files_below(self._root, lambda folder: folder.name not in VENDORED_FOLDERS and is_foreign(folder))
        files = [path.relative_to(self._root).as_posix() for path in below if path.suffix == ".py"]
        held = Counter(map(self.place_of, collectors))
        told = []
        for (place, why), count in sorted(Counter(map(self._place, files)).items()):
            with_collectors = f", {counted(held[place], 'collector')}" if held[place] else ""
            told += [f"{place} ({why}, {counted(count, 'file')}{with_collectors})"] if place else []
        more = f" and {len(told) - _MOST_NAMED} more" if told[_MOST_NAMED:] else ""
        listed = ", ".join(told[:_MOST_NAMED]) + more
        idle = [each for each, path in self._exclude.items() if not any(_matches(file, path) for file in files)]
        lines = [f"left out: {listed}; --target checks functions there"] if told else []
        return lines + [f"exclude {each!r}: no Python file matches" for each in idle]

    def _place(self, file: str) -> tuple[str, str]:
        """Return a folder that is left out, with a slash, or a pattern; and why."""
        excluded = next((each for each, path in self._exclude.items() if _matches(file, path)), "")
        return (excluded, "excluded") if excluded else self._folder(file.rpartition("/")[0])

    def _folder(self, folder: str) -> tuple[str, str]:
        if folder not in self._folders:
            parent, _, name = folder.rpartition("/")
            above = self._folder(parent)
            why = "" if above[0] else self._why(folder)
            # Records of many days count as one place.
            place = f"{parent}/20*/".lstrip("/") if _DATED_FOLDER.fullmatch(name) else f"{folder}/"
            self._folders[folder] = (place, why) if why else above
        return self._folders[folder]

    def _why(self, folder: str) -> str:
        """Say why a folder outside others that are left out is left out itself, or ""."""
        name, path = folder.rpartition("/")[2], self._root / folder
        # A copy can be installed by itself, and its licence names other owners than the checkout's does.
        is_copy = bool(self._copyrights) and any((path / file).is_file() for file in _SETUP_FILES)
        if name in VENDORED_FOLDERS or folder in self._submodules or (is_copy and _copyrights(path) - self._copyrights):
            return "vendored"
        return "archived" if _ARCHIVES.fullmatch(name) or _DATED_FOLDER.fullmatch(name) else ""


def _matches(file: str, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for path in (file, *map(str, PurePosixPath(file).parents)))


def _copyrights(folder: Path) -> frozenset[bytes]:
    """Return the lines of a folder's licence that name its owners, without years."""
    licences = [path for path in sorted(folder.iterdir()) if _LICENCE.fullmatch(path.name) and path.is_file()]
    lines = (line for path in licences for line in _COPYRIGHT.findall(read_file(path) or b""))
    return frozenset(re.sub(rb"[\W\d]+", b" ", line).strip() for line in lines)
