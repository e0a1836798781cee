"""Writes stay below their folder and are whole or absent."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, StoreConflictError
from auditkit.files import write_below


def test_creates_folders_and_replaces_with_the_old_mode(tmp_path: Path) -> None:
    write_below(tmp_path, "a/b/c.md", b"one")
    (tmp_path / "a/b/c.md").chmod(0o640)
    write_below(tmp_path, "a/b/c.md", b"two")
    assert (tmp_path / "a/b/c.md").read_bytes() == b"two"
    assert (tmp_path / "a/b/c.md").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "a/b") == ["c.md"]


@pytest.mark.parametrize("relative", ["link/file", "folder/link/file", "link-to-file"])
def test_follows_no_link(tmp_path: Path, relative: str) -> None:
    """Control: `Path.write_bytes` follows each of these links and changes the file outside."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_bytes(b"theirs")
    (root / "link").symlink_to(outside)
    (root / "folder/link").symlink_to(outside)
    (root / "link-to-file").symlink_to(outside / "file")
    with pytest.raises(BadInputError, match="link"):
        write_below(root, relative, b"ours")
    assert (outside / "file").read_bytes() == b"theirs"
    (root / relative).write_bytes(b"ours")
    assert (outside / "file").read_bytes() == b"ours"


@pytest.mark.parametrize("relative", ["../file", "/etc/file", "a/../../file", ""])
def test_refuses_a_path_that_leaves_the_folder(tmp_path: Path, relative: str) -> None:
    with pytest.raises(BadInputError, match="not a path below"):
        write_below(tmp_path, relative, b"ours")


def test_keeps_the_old_content_when_the_disk_is_full(tmp_path: Path) -> None:
    write_below(tmp_path, "file", b"old")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(StoreConflictError, match="cannot be written"):
            write_below(tmp_path, "file", b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
