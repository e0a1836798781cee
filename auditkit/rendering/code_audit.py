"""A code audit as Markdown."""

from __future__ import annotations

from auditkit.model.runs.target import short_target
from auditkit.rendering import markdown
from auditkit.rendering.audit_report import evidence_words
from auditkit.rendering.environment import render
from auditkit.rendering.evidence import excerpt_text
from auditkit.rules.reports.code_audit import CodeAudit, Entry, Kind, by_message, fix_of
from auditkit.rules.reports.words import in_words

MOST_COMMITS = 5
"""Commits that are named for one function; how many more there are is said."""


def render_code_audit(audit: CodeAudit) -> bytes:
    """The whole document; ends with a newline."""
    report = audit.report
    return render(
        "code_audit.md.j2",
        filters={
            "target": short_target if len(report.modules) == 1 else str,
            "excerpt": excerpt_text,
            "evidence_words": evidence_words,
            "commits": commits_text,
            "by_message": by_message,
        },
        audit=audit,
        report=report,
        files=", ".join(map(markdown.code, report.files)) or "no file",
        targets=", ".join(map(markdown.code, report.targets)),
        heading=heading_of,
        fix=fix_of,
    )


def heading_of(entry: Entry) -> str:
    """`HIGH (P1): collect: The norm overflows`, or what was asked without finding anything."""
    if entry.severity is not None:
        return f"{in_words(entry.severity)}: {entry.title}"
    return f"{entry.title} ({'no issue' if entry.kind is Kind.NO_ISSUE else entry.kind.value})"


def commits_text(entry: Entry) -> str:
    """The commits that touched a finding's file: `Commits to its file: 1bc9278 "use _foreach_norm"`."""
    commits = entry.history.commits if entry.history else ()
    shown = [f"{markdown.code(one.hash[:7])} {markdown.line(one.subject)}" for one in commits[:MOST_COMMITS]]
    more = f" and {len(commits) - MOST_COMMITS} more" if len(commits) > MOST_COMMITS else ""
    return f"Commits to its file: {'; '.join(shown)}{more}."
