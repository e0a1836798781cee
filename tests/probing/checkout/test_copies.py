"""A copy of a checkout holds what it is imported from, may be written to, and is gone afterwards."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from auditkit.probing.checkout import copies
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.checkout.copies import open_copy, written_since
from tests.filing_helpers import put
from tests.verify_helpers import git

pytestmark = pytest.mark.process


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


CODE = {"src/train/norms.py", "src/train/_version.py", "src/train/table.json", "data/large.bin", ".gitignore"}


@pytest.mark.parametrize("in_git", [False, True])
def test_the_files_as_they_lie_are_copied(checkout: Path, in_git: bool) -> None:
    """With changes, and with what git ignores; without hidden folders that git does not track and environments."""
    if in_git:
        git(checkout, "init", "--quiet")
        git(checkout, "add", ".")
        git(checkout, "commit", "--quiet", "-m", "one")
    put(checkout, "src/train/norms.py", "VALUE = 3\n")
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    with open_copy(parse_checkout(checkout), sys.executable) as opened:
        copy = opened.path
        hidden = {".hidden/code.py", ".git"} if in_git else set()
        assert files(copy) == CODE | hidden
        assert (copy / "src/train/norms.py").read_text() == "VALUE = 3\n"
        assert (opened.source, opened.dirty) == (checkout, in_git)
        put(copy, "src/train/norms.py", "")
        put(copy, "made.txt", "")
    assert not copy.exists()
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_large_data_is_left_out_and_named_and_large_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file, and all of them together, have a limit."""
    monkeypatch.setattr(copies, "_LARGEST_DATA_BYTES", 100)
    monkeypatch.setattr(copies, "_MOST_DATA_BYTES", 150)
    for name, size_bytes in (("a.bin", 90), ("b.bin", 101), ("c.bin", 90), ("d.bin", 60), ("e.py", 500)):
        put(tmp_path, name, b" " * size_bytes)
    with open_copy(parse_checkout(tmp_path), sys.executable) as opened:
        assert files(opened.path) == {"a.bin", "d.bin", "e.py"}
        assert opened.notes == (
            "left out of the copy: b.bin and c.bin: too large to copy; --in-place audits the checkout where it lies",
        )


def test_a_link_inside_the_checkout_leads_into_the_copy_and_one_to_a_folder_outside_stays(tmp_path: Path) -> None:
    """Whether it is written relative or absolute: what is written through it lands in the copy."""
    put(tmp_path, "trainer/src/norms.py", "VALUE = 1\n")
    put(tmp_path, "data/table.json", "{}")
    folder = tmp_path / "trainer"
    (folder / "package").symlink_to(folder / "src")
    (folder / "norms.py").symlink_to("src/norms.py")
    (folder / "data").symlink_to(tmp_path / "data")
    with open_copy(parse_checkout(folder), sys.executable) as opened:
        assert (opened.path / "data/table.json").read_text() == "{}"
        (opened.path / "package/norms.py").write_text("VALUE = 2\n")
        assert (opened.path / "norms.py").read_text() == "VALUE = 2\n"
    assert (folder / "src/norms.py").read_text() == "VALUE = 1\n"


def test_what_was_written_is_named(tmp_path: Path) -> None:
    put(tmp_path, "norms.py", "")
    put(tmp_path, "old.log", "")
    with open_copy(parse_checkout(tmp_path), sys.executable) as opened:
        since_ns = time.time_ns()
        time.sleep(0.02)  # a file system's clock may tick every 10 ms
        put(opened.path, "runs/new.log", "")
        put(opened.path, "old.log", "more")
        put(opened.path, "__pycache__/norms.pyc", "")
        assert written_since(opened.path, since_ns) == ["old.log", "runs/new.log"]


def test_pipes_and_files_with_holes_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("holes.py", "holes.bin"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(10 << 30)
    put(tmp_path, "norms.py", "")
    with open_copy(parse_checkout(tmp_path), sys.executable) as opened:
        assert files(opened.path) == {"norms.py"}
        assert opened.notes[0].startswith("left out of the copy: holes.bin and holes.py: too large to copy")
