"""Rules about the title and the Ticket Metadata table: TK000 to TK005 and TK010 to TK014."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.model.enums import Severity
from auditkit.model.tickets.ids import agent_code, id_parts
from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import at_cell, at_row, is_new
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

REQUIRED = ("Ticket ID", "Severity", "Status", "Batch", "Agent", "Domain", "Created", "Updated")
"""The rows that must say something; Assignee may be empty."""

_TITLE = "Finding Ticket:"
UNREADABLE = "TK000"
"""Reading finds it: no rule can look at such a file."""


@rule(UNREADABLE, Level.ERROR, "The file cannot be read as a ticket")
def readable(page: Page, context: LintContext) -> Iterator[Problem]:
    """A file that is named or headed as a ticket is UTF-8, has a Ticket Metadata table and an id, no merge
    conflict, and evidence blocks that close.

    It is reported whatever is selected, and makes the command exit 2.
    Why: No other rule can look at it, and no list shows it.
    Bad: a file with <<<<<<< HEAD in it
    Good: the same with the conflict resolved
    Mend: Mend the file by hand; the message says where.
    """
    return iter(())


@rule("TK001", Level.ERROR, "The title does not start with 'Finding Ticket:'")
def title_prefix(page: Page, context: LintContext) -> Iterator[Problem]:
    """The first heading is `# Finding Ticket: ` and the ticket's title.

    Why: This heading tells tickets from the reports and process pages that lie beside them.
    Bad: # The norm overflows
    Good: # Finding Ticket: The norm overflows
    Mend: Put `Finding Ticket: ` before the title.
    """
    title = next((section for section in page.sections if section.level == 1), None)
    if title is None:
        yield Problem(f"no title: a ticket starts with '# {_TITLE} ...'")
    elif not title.title.startswith(_TITLE):
        yield Problem(f"the title does not start with '{_TITLE}'", title.line)


@rule("TK002", Level.ERROR, "The Ticket ID is missing or malformed")
def id_form(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Ticket ID is `B{batch}-{agent code}-{number}`, in capitals, with a known agent code.

    The number has two digits or more: the hundredth ticket of an agent in a batch gets three. Agent codes
    are DRL, PT, CR, and those under `agents` in auditkit.yaml.
    Why: Commands, relations and commit messages find a ticket by its id.
    Bad: | **Ticket ID** | `7-PT-1` |
    Good: | **Ticket ID** | `B7-PT-01` |
    Mend: Write the id that the file is named by.
    """
    cell = page.cell("Ticket ID")
    if cell is None or not cell.text:
        yield at_row(page, "Ticket ID", "no Ticket ID")
        return
    codes = "|".join(re.escape(code) for code in context.settings.agents)
    if re.fullmatch(rf"B\d{{1,4}}-(?:{codes})-\d{{2,6}}", cell.text, re.ASCII) is None:
        known = ", ".join(sorted(context.settings.agents))
        yield at_cell(cell, f"'{cell.text}' is no ticket id: B{{batch}}-{{agent}}-{{number}}, agent one of {known}")


@rule("TK003", Level.ERROR, "The file is not named by its Ticket ID")
def file_name(page: Page, context: LintContext) -> Iterator[Problem]:
    """The file of ticket B7-PT-01 is `B7-PT-01.md`.

    Why: `show` and `status` go by the file's name, people by the id; they must mean the same ticket.
    Bad: batch7/B7-PT-02.md with | **Ticket ID** | `B7-PT-01` |
    Good: batch7/B7-PT-01.md with | **Ticket ID** | `B7-PT-01` |
    Mend: Find out which of the two is right, and rename the file or correct the row.
    """
    cell = page.cell("Ticket ID")
    if cell is not None and cell.text and cell.text != page.ticket.path.stem:
        yield at_cell(cell, f"the file is named {page.ticket.path.stem}, the ticket {cell.text}")


@rule("TK004", Level.ERROR, "The same Ticket ID is in more than one file")
def one_file_for_each_id(page: Page, context: LintContext) -> Iterator[Problem]:
    """No other file has this ticket's id; there is one finding for each of the files.

    Nor has another local branch given the id to another ticket since the two went apart: the merge would
    bring two tickets with one id, or two texts in one file.
    Why: Nothing that names the id can say which ticket it means. Two branches that filed at once do this.
    Bad: batch7/B7-PT-01.md and fixed/B7-PT-01.md
    Good: fixed/B7-PT-01.md alone
    Mend: `auditkit ticket renumber` gives one of them another id; a copy that was left behind is deleted.
    """
    others = [other.ticket.path for other in context.pages.get(page.ticket.id, ())]
    elsewhere = ", ".join(path.as_posix() for path in others if path != page.ticket.path)
    if elsewhere:
        yield at_row(page, "Ticket ID", f"{page.ticket.id} is also in {elsewhere}")
    for branch in context.branches.get(page.ticket.id, ()):
        yield at_row(page, "Ticket ID", f"{page.ticket.id} is another ticket on the branch {branch}")


@rule("TK005", Level.ERROR, "A required metadata field is empty or absent")
def required_fields(page: Page, context: LintContext) -> Iterator[Problem]:
    """Every row of the metadata table but Assignee says something; one finding for each that does not.

    The Domain of a new ticket may still be found out.
    Why: A ticket without them cannot be listed, sorted or counted.
    Bad: | **Created** | |
    Good: | **Created** | 2026-03-04 |
    Mend: Fill in the row, or add the one that is missing.
    """
    heading = page.section("Ticket Metadata")
    for label in REQUIRED:
        cell = page.cell(label)
        if cell is None:
            yield Problem(f"no {label} in the metadata table", heading.line if heading else 1)
        elif not cell.text and not (label == "Domain" and is_new(page, context)):
            yield at_cell(cell, f"{label} is empty")


@rule("TK010", Level.ERROR, "The Severity is not P0 to P4")
def severity(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Severity is one of P0, P1, P2, P3 and P4, in capitals.

    Why: What is worked on next goes by severity; a ticket without one comes last, however bad it is.
    Bad: | **Severity** | `high` |
    Good: | **Severity** | `P1` |
    Mend: Choose one of the five.
    """
    yield from _not_among(page, "Severity", tuple(Severity))


@rule("TK011", Level.WARN, "The Status is not one of the project's spellings", is_fixable=True)
def status(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Status is spelled as the project spells it: auditkit's own words, or those of its configuration.

    Why: Other spellings (`wontfix`, `resolved`) are read, but a search for a status does not find them.
    Bad: | **Status** | `wontfix` |
    Good: | **Status** | `wont-fix` |
    Mend: `--fix` writes the canonical spelling where the word means a status that the project has.
    """
    yield from _not_among(page, "Status", context.settings.statuses)


@rule("TK012", Level.ERROR, "The Agent is not known")
def agent(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Agent is drl, pytorch, codereview, or a name under `agents` in auditkit.yaml.

    Why: Filters, sign-off and the split of reviews go by the agent's name.
    Bad: | **Agent** | `code-review` |
    Good: | **Agent** | `codereview` |
    Mend: Write the name that belongs to the code in the ticket's id.
    """
    yield from _not_among(page, "Agent", tuple(context.settings.agents.values()))


@rule("TK013", Level.ERROR, "The Batch differs from the one in the id")
def batch(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Batch row says the number that the ticket's id starts with.

    Why: One of the two is wrong, and lists go by the row while people go by the id.
    Bad: | **Ticket ID** | `B7-PT-01` | with | **Batch** | 6 |
    Good: | **Ticket ID** | `B7-PT-01` | with | **Batch** | 7 |
    Mend: Correct the row.
    """
    cell = page.cell("Batch")
    wanted = id_parts(page.ticket.id)[0]
    if cell is not None and cell.text and (not re.fullmatch(r"[0-9]{1,9}", cell.text) or int(cell.text) != wanted):
        yield at_cell(cell, f"batch '{cell.text}' differs from {page.ticket.id}")


@rule("TK014", Level.ERROR, "The Agent differs from the one in the id")
def agent_of_id(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Agent row names the agent whose code is in the ticket's id; a code that nobody has is TK002's.

    Why: The one who filed a ticket is the one who has to sign it off.
    Bad: | **Ticket ID** | `B7-PT-01` | with | **Agent** | `drl` |
    Good: | **Ticket ID** | `B7-PT-01` | with | **Agent** | `pytorch` |
    Mend: Correct the row; another spelling of the same agent is TK012's.
    """
    cell = page.cell("Agent")
    code, agents = id_parts(page.ticket.id)[1], context.settings.agents
    if cell is None or not cell.text or code not in agents:
        return
    if next((known for known, name in agents.items() if name == cell.text), agent_code(cell.text)) != code:
        yield at_cell(cell, f"agent '{cell.text}' differs from {page.ticket.id}")


def _not_among(page: Page, label: str, known: tuple[str, ...]) -> Iterator[Problem]:
    cell = page.cell(label)
    if cell is not None and cell.text and cell.text not in known:
        yield at_cell(cell, f"{label.lower()} '{cell.text}' is not one of {', '.join(known)}")
