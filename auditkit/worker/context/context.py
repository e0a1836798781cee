"""What a probe gets as `ctx`: gradients, the target as calls, the instruments, and exceptions for why it cannot run."""

from typing import Any, Dict, NamedTuple, Optional, Sequence

from ..answers import structures
from ..answers.answers import differences, lost_fields, relative_difference
from ..base.frames import Site, SourceRoots
from ..base.refusals import NotApplicable, TargetRaised, Unavailable
from ..feed.caller import Caller
from ..feed.plan import Plan
from ..measure.graph_capture import unequal_fields
from ..steps.measures import StepMeasures
from ..steps.ranks import RankSteps
from ..steps.runs import StepFeed, StepRuns
from .calls import Calls
from .measures import Measures
from .rank_calls import RankCalls
from .spectra import Spectra


class Context:
    """The context of one probe on one target on one device (`cpu`, `cuda` or `simulated`).

    It also has every name of its parts: `Calls`, `Cases`, `Measures`, `Spectra` and `RankCalls`.
    """

    NotApplicable = NotApplicable
    Unavailable = Unavailable
    TargetRaised = TargetRaised

    differences = staticmethod(differences)
    lost_fields = staticmethod(lost_fields)
    relative_difference = staticmethod(relative_difference)
    unequal_fields = staticmethod(unequal_fields)

    def __init__(self, plan: Plan, caller: Caller, device: str, roots: SourceRoots, options: Dict[str, Any]) -> None:
        self.plan = plan
        self.options = options
        self.located = False
        self._calls = Calls(plan, caller, device, roots)
        self._ranks = RankCalls(self._calls, options)
        self._parts = (self._ranks, self._calls, self._calls.cases, Measures(self._calls), Spectra(self._calls))

    def __getattr__(self, name: str) -> Any:
        for part in () if name.startswith("_") else self._parts:
            if hasattr(part, name):
                return getattr(part, name)
        raise AttributeError(name)

    @property
    def steps(self) -> StepMeasures:
        """A training step on a small model: what reaches its optimizer."""
        return StepMeasures(self._step_runs())

    @property
    def rank_steps(self) -> RankSteps:
        """A training step in real ranks: what reaches the optimizer of each."""
        if self.plan.step.get("recorded"):
            raise NotApplicable("its model and batches are those of the recorded run, which auditkit does not vary")
        return RankSteps(self._step_runs(), self._ranks.ranks, self._ranks.package_mentions)

    def _step_runs(self) -> StepRuns:
        return StepRuns(self._calls.caller, StepFeed(**self.plan.step), self._calls.roots)

    def types_on_simulated_device(self) -> Dict[str, str]:
        """Return the types of the target's result on the simulated device; empty if it does not run there.

        A host tensor in the result is one that the target moved or created there.
        """
        calls = self._calls.on("simulated")
        try:
            return calls.answer_with_types(calls.cases.benign())[1]
        except Exception:  # The simulated device lacks operators that some targets use.
            return {}

    @staticmethod
    def common_structure(answers: Sequence[structures.Answer]) -> Dict[str, str]:
        """Return the parts that every result has, without those of one of its tensors."""
        return structures.common_structure([answer.structure for answer in answers])

    def measurement(self, name: str, value: Any, unit: str, evidence: str = "", **case: Any) -> Dict[str, Any]:
        """Return one measured number with its case. The evidence label is the device's by default."""
        label = evidence or ("simulated" if self.device == "simulated" else "measured")
        case = {**case, "device": self.device}
        return {"type": "measurement", "name": name, "value": value, "unit": unit, "case": case, "evidence": label}

    def law(self, name: str, counts: Dict[int, int]) -> Dict[str, Any]:
        """Return the law of `{tensors: count}` as a measurement: its value is the slope, its case the whole line."""
        law = _fit_law(counts)
        return self.measurement(name, law.slope, "per tensor", law=law.text, constant=law.constant, exact=law.exact)

    def location(self, site: Optional[Site]) -> Dict[str, Any]:
        """Return the ticket's location in the checkout, and set `located`."""
        self.located = True
        found = None if site is None else {**site.to_json(), "folder": self._calls.roots.folder(site.file)}
        return {"type": "location", "location": found}

    def note(self, text: str) -> Dict[str, Any]:
        """Return a note for the reader of the result."""
        return {"type": "note", "text": text}


class _Law(NamedTuple):
    """Exact counts as a line in the number of tensors: `3n+1`, not "many". `exact` if every point is on it."""

    slope: float
    constant: float
    exact: bool

    @property
    def text(self) -> str:
        """The line as text: `3n+1`, `n`, `5`; "about" if it misses a point."""
        factor = "" if self.slope == 1 else "{:.4g}".format(self.slope)
        line = "{}n{:+.4g}".format(factor, self.constant) if self.constant else factor + "n"
        if self.slope == 0:
            line = "{:g}".format(self.constant)
        return line if self.exact else "about " + line


def _fit_law(counts: Dict[int, int]) -> _Law:
    """Return the line through the smallest and the largest of at least two n.

    If the two largest n have the same count, the law is constant: 4, 10, 10, 10 does not grow.
    """
    smallest, (second, largest) = min(counts), sorted(counts)[-2:]
    has_settled = counts[second] == counts[largest]
    slope = 0.0 if has_settled else (counts[largest] - counts[smallest]) / (largest - smallest)
    constant = float(counts[largest]) if has_settled else counts[smallest] - slope * smallest
    return _Law(slope, constant, all(abs(slope * n + constant - count) < 1e-9 for n, count in counts.items()))
