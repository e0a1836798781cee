"""docs/lint: a page for each rule, complete, up to date, and linked from the index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit.rendering.lint_pages import render_rule_index, render_rule_page, rule_parts
from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.rule import Level, Rule
from tests.project_files import ROOT

PAGES = ROOT / "docs" / "lint"
RULES = list(all_rules().values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_page_of_a_rule_is_up_to_date(rule: Rule, compare_golden: Callable[[Path, str], None]) -> None:
    compare_golden(PAGES / f"{rule.id}.md", render_rule_page(rule))


def test_the_index_is_up_to_date(compare_golden: Callable[[Path, str], None]) -> None:
    compare_golden(PAGES / "README.md", render_rule_index(RULES))


def test_there_is_a_page_for_each_rule_and_no_other() -> None:
    assert {path.stem for path in PAGES.iterdir()} == {rule.id for rule in RULES} | {"README"}
    index = (PAGES / "README.md").read_text("utf-8")
    assert all(f"| [{rule.id}]({rule.id}.md) | {rule.level} |" in index for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_everything_that_its_page_shows(rule: Rule) -> None:
    """What it finds, why that matters, an example of each kind, and how to mend it."""
    assert {name for name, text in rule_parts(rule).items() if text} == {"", "Why", "Bad", "Good", "Mend"}


def test_an_example_cannot_break_the_page() -> None:
    """A fence in an example stays in it, and a pipe in a title stays in its cell."""

    def check(page: object, context: object) -> tuple[()]:
        """It finds this.

        Bad: ```
        # no heading
        Mend: do it
        """
        return ()

    rule = Rule("TK999", Level.WARN, "a | b", check, is_fixable=True)
    page = render_rule_page(rule)
    assert page.startswith("# TK999: a | b\n\nLevel: warn. `--fix` mends it where no judgement is needed.\n\nIt finds")
    assert "````text\n```\n# no heading\n````" in page
    assert "## How to mend it\n\nDo it\n" in page
    assert "| a \\| b | `--fix` |" in render_rule_index([rule])
