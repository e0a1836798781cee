"""One measured number, and where in the checkout something happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.codec import Record
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
        """The inverse of `to_json`; the strings "inf", "-inf" and "nan" become numbers again."""
        value = raw["value"]
        if raw["unit"] != "text" and value in ("inf", "-inf", "nan"):
            value = float(value)
        evidence = Evidence(raw.get("evidence", "measured"))
        return cls(raw["name"], value, raw["unit"], dict(raw.get("case", {})), evidence)


@dataclass(frozen=True)
class Location(Record):
    """A line of the checkout: `file` is relative to its root, with forward slashes."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class CodeExcerpt(Record):
    """Lines cut from the checkout at the audited revision: the ticket's code evidence."""

    file: str
    first_line: int
    lines: tuple[str, ...]

    @property
    def last_line(self) -> int:
        return self.first_line + len(self.lines) - 1
