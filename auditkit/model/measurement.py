"""One measured number, and where in the checkout something happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.model.units import to_json_value


@dataclass(frozen=True)
class Measurement:
    """A name, a value, a unit, and the case it was taken in (dtype, count, magnitude, device)."""

    name: str
    value: Any
    unit: str
    case: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence = Evidence.MEASURED

    def to_json(self) -> dict[str, Any]:
        """A strict-JSON mapping; infinities and NaN become strings."""
        return {
            "name": self.name,
            "value": to_json_value(self.value),
            "unit": self.unit,
            "case": to_json_value(dict(self.case)),
            "evidence": self.evidence.value,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Measurement:
        """The inverse of `to_json`; the strings "inf", "-inf" and "nan" become numbers again."""
        value = raw["value"]
        if raw["unit"] != "text" and value in ("inf", "-inf", "nan"):
            value = float(value)
        evidence = Evidence(raw.get("evidence", "measured"))
        return cls(raw["name"], value, raw["unit"], dict(raw.get("case", {})), evidence)


@dataclass(frozen=True)
class Location:
    """A line of the checkout: `file` is relative to its root, with forward slashes."""

    file: str
    line: int
    function: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "function": self.function}


@dataclass(frozen=True)
class CodeExcerpt:
    """Lines cut from the checkout at the audited revision: the ticket's code evidence."""

    file: str
    first_line: int
    lines: tuple[str, ...]

    @property
    def last_line(self) -> int:
        return self.first_line + len(self.lines) - 1

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "first_line": self.first_line, "lines": list(self.lines)}
