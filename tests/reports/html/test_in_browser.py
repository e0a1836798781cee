"""The pages as Chromium shows them: no violation of axe-core, no request, no message, only the filter's script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Arm, ArmOutcome
from auditkit.reports.causes import Sources
from auditkit.reports.comparison_page import comparison_page
from auditkit.reports.html.page import html_page
from auditkit.reports.review_parts import review_of
from auditkit.reports.run_page import run_page
from auditkit.reports.tickets import read_tickets, tickets_page
from auditkit.tickets.store import TicketFolder
from auditkit.trials.compare import compare_runs
from tests.browser import Browser, axe, browser
from tests.filing_helpers import put, ticket_text
from tests.reports.exported_runs import ENVIRONMENT, ERROR, PASS, UNAVAILABLE, run_of
from tests.reports.html.test_run_page import OVERFLOW, hostile_run, waiting
from tests.reports.injections import INJECTIONS
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


_NARROW = """[...document.querySelectorAll('caption,th,td,p,li')]
.filter(each => each.offsetWidth > 1 && each.clientWidth < 30 && each.textContent.trim().length > 8)
.map(each => each.tagName + ' ' + each.clientWidth + ': ' + each.textContent.trim().slice(0, 40))"""


def sweep_page(count: int = 15) -> bytes:
    """`count` checkouts by as many probes: more columns than a table shows."""
    arm = ("torch 2.9.1 on cpu", "torch 2.15.0 on cpu")
    results = [
        replace(
            waiting(3, 1),
            probe=f"probe_number_{probe}",
            target=f"checkout_{number}/package.module_{number}:function_{number}",
            fingerprint=f"{probe}/{number}",
            arm=arm[0],
            arms=tuple(ArmOutcome(each, ENVIRONMENT, Outcome.REPRODUCED, None, "", "3n+1", "cpu") for each in arm),
        )
        for probe in range(count)
        for number in range(count)
    ]
    arms = tuple(Arm(each, run_of(*results)) for each in arm)
    return html_page(run_page(Sources(run_of(*results, matrix=arms), {})))


def matrix_run() -> bytes:
    labels = ("torch 2.9.1 on cpu", "torch 2.15.0 on cpu")
    arms = tuple(
        ArmOutcome(label, ENVIRONMENT, found.outcome, found.severity, found.message, found.law, found.device)
        for label, found in zip(labels, (waiting(3, 1), waiting(0, 1)), strict=True)
    )
    found = replace(waiting(3, 1), arm=labels[0], arms=arms)
    runs = tuple(Arm(label, run_of(found)) for label in labels)
    return html_page(run_page(Sources(run_of(found, OVERFLOW, matrix=runs), {})))


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
    put(tickets, "B7-PT-01.md", ticket_text("B7-PT-01", "wont-fix"))
    git(folder, "commit", "-qam", "fixed")
    written = {
        "run": html_page(run_page(Sources(base, {}))),
        "two": html_page(comparison_page(review_of(compare_runs(base, head), ()), {})),
        "matrix": matrix_run(),
        "nothing": html_page(run_page(Sources(run_of(), {}))),
        "hostile": html_page(run_page(Sources(hostile_run(), {}))),
        "board": html_page(tickets_page(*read_tickets(TicketFolder(tickets)), "tickets")),
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
        # An unfolded page shows all that a folded one shows. axe-core takes a minute for the hostile page, whose styles
        # are those of the others; that its texts stay texts is checked below.
        if unfolded and name != "hostile":
            assert tab.violations(axe()) == [], look
        assert (
            tab.value(
                "document.querySelectorAll('script:not(body>script),img,iframe,object,embed,form,link,base,video,audio').length"
            )
            == 0
        )
        assert tab.value("typeof pwned") == "undefined"
        assert tab.requests == [pages[name].resolve().as_uri()], look
        assert tab.console == [], look


@pytest.mark.parametrize("width", [1024, 1280, 1600, 1920])
def test_no_text_of_a_sweep_is_a_letter_wide(tab: Browser, tmp_path: Path, width: int) -> None:
    page = put(tmp_path, "sweep.html", sweep_page())
    assert b"matrix stacked" in page.read_bytes()
    tab.open(page, width)
    tab.value(_OPEN_ALL)
    assert tab.value(_NARROW) == []


@pytest.mark.parametrize(("name", "prefix"), [("sweep", "f"), ("board", "t-")])
def test_a_click_on_a_link_unfolds_its_card(
    tab: Browser, pages: dict[str, Path], tmp_path: Path, name: str, prefix: str
) -> None:
    tab.open(put(tmp_path, "sweep.html", sweep_page()) if name == "sweep" else pages[name])
    tab.value("document.querySelectorAll('details').forEach(each => each.open = false)")
    links = f"document.querySelectorAll('td a[href^=\"#{prefix}\"]')"
    assert tab.value(f"{links}.length") > 5
    tab.value(f"{links}[5].click()")
    # The fragment is navigated to in a task of its own.
    assert tab.value(
        f"new Promise(done => {{ const wait = () => document.querySelector({links}[5].hash).closest('details').open"
        " ? done(true) : setTimeout(wait, 20); setTimeout(() => done(false), 5000); wait(); })"
    )
    assert tab.value("document.querySelectorAll('.card[open]').length") == 1
    assert tab.value("innerHeight > document.querySelector('.card[open] h3').getBoundingClientRect().top")
