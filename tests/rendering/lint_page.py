"""docs/lint.md: a list of the rules and a section for each, from the rules' own words."""

from __future__ import annotations

from collections.abc import Sequence

from auditkit.rendering import markdown
from auditkit.rules.lint.rule import Rule

_HEAD = """\
# Lint rules

`auditkit ticket lint` reports what these find, as `path:line:column: rule level: message`, on a terminal in groups by
rule (`--by file|rule|count`). `--select TK06` takes the rules whose ids start so, `--ignore` leaves some out, and
`lint:` in auditkit.yaml says both for a project.

An audit that was imported has hundreds of findings that nobody will mend. `--baseline FILE --write-baseline` writes
them down once; with `--baseline FILE` only new ones are reported, wherever lines and files have moved since.

error and warn make it exit 1, info does not: `--fail-on error|warn|info` moves the line (default warn). Exit 2
means that a file could not be read as a ticket (TK000), whatever else was found.

`--fix` mends what needs no judgement: the spelling of a status, a final newline, and the folder of a file whose
status says clearly where it belongs. It changes no other byte, and running it again changes nothing.

This page is made from the rules: rewrite it with
`python -m pytest tests/rendering/test_lint_pages.py --update-golden`.

| rule | level | what it finds | |
|---|---|---|---|"""
_TITLES = {"Why": "Why it matters", "Bad": "Bad", "Good": "Good", "Mend": "How to mend it"}


def render_lint_page(rules: Sequence[Rule]) -> str:
    """The rules as one page of Markdown; the section of TK011 is `#tk011`."""
    return "\n".join([_HEAD, *map(_row, rules), "", "\n".join(map(_section, rules))])


def _row(rule: Rule) -> str:
    marks = ["needs `--checkout`"] * rule.needs_tree + ["`--fix`"] * rule.is_fixable
    title = markdown.cell(rule.title)
    return f"| [{rule.id}](#{rule.id.lower()}) | {rule.level.value} | {title} | {', '.join(marks)} |"


def _section(rule: Rule) -> str:
    """Level, what the rule finds, why, a bad and a good example, how to mend it."""
    parts = rule.parts()
    facts = [f"Level: {rule.level.value}."]
    facts += ["Needs `--checkout`."] * rule.needs_tree
    facts += ["Waits until an open ticket is a week old."] * rule.waits
    facts += ["`--fix` mends it where no judgement is needed."] * rule.is_fixable
    found = [f"## {rule.id}", f"**{markdown.line(rule.title)}**", " ".join(facts), markdown.paragraphs(parts[""])]
    for name, title in _TITLES.items():
        if name in parts:
            is_example = name in ("Bad", "Good")
            found += [f"### {title}", markdown.fence(parts[name], "text") if is_example else _prose(parts[name])]
    return "\n\n".join(found) + "\n"


def _prose(text: str) -> str:
    return markdown.paragraphs(text[:1].upper() + text[1:])
