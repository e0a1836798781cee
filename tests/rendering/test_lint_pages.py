"""docs/lint.md: a section for each rule, complete, up to date, and linked from the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.rule import Level, Rule
from tests.project_files import ROOT
from tests.rendering.lint_page import render_lint_page

PAGE = ROOT / "docs" / "lint.md"
RULES = list(all_rules().values())


def test_the_page_is_up_to_date(compare_golden: Callable[[Path, str], None]) -> None:
    compare_golden(PAGE, render_lint_page(RULES))


def test_each_rule_has_a_row_that_leads_to_its_section() -> None:
    page = PAGE.read_text("utf-8")
    assert all(f"| [{rule.id}](#{rule.id.lower()}) | {rule.level} |" in page for rule in RULES)
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_everything_that_its_section_shows(rule: Rule) -> None:
    """What it finds, why that matters, an example of each kind, and how to mend it."""
    assert {name for name, text in rule.parts().items() if text} == {"", "Why", "Bad", "Good", "Mend"}


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
    page = render_lint_page([rule])
    assert "\n## TK999\n\n**a | b**\n\nLevel: warn. `--fix` mends it where no judgement is needed.\n\nIt finds" in page
    assert "````text\n```\n# no heading\n````" in page
    assert "### How to mend it\n\nDo it\n" in page
    assert "| a \\| b | `--fix` |" in page
