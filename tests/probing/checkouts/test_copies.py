"""A copy of a checkout holds what it is imported from, may be written to, and is gone afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.probing.checkouts.copies import open_copy
from tests.filing_helpers import put

pytestmark = pytest.mark.process


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *settings, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Files of every kind: code, ignored code, ignored data, a hidden folder, a virtual environment."""
    folder = tmp_path / "trainer"
    put(folder, "src/train/norms.py", "VALUE = 1\n")
    put(folder, "src/train/_version.py", "VERSION = 2\n")
    put(folder, "src/train/table.json", "{}\n")
    put(folder, "data/large.bin", b"\0" * 100)
    put(folder, ".hidden/code.py", "")
    put(folder, "env/pyvenv.cfg", "")
    put(folder, "env/lib/torch.py", "")
    put(folder, ".gitignore", "_version.py\ndata/\nenv/\n")
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


CODE = {"src/train/norms.py", "src/train/_version.py", "src/train/table.json"}


@pytest.mark.parametrize("in_git", [False, True])
def test_the_files_as_they_lie_are_copied(checkout: Path, in_git: bool) -> None:
    """In git without ignored data, but with the ignored module that the package imports; both with changes."""
    if in_git:
        git(checkout, "init", "--quiet")
        git(checkout, "add", ".")
        git(checkout, "commit", "--quiet", "-m", "one")
    put(checkout, "src/train/norms.py", "VALUE = 3\n")
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    with open_copy(parse_checkout(checkout), sys.executable) as opened:
        copy = opened.path
        hidden = {".hidden/code.py", ".gitignore"} if in_git else {".gitignore", "data/large.bin"}
        assert files(copy) == CODE | hidden
        assert (copy / "src/train/norms.py").read_text() == "VALUE = 3\n"
        assert (opened.source, opened.dirty) == (checkout, in_git)
        put(copy, "src/train/norms.py", "")
        put(copy, "made.txt", "")
    assert not copy.exists()
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_a_folder_inside_a_package_keeps_its_package(tmp_path: Path) -> None:
    for name in ("outer/__init__.py", "outer/inner/__init__.py", "outer/inner/norms.py", "other.py"):
        put(tmp_path, name, "")
    with open_copy(parse_checkout(tmp_path / "outer" / "inner"), sys.executable) as opened:
        assert opened.path.parts[-2:] == ("outer", "inner")
        assert files(opened.path.parents[1]) == {"outer/__init__.py", "outer/inner/__init__.py", "outer/inner/norms.py"}


def test_a_revision_is_a_worktree_that_may_be_written_to(checkout: Path) -> None:
    git(checkout, "init", "--quiet")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "one")
    put(checkout, "src/train/norms.py", "VALUE = 3\n")
    with open_copy(parse_checkout(f"{checkout}@HEAD"), sys.executable) as opened:
        assert (opened.path / "src/train/norms.py").read_text() == "VALUE = 1\n"
        put(opened.path, "src/train/norms.py", "VALUE = 4\n")
    assert (checkout / "src/train/norms.py").read_text() == "VALUE = 3\n"


def test_a_link_is_copied_as_what_it_leads_to_and_one_to_nowhere_is_left_out(tmp_path: Path) -> None:
    outside = put(tmp_path, "outside.py", "VALUE = 1\n")
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "linked.py").symlink_to(outside)
    (folder / "lost.py").symlink_to(tmp_path / "nowhere.py")
    with open_copy(parse_checkout(folder), sys.executable) as opened:
        assert files(opened.path) == {"linked.py"}
        put(opened.path, "linked.py", "VALUE = 2\n")
    assert outside.read_text() == "VALUE = 1\n"


def test_a_file_that_cannot_be_copied_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "norms.py", "")

    def refuse(source: Path, copy: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr("shutil.copy2", refuse)
    with (
        pytest.raises(BadInputError, match=r"norms\.py cannot be copied: Permission denied"),
        open_copy(parse_checkout(tmp_path), sys.executable),
    ):
        pass
