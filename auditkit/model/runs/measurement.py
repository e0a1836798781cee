"""What was measured: one number, as evidence shows it and as tables of several; and where something happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.codec import Record, number_again
from auditkit.model.enums import Evidence


@dataclass(frozen=True)
class Measurement(Record):
    """A name, a value, a unit, and the case it was taken in (dtype, count, magnitude, device)."""

    name: str
    value: Any
    unit: str
    case: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence = Evidence.MEASURED

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Measurement:
        """What a probe's message says, whose words are taken as they are."""
        case, evidence = dict(raw.get("case", {})), Evidence(raw.get("evidence", "measured"))
        return cls(raw["name"], number_again(raw["value"], raw["unit"]), raw["unit"], case, evidence)


@dataclass(frozen=True)
class Location(Record, keys="file line function"):
    """A line of the checkout: `file` is relative to its root, with forward slashes.

    That of an installed package is relative to `folder`, which is known only while the run is made.
    """

    file: str
    line: int
    function: str = ""
    folder: str = field(default="", compare=False)


@dataclass(frozen=True)
class CodeExcerpt(Record):
    """Lines cut from the checkout at the audited revision: the ticket's code evidence."""

    file: str
    first_line: int
    lines: tuple[str, ...]

    @property
    def last_line(self) -> int:
        return self.first_line + len(self.lines) - 1
