"""The pages of a run and of a comparison: one model as Markdown and HTML, no text of a target as markup."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from auditkit.model.revisions.changes import Changes, Commit, FileChange
from auditkit.model.revisions.comparison import AnswerContrast, Comparison, Said
from auditkit.model.runs.fix import Fix, FixRow
from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.model.runs.run import Run
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.comparison_page import comparison_page, laws
from auditkit.reports.html.page import html_page
from auditkit.reports.page import Code, Link, Page, Section, Table, Text, Written, markdown_page
from auditkit.reports.requirements import judge_plan
from auditkit.reports.review_parts import Review, review_of
from auditkit.reports.run_page import run_page
from tests.compared_results import LAUNCHES, comparison
from tests.reports.exported_runs import ERROR, HOSTILE, MINOR, PASS, RUNS, UNAVAILABLE, WORST, hostile, result, run_of
from tests.reports.hostile import HOSTILE_TEXTS
from tests.reports.injections import INJECTIONS

PROBES = load_catalog()
MARKDOWN = MarkdownIt("commonmark").enable("table")


def markdown_of(run: Run, **sources: object) -> str:
    return markdown_page(run_page(Sources(run, PROBES, **sources))).decode()  # type: ignore[arg-type]


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def test_a_run_begins_with_five_sentences_at_most() -> None:
    lines = markdown_of(run_of(WORST, result(), MINOR, PASS, UNAVAILABLE, ERROR)).partition("\n\n**Checkout:**")[0]
    said = [line for line in lines.splitlines() if line.startswith("- ")]
    assert lines.startswith("# trainer at aaaaaaaaaaaa\n")
    assert len(said) == 5
    assert said[0].startswith("- Checked 3 functions with 5 probes: ")
    assert said[1].startswith("- The worst is P1: The norm overflows on finite gradients at stats.py:9")
    assert said[2] == "- 2 checks returned no result, which is not a pass."
    assert said[4].startswith("- Do this first: ")


def test_a_finding_is_in_one_place_and_a_minor_one_is_a_row() -> None:
    text = markdown_of(run_of(WORST, replace(MINOR, statement=None, location=Location("stats.py", 40)), PASS))
    assert text.count("The norm overflows on finite gradients") == 2  # in the summary, and where it is described
    assert "### P1 The norm overflows on finite gradients: layer_norms\n" in text
    assert "| `launches_grow_with_tensors` | `stats.py:40` | 1 line waits for the device |" in text
    assert "### P4" not in text


def test_the_blamed_line_is_marked_and_a_fix_that_was_run_takes_its_place() -> None:
    run = run_of(result())
    assert ">    5      return [" in markdown_of(run)
    fix = Fix("stats:layer_norms", "stats.py", "layer_norms", "--- a\n+++ b\n-x\n+y\n", ("one read",),
              (result().fingerprint,), (FixRow("p", "P2", "sound"),), "cpu", "2.13.0")  # fmt: skip
    fixed = markdown_of(replace(run, fixes=(fix,)))
    assert "```diff\n--- a\n+++ b\n-x\n+y\n```" in fixed
    assert "return [" not in fixed
    assert "**Fix that was run** on cpu with torch 2.13.0: one read." in fixed


def test_what_nobody_checked_is_no_pass() -> None:
    assert "Nothing reproduced.\n" in markdown_of(RUNS["none"])
    text = markdown_of(RUNS["errors"])
    assert "- **error** (1 check by norm_loses_accuracy): no result in 120 s\n" in text
    assert "which is not a pass" in text
    assert "No probe returned a result" in markdown_of(RUNS["unavailable"])


def test_new_known_and_gone_are_told() -> None:
    text = markdown_of(RUNS["known"])
    assert "1 known, 1 new, 1 gone; 1 minor without a ticket)" in " ".join(text.split())
    rows = [line for line in text.splitlines() if re.match(r"\| (new|gone|known) \|", line)]
    assert [row.split(" | ")[2] for row in rows] == ["`B1-PT-02`", "`B1-PT-03`", "`B1-PT-01`"]


def test_no_line_is_wider_than_a_screen() -> None:
    wide = run_of(result(message="word " * 100, excerpt=CodeExcerpt("a.py", 4, ("x" * 300,))), MINOR, ERROR)
    text = markdown_of(replace(wide, notes=("note " * 80,)))
    assert max(map(len, text.splitlines())) <= 140


def test_many_findings_are_described_and_the_others_listed() -> None:
    found = [replace(result(target=f"m:f{at}", statement=None, location=Location("m.py", at)), fingerprint=f"f{at}")
             for at in range(1, 41)]  # fmt: skip
    text = markdown_of(run_of(*found))
    assert (text.count("\n### P2 "), text.count("### More findings")) == (8, 1)
    assert len(text.splitlines()) < 250


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_changes_no_structure(text: str) -> None:
    """Messages, names and code of the target make no heading, row or HTML of their own."""
    made, plain = (
        markdown_of(replace(run_of(hostile(each), replace(ERROR, message=each)), notes=(each,))) for each in (text, "x")
    )
    kinds = [[token.type for token in MARKDOWN.parse(each) if token.level == 0] for each in (made, plain)]
    assert len(headings(made)) == len(headings(plain))
    assert kinds[0] == kinds[1]
    assert not [token for token in MARKDOWN.parse(made) if token.type == "html_block"]
    assert "\x1b" not in made


def test_no_host_makes_a_link_or_a_mention_of_a_target() -> None:
    """Outside of code stands nothing that a host would act on."""
    tokens = MARKDOWN.parse(markdown_of(run_of(*map(hostile, HOSTILE))))
    inside = [child for token in tokens for child in token.children or ()]
    assert not {"link_open", "image", "html_inline"} & {child.type for child in inside}
    bare = " ".join(child.content for child in inside if child.type == "text")
    assert not re.search(r"https?://|@maintainer|\x1b|\u2028", bare)


@pytest.mark.parametrize("text", INJECTIONS)
def test_every_block_of_html_escapes_its_text(text: str) -> None:
    table = Table((text,), ((text, Code(text), Link(text, "a")),), text)
    card = Section(text, (Text((text,)), table, Written(text)), severity="P1")
    made = html_page(Page(text, (text,), ((text, (text,)),), (card,))).decode().partition("<body")[2]
    assert not re.search(r"<(?:script|img|iframe|svg|form|style|link|base|meta)|href=.javascript", made)


# A comparison.


def reviewed(plan: str = "") -> Review:
    found = comparison()
    return review_of(found, judge_plan(plan, found))


def test_a_review_has_its_requirements_what_changed_and_one_line_for_the_rest() -> None:
    plan = f"# Plan\n\n- [ ] `{LAUNCHES}: fixed`\n- [x] rename things\n"
    text = markdown_page(comparison_page(reviewed(plan), PROBES)).decode()
    assert headings(text)[:2] == ["trainer: perf: one kernel for all gradients", "Requirements"]
    assert f"- **met** (plan): {LAUNCHES}: fixed: fixed: 3n+1 at the base, 5 at the head (simulated)" in text
    assert "- **not measurable** (plan): rename things: a requirement is one of PROBE: not_reproduced" in text
    assert "### P2 new: Peak memory grows with the parameters (total_norm)" in text
    assert "**There before:** P1 norm_overflows_on_finite_grads of total_norm." in text
    assert "| total_norm | launch_count (tensors=256) | 769 | 5 | better | simulated |" in text
    assert "- `trainer/stats.py` (+8 -13)" in text
    assert len([line for line in text.partition("\n\n**")[0].splitlines() if line.startswith("- ")]) == 5


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_nothing_that_others_wrote_becomes_markup(text: str) -> None:
    """Messages, names, commits and fields: no heading, no HTML, no row of a table that is not ours."""
    made, plain = (
        markdown_page(comparison_page(review_of(found, judge_plan(f"- [ ] {text}\n", found)), PROBES)).decode()
        for found in map(hostile_comparison, (text, "x"))
    )
    assert len(headings(made)) == len(headings(plain))
    assert not [token for token in MARKDOWN.parse(made) if token.type.startswith("html")]
    assert "\x1b" not in made


def hostile_comparison(text: str) -> Comparison:
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
        (FileChange(text, text, 1, 1), FileChange(text, "", 1, 0)),
    )
    match = replace(target.match, base=text, head=text)
    spoiled_target = replace(target, match=match, contrasts=contrasts, answers=spoiled)
    base, head = (
        replace(side, checkout=text, torch=text, python=text, device_name=text) for side in (found.base, found.head)
    )
    return replace(
        found, checkout=text, base=base, head=head, targets=(spoiled_target,), changes=changes, notes=(text,),
    )  # fmt: skip


def _hostile(said: Said | None, text: str) -> Said | None:
    return None if said is None else replace(said, message=text, law=text, target=text)


def test_an_approximate_law_keeps_its_figure() -> None:
    launches = next(each for each in comparison().contrasts if each.probe == LAUNCHES)
    assert launches.base is not None
    assert launches.head is not None

    def shown(base: str, head: str) -> str:
        sides = {"base": replace(launches.base, law=base), "head": replace(launches.head, law=head)}
        return laws(replace(launches, **sides))

    assert shown("about 10", "10") == "about 10 -> 10"
    assert shown("6 bytes per gradient byte", "2 bytes per gradient byte") == "6 -> 2 bytes per gradient byte"
