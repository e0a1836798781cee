"""An audit report as Markdown: every number with its device, hostile text inert, tables that stay tables."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from auditkit.model.enums import Evidence, Severity
from auditkit.model.module_page import Flow, FlowStep, Importer, ImporterKind, Mention, NameUse, Way
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.run import Run
from auditkit.model.ticket import Status
from auditkit.rendering.audit_report import flow_text, render_audit_report, usage_text
from auditkit.rules.reports.audit import Sources, audit_report
from tests.rendering.hostile import HOSTILE_TEXTS
from tests.rules.reports.runs import MEMORY, OVERFLOW, PROBES, RUN, SYNCS, found, make_page, make_run
from tests.rules.reports.test_report_audit import tracked

MARKDOWN = MarkdownIt("commonmark").enable("table")


def page(run: Run = RUN, **others: object) -> str:
    return render_audit_report(audit_report(Sources(run, PROBES, **others))).decode()  # type: ignore[arg-type]


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def test_the_form() -> None:
    """The sections of an audit report, in their order, each item numbered and labelled."""
    made = headings(page(modules=[make_page()]))
    tops = [text for text in made if re.match(r"\d+\. ", text)]
    assert tops == [
        "1. torch.compile Compatibility",
        "2. Device Placement",
        "3. Gradient Flow and Synchronisation",
        "4. Memory Management",
        "5. Integration Risks",
        "6. Code Quality",
        "7. Test Coverage",
        "8. Numerics",
        "9. Summary of Issues",
        "10. Recommendations Priority",
        "11. Appendix: Integration Points",
    ]
    numbered = [text for text in made if re.match(r"\d+\.\d+ ", text)]
    assert all(re.search(r" - \*\*(CRITICAL|HIGH|MEDIUM|LOW)\*\* \(P[0-3]\)$", text) for text in numbered)
    assert [text.partition(" ")[0] for text in numbered] == ["3.1", "4.1", "8.1"]


def test_the_heading() -> None:
    text = page(modules=[make_page()])
    for line in (
        "**Date:** 2026-03-04",
        "**File:** `src/train/norms.py`",
        "**Checkout:** `../trainer` at `aaaaaaaaaaaa`",
        "**Auditor:** auditkit 0.1.0, 8 probes",
        "**PyTorch Version Target:** torch 2.13.0 on cpu (A CPU), Python 3.11.7",
        '`src/train/norms.py` has 40 lines, 3 functions and 1 class. It says of itself: "Norms of gradients."',
    ):
        assert line in text.splitlines()


def test_every_answer_says_its_evidence_and_device() -> None:
    """A finding's bullet, the row of a minor one and the row of what did not reproduce."""
    lines = [line for line in page().splitlines() if re.match(r"- `\w+` of `|\| \d+\.\d+", line)]
    told = {line.split("`")[1]: found[1] for line in lines if (found := re.search(r"\*\((.*?)\)\*", line))}
    assert told == {
        OVERFLOW: "measured on cpu",
        SYNCS: "simulated: CPU values behind a pretended CUDA device",
        MEMORY: "measured on cpu",
        "graph_breaks_under_compile": "measured on cpu",
        "public_function_unused": "read from the source",
    }
    assert len(lines) == 8  # what got no answer has no evidence


def test_a_finding_is_a_line_with_the_figures_that_decide() -> None:
    measurements = (
        Measurement("peak", 3.5, "ratio", {"params": 10}),
        Measurement("peak", 4.5, "ratio", {"params": 1000}, Evidence.EXTRAPOLATED),
    )
    text = page(make_run(found(MEMORY, Severity.P2, measurements=measurements)))
    told = "*(measured on cpu, partly extrapolated)*; peak 3.5 (params=10); peak 4.5 (params=1,000)\n"
    assert f"- `{MEMORY}` of `train.norms:total_norm`: " in text
    assert told in text


def test_minor_findings_are_a_table() -> None:
    text = page(make_run(found(OVERFLOW, Severity.P4)))
    assert re.search(r"\| Minor \| What .*\n\|[-|]+\n\| 8\.1 \| total_norm: The norm overflows", text)
    assert "### 8.1" not in text


def test_code_is_shown_once_for_a_cause_and_never_of_a_library() -> None:
    """The first of its items shows it; nobody can mend here what somebody else's function does."""
    code = CodeExcerpt("a.py", 3, ("", "loop", "a", "b", "c", "d", "blamed", "e", "f"))
    grave = found(MEMORY, Severity.P2, excerpt=code, location=Location("a.py", 9))
    assert page(make_run(grave)).count("```python\n# Lines 6-11\nb\nc\nd\nblamed\ne\nf\n```") == 1
    assert "```python" in page(make_run(grave))
    assert "```python" not in page(make_run(replace(grave, owner="torch 2.13.0: f")))


def test_tickets_and_priorities() -> None:
    text = page(tickets=[tracked(OVERFLOW, 1, Status.FIXED), tracked(MEMORY, 2, Status.OPEN, Severity.P3)])
    assert "; ticket B7-PT-01 (fixed); the same cause: 8.1\n" in text
    assert "| LOW (P3) | total_norm: Peak memory grows with the parameters (4.1) | " in text
    assert "### Finished tickets that this run reproduces" in text
    assert "says that it is finished, the probe reproduces it at `aaaaaaaaaaaa`." in text
    assert text.count("reproduced, not filed") == 0
    assert page().count("| none | reproduced, not filed |") == 2


def test_the_appendix() -> None:
    text = page(modules=[make_page()])
    assert "| `src/train/__init__.py` | package | `total_norm` | exported |" in text
    assert "| `src/train/loop.py` | code | `total_norm` | `total_norm` called in `step()` (line 5) |" in text
    assert "| `tests/test_norms.py` | test | `total_norm` | 4 tests, property-based |" in text
    assert flow_text(make_page()) == (
        "src/train/loop.py:step  <- src/train/cli.py:main\n"
        "  -> total_norm()  [line 5]\n"
        "  -> waits: torch.cuda.synchronize()  [line 6]"
    )
    assert "The checkout is not here, so who imports the audited modules was not read." in page()


@pytest.mark.parametrize(
    ("mentions", "told"),
    [
        ((), "`f` not used"),
        ((Mention(Way.ANNOTATION, "g", 3),), "`f` named in annotations only"),
        ((Mention(Way.NAMED, "g", 3), Mention(Way.ANNOTATION, "g", 2)), "`f` named in line 3"),
        (
            tuple(Mention(Way.CALLED, "g" if line else "", line) for line in range(5)),
            "`f` called in the module itself (line 0), `g()` (line 1), `g()` (line 2) and 2 more",
        ),
    ],
)
def test_usage(mentions: tuple[Mention, ...], told: str) -> None:
    assert usage_text(Importer("a.py", ImporterKind.CODE, (NameUse("f", mentions),))) == told


def test_many_flows_are_cut_and_said() -> None:
    flows = tuple(Flow("a.py", f"f{number}", (), (FlowStep("g()", number),)) for number in range(22))
    text = flow_text(make_page(flows=flows))
    assert "a.py:f19 " in text
    assert "a.py:f20 " not in text
    assert text.endswith("\n\nand 2 more functions")


def test_a_caller_that_nobody_calls_is_told() -> None:
    flows = (Flow("a.py", "main", (), (FlowStep("f()", 1),)), Flow("a.py", "C.run", (), (FlowStep("f()", 9),)))
    first, second = flow_text(make_page(flows=flows)).split("\n\n")
    assert first.startswith("a.py:main  (no caller in the checkout's own code)")
    assert second.startswith("a.py:C.run\n")


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_changes_no_structure(text: str) -> None:
    """Messages, names and code of the target make no heading, row or HTML of their own."""
    results = [
        replace(
            result,
            message=text or "x",
            notes=(text,),
            location=Location(text, 3, text),
            excerpt=CodeExcerpt("a.py", 1, (text, text)),
            measurements=(Measurement(text, text, "text", {text: text}),),
        )
        for result in RUN.results
    ]
    importer = Importer(text, ImporterKind.CODE, (NameUse(text, (Mention(Way.CALLED, text, 4),)),))
    flow = Flow(text, text, (text,), (FlowStep(text, 4),))
    module = make_page(purpose=text, importers=(importer,), flows=(flow,))
    environment = replace(RUN.environment, checkout=text, device_name=text)
    hostile = replace(RUN, results=tuple(results), environment=environment, notes=(text,))
    plain = replace(RUN, notes=("a note",))
    made = page(hostile, modules=[module])
    assert headings(made) == headings(page(plain, modules=[make_page(importers=importer_without_tests())]))
    assert not [token for token in MARKDOWN.parse(made) if token.type == "html_block"]
    assert "\x1b" not in made


def importer_without_tests() -> tuple[Importer, ...]:
    return tuple(importer for importer in make_page().importers if importer.kind is not ImporterKind.TEST)
