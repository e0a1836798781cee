"""docs/probes.md: complete, up to date, and inert whatever a definition says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from auditkit.probing.hosts.catalog import load_catalog
from tests.project_files import ROOT
from tests.rendering.probe_page import render_probe_page

PAGE = ROOT / "docs" / "probes.md"


def test_the_page_is_up_to_date(compare_golden: Callable[[Path, str], None]) -> None:
    """docs/probes.md is what the probes' definitions say today."""
    compare_golden(PAGE, render_probe_page(list(load_catalog().values())))


def test_every_probe_has_a_row_and_a_section() -> None:
    page = PAGE.read_text("utf-8")
    for probe in load_catalog().values():
        assert page.count(f"\n## {probe.id}\n") == 1
        assert f"| {probe.severity.value} | [{probe.id}](#{probe.id}) | {probe.title} | {probe.instrument} |" in page
        assert probe.remediation_code.rstrip() in page


def test_a_probe_of_the_users_own_cannot_break_the_page() -> None:
    """Pipes stay in their cell, and nothing opens a heading, a fence or HTML."""
    ours = load_catalog()["syncs_grow_with_tensors"]
    odd = replace(
        ours, title="a | b <script>", method="# no heading\n```", remediation_code="x = '```'", policy={"limit": 0.5}
    )
    page = render_probe_page([odd])
    assert "| a \\| b \\<script> | syncs |" in page
    assert "**How.** \\# no heading\n\\```" in page
    assert "````python\nx = '```'\n````" in page
    assert "`limit` = 0.5." in page


def test_without_code_or_thresholds_nothing_stands_in_their_place() -> None:
    page = render_probe_page([replace(load_catalog()["syncs_grow_with_tensors"], remediation_code="", policy={})])
    assert "```python" not in page
    assert "Thresholds" not in page
