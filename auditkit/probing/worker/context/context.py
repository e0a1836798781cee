"""What a probe is handed as `ctx`: gradients, the target as calls, the instruments, and ways to say "no answer"."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..answers import structures
from ..answers.answers import differences, lost_fields, relative_difference
from ..base.frames import Site, SourceRoots
from ..base.refusals import NotApplicable, TargetRaised, Unavailable
from ..feeding.caller import Caller
from ..feeding.plan import Plan
from ..feeding.promises import Promise
from ..gradients.forms import WideBatch, work
from ..instruments.graph_capture import unequal_fields
from ..steps.measures import StepMeasures
from ..steps.ranks import RankSteps
from ..steps.results import StepResults
from ..steps.runs import StepFeed, StepRuns
from .calls import Calls
from .measures import Measures
from .places import Places
from .rank_calls import RankCalls
from .reading import Reading
from .spectra import Spectra


class Context:
    """The context of one probe on one target on one device (`cpu`, `cuda` or `simulated`).

    It is a thin face: what each name does is said where it is taken from.
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
        self._take_gradients()
        self._take_calls()
        self._take_instruments()
        self._take_places()
        self._take_spectra_and_ranks()

    def _take_gradients(self) -> None:
        cases, reading = self._calls.cases, Reading(self._calls)
        self.gradients, self.known_norm, self.reads = reading.gradients, reading.known_norm, reading.reads
        self.special_gradients, self.planted = cases.special_gradients, cases.planted
        self.benign, self.powers_of_two = cases.benign, cases.powers_of_two
        self.laid_out, self.sparse = cases.laid_out, cases.sparse
        self.with_one_more, self.with_graph = cases.with_one_more, cases.with_graph
        self.place, self.on_devices, self.as_dtypes = cases.place, cases.on_devices, cases.as_dtypes
        self.exact_norm, self.regrouped = cases.exact_norm, cases.regrouped
        self.interleaved, self.layouts = cases.interleaved, cases.layouts
        self.replicas, self.identical, self.orthogonal = cases.replicas, cases.identical, cases.orthogonal

    def _take_calls(self) -> None:
        calls = self._calls
        self.answer, self.words, self.ask, self.left_by = calls.answer, calls.words, calls.ask, calls.left_by
        self.role, self.norm, self.number = calls.role, calls.norm, calls.number
        self.answers_in_turn, self.answer_with_types = calls.answers_in_turn, calls.answer_with_types
        self.number_of_changed, self.reference_number = calls.number_of_changed, calls.reference_number
        self.compared_roles, self.roles = calls.compared_roles, calls.roles
        self.has_finish, self.writes_gradients = calls.has_finish, calls.writes_gradients

    def _take_instruments(self) -> None:
        measures = Measures(self._calls)
        self.syncs, self.launches, self.transfers = measures.syncs, measures.launches, measures.transfers
        self.peak_bytes, self.python_peak_bytes = measures.peak_bytes, measures.python_peak_bytes
        self.held_bytes, self.python_held_bytes = measures.held_bytes, measures.python_held_bytes
        self.live_at_peak, self.available_bytes = measures.live_at_peak, measures.available_bytes
        self.kept_by_answer, self.changes = measures.kept_by_answer, measures.changes
        self.graphs, self.fullgraph_failure = measures.graphs, measures.fullgraph_failure
        self.compilations, self.replay = measures.compilations, measures.replay
        self.returns_host_numbers = measures.returns_host_numbers

    def _take_places(self) -> None:
        places = Places(self._calls)
        self.definition, self.most_common = self._calls.definition, places.most_common
        self.where_raised, self.where_nonfinite = places.where_raised, places.where_nonfinite
        self.where_retained, self.where_imprecise = places.where_retained, places.where_imprecise
        self.where_zero, self.where_count_rounds = places.where_zero, places.where_count_rounds
        self.where_different, self.where_changed = places.where_different, places.where_changed
        self.where_read_again, self.where_becomes_matrix = places.where_read_again, places.where_becomes_matrix

    def _take_spectra_and_ranks(self) -> None:
        spectra, ranks = Spectra(self._calls), self._ranks
        self.factors, self.svals_part, self.echoes = spectra.factors, spectra.svals_part, spectra.echoes
        self.alignment_scores, self.answer_bytes = spectra.alignment_scores, spectra.answer_bytes
        self.share, self.plan_names_ranks = spectra.share, spectra.plan_names_ranks
        self.shares_of_ranks = ranks.shares_of_ranks
        self.ranks, self.gathered, self.answers_of_two_ranks = ranks.ranks, ranks.gathered, ranks.answers_of_two_ranks
        self.reported_by_one, self.reported_by_ranks = ranks.reported_by_one, ranks.reported_by_ranks

    # --- what is asked for when it is needed ---------------------------------------------------------------

    @property
    def steps(self) -> StepMeasures:
        """A training step on our model: what reaches its optimizer."""
        return StepMeasures(self._step_runs())

    def types_on_simulated_device(self) -> Dict[str, str]:
        """The types of the target's answer to gradients on the simulated device; nothing where it does not run there.

        A host tensor in the answer is one that the target moved or made there.
        """
        calls = self._calls.on("simulated")
        try:
            return calls.answer_with_types(calls.cases.benign())[1]
        except Exception:  # the simulated device lacks operators that some targets use
            return {}

    @property
    def step_results(self) -> StepResults:
        """The gradients that a training step's optimizer receives and what the step returns, with references."""
        return StepResults(self._step_runs())

    @property
    def rank_steps(self) -> RankSteps:
        """A training step in real ranks: what reaches the optimizer of each."""
        return RankSteps(self._step_runs(), self._ranks.ranks, self._ranks.package_mentions)

    def _step_runs(self) -> StepRuns:
        return StepRuns(self._calls.caller, StepFeed(**self.plan.step), self._calls.roots)

    @property
    def device(self) -> str:
        """Where it is asked; after ranks that found too few GPUs, the host."""
        return self._ranks.device

    @property
    def device_pairs(self) -> List[Tuple[str, str]]:
        """The pairs of devices that one set of gradients may lie on."""
        return self._calls.cases.device_pairs

    @property
    def sync_promise(self) -> Optional[Promise]:
        """How often the collecting step synchronises by its own words; None where they say nothing."""
        return self._calls.sync_promise

    @property
    def own_words(self) -> str:
        """The target's name, its docstring and the names of the fields that it returns."""
        return self._calls.own_words

    @property
    def declares_sized(self) -> bool:
        """Whether the target says that it wants a list, not any iterable."""
        return self._calls.declares_sized

    @property
    def deals_with_dtensors(self) -> bool:
        """Whether the target's package has code for what torch shards."""
        return self._ranks.deals_with_dtensors

    @property
    def deals_with_shards(self) -> bool:
        """Whether it has code for sharded gradients, torch's or those that it shards itself."""
        return self._ranks.deals_with_shards

    @property
    def shard_marks(self) -> List[str]:
        """The attributes of parameters by which the target's package tells shards and copies."""
        return self._ranks.shard_marks

    @staticmethod
    def common_structure(answers: Sequence[structures.Answer]) -> Dict[str, str]:
        """The parts that every answer has, without those that stand for one of its tensors."""
        return structures.common_structure([answer.structure for answer in answers])

    @staticmethod
    def widened(grads: Sequence[Any]) -> List[Any]:
        """What a 16-bit batch is handed over as, rounded as it is, in float32."""
        return [WideBatch(grads[0])]

    @staticmethod
    def work_of(keys: Sequence[int]) -> int:
        """The elements of the matrices behind keys."""
        return sum(8 * work(key) for key in keys)

    # --- what a probe says -------------------------------------------------------------------------

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
        law = _fit_law(counts)
        return self.measurement(name, law.slope, "per tensor", law=law.text, constant=law.constant, exact=law.exact)

    def location(self, site: Optional[Site]) -> Dict[str, Any]:
        """Where in the checkout it happens: the ticket's Location. From now on `located` is true."""
        self.located = True
        if site is None:
            return {"type": "location", "location": None}
        return {"type": "location", "location": {**site.to_json(), "folder": self._calls.roots.folder(site.file)}}

    def note(self, text: str) -> Dict[str, Any]:
        """Something the reader of the result must know."""
        return {"type": "note", "text": text}


class _Law(NamedTuple):
    """Exact counts as a line in the number of tensors: `3n+1`, not "many".

    The line goes through the smallest and the largest n, or stays at the last count if the two largest n have the
    same one: 4, 10, 10, 10 does not grow. `exact` if every point lies on the line.
    """

    slope: float
    constant: float
    exact: bool

    @property
    def text(self) -> str:
        """`3n+1`, `n`, `5`; a line that misses a point is marked as approximate."""
        factor = "" if self.slope == 1 else "{:.4g}".format(self.slope)
        line = "{}n{:+.4g}".format(factor, self.constant) if self.constant else factor + "n"
        if self.slope == 0:
            line = "{:g}".format(self.constant)
        return line if self.exact else "about " + line


def _fit_law(counts: Dict[int, int]) -> _Law:
    """The law of `{n: count}`; at least two different n."""
    smallest, (second, largest) = min(counts), sorted(counts)[-2:]
    has_settled = counts[second] == counts[largest]
    slope = 0.0 if has_settled else (counts[largest] - counts[smallest]) / (largest - smallest)
    constant = float(counts[largest]) if has_settled else counts[smallest] - slope * smallest
    exact = all(abs(slope * n + constant - count) < 1e-9 for n, count in counts.items())
    return _Law(slope, constant, exact)
