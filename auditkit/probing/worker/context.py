"""What a probe is handed: gradients, the target as calls, the instruments, and ways to say "no answer"."""

from typing import Any, Dict, Optional

from .frames import Site
from .laws import fit_law
from .rank_calls import RankCalls
from .refusals import NotApplicable, TargetRaised, Unavailable


class Context(RankCalls):
    """The context of one probe on one target on one device (`cpu`, `cuda` or `simulated`)."""

    NotApplicable = NotApplicable
    Unavailable = Unavailable
    TargetRaised = TargetRaised

    def measurement(self, name: str, value: Any, unit: str, evidence: str = "", **case: Any) -> Dict[str, Any]:
        """One measured number in its case. The evidence label is the device's, unless given."""
        label = evidence or ("simulated" if self.device == "simulated" else "measured")
        return {
            "type": "measurement",
            "name": name,
            "value": value,
            "unit": unit,
            "case": {**case, "device": self.device},
            "evidence": label,
        }

    def law(self, name: str, counts: Dict[int, int]) -> Dict[str, Any]:
        """The law of `{tensors: count}` as a measurement: its value is the slope, its case the whole line."""
        law = fit_law(counts)
        return self.measurement(name, law.slope, "per tensor", law=law.text, constant=law.constant, exact=law.exact)

    def location(self, site: Optional[Site]) -> Dict[str, Any]:
        """Where in the checkout it happens: the ticket's Location."""
        return {"type": "location", "location": site.to_json() if site is not None else None}

    def note(self, text: str) -> Dict[str, Any]:
        """Something the reader of the result must know."""
        return {"type": "note", "text": text}
