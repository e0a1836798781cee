"""docs/lint: a page for each rule and an index, from the rules' own words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence

from auditkit.rendering import markdown
from auditkit.rules.lint.rule import Rule

_HEAD = """\
# Lint rules

`auditkit ticket lint` reports what these find, as `path:line:column: rule message`. `--select TK06` takes the
rules whose ids start so, `--ignore` leaves some out, and `lint:` in auditkit.yaml says both for a project.

error and warn make it exit 1, info does not: `--fail-on error|warn|info` moves the line (default warn). Exit 2
means that a file could not be read as a ticket (TK000), whatever else was found.

`--fix` mends what needs no judgement: the spelling of a status, a final newline, and the folder of a file whose
status says clearly where it belongs. It changes no other byte, and running it again changes nothing.

These pages are made from the rules: rewrite them with
`python -m pytest tests/rendering/test_lint_pages.py --update-golden`.
"""
_PART = re.compile(r"^(Why|Bad|Good|Mend): *", re.MULTILINE)
_TITLES = {"Why": "Why it matters", "Bad": "Bad", "Good": "Good", "Mend": "How to mend it"}


def rule_parts(rule: Rule) -> Mapping[str, str]:
    """The parts of the rule's docstring: what it finds under "", and Why, Bad, Good and Mend."""
    pieces = _PART.split(inspect.getdoc(rule.check) or "")
    return {
        "": pieces[0].strip(),
        **{name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)},
    }


def render_rule_page(rule: Rule) -> str:
    """The page of one rule as Markdown: level, what it finds, why, a bad and a good example, how to mend it."""
    parts = rule_parts(rule)
    facts = [f"Level: {rule.level.value}."]
    facts += ["Needs `--checkout`."] if rule.needs_tree else []
    facts += ["`--fix` mends it where no judgement is needed."] if rule.is_fixable else []
    found = [f"# {rule.id}: {markdown.line(rule.title)}", " ".join(facts), markdown.paragraphs(parts[""])]
    for name, title in _TITLES.items():
        if name in parts:
            found += [f"## {title}", _example(parts[name]) if name in ("Bad", "Good") else _prose(parts[name])]
    return "\n\n".join(found) + "\n"


def render_rule_index(rules: Sequence[Rule]) -> str:
    """The index of all rules as Markdown."""
    rows = [
        f"| [{rule.id}]({rule.id}.md) | {rule.level.value} | {markdown.cell(rule.title)} | {_marks(rule)} |"
        for rule in rules
    ]
    return "\n".join([_HEAD, "| rule | level | what it finds | |", "|---|---|---|---|", *rows]) + "\n"


def _marks(rule: Rule) -> str:
    marks = ["needs `--checkout`"] if rule.needs_tree else []
    marks += ["`--fix`"] if rule.is_fixable else []
    return ", ".join(marks)


def _example(text: str) -> str:
    return markdown.fence(text, "text")


def _prose(text: str) -> str:
    return markdown.paragraphs(text[:1].upper() + text[1:])
