"""docs/architecture.md is what the import table and the packages say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.architecture import FILES, PAGE, arrows, page, rooms
from tests.house import HOUSE, Room


def test_the_page_is_drawn_from_the_table_and_the_packages(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden", default=False):
        PAGE.write_text(page(text), encoding="utf-8")
    assert page(PAGE.read_text(encoding="utf-8")) == PAGE.read_text(encoding="utf-8")


def test_another_import_changes_the_page() -> None:
    """The control: a room that may import one more."""
    text = PAGE.read_text(encoding="utf-8")
    other = {**HOUSE, "model": replace(HOUSE["model"], ours=HOUSE["model"].ours | {"collectors"})}
    assert "model --> collectors" in page(text, other)
    assert page(text, other) != text


def test_an_arrow_that_a_longer_way_says_is_left_out() -> None:
    def room(names: str, late: str = "") -> Room:
        return Room(frozenset(names.split()), calls_only=frozenset(late.split()))

    house = {"top": room("middle low"), "middle": room("low"), "low": room(""), "last": room("", late="top")}
    assert arrows(house) == [("top", "middle", False), ("middle", "low", False), ("last", "top", True)]


def test_every_room_says_what_it_is(tmp_path: Path) -> None:
    """A package without a sentence is seen, and ours all have one."""
    assert [line for line in rooms(PAGE.parents[1] / "auditkit") if re.search(r": \S.*\S$", line) is None] == []
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "__init__.py").touch()
    assert list(rooms(tmp_path / "a")) == ["- `a/b`: "]


def test_the_picture_shows_every_room() -> None:
    drawn = {name for arrow in arrows(HOUSE) for name in arrow[:2]} | {"worker", "probing"}
    assert drawn == HOUSE.keys() - FILES
