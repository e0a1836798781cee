"""TK080 to TK083: the report that a ticket comes from is there and says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from auditkit.model.tickets.ids import agent_code, id_parts
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import ReportReference
from auditkit.rules.lint.checks.source import without_prefix
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”')
_REPORT_NAME = re.compile(r"batch[-_]?(\d{1,9})[-_]([a-z][a-z_-]*)\.md", re.IGNORECASE)
_FOLDED = re.compile(r"[\s*`]+")


@rule("TK080", Level.ERROR, "A report file is not in the tree")
def missing_report(page: Page, context: LintContext) -> Iterator[Problem]:
    """The report that a ticket names is neither in the checkout nor among the pages of the tickets folder.

    Without a checkout the repository that holds the tickets is looked at. Where one other file has the same
    name, the finding says where it is.

    Why: Nobody can read what the ticket was taken from.
    Bad: **Report file:** `docs/temp/batch3-drl.md`, after it moved to `docs/bugs`
    Good: **Report file:** `docs/bugs/batch3-drl.md`
    Mend: Write the path that the report has now.
    """
    for report in page.ticket.reports:
        if not _is_there(_plain(report, context), context):
            found = context.once("reports by name", _files_by_name).get(PurePosixPath(report.file).name, ())
            where = f" (found at {found[0]})" if len(found) == 1 else ""
            yield Problem(f"report {report.file} not in tree{where}", report.line)


@rule("TK081", Level.WARN, "No report reference", waits=True)
def no_report(page: Page, context: LintContext) -> Iterator[Problem]:
    """The ticket does not say which report it comes from.

    Tickets that auditkit filed need none: their evidence block is the report.

    Why: The reasons and the surroundings of a finding stand in the report only.
    Bad: ## Appendix without a line that names a report
    Good: **Report file:** `docs/bugs/batch3-drl.md`
    Mend: Add the line to the Appendix.
    """
    if not page.ticket.reports and not page.ticket.fingerprints:
        yield Problem("no report reference")


@rule("TK082", Level.INFO, "The report is another agent's or batch's")
def foreign_report(page: Page, context: LintContext) -> Iterator[Problem]:
    """A report named `batchN-agent.md` is of another batch or agent than the ticket's id.

    A ticket that names its own report too may name others besides.

    Why: Either is a slip, and sign-off is asked of the wrong agent.
    Bad: **Report file:** `docs/bugs/batch3-drl.md`, in B3-PT-04
    Good: **Report file:** `docs/bugs/batch3-pytorch.md`, in B3-PT-04
    Mend: Correct the report's name; if the finding really was another agent's, say so in the Appendix.
    """
    batch, code, _ = id_parts(page.ticket.id)
    named = [(report, _REPORT_NAME.fullmatch(PurePosixPath(report.file).name)) for report in page.ticket.reports]
    origins = [(report, (int(name[1]), agent_code(name[2]))) for report, name in named if name is not None]
    if any(origin == (batch, code) for _, origin in origins):
        return
    for report, (other_batch, other_code) in origins:
        yield Problem(f"report of B{other_batch}-{other_code} in a ticket of B{batch}-{code}", report.line)


@rule("TK083", Level.INFO, "A quoted section is not in the report")
def missing_section(page: Page, context: LintContext) -> Iterator[Problem]:
    """A text in quotation marks behind `**Section:**` does not occur in the report.

    Blanks, `*`, backticks and capitals make no difference. Where the report is not there, TK080 says so.

    Why: The finding cannot be looked up in a report of many pages.
    Bad: **Section:** "P3 - Code Quality", where the report says "P3: Code quality"
    Good: **Section:** "P3: Code quality"
    Mend: Copy the heading from the report.
    """
    for report in page.ticket.reports:
        text = _report_text(report, context)
        quoted = [straight or curly for straight, curly in _QUOTED.findall(report.section)]
        missing = [quote for quote in quoted if text is not None and _fold(quote) not in text]
        if missing:
            yield Problem(f"quoted section not in report: {missing}", report.line)


def _plain(report: ReportReference, context: LintContext) -> str:
    return without_prefix(report.file, context.settings.prefix)


def _is_there(path: str, context: LintContext) -> bool:
    in_tree = context.tree is not None and path in context.tree.paths
    return in_tree or path in context.reports or _in_folder(path, context) is not None


def _in_folder(path: str, context: LintContext) -> str | None:
    """The page of the tickets folder that a path of the checkout means."""
    inside = path.removeprefix(f"{context.folder}/") if context.folder else path
    return inside if inside in context.reports else None


def _files_by_name(context: LintContext) -> Mapping[str, list[str]]:
    """Every Markdown file by its name; those of the tickets folder once, as the checkout names them."""
    folder = f"{context.folder}/" if context.folder else ""
    paths = {f"{folder}{path}" for path in context.reports}
    if context.tree is not None:
        paths |= {path for path in context.tree.paths if path.endswith(".md")}
    named: dict[str, list[str]] = {}
    for path in sorted(paths):
        named.setdefault(PurePosixPath(path).name, []).append(path)
    return named


def _report_text(report: ReportReference, context: LintContext) -> str | None:
    """The folded text of a report, by its path or else by its name; None where it is not there."""
    path = _plain(report, context)
    if not _is_there(path, context):
        found = context.once("reports by name", _files_by_name).get(PurePosixPath(path).name, [])
        path = found[0] if found else ""
    inside = _in_folder(path, context)
    if inside is not None:
        return context.once(("report", inside), lambda _: _fold(context.reports[inside]))
    tree = context.tree
    if tree is None or path not in tree.paths:
        return None
    return context.once(("report", path), lambda _: _fold("\n".join(tree.lines(path))))


def _fold(text: str) -> str:
    """Text for comparison: blanks, `*` and backticks as one blank, small letters."""
    return _FOLDED.sub(" ", text).strip().casefold()
