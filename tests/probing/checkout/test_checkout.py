"""Checkouts: `DIR[@REV]`, the private worktree, its removal, and the interpreter."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.probing.checkout.checkout import import_roots, open_checkout
from tests.project_files import ROOT
from tests.verify_helpers import git, state_of

pytestmark = pytest.mark.process

HOLDER = """
import sys, time
from auditkit.probing.checkout.checkout import open_checkout
with open_checkout(sys.argv[1]) as checkout:
    print(checkout.path, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of its own for every test, so that other runs' worktrees do not count."""
    path = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    monkeypatch.setenv("TMPDIR", str(path))
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits: `first` (tagged v1) and `second`, with a package in src/ and a hook that must not run."""
    path = tmp_path / "repo"
    package = path / "src" / "package"
    package.mkdir(parents=True)
    git(tmp_path, "init", "--quiet", str(path))
    (package / "module.py").write_text("VALUE = 'first'\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "first")
    git(path, "tag", "v1")
    (package / "module.py").write_text("VALUE = 'second'\n")
    (path / "later").mkdir()
    (path / "later" / "code.py").write_text("")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "second")
    hook = path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
    hook.chmod(0o755)
    return path


def value(path: Path) -> str:
    return (path / "src" / "package" / "module.py").read_text()


@contextlib.contextmanager
def holder(spec: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that holds a checkout open."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, spec],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


# Naming a checkout


@pytest.mark.parametrize(
    ("file", "dirty"),
    [("src/package/module.py", True), ("new.py", True), ("ticket.md", False), ("later/code.py", True)],
)
def test_dirty_means_that_what_is_measured_is_not_the_commit(repository: Path, file: str, dirty: bool) -> None:
    (repository / file).write_text("changed = 1\n")
    with open_checkout(repository) as checkout:
        assert checkout.dirty is dirty


# Bad input


def refusal(spec: str) -> BadInputError:
    with pytest.raises(BadInputError) as caught, open_checkout(spec):
        pass
    return caught.value


def test_an_empty_revision_or_directory_and_a_file_are_refused(repository: Path) -> None:
    assert "no revision after the @" in refusal(f"{repository}@").message
    assert "no directory before the @" in refusal("@main").message
    assert "is a file" in refusal(f"{repository}/later/code.py").message


# A revision


def test_a_revision_is_checked_out_elsewhere_and_removed(repository: Path, temporary_directory: Path) -> None:
    with open_checkout(f"{repository}@v1") as checkout:
        assert "first" in value(checkout.path)
        assert checkout.revision == git(repository, "rev-parse", "v1")
        assert checkout.source == repository
        assert checkout.at_revision
        assert git(checkout.path, "rev-parse", "HEAD") == checkout.revision
        assert (checkout.path / ".git").is_file(), "a git worktree"
    assert list(temporary_directory.iterdir()) == []


def test_the_audited_repository_is_left_byte_for_byte(repository: Path, tmp_path: Path) -> None:
    (repository / "src" / "package" / "module.py").write_text("VALUE = 'uncommitted'\n")
    # Same content, newer time: `git status` would like to write that into the index.
    os.utime(repository / "later" / "code.py", (time.time() + 5, time.time() + 5))
    before = state_of(repository)
    with open_checkout(repository) as checkout:
        assert checkout.dirty
    for revision in ("v1", "HEAD"):
        with open_checkout(f"{repository}@{revision}") as checkout:
            (checkout.path / "written.py").write_text("")
            assert "\n" not in git(repository, "worktree", "list")
    assert state_of(repository) == before
    assert not (tmp_path / "hook-ran").exists()


def test_a_subdirectory_is_checked_out_as_that_subdirectory(repository: Path) -> None:
    with open_checkout(f"{repository}/src@v1") as checkout:
        assert (checkout.path / "package" / "module.py").is_file()
    assert "v1 has no directory later" in refusal(f"{repository}/later@v1").message


# Removal


def test_a_signal_removes_the_worktree(repository: Path, temporary_directory: Path) -> None:
    before = state_of(repository)
    with holder(f"{repository}@v1") as (process, path):
        assert path.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) != 0
    assert list(temporary_directory.iterdir()) == []
    assert state_of(repository) == before


# The interpreter


def fake_python(environment: Path) -> Path:
    python = environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return python


def test_the_checkouts_own_environment_is_chosen_also_at_a_revision(repository: Path) -> None:
    python = fake_python(repository / "venv")
    with open_checkout(f"{repository}@v1") as checkout:
        assert checkout.interpreter == python, "the link itself, not what it points to"
    dotted = fake_python(repository / ".venv")
    with open_checkout(repository) as checkout:
        assert checkout.interpreter == dotted


# Import roots


def make(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
    return root


@pytest.mark.parametrize(
    ("files", "roots"),
    [
        (["src/package/__init__.py"], [".", "src"]),
        (["src/namespace/module.py", "lib/other.py"], [".", "src", "lib"]),
        (["src/__init__.py", "src/package/module.py"], [".", "src"]),
        (["src/main.rs", "python/package/__init__.py"], [".", "python"]),
        (["package/__init__.py"], ["."]),
    ],
)
def test_import_roots_are_found(tmp_path: Path, files: list[str], roots: list[str]) -> None:
    make(tmp_path, *files)
    assert import_roots(tmp_path) == tuple(tmp_path / root for root in roots)


def test_inside_a_package_the_root_is_above_it(tmp_path: Path) -> None:
    make(tmp_path, "package/__init__.py", "package/nested/__init__.py", "package/nested/code.py")
    assert import_roots(tmp_path / "package" / "nested") == (tmp_path,)
