"""Two branches that edit one ticket, merged by real git with our driver and without it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.filing_helpers import put, ticket_text
from tests.project_files import Ended, auditkit, our_environment

pytestmark = pytest.mark.process

Edit = Callable[[Path], object]


@dataclass(frozen=True)
class Clone:
    """A git repository with one ticket."""

    folder: Path

    @property
    def ticket(self) -> Path:
        (file,) = (self.folder / "tickets").rglob("B7-PT-01.md")
        return file

    def git(self, *words: str) -> Ended:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.folder), *identity, *words]
        done = subprocess.run(command, capture_output=True, env=our_environment(), text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str) -> Ended:
        return auditkit("ticket", *words, "--tickets", "tickets", cwd=self.folder)

    def commit(self, message: str) -> None:
        assert self.git("add", "-A").code == 0
        assert self.git("commit", "-qm", message).code == 0

    def merge(self, ours: Edit, theirs: Edit) -> bool:
        """Whether what `theirs` does on a branch merges into what `ours` does."""
        assert self.git("checkout", "-qb", "theirs").code == 0
        theirs(self.ticket)
        self.commit("theirs")
        assert self.git("checkout", "-q", "main").code == 0
        ours(self.ticket)
        self.commit("ours")
        return self.git("merge", "-q", "--no-edit", "theirs").code == 0


def clone(folder: Path, has_driver: bool = True, newline: str = "\n", ending: str = "") -> Clone:
    put(folder, "tickets/batch7/B7-PT-01.md", ticket_text(extra=ending).replace("\n", newline))
    made = Clone(folder)
    made.git("init", "-q", "-b", "main")
    made.git("config", "core.autocrlf", "false")
    if has_driver:
        assert made.run("merge", "--install").code == 0
    made.commit("base")
    return made


def swap(*pairs: tuple[str, str]) -> Edit:
    """An edit that replaces texts that are there, in the file's own line ends."""

    def edit(file: Path) -> None:
        data = file.read_bytes()
        for old, new in pairs:
            assert old.encode() in data
            data = data.replace(old.encode(), new.encode())
        file.write_bytes(data)

    return edit


SEVERITY = ("| **Severity** | `P2` |", "| **Severity** | `P1` |")
STATUS = ("| **Status** | `open` |", "| **Status** | `investigating` |")


def dated(date: str) -> tuple[str, str]:
    return ("| **Updated** | 2026-01-02 |", f"| **Updated** | {date} |")


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_different_rows_merge_with_the_driver_and_conflict_without(tmp_path: Path, newline: str) -> None:
    """Severity on one branch and status on the other: the rows are adjacent lines."""
    merged = clone(tmp_path / "with", newline=newline)
    base = merged.ticket.read_bytes()
    assert merged.merge(swap(SEVERITY), swap(STATUS, dated("2026-02-03")))
    expected = base
    for old, new in (SEVERITY, STATUS, dated("2026-02-03")):
        expected = expected.replace(old.encode(), new.encode())
    assert merged.ticket.read_bytes() == expected
    assert merged.git("status", "--porcelain").stdout == ""
    assert not clone(tmp_path / "without", has_driver=False, newline=newline).merge(swap(SEVERITY), swap(STATUS))


def test_the_commands_of_two_people_merge(tmp_path: Path) -> None:
    made = clone(tmp_path)
    severity = ("edit", "B7-PT-01", "severity", "P1")
    assert made.merge(lambda _: made.run(*severity), lambda _: made.run("status", "B7-PT-01", "investigating"))
    text = made.ticket.read_text()
    assert SEVERITY[1] in text
    assert STATUS[1] in text


def test_the_same_row_changed_differently_is_the_only_conflict(tmp_path: Path) -> None:
    made = clone(tmp_path)
    ours = swap(SEVERITY, STATUS, dated("2026-02-04"))
    assert not made.merge(
        ours, swap(("`P2`", "`P0`"), ("**Assignee** | |", "**Assignee** | Kim |"), dated("2026-02-03"))
    )
    text = made.ticket.read_text()
    conflict = "<<<<<<< ours\n| **Severity** | `P1` |\n=======\n| **Severity** | `P0` |\n>>>>>>> theirs\n"
    assert text.count("<<<<<<<") == 1
    assert f"{conflict}{STATUS[1]}\n" in text
    assert "| **Assignee** | Kim |" in text
    assert dated("2026-02-04")[1] in text
    assert made.git("status", "--porcelain").stdout == "UU tickets/batch7/B7-PT-01.md\n"


def test_two_resolutions_conflict_where_they_differ_and_nowhere_else(tmp_path: Path) -> None:
    """Both say wont-fix, on different days and for different reasons: the rows agree, the reasons do not."""
    made = clone(tmp_path)

    def resolved(text: str) -> Edit:
        return lambda _: made.run("resolve", "B7-PT-01", "--as", "wont-fix", "--text", text)

    assert not made.merge(resolved("Only in a demo."), resolved("Nobody calls it."))
    text = made.ticket.read_text()
    head, marker, rest = text.partition("<<<<<<< ours\n")
    assert "| **Status** | `wont-fix` |" in head
    assert "## Verification" in head
    assert marker
    assert "Only in a demo." in rest
    assert "Nobody calls it." in rest


def test_the_same_resolution_on_two_days_merges(tmp_path: Path) -> None:
    made = clone(tmp_path)
    ending = ("- [ ] a test\n", "- [x] a test\n\n## Resolution\n\nDone.\n")
    closed = ("`open`", "`closed`")
    assert made.merge(swap(closed, ending, dated("2026-02-03")), swap(closed, ending, dated("2026-02-05")))
    assert dated("2026-02-05")[1] in made.ticket.read_text()


def test_a_ticket_that_one_branch_moved_merges_where_it_went(tmp_path: Path) -> None:
    """`resolve` on one branch moves the file; the other gives the ticket to somebody."""
    made = clone(tmp_path)
    done = ("resolve", "B7-PT-01", "--as", "wont-fix", "--text", "Only in a demo.")
    assert made.merge(lambda _: made.run(*done), lambda _: made.run("assign", "B7-PT-01", "Kim"))
    assert made.ticket.parent.name == "closed"
    text = made.ticket.read_text()
    assert "| **Assignee** | Kim |" in text
    assert "| **Status** | `wont-fix` |" in text


ENDING = """
## Related Findings

None.

---

## Appendix

### Original Report Reference

**Report file:** `docs/batch7-pytorch.md`
"""


def reviewed(made: Clone, reviewer: str, *more: str) -> Edit:
    words = ("review", "B7-PT-01", "--reviewer", reviewer, "--verdict", "endorse", "--note", f"As {reviewer} sees it.")
    return lambda _: made.run(*words, *more)


def reviewers(made: Clone) -> list[str]:
    """Who reviewed the ticket, as it is read."""
    told = json.loads(made.run("show", "B7-PT-01", "--json").stdout)
    return sorted(one["reviewer"] for one in told["tickets"][0]["reviews"])


@pytest.mark.parametrize("pair", [("drl", "pytorch"), ("pytorch", "codereview"), ("codereview", "drl")])
def test_two_reviews_merge_without_the_driver(tmp_path: Path, pair: tuple[str, str]) -> None:
    made = clone(tmp_path, has_driver=False, ending=ENDING)
    assert made.merge(*(reviewed(made, reviewer) for reviewer in pair))
    assert reviewers(made) == sorted(pair)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_two_reviews_at_one_place_merge_with_the_driver_and_conflict_without(tmp_path: Path, newline: str) -> None:
    """Nothing below the last section tells one place from another; two people of one field are two."""
    pair = ("drl-bob", "drl-ann")
    made = clone(tmp_path / "with", newline=newline)
    assert made.merge(*(reviewed(made, reviewer) for reviewer in pair))
    assert reviewers(made) == sorted(pair)
    bare = clone(tmp_path / "without", has_driver=False, newline=newline)
    assert not bare.merge(*(reviewed(bare, reviewer) for reviewer in pair))


def test_two_reviews_by_one_reviewer_are_left_to_people(tmp_path: Path) -> None:
    made = clone(tmp_path)
    assert not made.merge(reviewed(made, "drl"), reviewed(made, "drl", "--severity", "P1"))


def merge_texts(folder: Path, texts: Sequence[bytes], *more: str) -> tuple[Ended, bytes]:
    files = [put(folder, name, text) for name, text in zip(("base", "ours", "theirs"), texts, strict=True)]
    return auditkit("ticket", "merge", *files, *more), files[1].read_bytes()


def test_a_page_that_is_no_ticket_is_merged_as_git_does(tmp_path: Path) -> None:
    base = b"a\nb\nc\nd\ne\n"
    ended, merged = merge_texts(tmp_path, [base, base.replace(b"a", b"A"), base.replace(b"e", b"E")])
    assert (ended.code, merged) == (0, b"A\nb\nc\nd\nE\n")
    latin = [base + b"\xe9\n", b"A" + base[1:] + b"\xe9\n", base + b"\xe8\n"]
    assert merge_texts(tmp_path, latin)[1] == b"A\nb\nc\nd\ne\n\xe8\n"
    ended, merged = merge_texts(tmp_path, [b"a\n", b"b\n", b"c\n"], "--marker-size", "9")
    assert (ended.code, merged) == (1, b"<<<<<<<<< ours\nb\n=========\nc\n>>>>>>>>> theirs\n")


def test_rows_of_both_sides_are_told(tmp_path: Path) -> None:
    base = ticket_text().encode()
    texts = [base, base.replace(b"`P2`", b"`P1`"), base.replace(b"`P2`", b"`P0`")]
    ended, _ = merge_texts(tmp_path, texts, "--path", "t/B7-PT-01.md")
    assert (ended.code, ended.stdout, ended.stderr) == (1, "", "t/B7-PT-01.md: both sides changed Severity\n")


def test_what_cannot_be_merged_leaves_ours_as_it_was(tmp_path: Path) -> None:
    ended, merged = merge_texts(tmp_path, [b"a\0", b"b\0", b"c\0"])
    assert (ended.code, merged) == (2, b"b\0")
    assert "cannot merge" in ended.stderr.lower()
    assert auditkit("ticket", "merge", tmp_path / "base", tmp_path / "ours", tmp_path / "none").code == 2
    assert auditkit("ticket", "merge", tmp_path / "base").code == 2


def test_installing_twice_changes_nothing(tmp_path: Path) -> None:
    put(tmp_path, "tickets/.gitattributes", "*.png binary")
    made = clone(tmp_path)
    attributes = tmp_path / "tickets" / ".gitattributes"
    assert attributes.read_text() == "*.png binary\n*.md merge=auditkit\n"
    config = (tmp_path / ".git" / "config").read_bytes()
    again = made.run("merge", "--install")
    assert again.stdout.count("already") + again.stdout.count("as before") == 2
    assert attributes.read_text() == "*.png binary\n*.md merge=auditkit\n"
    assert (tmp_path / ".git" / "config").read_bytes() == config


def test_without_a_repository_nothing_is_installed(tmp_path: Path) -> None:
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text())
    ended = auditkit("ticket", "merge", "--install", cwd=tmp_path)
    assert (ended.code, "is in no git repository" in ended.stderr) == (2, True)
    assert not (tmp_path / "tickets" / ".gitattributes").exists()
