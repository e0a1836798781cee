"""Rules about the parts of a page: its sections, its end, and its category list, TK006 to TK008, TK021 to TK023."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import visible_lines
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

REQUIRED = (
    "Ticket Metadata",
    "Location",
    "Summary",
    "Detailed Description",
    "Recommended Fix",
    "Verification",
    "Related Findings",
    "Appendix",
)
REQUIRED_BELOW = ("What's Wrong", "How to Verify the Fix", "Original Report Reference")

_BOX = re.compile(r"\s*[-*+] \[(?P<mark>[ xX])\]\s+(?P<label>.*?)\s*")


@rule("TK006", Level.WARN, "A required section is missing")
def sections(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket has the sections Ticket Metadata, Location, Summary, Detailed Description, Recommended Fix,
    Verification, Related Findings and Appendix, in any order; one finding for each that is missing.

    Why: Who takes the ticket looks for what is wrong, where, and how to tell that it is mended.
    Bad: a ticket without ## Verification
    Good: ## Verification with a box for each thing to check
    Mend: Add the section; where there is nothing to say, say so in it.
    """
    there = {section.title.casefold() for section in page.sections if section.level == 2}
    for title in REQUIRED:
        if title.casefold() not in there:
            yield Problem(f"no section '{title}'")


@rule("TK007", Level.INFO, "A required subsection is missing")
def subsections(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket has the subsections What's Wrong, How to Verify the Fix and Original Report Reference.

    Why: They keep the claim, its check and its source apart from the rest of their sections.
    Bad: ## Verification with boxes directly below it
    Good: ## Verification, ### How to Verify the Fix, and the boxes below that
    Mend: Add the heading above the text that belongs below it.
    """
    there = {_straight(section.title) for section in page.sections if section.level == 3}
    for title in REQUIRED_BELOW:
        if _straight(title) not in there:
            yield Problem(f"no subsection '{title}'")


@rule("TK008", Level.INFO, "No newline at the end of the file", is_fixable=True)
def final_newline(page: Page, context: LintContext) -> Iterator[Problem]:
    """The last line ends with a line end.

    Why: The next line that somebody adds would join it, and a merge shows a change where there is none.
    Bad: a last line without a line end
    Good: a last line with one
    Mend: `--fix` adds it.
    """
    if not page.ends_with_newline and page.lines:
        yield Problem("no newline at the end of the file", len(page.lines), len(page.lines[-1]) + 1)


@rule("TK021", Level.WARN, "No category is ticked", waits=True)
def category_ticked(page: Page, context: LintContext) -> Iterator[Problem]:
    """At least one box of the category list in Summary is ticked.

    Why: Summaries by kind of defect leave the ticket out.
    Bad: - [ ] Numerical stability
    Good: - [x] Numerical stability
    Mend: Tick what applies.
    """
    boxes = list(_boxes(page))
    if not any(is_ticked for _, _, _, is_ticked in boxes):
        section = page.section("Summary")
        line = boxes[0][0] if boxes else section.line if section else 1
        yield Problem("no category is ticked", line)


@rule("TK022", Level.WARN, "A category that is not known")
def category_known(page: Page, context: LintContext) -> Iterator[Problem]:
    """Every label of the category list is one of the twelve, or of `lint: categories` in auditkit.yaml.

    Why: A label of its own is a category that nobody searches for.
    Bad: - [x] Overflow
    Good: - [x] Numerical stability
    Mend: Tick the known category that is nearest, or add the label to the configuration.
    """
    for line, column, label, _ in _boxes(page):
        if label not in context.settings.categories:
            yield Problem(f"no such category: '{label}'", line, column)


@rule("TK023", Level.INFO, "The category list is not complete")
def category_list_complete(page: Page, context: LintContext) -> Iterator[Problem]:
    """The category list has all labels, ticked or not; a ticket without any list is TK021's.

    Why: What is not ticked says that somebody thought of it; what is not there says nothing.
    Bad: a list of the ticked categories alone
    Good: all twelve labels, some ticked
    Mend: Add the labels that are missing, not ticked.
    """
    boxes = list(_boxes(page))
    labels = {label for _, _, label, _ in boxes}
    missing = [label for label in context.settings.categories if label not in labels]
    if boxes and missing:
        yield Problem(f"the category list lacks {', '.join(missing)}", boxes[0][0])


def _boxes(page: Page) -> Iterator[tuple[int, int, str, bool]]:
    """The boxes of Summary: line and column (both 1-based) of the label, the label, whether it is ticked."""
    for number, text in visible_lines(page, "Summary"):
        box = _BOX.fullmatch(text)
        if box is not None:
            yield number, box.start("label") + 1, box["label"], box["mark"] != " "


def _straight(title: str) -> str:
    return title.replace("\u2019", "'").casefold()
