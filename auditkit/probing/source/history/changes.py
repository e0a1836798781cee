"""What git says lies between two revisions: commits, files with their lines, and tests, told apart by their trees."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from auditkit.model.revisions.changes import Changes, Commit, FileChange, TestChange
from auditkit.model.runs.target import split_call
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import OpenCheckout
from auditkit.probing.source.modules import TEST_FILE, TEST_FOLDERS, source_bytes

_SEPARATOR = "\x1e"
_FORM = "--format=%H%x00%an%x00%as%x00%B%x1e"


def read_changes(base: OpenCheckout, head: OpenCheckout, targets: Sequence[str]) -> Changes:
    """The commits that head has and base lacks, and what differs between the two; nothing outside git.

    `targets` are qualified names; each test says which of them it speaks of. A file that does not parse has no
    tests.
    """
    repository = git.find_repository(head.source)
    if repository is None or not (base.revision and head.revision):
        return Changes()
    files = tuple(_files(repository, base.revision, head.revision))
    tests = tuple(test for file in files if file.is_test for test in _tests(file, base.path, head.path, targets))
    return Changes(tuple(read_commits(repository, base.revision, head.revision)), files, tests)


def read_commits(repository: git.Repository, base: str, head: str, *paths: str) -> Iterator[Commit]:
    """The commits that head has and base lacks, newest first; with `paths` those that touched one of them."""
    return _read(git.run_git(repository.directory, "log", _FORM, f"{base}..{head}", "--", *paths).stdout)


def _read(told: str) -> Iterator[Commit]:
    for entry in told.split(_SEPARATOR):
        parts = entry.lstrip("\n").split("\0")
        if len(parts) == 4:
            yield Commit(parts[0], parts[1], parts[2], parts[3].strip())


def _files(repository: git.Repository, base: str, head: str) -> Iterator[FileChange]:
    """Paths are relative to the checkout's directory, and what lies outside of it is left out."""
    words = ["-M", "-z", *(["--relative"] if repository.prefix else [])]
    told = git.run_git(repository.directory, "diff", "--name-status", *words, base, head, "--").stdout
    state = {path: (old, kind) for kind, old, path in _statuses(told.split("\0"))}
    counted = git.run_git(repository.directory, "diff", "--numstat", *words, base, head, "--").stdout
    for added, removed, path in _counts(counted.split("\0")):
        old, kind = state.get(path, (path, "M"))
        yield FileChange(
            path="" if kind == "D" else path,
            old_path="" if kind == "A" else old,
            added=None if added == "-" else int(added),
            removed=None if removed == "-" else int(removed),
            is_test=_is_test(path),
        )


def _statuses(fields: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(letter, old path, path) of every file."""
    left = iter(fields)
    for kind in left:
        if kind:
            old = next(left)
            yield kind[0], old, next(left) if kind[0] in "RC" else old


def _counts(fields: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(lines added, lines removed, path); a renamed file's two paths follow in fields of their own."""
    left = iter(fields)
    for field in left:
        if field:
            added, removed, path = field.split("\t", 2)
            if not path:
                next(left)
                path = next(left)
            yield added, removed, path


def _is_test(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.suffix == ".py" and (
        TEST_FILE.fullmatch(parts.name) is not None or not TEST_FOLDERS.isdisjoint(parts.parts)
    )


def _tests(file: FileChange, base: Path, head: Path, targets: Sequence[str]) -> Iterator[TestChange]:
    before = _functions(base / file.old_path) if file.old_path else {}
    after = _functions(head / file.path) if file.path else {}
    for name in dict.fromkeys((*after, *before)):
        one, other = before.get(name), after.get(name)
        if one != other:
            kind = "added" if one is None else "removed" if other is None else "changed"
            yield TestChange(file.name, name, kind, tuple(_named(other or one or "", targets)))


def _functions(path: Path) -> dict[str, str]:
    """The test functions of a file, `Class::test` by name, as text without comments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source_bytes(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return dict(_walk(tree.body, ""))


def _walk(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _walk(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield prefix + node.name, ast.unparse(node)


def _named(text: str, targets: Sequence[str]) -> Iterator[str]:
    """The targets whose function, or its class, the text names."""
    for target in targets:
        _, function, statement = split_call(target)
        names = filter(None, (*function.split("."), statement.partition(".")[0]))
        if any(re.search(rf"\b{re.escape(name)}\b", text) for name in names):
            yield target
