"""The items of an audit report: of each cause one in each section it matters to, and one for what did not reproduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Outcome
from auditkit.model.module_page import ImporterKind, ModulePage, Share
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Finding, ProbeResult
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted
from auditkit.rules.reports.audit_parts import Advice, Answer, Item, TicketState
from auditkit.rules.reports.sections import Section, section_of
from auditkit.rules.reports.words import SEVERITY_LABELS, Label, listed


@dataclass(frozen=True, eq=False)
class Cause:
    """The findings of one cause, the worst first, and the ticket that tracks them."""

    findings: tuple[Finding, ...]
    ticket: TicketState | None

    @property
    def leader(self) -> Finding:
        return self.findings[0]


_LABELS = {
    Outcome.NOT_REPRODUCED: Label.OK,
    Outcome.NOT_APPLICABLE: Label.NOTE,
    Outcome.UNAVAILABLE: Label.NOTE,
    Outcome.ERROR: Label.ERROR,
}
_HEADS = {
    Outcome.NOT_REPRODUCED: "Not reproduced: ",
    Outcome.NOT_APPLICABLE: "Does not apply: ",
    Outcome.UNAVAILABLE: "Could not be asked here: ",
    Outcome.ERROR: "No answer: ",
}


def cause_items(cause: Cause) -> dict[Section, Item]:
    """An item for each section that a finding of the cause belongs to, the numbers still to be given."""
    by_section: dict[Section, list[Finding]] = {}
    for finding in cause.findings:
        by_section.setdefault(section_of(finding.probe), []).append(finding)
    return {section: _finding_item(findings, cause.ticket) for section, findings in by_section.items()}


def _finding_item(findings: Sequence[Finding], ticket: TicketState | None) -> Item:
    leader = findings[0]
    places = [finding.result.location for finding in findings]
    probes = list({finding.probe.id: finding.probe for finding in findings}.values())
    return Item(
        number="",
        title=finding_title(findings),
        label=SEVERITY_LABELS[leader.severity],
        severity=leader.severity,
        locations=tuple(dict.fromkeys(place for place in places if place is not None)),
        excerpt=leader.result.excerpt,
        answers=tuple(Answer(finding.result) for finding in findings),
        impacts=tuple(dict.fromkeys(probe.motivation for probe in probes if probe.motivation)),
        # The code of the worst finding mends the others of its statement as well, so that one is shown.
        advice=tuple(
            Advice(probe.id, probe.remediation, probe.remediation_code if probe is leader.probe else "")
            for probe in probes
            if probe.remediation
        ),
        ticket=ticket,
    )


def finding_title(findings: Sequence[Finding]) -> str:
    """`collect: The norm overflows on finite gradients`, with how many more probes and targets say the same."""
    leader = findings[0]
    targets = list(dict.fromkeys(short_target(finding.result.target) for finding in findings))
    probes = {finding.probe.id for finding in findings if finding.probe.scope == leader.probe.scope}
    about = listed(targets, 2) if len(probes) == 1 else targets[0]
    return f"{about}: {leader.probe.title}"


def other_items(results: Iterable[ProbeResult], probes: Mapping[str, ProbeInfo]) -> dict[Section, list[Item]]:
    """What did not reproduce, by probe; what does not apply, could not be asked or gave no answer, by its reason."""
    groups: dict[tuple[Section, Outcome, str], list[ProbeResult]] = {}
    for result in results:
        if result.outcome is not Outcome.REPRODUCED:
            subject = result.probe if result.outcome is Outcome.NOT_REPRODUCED else result.message
            groups.setdefault((section_of(probes[result.probe]), result.outcome, subject), []).append(result)
    found: dict[Section, list[Item]] = {}
    for (section, outcome, _), group in groups.items():
        found.setdefault(section, []).append(_other_item(outcome, group, probes))
    return found


def _other_item(outcome: Outcome, group: Sequence[ProbeResult], probes: Mapping[str, ProbeInfo]) -> Item:
    titles = list(dict.fromkeys(probes[result.probe].title for result in group))
    name = titles[0] if len(titles) == 1 else f"{len(titles)} questions"
    return Item("", f"{_HEADS[outcome]}{name}", _LABELS[outcome], answers=tuple(map(Answer, group)))


def source_items(pages: Sequence[ModulePage]) -> dict[Section, list[Item]]:
    """What reading the modules shows beside the probes: compilation, annotations, documentation, tests."""
    annotated = [(page, page.annotated) for page in pages]
    documented = [(page, page.documented) for page in pages]
    return {
        Section.COMPILE: _compile_items(pages),
        Section.QUALITY: [
            *_share_items("Type annotations", "functions have all their types written out", annotated),
            *_share_items("Docstrings", "public functions and classes have a docstring", documented),
        ],
        Section.TESTS: [_tests_item(page) for page in pages],
    }


def _compile_items(pages: Sequence[ModulePage]) -> list[Item]:
    items = []
    for page in (page for page in pages if page.compiles):
        places = tuple(Location(page.file, line) for line in page.compiles)
        text = f"The module names torch.compile in {counted(len(places), 'line')}."
        items.append(Item("", f"Compilation in {page.name}", Label.NOTE, locations=places, observation=text))
    without = [page for page in pages if not page.compiles]
    if without:
        text = "No line names torch.compile: the functions are compiled only where a caller does it."
        where = tuple(Location(page.file, 1) for page in without)
        items.append(Item("", f"No compilation in {_names(without)}", Label.NOTE, locations=where, observation=text))
    return items


def _share_items(name: str, words: str, shares: Sequence[tuple[ModulePage, Share]]) -> list[Item]:
    """One item, POSITIVE, of the modules where all have it; a NOTE for each other; none where there is nothing."""
    items = []
    complete = [(page, share.have) for page, share in shares if share.whole and not share.lacking]
    if complete:
        pages, have = [page for page, _ in complete], sum(have for _, have in complete)
        where = tuple(Location(page.file, 1) for page in pages)
        text = f"{have} of {have} {words}."
        items.append(Item("", f"{name} complete in {_names(pages)}", Label.POSITIVE, locations=where, observation=text))
    for page, share in shares:
        if share.lacking:
            text = f"{share.have} of {share.whole} {words}. Without: {listed(share.lacking)}."
            where = (Location(page.file, 1),)
            items.append(Item("", f"{name} incomplete in {page.name}", Label.NOTE, locations=where, observation=text))
    return items


def _names(pages: Iterable[ModulePage]) -> str:
    return listed(page.name for page in pages)


def _tests_item(page: ModulePage) -> Item:
    tests = page.importers_of(ImporterKind.TEST)
    if not tests:
        return Item("", f"No test file imports {page.name}", Label.NOTE, observation="No test file imports the module.")
    properties = [importer for importer in tests if importer.is_property_based]
    head = f"{'Property-based tests' if properties else 'Tests'} exist for {page.name}"
    parts = [f"{importer.file} ({counted(importer.tests, 'test')})" for importer in tests]
    text = f"{counted(len(tests), 'test file')} {'uses' if len(tests) == 1 else 'use'} the module: {listed(parts, 20)}."
    if properties:
        text += f" With hypothesis: {listed([importer.file for importer in properties], 20)}."
    places = tuple(Location(importer.file, 1) for importer in properties or tests[:1])
    return Item("", head, Label.POSITIVE, locations=places, observation=text)
