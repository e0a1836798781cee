"""Small tickets, and a repository, of our own: for the rules that compare tickets with source and each other."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from auditkit.model.tickets.ids import TicketId
from auditkit.model.tickets.page import Page
from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.rule import LintContext, LintSettings, SourceTree
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.pages import page_of

COLLECTOR = """import torch


def collect_norms(parameters):
    total = torch.zeros(())
    for parameter in parameters:
        total += parameter.grad.pow(2).sum()
    return total.sqrt().item()


def describe(total):
    text = f"norm {total:.3f}"  # for people
    return text
"""
REPORT = "# Batch 7\n\n## P1 -   **Correctness** of `sums`\n\nThe squares overflow.\n"


def page(
    ticket_id: str = "B7-PT-01",
    title: str = "Squares overflow in collect_norms",
    severity: str = "P2",
    status: str = "open",
    files: str = "`src/pkg/collector.py`",
    lines: str = "`4-8`",
    function: str = "`collect_norms()`",
    description: str = "",
    related: str = "",
    resolution: str = "",
    appendix: str = '**Report file:** `docs/bugs/batch7-pytorch.md`\n**Section:** "P1 - Correctness of sums" (ID 1)',
    folder: str = "batch7",
) -> Page:
    """A ticket that no rule of these tests has anything against, but for the parts given."""
    text = f"""# Finding Ticket: {title}

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `{ticket_id}` |
| **Severity** | `{severity}` |
| **Status** | `{status}` |

## Location

| Field | Value |
|-------|-------|
| **File(s)** | {files} |
| **Line(s)** | {lines} |
| **Function/Class** | {function} |

## Detailed Description

{description}

## Related Findings

{related}

## Resolution

{resolution}

## Appendix

{appendix}
"""
    return page_of(Document.parse(text.encode(), PurePath(folder, f"{ticket_id}.md")))


def context_of(
    pages: Sequence[Page],
    tree: SourceTree | None = None,
    reports: Mapping[str, str] | None = None,
    prefix: str = "",
    folder: str = "",
) -> LintContext:
    by_id: dict[TicketId, list[Page]] = {}
    for one in pages:
        by_id.setdefault(one.ticket.id, []).append(one)
    return LintContext(LintSettings(prefix=prefix), by_id, reports or {}, tree, folder)


def found(rule_id: str, one: Page, context: LintContext) -> list[tuple[str, str]]:
    """What a rule says of a page: the line it points at, and the message."""
    problems = all_rules()[rule_id].check(one, context)
    return [(one.lines[problem.line - 1].strip(), problem.message) for problem in problems]


def run_git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=A Person", "-c", "user.email=a@example.org", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> dict[str, str]:
    """A repository with a collector, a test and a report; its commits by name: first, main and side."""
    for path, text in {
        "src/pkg/collector.py": COLLECTOR,
        "src/pkg/report.py": "def show(total):\n    print(total)\n",
        "tests/test_collector.py": "def test_collector():\n    pass\n",
        "docs/bugs/batch7-pytorch.md": REPORT,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    run_git(folder, "init", "-q", "-b", "main")
    commits = {"first": _commit(folder, "the collector")}
    run_git(folder, "switch", "-q", "-c", "side")
    (folder / "side.py").write_text("side = 1\n", "utf-8")
    commits["side"] = _commit(folder, "never merged")
    run_git(folder, "switch", "-q", "main")
    (folder / "later.py").write_text("later = 1\n", "utf-8")
    commits["main"] = _commit(folder, "later work")
    return commits


def _commit(folder: Path, message: str) -> str:
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "-m", message)
    return run_git(folder, "rev-parse", "HEAD")
