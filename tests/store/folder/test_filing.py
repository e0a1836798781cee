"""From a finding to its ticket: new, refreshed, unchanged, reopened; by many processes at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.model.tickets.ticket import Status
from auditkit.store.folder.filing import FilingAction, file_findings
from auditkit.store.folder.repository import Repository
from tests.filing_helpers import NEW_REVISION, ROOT, file_plain, plain_findings, plain_forms, put, ticket_text

pytestmark = pytest.mark.process

PRINT = "norm_overflows/1/train.norms:total_norm"
OTHER_ROW = "| `norm` | nan | value | n=4 | measured |"


def test_a_finding_without_a_ticket_gets_one(tmp_path: Path) -> None:
    filed = file_plain(Repository(tmp_path / "tickets"), PRINT)
    assert (filed.action, filed.id) == (FilingAction.CREATED, "B7-PT-01")
    assert filed.path == tmp_path / "tickets" / "batch7" / "B7-PT-01.md"
    assert filed.path.read_text() == ticket_text("B7-PT-01", fingerprint=PRINT)


def test_the_same_finding_again_writes_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    path = file_plain(repository, PRINT).path
    stamp = path.stat().st_mtime_ns
    assert file_plain(repository, PRINT).action is FilingAction.UNCHANGED
    assert file_plain(Repository(tmp_path), PRINT).action is FilingAction.UNCHANGED
    assert path.stat().st_mtime_ns == stamp


def test_another_time_is_no_change_and_another_value_is_one(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    slow = "| `call` | 3.4 | ms | n=4 | measured |"
    fast = "| `call` | 1.2 | ms | n=4 | measured |"
    file_plain(repository, PRINT, slow)
    assert file_plain(repository, PRINT, fast).action is FilingAction.UNCHANGED
    assert file_plain(repository, PRINT, OTHER_ROW).action is FilingAction.REFRESHED


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_refresh_keeps_every_byte_that_people_wrote(tmp_path: Path, newline: str) -> None:
    text = ticket_text(
        "B3-CR-09",
        title="renamed by hand | é",
        fingerprint=PRINT,
        status="**deferred** (until June)",
        extra="\n## Cross-Review\n\n| Verdict | **OBJECT** |\n\nno line end at the end",
    ).replace("\n", newline)
    path = put(tmp_path, "anywhere/B3-CR-09.md", text)
    filed = file_plain(Repository(tmp_path), PRINT, OTHER_ROW)
    assert (filed.action, filed.id, filed.path) == (FilingAction.REFRESHED, "B3-CR-09", path)
    assert path.read_bytes() == text.replace("| `norm` | inf |", "| `norm` | nan |").encode()


@pytest.mark.parametrize("status", ["fixed", "closed", "already-fixed", "resolved"])
def test_what_was_mended_and_returns_is_open_again(tmp_path: Path, status: str) -> None:
    text = ticket_text(fingerprint=PRINT, status=f"`{status}`")
    put(tmp_path, "fixed/B7-PT-01.md", text)
    filed, path = file_plain(Repository(tmp_path), PRINT), tmp_path / "batch7" / "B7-PT-01.md"
    assert (filed.action, filed.path) == (FilingAction.REOPENED, path)
    told = f"2026-03-04: returned at revision {NEW_REVISION}; the status was {status} and is open again"
    expected = text.replace(f"**Status** | `{status}`", "**Status** | `open`", 1)
    expected = expected.replace("**Updated** | 2026-01-02", "**Updated** | 2026-03-04")
    end = "<!-- /auditkit:evidence -->"
    changes = f"- 2026-03-04: {status} to open: {PRINT} returned at revision {NEW_REVISION}"
    assert path.read_text() == (
        expected.replace(end, f"\n**History**\n\n- {told}\n{end}")
        + f"\n---\n\n## Resolution\n\n### Status Changes\n\n{changes}\n"
    )


def test_every_return_is_remembered(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    path = put(tmp_path, "B7-PT-01.md", ticket_text(fingerprint=PRINT, status="`fixed`"))
    file_plain(repository, PRINT, revision="1" * 40)
    path.write_text(path.read_text().replace("**Status** | `open`", "**Status** | `closed`"))
    file_plain(repository, PRINT, revision="")
    assert file_plain(repository, PRINT, OTHER_ROW).action is FilingAction.REFRESHED
    (block,) = repository.find("B7-PT-01").document.evidence
    assert block.history == (
        f"2026-03-04: returned at revision {'1' * 40}; the status was fixed and is open again",
        "2026-03-04: returned at an unknown revision; the status was closed and is open again",
    )


@pytest.mark.parametrize("status", ["wont-fix", "not-a-bug", "duplicate", "deferred", "open", "in-review", "brewing"])
def test_what_people_decided_stands(tmp_path: Path, status: str) -> None:
    text = ticket_text(fingerprint=PRINT, status=f"`{status}`")
    path = put(tmp_path, "B7-PT-01.md", text)
    repository = Repository(tmp_path)
    assert file_plain(repository, PRINT).action is FilingAction.UNCHANGED
    assert file_plain(repository, PRINT, OTHER_ROW).action is FilingAction.REFRESHED
    assert path.read_text() == text.replace("| `norm` | inf |", "| `norm` | nan |")


def test_a_ticket_closed_as_wont_fix_stays_closed(tmp_path: Path) -> None:
    text = ticket_text(fingerprint=PRINT, status="`closed`").replace(
        "| **Batch** | 7 |", "| **Resolution** | `won't fix` |\n| **Batch** | 7 |"
    )
    put(tmp_path, "B7-PT-01.md", text)
    assert file_plain(Repository(tmp_path), PRINT, OTHER_ROW).action is FilingAction.REFRESHED


def test_of_two_tickets_the_unfinished_one_is_refreshed(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text("B7-PT-01", fingerprint=PRINT, status="`duplicate`"))
    put(tmp_path, "B7-PT-02.md", ticket_text("B7-PT-02", fingerprint=PRINT))
    assert file_plain(Repository(tmp_path), PRINT, OTHER_ROW).id == "B7-PT-02"


def test_without_its_markers_a_ticket_is_not_found_and_a_new_one_filed(tmp_path: Path) -> None:
    text = ticket_text(fingerprint=PRINT).replace("auditkit:evidence", "evidence")
    path = put(tmp_path, "batch7/B7-PT-01.md", text)
    filed = file_plain(Repository(tmp_path), PRINT)
    assert (filed.action, filed.id) == (FilingAction.CREATED, "B7-PT-02")
    assert path.read_text() == text


def test_a_broken_ticket_of_the_finding_stops_the_filing(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text(fingerprint=PRINT) + "\n<<<<<<< HEAD\n")
    with pytest.raises(BadInputError, match="unresolved merge conflict"):
        file_plain(Repository(tmp_path), PRINT)
    assert file_plain(Repository(tmp_path), "other/1/a:b").action is FilingAction.CREATED


@pytest.mark.parametrize("fingerprint", ["", "two\nlines", "\x1b[31m"])
def test_a_fingerprint_that_no_cell_can_hold_is_refused(tmp_path: Path, fingerprint: str) -> None:
    with pytest.raises(BadInputError, match="not a fingerprint"):
        file_plain(Repository(tmp_path), fingerprint)


def test_a_rendered_ticket_without_its_fingerprint_is_not_written(tmp_path: Path) -> None:
    forms = replace(plain_forms(), ticket=lambda _, new: ticket_text(new).encode())
    with pytest.raises(ValueError, match="does not hold the fingerprint"):
        file_findings(Repository(tmp_path), [plain_findings(PRINT)], forms)
    assert Repository(tmp_path).listing().tickets == ()


def test_nothing_is_closed_because_a_run_did_not_mention_it(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    file_plain(repository, PRINT)
    file_plain(repository, "other/1/a:b")
    assert [ticket.status for ticket in repository.listing().tickets] == [Status.OPEN, Status.OPEN]


PROCESSES, OWN, SHARED = 8, 10, 20
WRITER = """
import contextlib, sys, time
from pathlib import Path
from auditkit.store.folder import files, repository
from tests import filing_helpers
me, folder, naive = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == 'naive'
if naive:
    repository.Repository.writing = lambda self: contextlib.nullcontext()
    def create(path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    repository.create_file = create
print('ready', flush=True)
sys.stdin.readline()
store = repository.Repository(folder)
for number in range({own}):
    filing_helpers.file_plain(store, f'own/1/p{{me}}:f{{number}}')
for number in range({shared}):
    filing_helpers.file_plain(store, f'shared/1/p:f{{number}}')
"""


def tickets_of_many_processes(folder: Path, kind: str) -> Counter[str]:
    """How many tickets each fingerprint has, after eight processes filed 100 findings at once."""
    program = WRITER.format(own=OWN, shared=SHARED)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(me), str(folder), kind],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if kind == "naive" else None,
        )
        for me in range(PROCESSES)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    codes = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        codes.append(writer.returncode)
    assert kind == "naive" or codes == [0] * PROCESSES
    listing = Repository(folder).listing()
    assert kind == "naive" or listing.broken == ()
    assert kind == "naive" or len({ticket.id for ticket in listing.tickets}) == len(listing.tickets)
    return Counter(fingerprint for ticket in listing.tickets for fingerprint in ticket.fingerprints)


def expected_tickets() -> Counter[str]:
    own = {f"own/1/p{me}:f{number}" for me in range(PROCESSES) for number in range(OWN)}
    return Counter(own | {f"shared/1/p:f{number}" for number in range(SHARED)})


def test_eight_processes_lose_no_ticket_and_file_none_twice(tmp_path: Path) -> None:
    assert len(expected_tickets()) == 100
    assert tickets_of_many_processes(tmp_path, "ours") == expected_tickets()
    numbers = sorted(int(path.stem[6:]) for path in tmp_path.rglob("B7-PT-*.md"))
    assert numbers == list(range(1, 101))


def test_the_same_check_finds_what_writers_without_a_lock_lose(tmp_path: Path) -> None:
    assert tickets_of_many_processes(tmp_path, "naive") != expected_tickets()
