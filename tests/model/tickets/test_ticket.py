"""Statuses and severities as people write them, and how a broken file is shown."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from auditkit.model.enums import Severity
from auditkit.model.tickets.ticket import FINISHED, BrokenTicket, Status, parse_severity, parse_status, read_status


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("open", Status.OPEN),
        ("Wont Fix", Status.WONT_FIX),
        ("wontfix", Status.WONT_FIX),
        ("won't fix", Status.WONT_FIX),
        ("wont-fix (by design)", Status.WONT_FIX),
        ("ALREADY_FIXED", Status.ALREADY_FIXED),
        ("invalid", Status.NOT_A_BUG),
        ("in progress", Status.FIX_IN_PROGRESS),
        ("fixed: see below", Status.FIXED),
        ("somewhere", None),
        ("", None),
    ],
)
def test_aliases_and_trailing_prose_are_read(written: str, meant: Status | None) -> None:
    assert read_status(written) is meant


def test_a_command_line_takes_a_status_and_nothing_beside_it() -> None:
    assert parse_status("In-Review") is Status.IN_REVIEW
    with pytest.raises(ValueError, match="no such status: 'open please'"):
        parse_status("open please")


def test_every_status_is_read_as_itself_and_six_are_finished() -> None:
    assert [read_status(status.value) for status in Status] == list(Status)
    assert sorted(FINISHED) == ["already-fixed", "closed", "duplicate", "fixed", "not-a-bug", "wont-fix"]


def test_severities() -> None:
    assert parse_severity("p1") is Severity.P1
    with pytest.raises(ValueError, match="no such severity: 'P5'"):
        parse_severity("P5")


def test_a_broken_file_is_shown_with_a_caret_under_its_column() -> None:
    broken = BrokenTicket(PurePath("batch7/x.md"), 3, 6, "no id", "| a\tb\x1b |")
    assert broken.describe() == "batch7/x.md:3:6: no id\n    | a\tb\\x1b |\n       \t ^"
    assert BrokenTicket(PurePath("x.md"), 1, 1, "empty").describe() == "x.md:1:1: empty"
