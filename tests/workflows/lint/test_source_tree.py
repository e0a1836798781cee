"""The source that tickets speak of: files at a revision or as they lie there, and commits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.workflows.lint.source_tree import GitTree, open_source_tree
from tests.rules.lint.source_pages import COLLECTOR, make_repository, run_git

pytestmark = pytest.mark.process


@pytest.fixture
def commits(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "checkout").mkdir()
    return make_repository(tmp_path / "checkout")


def test_files_of_a_revision_are_those_that_were_committed(tmp_path: Path, commits: dict[str, str]) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "src/pkg/collector.py").write_text("changed = 1\n", "utf-8")
    with open_source_tree(checkout, commits["first"]) as tree:
        assert tree.paths == {
            "docs/bugs/batch7-pytorch.md",
            "src/pkg/collector.py",
            "src/pkg/report.py",
            "tests/test_collector.py",
        }
        assert tree.lines("src/pkg/collector.py") == tuple(COLLECTOR.splitlines())
        assert tree.lines("later.py") == ()
    with open_source_tree(checkout, "side") as tree:
        assert tree.paths >= {"side.py"}
        assert "later.py" not in tree.paths


def test_files_of_the_working_tree_are_those_that_lie_there(tmp_path: Path, commits: dict[str, str]) -> None:
    """Untracked files count, ignored and removed ones do not, and no link leads out."""
    checkout = tmp_path / "checkout"
    (checkout / "new.py").write_text("new = 1\r\nlast = 2", "utf-8")
    (checkout / ".gitignore").write_text("*.log\n", "utf-8")
    (checkout / "run.log").write_text("noise\n", "utf-8")
    (checkout / "later.py").unlink()
    (tmp_path / "secret.txt").write_text("secret\n", "utf-8")
    (checkout / "link.txt").symlink_to(tmp_path / "secret.txt")
    with open_source_tree(checkout) as tree:
        assert tree.paths >= {"new.py", "src/pkg/collector.py", ".gitignore"}
        assert tree.paths.isdisjoint({"run.log", "later.py", "link.txt"})
        assert tree.lines("new.py") == ("new = 1", "last = 2")
        assert tree.lines("link.txt") == ()
        assert tree.lines("../secret.txt") == ()


def test_commits_are_known_by_any_unique_abbreviation(tmp_path: Path, commits: dict[str, str]) -> None:
    with open_source_tree(tmp_path / "checkout", "main") as tree:
        assert tree.has_history
        for name in ("first", "main", "side"):
            assert tree.has_commit(commits[name])
            assert tree.has_commit(commits[name][:8].upper())
            assert tree.is_ancestor(commits[name][:8]) is (name != "side")
        blob = run_git(tmp_path / "checkout", "rev-parse", "HEAD:later.py")
        for stranger in ("0" * 40, "deadbeef", blob, "main", "HEAD", "--all", "x\nHEAD", ""):
            assert not tree.has_commit(stranger)
            assert not tree.is_ancestor(stranger)
        assert tree.lines("later.py") == ("later = 1",)  # the reader is still in step


def test_odd_names_and_bytes(tmp_path: Path, commits: dict[str, str]) -> None:
    """A line break in a name, bytes that are no text, an empty file, a file without a last line end."""
    checkout = tmp_path / "checkout"
    odd = {"a\nb.py": b"x = 1\n", "ä ö.py": b"y = 2", "latin.py": b"s = '\xe4'\n", "data.bin": b"\0\1", "empty.py": b""}
    for name, data in odd.items():
        (checkout / name).write_bytes(data)
    expected = {
        "a\nb.py": ("x = 1",),
        "ä ö.py": ("y = 2",),
        "latin.py": ("s = '\ufffd'",),
        "data.bin": (),
        "empty.py": (),
    }
    with open_source_tree(checkout) as tree:
        assert {name: tree.lines(name) for name in odd} == expected
    run_git(checkout, "add", "-A")
    run_git(checkout, "commit", "-q", "-m", "odd names")
    with open_source_tree(checkout, "HEAD") as tree:
        assert {name: tree.lines(name) for name in odd} == expected


def test_one_process_reads_everything(tmp_path: Path, commits: dict[str, str]) -> None:
    with open_source_tree(tmp_path / "checkout", "main") as tree:
        assert isinstance(tree, GitTree)
        tree.lines("later.py")
        reader = tree._reader
        assert reader is not None
        for path in tree.paths:
            assert tree.lines(path) is tree.lines(path)
        assert tree._reader is reader
    assert reader.returncode == 0


def test_a_folder_of_a_repository_sees_its_own_files_and_all_commits(tmp_path: Path, commits: dict[str, str]) -> None:
    for revision in ("", "main"):
        with open_source_tree(tmp_path / "checkout" / "src", revision) as tree:
            assert tree.paths == {"pkg/collector.py", "pkg/report.py"}
            assert tree.lines("pkg/report.py") == ("def show(total):", "    print(total)")
            assert tree.has_commit(commits["side"])


def test_a_bare_repository_needs_a_revision(tmp_path: Path, commits: dict[str, str]) -> None:
    bare = tmp_path / "bare.git"
    run_git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "checkout"), str(bare))
    with pytest.raises(BadInputError, match="has no working tree"):
        open_source_tree(bare)
    with open_source_tree(bare, "main") as tree:
        assert tree.lines("later.py") == ("later = 1",)


def test_a_shallow_clone_does_not_know_its_history(tmp_path: Path, commits: dict[str, str]) -> None:
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path / 'checkout'}", "shallow")
    with open_source_tree(tmp_path / "shallow") as tree:
        assert not tree.has_history
        assert tree.lines("later.py") == ("later = 1",)


def test_a_folder_without_git_has_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("src/a.py", ".cache/b.py", "src/__pycache__/c.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a = 1\n", "utf-8")
    with open_source_tree(tmp_path) as tree:
        assert tree.paths == {"src/a.py"}
        assert tree.lines("src/a.py") == ("a = 1",)
        assert not tree.has_history
        assert not tree.has_commit("0" * 40)
    with pytest.raises(BadInputError, match="not a git repository"):
        open_source_tree(tmp_path, "HEAD")


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD:later.py"])
def test_a_revision_that_is_not_there_is_an_error(tmp_path: Path, commits: dict[str, str], revision: str) -> None:
    with pytest.raises(BadInputError, match="has no revision"):
        open_source_tree(tmp_path / "checkout", revision)


def test_a_checkout_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such directory"):
        open_source_tree(tmp_path / "nowhere")


def test_reading_changes_nothing(tmp_path: Path, commits: dict[str, str]) -> None:
    def state() -> dict[str, int]:
        folders = os.walk(tmp_path)
        return {f"{here}/{name}": os.stat(f"{here}/{name}").st_mtime_ns for here, _, names in folders for name in names}

    before = state()
    for revision in ("", "main"):
        with open_source_tree(tmp_path / "checkout", revision) as tree:
            assert all(tree.lines(path) for path in tree.paths)
            assert tree.is_ancestor(commits["first"])
    assert state() == before
