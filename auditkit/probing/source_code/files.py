"""Which files of a checkout are its own: tracked or not ignored by git, and nothing vendored or built."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from auditkit.probing.checkouts import git
from auditkit.probing.source_code.modules import TEST_FILE, TEST_FOLDERS, is_foreign

_SIDE_FOLDERS = frozenset((
    "scripts", "examples", "example", "benchmarks", "benchmark", "docs", "tools", "archive", "_archive", "old",
    "notebooks", "demo", "demos", "experiments",
))  # fmt: skip
_DATED_FOLDER = re.compile(r"20\d\d(-?)(0[1-9]|1[0-2])\1([0-2]\d|3[01])(?!\d).*")
"""`2024-10-10_Muon`, `20260430_adamh`: records that stay as they were on that day."""
_TOOL_FILES = frozenset(("setup.py", "noxfile.py", "tasks.py", "fabfile.py", "dodo.py", "hubconf.py", "conf.py"))
_SETTING_SUFFIXES = frozenset((".toml", ".cfg", ".ini", ".yaml", ".yml", ".json", ".ipynb", ".sh", ".bat", ".in"))
_SETTING_NAMES = frozenset(("Makefile", "Dockerfile", "Justfile", "justfile"))
_PROSE_SUFFIXES = frozenset((".md", ".rst", ".txt"))
_LOCK_FILES = frozenset(("package-lock.json", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock"))


@dataclass(frozen=True)
class SourceFile:
    """One file: `name` is relative to the checkout, with forward slashes.

    `kind` is `python`, `settings` (what may name a function to be run: YAML, TOML, notebooks, scripts) or
    `prose`. Test files name what they test; the code of side folders (examples, scripts, archives, records
    with a date) uses the rest, and nobody expects tests of it.
    """

    path: Path
    name: str
    kind: str

    @cached_property
    def is_test(self) -> bool:
        parts = PurePosixPath(self.name).parts
        return not TEST_FOLDERS.isdisjoint(parts[:-1]) or TEST_FILE.fullmatch(parts[-1]) is not None

    @cached_property
    def is_side(self) -> bool:
        parts = PurePosixPath(self.name).parts
        is_beside = any(part in _SIDE_FOLDERS or _DATED_FOLDER.fullmatch(part) for part in parts[:-1])
        return is_beside or parts[-1] in _TOOL_FILES


def list_files(root: Path) -> list[SourceFile]:
    """The checkout's files in the order of their names, links left out.

    In a git work tree: what is tracked, and what is neither tracked nor ignored. Elsewhere: what lies
    there. In both cases without hidden, vendored, built and environment folders, and hidden Python files.
    """
    names = _listed_by_git(root)
    found = [_classified(root, name) for name in (names if names is not None else _walked(root))]
    return sorted((file for file in found if file is not None), key=lambda file: file.name)


def _classified(root: Path, name: str) -> SourceFile | None:
    path = root / name
    kind = _kind(path.name)
    if not kind or path.is_symlink() or not path.is_file():
        return None
    return SourceFile(path, name, kind)


def _kind(name: str) -> str:
    suffix = os.path.splitext(name)[1]
    if suffix == ".py":
        return "" if name.startswith(".") else "python"  # `.mutmut-config.py` is read by its tool
    if name in _LOCK_FILES:
        return ""
    if suffix in _SETTING_SUFFIXES or name in _SETTING_NAMES:
        return "settings"
    return "prose" if suffix in _PROSE_SUFFIXES else ""


def _listed_by_git(root: Path) -> list[str] | None:
    """What git knows below `root`, None where git does not know the folder."""
    repository = git.find_repository(root)
    if repository is None or not repository.has_work_tree or not git.current_revision(repository):
        return None
    listed = git.run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
    if listed.returncode != 0:
        return None
    foreign: dict[str, bool] = {}
    names = dict.fromkeys(name for name in listed.stdout.split("\0") if name)
    return [name for name in names if not _lies_in_foreign(root, name, foreign)]


def _lies_in_foreign(root: Path, name: str, known: dict[str, bool]) -> bool:
    folder = name.rpartition("/")[0]
    if not folder:
        return False
    if folder not in known:
        known[folder] = is_foreign(root / folder) or _lies_in_foreign(root, folder, known)
    return known[folder]


def _walked(root: Path) -> Iterator[str]:
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not is_foreign(Path(folder, name)))
        for name in files:
            yield Path(folder, name).relative_to(root).as_posix()
