"""The index says what the files say: after every change, however it is damaged, and without being written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.folder.walk import named_files, stamp_of
from auditkit.store.listing import index as index_module
from auditkit.store.listing import index_file
from auditkit.store.listing.cache_folder import cache_file
from auditkit.store.listing.index import is_known_ticket, read_columns, read_index
from auditkit.store.listing.rows import ID, PATH, TITLE
from auditkit.store.listing.ticket_rows import row_of
from tests.filing_helpers import ROOT, corpus_folder, put, ticket_text
from tests.written_tickets import write_tickets

CORPUS = corpus_folder()


def of(folder: Path) -> list[str]:
    return [row[TITLE] for row in read_index(str(folder)).rows]


def settle(folder: Path) -> None:
    """Make every file older than a clock tick, as it is a moment after it was written."""
    for path in folder.rglob("*.md"):
        os.utime(path, ns=(1_000_000_001, 1_000_000_001))


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's caches, empty."""
    folder = tmp_path_factory.mktemp("caches")
    # Tests undo what they patched themselves.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose index was written when no file of it could change unseen."""
    folder = tmp_path / "tickets"
    put(folder, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", title="one"))
    put(folder, "batch7/B7-PT-02.md", ticket_text("B7-PT-02", title="two"))
    put(folder, "README.md", "# What lies here\n")
    monkeypatch.setattr(index_file, "TICK_NS", -(10**18))
    read_index(str(folder))
    monkeypatch.undo()
    return folder


def reads(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Which files the next look opens."""
    from auditkit.store.listing import ticket_rows

    opened: list[str] = []
    original = ticket_rows.read_row
    monkeypatch.setattr(ticket_rows, "read_row", lambda *words: opened.append(words[1]) or original(*words))
    read_index(str(folder))
    monkeypatch.undo()
    return opened


def test_an_unchanged_folder_is_not_read_again(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads(monkeypatch, settled) == []
    assert of(settled) == ["one", "two"]


def test_only_what_changed_is_read_again(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(settled, "batch7/B7-PT-02.md", ticket_text("B7-PT-02", title="new"))
    put(settled, "batch7/B7-PT-03.md", ticket_text("B7-PT-03", title="three"))
    (settled / "batch7/B7-PT-01.md").unlink()
    assert sorted(reads(monkeypatch, settled)) == ["batch7/B7-PT-02.md", "batch7/B7-PT-03.md"]
    assert of(settled) == ["new", "three"]


def test_a_change_of_the_same_size_within_one_tick_is_seen(tmp_path: Path) -> None:
    """The file's times and size stay as they were: only its youth when it was indexed gives it away."""
    path = put(tmp_path, "B7-PT-01.md", ticket_text(title="one"))
    assert of(tmp_path) == ["one"]
    stamp = stamp_of(path.stat())
    stored, index = index_module._load(str(tmp_path))
    assert (stored, index is not None) == ({"B7-PT-01.md": None}, True)
    tick = index_file.TICK_NS
    assert index_file.may_change_unseen(stamp, stamp[3] + 99_000_000, tick)
    assert not index_file.may_change_unseen((1, 1, 5, 5), 200_000_000, tick)
    assert index_file.may_change_unseen((1, 1, 0, 10**9), 3 * 10**9, tick)


def test_a_moved_and_an_exchanged_file_are_seen(settled: Path) -> None:
    (settled / "fixed").mkdir()
    (settled / "batch7/B7-PT-01.md").rename(settled / "fixed/B7-PT-01.md")
    assert [row[PATH] for row in read_index(str(settled)).rows] == ["fixed/B7-PT-01.md", "batch7/B7-PT-02.md"]


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "other magic": lambda data: b"x" + data[1:],
    "one bit": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "no marshal": lambda data: data[:15] + index_file.crc32(b"junk").to_bytes(4) + b"junk",
    "a folder's worth of nothing": lambda data: data[:15] + index_file.crc32(b"N").to_bytes(4) + b"N",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_index_is_built_again(settled: Path, name: str) -> None:
    path = Path(cache_file(str(settled)))
    path.write_bytes(DAMAGES[name](path.read_bytes()))
    assert of(settled) == ["one", "two"]
    assert path.stat().st_size > 100


def test_an_index_of_other_code_is_not_trusted(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "writer", lambda folder: ("another version",))
    assert index_module._load(str(settled)) == ({}, None)
    assert of(settled) == ["one", "two"]


@pytest.mark.parametrize("path", ["model/ids.py", "rules/lint/rule.py", "store/edits/deeper/new.py"])
def test_an_index_is_of_every_file_of_the_code_that_reads_tickets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A file of a folder in a folder counts: the code may be shelved in any depth."""
    shutil.copytree(ROOT / "auditkit", tmp_path / "auditkit", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(index_file, "PACKAGE", str(tmp_path / "auditkit"))
    before = index_file.writer(str(tmp_path))
    assert index_file.writer(str(tmp_path)) == before
    put(tmp_path / "auditkit", path, "# changed\n")
    assert index_file.writer(str(tmp_path)) != before


# Where it lies.


def forge(folder: Path, path: Path) -> None:
    """Put an index at `path` that has every mark of being ours and of this folder, and says "forged"."""
    path.write_bytes(Path(cache_file(str(folder))).read_bytes())
    data = path.read_bytes()
    # With its length before it: "one" may be a part of the path that the tests lie in.
    payload = data[len(index_file.MAGIC) + 4 :].replace(b"\x03one", b"\x03bad")
    path.write_bytes(index_file.MAGIC + index_file.crc32(payload).to_bytes(4) + payload)


def test_an_index_in_the_tickets_folder_is_never_opened(settled: Path) -> None:
    """A cloned repository can hold one, and forged rows, or bytes that harm who unmarshals them, with it."""
    (settled / ".auditkit").mkdir()
    forge(settled, settled / ".auditkit/index")
    assert of(settled) == ["one", "two"]
    # The control: the same bytes are believed where only the user can have put them.
    os.replace(settled / ".auditkit/index", cache_file(str(settled)))
    os.chmod(cache_file(str(settled)), 0o600)
    assert of(settled) == ["bad", "two"]


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_index_that_others_can_write_is_not_read(settled: Path, mode: int) -> None:
    path = Path(cache_file(str(settled)))
    forge(settled, path)
    path.chmod(mode)
    assert of(settled) == ["one", "two"]


def test_a_link_in_place_of_an_index_is_not_followed(settled: Path, tmp_path: Path) -> None:
    path = Path(cache_file(str(settled)))
    forge(settled, tmp_path / "forged")
    path.unlink()
    path.symlink_to(tmp_path / "forged")
    forged = (tmp_path / "forged").read_bytes()
    assert of(settled) == ["one", "two"]
    assert (path.is_symlink(), (tmp_path / "forged").read_bytes()) == (False, forged)


@pytest.mark.parametrize("place", ["auditkit", "auditkit/tickets"])
def test_a_linked_cache_folder_is_not_used(tmp_path: Path, caches: Path, place: str) -> None:
    (caches / place).parent.mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (caches / place).symlink_to(tmp_path / "elsewhere")
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text(title="one"))
    assert of(tmp_path / "tickets") == ["one"]
    assert (cache_file(str(tmp_path / "tickets")), os.listdir(tmp_path / "elsewhere")) == ("", [])


def test_a_cache_folder_that_others_can_write_is_not_used(settled: Path, caches: Path) -> None:
    (caches / "auditkit/tickets").chmod(0o770)
    assert cache_file(str(settled)) == ""
    assert of(settled) == ["one", "two"]


def test_a_cache_folder_of_somebody_else_is_not_used(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_file(str(settled))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert cache_file(str(settled)) == ""
    assert of(settled) == ["one", "two"]


def test_caches_lie_where_the_user_has_them(settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for named in ("", "relative/is/ignored"):
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        assert cache_file(str(settled)).startswith(f"{tmp_path}/home/.cache/auditkit/tickets/")
    made = [path.stat().st_mode & 0o777 for path in (tmp_path / "home/.cache").rglob("*")]
    assert made == [0o700, 0o700]


def test_a_folder_named_through_a_link_has_the_same_rows(settled: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(settled)
    assert cache_file(str(tmp_path / "link")) == cache_file(str(settled))
    assert of(tmp_path / "link") == ["one", "two"]
    other = put(tmp_path / "other", "batch7/B7-PT-01.md", ticket_text("B7-PT-01", title="elsewhere")).parent.parent
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(other)
    assert of(tmp_path / "link") == ["elsewhere"]


def test_an_index_of_another_folder_is_not_trusted(settled: Path, tmp_path: Path) -> None:
    other = put(tmp_path / "other", "batch7/B7-PT-01.md", ticket_text("B7-PT-01", title="elsewhere")).parent.parent
    forge(settled, Path(cache_file(str(other))))
    assert index_module._load(str(other)) == ({}, None)
    assert of(other) == ["elsewhere"]


def test_without_a_place_for_it_everything_works(tmp_path: Path, caches: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text(title="one"))
    put(caches, "auditkit", "a file where the folder should be")
    assert of(tmp_path) == ["one"]
    assert (os.listdir(tmp_path), os.listdir(caches)) == (["B7-PT-01.md"], ["auditkit"])


def test_reading_leaves_nothing_among_the_tickets(settled: Path, caches: Path) -> None:
    assert sorted(os.listdir(settled)) == ["README.md", "batch7"]
    assert os.listdir(caches / "auditkit/tickets") == [os.path.basename(cache_file(str(settled)))]


def test_what_was_left_behind_goes_with_the_next_build(settled: Path, caches: Path, tmp_path: Path) -> None:
    place = caches / "auditkit/tickets"
    old = [put(place, name, b"") for name in (".auditkit-tmp.0a.1", "0000000a")]
    new = [put(place, name, b"") for name in (".auditkit-tmp.0a.2", "0000000b")]
    os.utime(old[0], ns=(0, old[0].stat().st_mtime_ns - 61 * 10**9))
    os.utime(old[1], ns=(0, old[1].stat().st_mtime_ns - 31 * 24 * 3600 * 10**9))
    put(settled, "batch7/B7-PT-03.md", ticket_text("B7-PT-03", title="three"))
    assert of(settled) == ["one", "two", "three"]
    assert ([path.exists() for path in old], [path.exists() for path in new]) == ([False] * 2, [True] * 2)


@pytest.mark.process
def test_two_builders_at_once_do_no_harm(tmp_path: Path) -> None:
    write_tickets(tmp_path, 200)
    code = "import sys\nfrom auditkit.store.listing.index import read_index\nprint(len(read_index(sys.argv[1]).rows))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    builders = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(4)]
    assert [builder.communicate()[0] for builder in builders] == [b"200\n"] * 4
    assert len(read_index(str(tmp_path)).rows) == 200
    assert os.listdir(os.path.dirname(cache_file(str(tmp_path)))) == [os.path.basename(cache_file(str(tmp_path)))]


def test_what_is_no_regular_file_is_broken_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "B7-PT-01.md")
    (tmp_path / "B7-PT-02.md").symlink_to("nowhere")
    for _ in range(2):
        broken = read_index(str(tmp_path)).broken
        assert [row[3] for row in broken] == ["not a regular file", "cannot be read: No such file or directory"]


def test_a_file_is_known_by_its_name_and_its_times(settled: Path) -> None:
    assert named_files(str(settled), "b7-pt-01") == ["batch7/B7-PT-01.md"]
    assert is_known_ticket(str(settled), "batch7/B7-PT-01.md")
    assert not is_known_ticket(str(settled), "README.md")
    put(settled, "batch7/B7-PT-01.md", "no ticket\n")
    assert not is_known_ticket(str(settled), "batch7/B7-PT-01.md")


# What is read for a row, against the ticket in full.


@pytest.mark.skipif(CORPUS is None, reason="the corpus of real tickets is not on this machine")
def test_rows_of_real_tickets_are_those_of_the_repository() -> None:
    assert CORPUS is not None
    folder = CORPUS / "tickets"
    repository = Repository(folder)
    entries = [read for file in repository.files() if isinstance(read := repository.read(file), Entry)]
    wanted = {entry.ticket.path.as_posix(): row_of(entry.ticket, entry.document) for entry in entries}
    assert len(wanted) > 100
    assert {row[PATH]: row for row in read_index(str(folder)).rows} == wanted


def test_rows_are_those_of_the_repository(tmp_path: Path) -> None:
    write_tickets(tmp_path, 30)
    put(tmp_path, "fixed/B9-PT-01.md", ticket_text("B9-PT-01"))
    repository = Repository(tmp_path)
    entries = [repository.find(ticket.id) for ticket in repository.listing().tickets]
    wanted = [row_of(entry.ticket, entry.document) for entry in entries]
    assert read_index(str(tmp_path)).rows == wanted
    assert [row[ID] for row in read_index(str(tmp_path)).rows][-1] == "B9-PT-01"


def test_columns_are_those_of_the_rows_and_few_changed_files_make_no_index(settled: Path) -> None:
    put(settled, "batch7/B7-PT-02.md", ticket_text("B7-PT-02", title="new"))
    (settled / "batch7/B7-PT-01.md").rename(settled / "batch7/B7-PT-03.md")
    put(settled, "broken.md", "no ticket\n")
    cached = Path(cache_file(str(settled))).read_bytes()
    rows, broken, found = read_columns(str(settled), ID, TITLE)
    assert sorted(rows) == [("batch7/B7-PT-02.md", "B7-PT-02", "new"), ("batch7/B7-PT-03.md", "B7-PT-01", "one")]
    assert ([row[0] for row in broken], len(found)) == (["broken.md"], 4)
    assert Path(cache_file(str(settled))).read_bytes() == cached
    index = read_index(str(settled))
    assert sorted(zip(index.column(PATH), index.column(ID), index.column(TITLE), strict=True)) == sorted(rows)


@pytest.mark.parametrize(
    ("names", "status", "own"),
    [
        (("batch7/B7-PT-01.md", "fixed/B7-PT-01.md"), "`fixed`", "fixed/B7-PT-01.md"),
        (("batch7/B7-PT-01.md", "fixed/B7-PT-01.md"), "`open`", "batch7/B7-PT-01.md"),
        (("batch7/B7-PT-01.md", "batch7/B7-PT-05.md"), "`open`", "batch7/B7-PT-01.md"),
        (("batch7/a.md", "batch7/b.md"), "`open`", "batch7/a.md"),
    ],
)
def test_a_file_under_two_names_is_one_ticket(tmp_path: Path, names: tuple[str, ...], status: str, own: str) -> None:
    """By the name that says its id and lies where its status belongs; a link to it is no second name."""
    put(tmp_path, names[0], ticket_text(status=status))
    (tmp_path / names[1]).parent.mkdir(exist_ok=True)
    os.link(tmp_path / names[0], tmp_path / names[1])
    assert [row[PATH] for row in read_index(str(tmp_path)).rows] == [own]
    os.unlink(tmp_path / names[1])
    os.symlink(tmp_path / names[0], tmp_path / names[1])
    assert len(read_index(str(tmp_path)).rows) == 2
