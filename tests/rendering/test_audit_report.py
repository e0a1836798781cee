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
from auditkit.model.tickets.ticket import Status
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
    label = r"\*\*(CRITICAL|HIGH|MEDIUM|LOW)\*\* \(P\d\)|\*\*(ERROR|NOTE|OK|POSITIVE)\*\*"
    assert all(re.search(rf" - ({label})$", text) for text in numbered)
    assert len(numbered) == 12


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
    lines = [line for line in page().splitlines() if line.startswith("- `") and " of `" in line]
    told = {line.split("`")[1]: line.rpartition("*(")[2].removesuffix(")*") for line in lines if line.endswith(")*")}
    assert told == {
        OVERFLOW: "measured on cpu",
        SYNCS: "simulated: CPU values behind a pretended CUDA device",
        MEMORY: "measured on cpu",
        "graph_breaks_under_compile": "measured on cpu",
        "public_function_unused": "read from the source",
    }
    assert len(lines) == 8  # what got no answer has no evidence


def test_what_is_extrapolated_says_so() -> None:
    measurements = (
        Measurement("peak", 3.5, "ratio", {"params": 10}),
        Measurement("peak", 4.5, "ratio", {"params": 1000}, Evidence.EXTRAPOLATED),
    )
    text = page(make_run(found(MEMORY, Severity.P2, measurements=measurements)))
    assert "| peak (ratio) | 3.5 | 4.5 extrapolated |" in text
    assert f"`{MEMORY}`, measured on cpu, partly extrapolated:" in text


def test_figures_over_one_value_are_a_row() -> None:
    assert "| by tensors | 4 | 16 |\n|---|---|---|\n| count (count) | 7 | 19 |" in page()


def test_many_figures_are_cut_and_said() -> None:
    many = tuple(Measurement(f"m{number}", number, "count", {"device": "cpu"}) for number in range(11))
    text = page(make_run(found(OVERFLOW, Severity.P1, measurements=many)))
    assert "| m7 | 7 | count |  | measured |" in text
    assert "m8" not in text
    assert "3 more in the run's document." in text


def test_tickets_and_priorities() -> None:
    text = page(tickets=[tracked(OVERFLOW, 1, Status.FIXED), tracked(MEMORY, 2, Status.OPEN, Severity.P3)])
    assert "**Ticket:** B7-PT-01 (fixed); the same cause: 8.1" in text
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
