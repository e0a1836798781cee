"""The pages as Chromium shows them: no violation of axe-core, no request, no word on the console, no script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.model.runs.run import Arm, ArmOutcome
from auditkit.rendering.html.run_page import run_page
from auditkit.rules.reports.audit import Sources
from auditkit.store.folder.repository import Repository
from auditkit.workflows.history.compare import compare_runs
from auditkit.workflows.reports.html import tickets_html
from tests.browser import Browser, axe, browser
from tests.exporters.exported_runs import ENVIRONMENT, ERROR, PASS, UNAVAILABLE, run_of
from tests.filing_helpers import put, ticket_text
from tests.rendering.html.test_run_page import OVERFLOW, hostile_run, many, waiting
from tests.rendering.injections import INJECTIONS
from tests.verify_helpers import git

pytestmark = pytest.mark.acceptance

_LOOKS = (
    (1600, False, "screen"),
    (1600, True, "screen"),
    (400, False, "screen"),
    (400, True, "screen"),
    (800, False, "print"),
)
_OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def matrix_run() -> bytes:
    labels = ("torch 2.9.1 on cpu", "torch 2.15.0 on cpu")
    arms = tuple(
        ArmOutcome(label, ENVIRONMENT, found.outcome, found.severity, found.message, found.law, found.device)
        for label, found in zip(labels, (waiting(3, 1), waiting(0, 1)), strict=True)
    )
    found = replace(waiting(3, 1), arm=labels[0], arms=arms)
    runs = tuple(Arm(label, run_of(found)) for label in labels)
    return run_page(Sources(run_of(found, OVERFLOW, matrix=runs), {}))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    base, head = run_of(waiting(), OVERFLOW, ERROR), run_of(waiting(3, 1), PASS, UNAVAILABLE)
    tickets = folder / "tickets"
    git(folder, "init", "-q", "--template=")
    for number, text in enumerate(INJECTIONS[:20], 1):
        put(
            tickets,
            f"B7-PT-{number:02}.md",
            ticket_text(f"B7-PT-{number:02}", title=text.replace("\n", " "), fingerprint=f"p/1/{number}:f"),
        )
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "filed")
    put(tickets, "B7-PT-01.md", ticket_text("B7-PT-01", "`fixed`"))
    git(folder, "commit", "-qam", "fixed")
    written = {
        "run": run_page(Sources(base, {})),
        "two": run_page(Sources(head, {}), compare_runs(base, head)),
        "matrix": matrix_run(),
        "nothing": run_page(Sources(run_of(), {})),
        "hostile": run_page(Sources(hostile_run(), {})),
        "board": tickets_html(Repository(tickets))[0],
    }
    return {name: put(folder, f"{name}.html", data) for name, data in written.items()}


@pytest.mark.parametrize("name", ["run", "two", "matrix", "nothing", "hostile", "board"])
def test_every_look_is_sound(tab: Browser, pages: dict[str, Path], name: str) -> None:
    # Unfolded where it is widest and narrowest, once in each scheme.
    looks = [*((look, False) for look in _LOOKS), (_LOOKS[0], True), (_LOOKS[3], True)]
    for (width, dark, media), unfolded in looks:
        tab.open(pages[name], width, dark, media)
        if unfolded:
            tab.value(_OPEN_ALL)
        look = f"{name} at {width}, {'dark' if dark else 'light'}, {media}"
        assert tab.value("document.documentElement.scrollWidth <= innerWidth"), f"{look}: wider than the window"
        if not (unfolded and name == "hostile"):
            assert tab.violations(axe()) == [], look
        assert (
            tab.value("document.querySelectorAll('script,img,iframe,object,embed,form,link,base,video,audio').length")
            == 0
        )
        assert tab.value("typeof pwned") == "undefined"
        assert tab.requests == [pages[name].resolve().as_uri()], look
        assert tab.console == [], look


def test_a_bad_page_is_seen(tab: Browser, pages: dict[str, Path]) -> None:
    """The control: what these tests look for is found where it is."""
    text = pages["run"].read_text("utf-8")
    bad = text.replace("<main", "<img src=//evil.example/x.png><script>console.error(1)</script><main").replace(
        'lang="en"', ""
    )
    page = put(pages["run"].parent, "bad.html", bad)
    tab.open(page)
    assert {"html-has-lang", "image-alt"} <= {each.split(" | ")[0] for each in tab.violations(axe())}
    assert any("Content Security Policy" in each for each in tab.console)
    page = put(pages["run"].parent, "worse.html", bad.replace("Content-Security-Policy", "x"))
    tab.open(page)
    assert tab.console
    assert len(tab.requests) > 1


def test_two_hundred_findings_open_in_a_second(tab: Browser, tmp_path: Path) -> None:
    page = put(tmp_path, "many.html", run_page(Sources(many(200), {})))
    assert min(tab.open(page) for _ in range(3)) < 1
