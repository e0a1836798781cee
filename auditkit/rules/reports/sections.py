"""Which section of an audit report speaks of a probe."""

from __future__ import annotations

from enum import StrEnum

from auditkit.model.runs.probe import ProbeInfo


class Section(StrEnum):
    """The sections of an audit report, in their order."""

    COMPILE = "torch.compile Compatibility"
    DEVICES = "Device Placement"
    FLOW = "Gradient Flow and Synchronisation"
    MEMORY = "Memory Management"
    INTEGRATION = "Integration Risks"
    QUALITY = "Code Quality"
    TESTS = "Test Coverage"
    NUMERICS = "Numerics"


# The first line that fits counts: what is measured says more than the ticket's boxes.
_INSTRUMENTS = (
    (Section.COMPILE, {"graphs", "graph_capture"}),
    (Section.DEVICES, {"devices", "transfers"}),
    (Section.MEMORY, {"memory"}),
    (Section.FLOW, {"syncs", "launches", "mutation", "timing"}),
)
_CATEGORIES = (
    (Section.COMPILE, {"torch.compile compatibility"}),
    (Section.TESTS, {"Test coverage gap"}),
    (Section.MEMORY, {"Memory leak / resource issue"}),
    (Section.FLOW, {"Race condition / concurrency"}),
    (Section.NUMERICS, {"Numerical stability"}),
    (Section.FLOW, {"Performance bottleneck"}),
    (Section.INTEGRATION, {"API design / contract violation", "Dead code / unwired functionality"}),
)


def section_of(probe: ProbeInfo) -> Section:
    """By the probe's instrument, then its categories; else how a target is fed, or how its source reads."""
    for section, instruments in _INSTRUMENTS:
        if probe.instrument in instruments:
            return section
    for section, categories in _CATEGORIES:
        if categories.intersection(probe.categories):
            return section
    return Section.QUALITY if probe.scope == "source" else Section.INTEGRATION
