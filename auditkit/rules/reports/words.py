"""Words that reports share: how bad a severity is called, and when something of it is due."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from auditkit.model.enums import Severity


class Label(StrEnum):
    """What a numbered line of an audit report is: a finding by how bad it is, or what else a probe said."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"
    ERROR = "ERROR"
    NOTE = "NOTE"
    OK = "OK"
    POSITIVE = "POSITIVE"


SEVERITY_LABELS = {
    Severity.P0: Label.CRITICAL,
    Severity.P1: Label.HIGH,
    Severity.P2: Label.MEDIUM,
    Severity.P3: Label.LOW,
    Severity.P4: Label.LOW,
}


class Horizon(StrEnum):
    """When a ticket of a severity is due."""

    IMMEDIATE = "Immediate"
    SHORT_TERM = "Short-Term"
    LONG_TERM = "Long-Term"

    @property
    def severities(self) -> tuple[Severity, ...]:
        return tuple(level for level, horizon in _HORIZONS.items() if horizon is self)


_HORIZONS = {
    Severity.P0: Horizon.IMMEDIATE,
    Severity.P1: Horizon.IMMEDIATE,
    Severity.P2: Horizon.SHORT_TERM,
    Severity.P3: Horizon.LONG_TERM,
    Severity.P4: Horizon.LONG_TERM,
}


def horizon_of(severity: Severity) -> Horizon:
    """P0 and P1 now, P2 next, P3 and P4 later."""
    return _HORIZONS[severity]


def in_words(severity: Severity) -> str:
    """`HIGH (P1)`."""
    return f"{SEVERITY_LABELS[severity].value} ({severity.value})"


def listed(names: Iterable[str], most: int = 10) -> str:
    """`a, b and c`; how many more there are is said."""
    known = list(names)
    shown, more = known[:most], len(known) - most
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([*filter(None, [", ".join(shown[:-1])]), *shown[-1:]])
