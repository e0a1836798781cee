"""An implementation review on the page: every part of a hand-written one, numbers of the runs, no forged markup."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from auditkit.model.revisions.changes import Changes, Commit, FileChange, TestChange
from auditkit.model.revisions.comparison import AnswerContrast, Comparison, MatchState, Said
from auditkit.model.revisions.implementation_review import ImplementationReview
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.rendering.comparison_text import comparison_lines, laws
from auditkit.rendering.review import render_review
from auditkit.rules.comparison.commit_claims import claims_of_commits
from auditkit.rules.comparison.implementation_review import review_of
from tests.compared_results import LAUNCHES, OVERFLOW, answers, comparison
from tests.rendering.hostile import HOSTILE_TEXTS

SECTIONS = (
    "Executive Summary", "Plan Alignment Analysis", "Code Quality Assessment", "Integration",
    "Test Coverage Analysis", "Performance Analysis", "Security and Safety", "Comparison with Plan",
    "Every Probe, Before and After", "Recommendations", "Final Assessment", "Artifacts",
)  # fmt: skip


def reviewed(found: Comparison, title: str = "perf: one kernel") -> ImplementationReview:
    claims = claims_of_commits(found.changes.commits, found)
    return replace(review_of(found, claims, load_catalog(), "Kim", "2026-03-04", "plan 5"), title=title)


def page(found: Comparison) -> str:
    return render_review(reviewed(found)).decode()


def headings(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"
    ]


def test_an_approximate_law_keeps_its_figure() -> None:
    launches = next(each for each in comparison().contrasts if each.probe == LAUNCHES)
    assert launches.base is not None
    assert launches.head is not None

    def shown(base: str, head: str) -> str:
        sides = {"base": replace(launches.base, law=base), "head": replace(launches.head, law=head)}
        return laws(replace(launches, **sides))

    assert shown("about 10", "10") == "about 10 -> 10"
    assert shown("6 bytes per gradient byte", "2 bytes per gradient byte") == "6 -> 2 bytes per gradient byte"


def test_a_review_has_every_part_and_every_number() -> None:
    """Requirements with their state, both implementations, the table of before and after, issues, files, commits."""
    text = page(comparison())
    assert tuple(headings(text)) == SECTIONS
    for line in (
        "# Implementation Review: perf: one kernel",
        "**Commits:** `aaaaaaaaaaaa` → `bbbbbbbbbbbb` of `trainer`",
        "**Plan Reference:** plan 5",
        "1 commit, 2 files (+39 -13). Answers of the probes about 1 target and its source: 1 fixed, 2 introduced, "
        "1 still reproduced, 1 still sound. Of 2 numbers in the answers, 2 agree.",
        "**Assessment:** ⚠️ **NEEDS WORK**",
        "**Requirements met:** 3 of 7. **Findings at the head:** 3, of which 2 new or worse.",
        "2. ❌ Reduces CUDA syncs from O(n_params) to O(1) per gradient group *(commit message)*",
        "| seeded | 2 | 2 | 1 | 1 | 0 | 0.0001 |",
        "| `launch_count` | tensors=256 | 769 | 5 | better | simulated |",
        "| `launches_grow_with_tensors` | 1,000 tensors | 3,001 | 5 | better | extrapolated |",
        "- `tests/test_stats.py::TestNorm::test_large`, names `trainer.stats:total_norm`",
        "- `trainer/stats.py` (+8 -13)",
        "- `tests/test_stats.py` (+31 -0, new)",
        '- `bbbbbbbbbbbb`: "perf: one kernel for all gradients" (A. Author, 2026-03-04)',
        "- **Critical Issues:** 1",
        "def total_norm(parameters):\n    return old",
        "signature unchanged: total_norm(parameters)",
    ):
        assert line in text, line
    assert (
        f"| `{OVERFLOW}` | `trainer.stats:total_norm` | P1 reproduced | P1 reproduced | still reproduced, same |"
        in text
    )


def test_every_row_of_figures_says_how_it_was_obtained() -> None:
    text = page(comparison())
    rows = re.findall(r"^\| `\w+` \|.*\| ([\w ]+) \|$", text, re.MULTILINE)
    assert len(rows) > 10
    assert set(rows) <= {"measured", "simulated", "extrapolated", "read", "none"}


def test_answers_that_differ_are_shown_with_the_exact_norm() -> None:
    found = comparison(values=(answers(float("inf"), 10.0), answers(10.0, 10.0)))
    row = "| seeded: seed=0 | `norm` | inf | 10 | 10 | inf (0.001 allowed) | the head |"
    assert row in page(found)
    assert "**Verification:**" not in page(found)


def test_the_same_body_is_shown_once() -> None:
    found = comparison()
    (target,) = found.targets
    same = replace(target, match=replace(target.match, state=MatchState.SAME, base_text=target.match.head_text))
    assert page(replace(found, targets=(same,))).count("return new") == 1


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_nothing_that_others_wrote_becomes_markup(text: str) -> None:
    """Messages, names, commits, fields: no heading, no HTML, no row of a table that is not ours."""
    found = hostile(text)
    written = page(found)
    assert tuple(headings(written)) == SECTIONS
    html = [token for token in MarkdownIt("commonmark").parse(written) if token.type.startswith("html")]
    assert html == []
    assert "\x1b" not in written
    assert "\u2028" not in written
    lines = list(comparison_lines(found, verbose=True))
    assert not any(line.startswith("trainer.stats:other") for line in lines)


def hostile(text: str) -> Comparison:
    """The comparison with `text` wherever somebody else's words stand."""
    found = comparison()
    (target,) = found.targets
    contrasts = tuple(
        replace(one, base=_hostile(one.base, text), head=_hostile(one.head, text), reason=text)
        for one in target.contrasts
    )
    spoiled: tuple[AnswerContrast, ...] = tuple(
        replace(one, case={"family": text, text: text}, field=text) for one in target.answers
    )
    changes = Changes(
        (Commit(text, text, text, f"{text}\n\nfewer kernel launches {text}"),),
        (FileChange(text, text, 1, 1), FileChange(text, "", 1, 0, True)),
        (TestChange(text, text, "added", (text,)),),
    )
    match = replace(target.match, base=text, head=text)
    spoiled_target = replace(target, match=match, contrasts=contrasts, answers=spoiled)
    base, head = (
        replace(side, checkout=text, torch=text, python=text, device_name=text) for side in (found.base, found.head)
    )
    return replace(
        found, checkout=text, base=base, head=head, targets=(spoiled_target,), changes=changes, differing=(text,),
        notes=(text,),
    )  # fmt: skip


def _hostile(said: Said | None, text: str) -> Said | None:
    return None if said is None else replace(said, message=text, law=text, target=text)


def test_a_line_of_the_terminal_has_at_most_100_columns() -> None:
    lines = list(comparison_lines(comparison(), verbose=True))
    assert max(map(len, lines)) <= 100
    row = f"  fixed             P2  {LAUNCHES}          3n+1 -> 5  simulated"
    assert row in lines
