"""docs/architecture.md is what the import table and the packages say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.architecture import FILES, PAGE, arrows, packages, page
from tests.layers import LAYERS, Layer


def test_the_page_is_drawn_from_the_table_and_the_packages(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden", default=False):
        PAGE.write_text(page(text), encoding="utf-8")
    assert page(PAGE.read_text(encoding="utf-8")) == PAGE.read_text(encoding="utf-8")


def test_another_import_changes_the_page() -> None:
    """The control: a layer that may import one more."""
    text = PAGE.read_text(encoding="utf-8")
    other = {**LAYERS, "model": replace(LAYERS["model"], ours=LAYERS["model"].ours | {"collectors"})}
    assert "model --> collectors" in page(text, other)
    assert page(text, other) != text


def test_an_arrow_that_a_longer_way_says_is_left_out() -> None:
    def layer(names: str, late: str = "") -> Layer:
        return Layer(frozenset(names.split()), calls_only=frozenset(late.split()))

    layers = {"top": layer("middle low"), "middle": layer("low"), "low": layer(""), "last": layer("", late="top")}
    assert arrows(layers) == [("top", "middle", False), ("middle", "low", False), ("last", "top", True)]


def test_every_package_says_what_it_is(tmp_path: Path) -> None:
    """A package without a sentence is seen, and ours all have one."""
    assert [line for line in packages(PAGE.parents[1] / "auditkit") if re.search(r": \S.*\S$", line) is None] == []
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "__init__.py").touch()
    assert list(packages(tmp_path / "a")) == ["- `a/b`: "]


def test_the_picture_shows_every_layer() -> None:
    drawn = {name for arrow in arrows(LAYERS) for name in arrow[:2]} | {"worker", "probing"}
    assert drawn == LAYERS.keys() - FILES
