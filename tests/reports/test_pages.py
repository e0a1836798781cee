"""The pages of a run and of a comparison: one model as Markdown and HTML, no text of a target as markup."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from auditkit.model.enums import Evidence, Severity
from auditkit.model.revisions.changes import Changes, Commit, FileChange
from auditkit.model.revisions.comparison import Comparison, Said
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.fix import Fix, FixRow
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.run import Run
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.comparison_page import comparison_page
from auditkit.reports.html.page import html_page
from auditkit.reports.html.pictures import pictures_of
from auditkit.reports.page import Page, Section, markdown_page
from auditkit.reports.review import judge_plan, review_of
from auditkit.reports.run_page import run_page
from tests.compared_results import LAUNCHES, comparison
from tests.layers import words
from tests.reports.exported_runs import ERROR, HOSTILE, MINOR, PASS, RUNS, UNAVAILABLE, WORST, hostile, result, run_of

PROBES = load_catalog()
MARKDOWN = MarkdownIt("commonmark").enable("table")
TAGS = words(
    "html head meta title style body main h1 h2 h3 h4 ul li p br b strong em code pre span table thead tbody tr th td "
    "section details summary div figure figcaption svg polyline circle rect text"
)
ATTRIBUTES = words(
    "lang charset http-equiv content name class style role open viewbox points cx cy r x y width height text-anchor"
)


def markdown_of(run: Run, **sources: object) -> str:
    return markdown_page(run_page(Sources(run, PROBES, **sources))).decode()  # type: ignore[arg-type]


def html_of(run: Run) -> bytes:
    return html_page(run_page(Sources(run, PROBES)))


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def check_tags(page: bytes) -> None:
    """Fail where a page has a tag, an attribute or a link that auditkit does not write."""

    class Parsed(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag in TAGS, tag
            assert {name for name, _ in attrs} <= ATTRIBUTES, (tag, attrs)
            assert all(name != "style" or re.fullmatch(r"text-align:\w+", value or "") for name, value in attrs)

    reader = Parsed()
    reader.feed(page.decode("utf-8"))
    reader.close()


WAITS = result(
    "syncs_grow_with_tensors",
    law="3n+1",
    device="simulated",
    evidence=Evidence.SIMULATED,
    measurements=(
        *(Measurement("sync_count", 3 * n + 1, "count", {"tensors": n}) for n in (4, 16, 64, 256)),
        Measurement("sync_count_law", 3.0, "per tensor", {"law": "3n+1", "constant": 1.0}),
    ),
)
OVERFLOW = result(
    "norm_overflows_on_finite_grads",
    severity=Severity.P1,
    location=Location("stats.py", 9),
    statement=None,
    measurements=tuple(
        Measurement("breaking_magnitude", value, "magnitude", {"dtype": dtype, "elements": elements})
        for dtype, elements, value in (("float32", 4096, 2.88e17), ("float16", 4096, 4.0), ("float64", 4096, None))
    ),
)


def test_a_run_begins_with_five_sentences_at_most() -> None:
    lines = markdown_of(run_of(WORST, result(), MINOR, PASS, UNAVAILABLE, ERROR)).partition("\n\n**Checkout:**")[0]
    said = [line for line in lines.splitlines() if line.startswith("- ")]
    assert lines.startswith("# trainer at aaaaaaaaaaaa\n")
    assert len(said) == 5
    assert said[0].startswith("- Checked 3 functions with 5 probes: 1 finding (1 P1), ")
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
    assert b'<span class="marked">&gt;    5      return [</span>' in html_of(run)
    fix = Fix("stats:layer_norms", "stats.py", "layer_norms", "--- a\n+++ b\n-x\n+y\n", ("one read",),
              (result().fingerprint,), (FixRow("p", "P2", "sound"),), "cpu", "2.13.0")  # fmt: skip
    fixed = markdown_of(replace(run, fixes=(fix,)))
    assert "```diff\n--- a\n+++ b\n-x\n+y\n```" in fixed
    assert "return [" not in fixed
    assert "**Fix that was run** on cpu with torch 2.13.0: one read." in fixed


def test_what_nobody_checked_is_no_pass() -> None:
    assert "Nothing reproduced.\n" in markdown_of(RUNS["none"])
    text = markdown_of(RUNS["errors"])
    assert "- **error (timeout)** (1 check by norm_loses_accuracy): no result in 120 s\n" in text
    assert "which is not a pass" in text
    assert "No probe returned a result" in markdown_of(RUNS["unavailable"])


def test_new_known_and_gone_are_told() -> None:
    text = markdown_of(RUNS["known"])
    assert "1 known, 1 new, 1 gone; 1 minor without a ticket, by the tickets in `tickets` at `bbbbbbbbbbbb`." in text
    rows = [line for line in text.splitlines() if re.match(r"\| (new|gone|known) \|", line)]
    assert [row.split(" | ")[2] for row in rows] == ["`B1-PT-02`", "`B1-PT-03`", "`B1-PT-01`"]


def test_no_line_is_wider_than_a_screen_and_no_page_longer_than_a_reader_bears() -> None:
    wide = run_of(result(message="word " * 100, excerpt=CodeExcerpt("a.py", 4, ("x" * 300,))), MINOR, ERROR)
    found = [replace(result(target=f"m:f{at}", statement=None, location=Location("m.py", at)), fingerprint=f"f{at}")
             for at in range(1, 41)]  # fmt: skip
    text = markdown_of(run_of(*found))
    assert max(len(line) for each in (text, markdown_of(replace(wide, notes=("note " * 80,)))) for line in
               each.splitlines()) <= 140  # fmt: skip
    assert (text.count("\n### P2 "), text.count("### More findings")) == (8, 1)
    assert len(text.splitlines()) < 250
    assert html_of(run_of(*found)).count(b'<details class="card P2"') == 40
    assert len(html_of(run_of(*found))) < 500_000


def test_a_picture_says_the_finding() -> None:
    (growth,), (limits,) = pictures_of(WAITS), pictures_of(OVERFLOW)
    assert growth.title == "sync count: 3n+1, 769 at 256 tensors"
    assert limits.title == "gradients of 4 and more break the result in float16, 4,096 elements"
    drawn, bars = (ET.fromstring(each.svg) for each in (growth, limits))
    said = {element.text for element in drawn.iter("text")}
    assert {"law: 3n+1", "tensors [count]", "evidence: simulated: CPU values behind a simulated CUDA device"} <= said
    assert len([*drawn.iter("circle")]) == 4
    assert {"float16, 4,096 elements", "2.88e+17", "does not break"} <= {element.text for element in bars.iter("text")}
    sound = [float(bar.attrib["width"]) for bar in bars.iter("rect") if bar.attrib["class"] == "sound"]
    assert sound == pytest.approx([190 * 17.459 / 38.532, 190 * 0.602 / 4.816, 190], abs=0.1)
    assert html_of(run_of(WAITS, OVERFLOW)).count(b"<svg") == 2


def test_the_page_for_a_browser_allows_its_own_style_alone() -> None:
    page = html_of(run_of(WAITS, OVERFLOW))
    style, policy = re.search(rb"<style>(.*?)</style>", page, re.DOTALL), re.search(rb"style-src 'sha256-(.*?)'", page)
    assert style
    assert policy
    assert base64.b64decode(policy[1]) == hashlib.sha256(style[1]).digest()
    assert not re.search(rb"<script|href=|src=|url\(", page)
    assert page == html_of(run_of(WAITS, OVERFLOW))


def hostile_run(text: str) -> Run:
    """A run of which everything that the audited code or another program names is `text`."""
    case = {"tensors": 4, "elements": 64, "dtype": text, "how": text}
    measured = (*WAITS.measurements, Measurement("breaking_magnitude", 4.0, "magnitude", case),
                Measurement(text, text, text, {text or "x": text}))  # fmt: skip
    found = replace(hostile(text), measurements=measured, notes=(text,), law=text, ticket=text)
    owned = replace(hostile(text), target="m:other", fingerprint="other", owner=text or "x")
    fix = Fix(text, text, text, f"+++ {text}\n+{text}\n", (text,), ("other",), (FixRow(text, text, text),), text, text)
    environment = replace(RUNS["findings"].environment, checkout=text, device_name=text, torch=text)
    return run_of(
        found, owned, replace(ERROR, target=text, message=text), id=text, environment=environment, notes=(text,),
        fixes=(fix,), candidates=(FoundCandidate(text, text, 3, why_not=text),), no_fix={found.fingerprint: text},
    )  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_structure(text: str) -> None:
    """Messages, names and code of the target make no heading, row, link or HTML of their own."""
    made, plain = (markdown_of(run_of(hostile(each), replace(ERROR, message=each), id=each)) for each in (text, "x"))
    tokens = MARKDOWN.parse(made)
    inside = [child for token in tokens for child in token.children or ()]
    bare = " ".join(child.content for child in inside if child.type == "text")
    assert len(headings(made)) == len(headings(plain))
    assert [token.type for token in tokens if token.level == 0] == [
        token.type for token in MARKDOWN.parse(plain) if token.level == 0
    ]
    assert not {"link_open", "image", "html_inline", "html_block"} & {child.type for child in (*tokens, *inside)}
    assert not re.search(r"https?://|@maintainer|\x1b|\u2028", bare)
    check_tags(html_of(hostile_run(text)))
    check_tags(html_page(Page(text, (text,), (), (Section(text, (text,), "P1"),))))


# A comparison.


def test_a_review_has_its_requirements_what_changed_and_one_line_for_the_rest() -> None:
    found = comparison()
    plan = f"# Plan\n\n- [ ] `{LAUNCHES}: fixed`\n- [x] rename things\n"
    text = markdown_page(comparison_page(review_of(found, judge_plan(plan, found)), PROBES)).decode()
    assert headings(text)[:2] == ["trainer: perf: one kernel for all gradients", "Requirements"]
    assert f"- **met** {LAUNCHES}: fixed: fixed: 3n+1 at the base, 5 at the head (simulated)" in text
    assert "- **not measurable** rename things: a requirement is one of PROBE: not_reproduced" in text
    assert "### P2 new: Peak memory grows with the parameters (total_norm)" in text
    assert "**There before:** P1 norm_overflows_on_finite_grads of total_norm." in text
    assert "| total_norm | launch_count (tensors=256) | 769 | 5 | better | simulated |" in text
    assert "- `trainer/stats.py` (+8 -13)" in text
    assert len([line for line in text.partition("\n\n**")[0].splitlines() if line.startswith("- ")]) == 5


@pytest.mark.parametrize("text", HOSTILE)
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

    def spoiled(said: Said | None) -> Said | None:
        return None if said is None else replace(said, message=text, law=text, target=text)

    found = comparison()
    (target,) = found.targets
    target = replace(
        target,
        match=replace(target.match, base=text, head=text),
        contrasts=tuple(
            replace(one, base=spoiled(one.base), head=spoiled(one.head), reason=text) for one in target.contrasts
        ),
        answers=tuple(replace(one, case={"family": text, text: text}, field=text) for one in target.answers),
    )
    changes = Changes((Commit(text, text, text, f"{text}\n\n{text}"),), (FileChange(text, text, 1, 1),))
    base, head = (
        replace(side, checkout=text, torch=text, python=text, device_name=text) for side in (found.base, found.head)
    )
    return replace(found, checkout=text, base=base, head=head, targets=(target,), changes=changes, notes=(text,))
