"""docs/probes.md: what each probe asks, how it measures, and what it cannot see, from the definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditkit.model.enums import Contract
from auditkit.model.runs.probe import ProbeInfo
from auditkit.rendering import markdown

_HEAD = """\
# Probes

One file each, named as the defect that it would prove. This page is made from their definitions: rewrite it
with `python -m pytest tests/rendering/test_probe_pages.py --update-golden`.
"""


def render_probe_page(probes: Sequence[ProbeInfo]) -> str:
    """The whole page as Markdown: a table of all probes, then a section for each, in the given order."""
    return "\n".join([_HEAD, *_overview(probes), "", *(_section(probe) for probe in probes)])


def _overview(probes: Sequence[ProbeInfo]) -> list[str]:
    rows = [
        f"| {probe.severity.value} | [{markdown.cell(probe.id)}](#{probe.id}) | {markdown.cell(probe.title)} "
        f"| {markdown.cell(probe.instrument)} |"
        for probe in probes
    ]
    return ["| severity | probe | what it proves | instrument |", "|---|---|---|---|", *rows]


def _section(probe: ProbeInfo) -> str:
    parts = [
        f"## {markdown.line(probe.id)}",
        f"{markdown.line(probe.title)}. Version {probe.version}, {probe.severity.value}, "
        f"{markdown.line(probe.lifecycle)}. Contracts: {_contracts(probe.contracts)}. "
        f"Category: {_listed(probe.categories)}.",
        f"**Why.** {markdown.paragraphs(probe.motivation)}",
        f"**How.** {markdown.paragraphs(probe.method)}",
        f"**What it cannot see.** {markdown.paragraphs(probe.limits)}",
        f"**Recommended fix.** {markdown.paragraphs(probe.remediation)}",
        markdown.fence(probe.remediation_code, "python") if probe.remediation_code else "",
        f"**Fixed when** {_listed(probe.verification)}.",
        f"**Measures** {_units(probe)}.",
        _policy(probe),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _contracts(contracts: Iterable[Contract]) -> str:
    return ", ".join(markdown.code(contract.value) for contract in contracts)


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(markdown.line(text) for text in texts)


def _units(probe: ProbeInfo) -> str:
    return ", ".join(f"{markdown.code(name)} ({markdown.line(unit)})" for name, unit in probe.units.items())


def _policy(probe: ProbeInfo) -> str:
    if not probe.policy:
        return ""
    thresholds = ", ".join(f"{markdown.code(name)} = {value:g}" for name, value in probe.policy.items())
    return f"**Thresholds** that `policy` in auditkit.yaml may change: {thresholds}."
