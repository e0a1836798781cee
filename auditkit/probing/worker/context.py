"""What a probe is handed: gradients, the target as calls, the instruments, and ways to say "no answer"."""

import contextlib
import inspect
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from . import (
    asking,
    declarations,
    effects,
    gradients,
    graph_capture,
    known_norms,
    lines,
    memory,
    mutation,
    precision,
    retention,
    tracing,
)
from .answers import differences, flatten, host_numbers
from .feeding import Caller, Given
from .frames import Site, SourceRoots, most_common
from .graphs import Stop, Trace, compilations, fullgraph_failure, is_declared_eager, trace
from .launches import count_launches
from .laws import fit_law
from .plan import Plan
from .simulated import pretend_device, to_host, to_simulated
from .simulated_device import on_device
from .structures import common_structure
from .syncs import Count, count_syncs
from .transfers import Moved, count_transfers

_WRITING_VERBS = ("clip", "scale", "rescale", "unscale", "normalize", "zero")


class NotApplicable(Exception):
    """The question makes no sense for this target."""


class Unavailable(Exception):
    """The question needs hardware or memory that is not here."""


class TargetRaised(Exception):
    """The target raised on a valid case; `site` is the line in the checkout.

    `deliberate` where a `raise` of the checkout itself did it: a refusal in its own words.
    """

    def __init__(self, error: BaseException, site: Optional[Site], deliberate: bool = False) -> None:
        super().__init__("{}: {}".format(type(error).__name__, " ".join(str(error).split())[:300]))
        self.site = site
        self.deliberate = deliberate


class Context:
    """The context of one probe on one target on one device (`cpu`, `cuda` or `simulated`)."""

    NotApplicable = NotApplicable
    Unavailable = Unavailable
    TargetRaised = TargetRaised

    def __init__(
        self,
        plan: Plan,
        caller: Caller,
        device: str,
        roots: SourceRoots,
        options: Dict[str, Any],
    ) -> None:
        self.plan = plan
        self.device = device
        self.options = options
        self._caller = caller
        self._roots = roots

    # --- cases ---

    def gradients(self, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0) -> List[Any]:
        """`tensors` gradients of `elements` elements each, every element `±magnitude`, on the device."""
        return self.place(gradients.make_gradients(tensors, elements, dtype, magnitude))

    def special_gradients(self, elements: int, fill: float, special: float, special_count: int) -> List[Any]:
        """Three float32 gradients of `elements` in all; the last begins with `special_count` of `special`.

        The special values lie where `benign` plants them, for answers that list every tensor.
        """
        small = [torch.full(tuple(grad.shape), fill) for grad in gradients.benign()[:2]]
        rest = elements - sum(grad.numel() for grad in small)
        return self.place([*small, gradients.with_values(rest, fill, special, special_count)])

    def benign(self, scale: float = 1.0, **planted: int) -> List[Any]:
        """Three small normal gradients times `scale`; `zeros`, `nans`, `infs` plant special values.

        Another `seed` gives other values.
        """
        # Adding 0.0 makes a zero of every -0.0.
        return self.place([grad * scale + 0.0 for grad in gradients.benign(**planted)])

    @property
    def layouts(self) -> List[str]:
        """The names of the memory layouts that `laid_out` knows, commonest first."""
        return list(gradients.LAYOUTS)

    def laid_out(self, layout: str, contiguous: bool = False) -> List[Any]:
        """Three gradients of small whole numbers, the middle one in `layout`, or the same values `contiguous`."""
        shape, view = gradients.LAYOUTS[layout]
        shapes = ((4, 3), shape, (5,))
        first, memory_of_grad, last = self.place([gradients.whole_numbers(each) for each in shapes])
        with on_device(self.device):
            grad = view(memory_of_grad)
            return [first, gradients.contiguous_copy(grad) if contiguous else grad, last]

    def sparse(self, form: str, special: float = 1.0) -> List[Any]:
        """Three gradients, the middle one an embedding's: `coalesced`, `uncoalesced` or `dense`.

        `special` stands in one element of it, twice where it is uncoalesced.
        """
        grad = gradients.sparse_rows(form != "uncoalesced", special)
        middle = grad.to_dense() if form == "dense" else grad
        return self.place([gradients.whole_numbers((4, 3)), middle, gradients.whole_numbers((5,))])

    def with_one_more(self, position: str, *extra: torch.Tensor) -> List[Any]:
        """Three gradients of small whole numbers, and `extra` ones `first`, `between` or `last`."""
        grads = [gradients.whole_numbers(shape) for shape in ((4, 3), (5,), (2, 3))]
        place = {"first": 0, "between": 1, "last": 3}[position]
        return self.place([*grads[:place], *extra, *grads[place:]])

    def with_graph(self) -> Tuple[List[Any], List[Any]]:
        """Three gradients that autograd can go back through, as `create_graph=True` leaves them, and their leaves."""
        leaves = [grad.requires_grad_() for grad in self.benign()]
        return [leaf.exp() for leaf in leaves], leaves

    def place(self, grads: Sequence[torch.Tensor]) -> List[Any]:
        """CPU tensors as gradients of the device."""
        if self.device == "simulated":
            return [to_simulated(grad) for grad in grads]
        return [grad.to("cuda") for grad in grads] if self.device == "cuda" else list(grads)

    @property
    def device_pairs(self) -> List[Tuple[str, str]]:
        """The pairs of devices that one set of gradients may lie on: host and device, two devices where there are."""
        if self.device == "cpu":
            return []
        has_two = self.device == "simulated" or torch.cuda.device_count() > 1
        return [("cpu", "cuda:0"), *([("cuda:0", "cuda:1")] if has_two else [])]

    def on_devices(self, grads: Sequence[Any], devices: Sequence[str]) -> List[Any]:
        """The same values, each gradient on the device that stands at its position in `devices`."""
        hosts = [to_host(grad).cpu() for grad in grads]
        if self.device != "simulated":
            return [host.to(device) for host, device in zip(hosts, devices, strict=False)]
        indices = [pretend_device(device) for device in devices]
        placed = zip(hosts, indices, strict=True)
        return [host if index is None else to_simulated(host, index) for host, index in placed]

    def as_dtypes(self, grads: Sequence[Any], dtypes: Sequence[str]) -> List[Any]:
        """Each gradient in the dtype at its position."""
        with on_device(self.device):
            return [grad.to(gradients.DTYPES[dtype]) for grad, dtype in zip(grads, dtypes, strict=False)]

    def known_norm(
        self, pattern: str, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0
    ) -> Tuple[List[Any], float]:
        """Gradients in a pattern of `known_norms`, and their exact 2-norm."""
        made = known_norms.known_norm(pattern, tensors, elements, dtype, magnitude)
        return self.place(made.grads), made.norm

    def regrouped(self, grads: Sequence[Any], sizes: Sequence[int]) -> List[Any]:
        """The same elements in the same order, as tensors of `sizes` elements."""
        with on_device(self.device):
            return known_norms.regrouped(list(grads), list(sizes))

    @staticmethod
    def exact_norm(grads: Sequence[Any]) -> float:
        """The true 2-norm of all gradients together."""
        return gradients.exact_norm([to_host(grad).cpu() for grad in grads])

    @staticmethod
    def interleaved(grads: Sequence[Any]) -> List[Any]:
        """`grads` with a parameter that has no gradient before, between and after them."""
        return [None, *[item for grad in grads for item in (grad, None)]]

    # --- the target ---

    @property
    def roles(self) -> Dict[str, Any]:
        """What the answer's fields mean: `norm`, `zero`, `nan`, `inf`, by name."""
        return self.plan.roles

    def answer(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Dict[str, Any]:
        """Every number of the target's answer by field. Raises TargetRaised.

        A clipping target that returns no number answers with the norm that it leaves.
        """
        given: List[Given] = []
        with on_device(self.device), self._target_errors():
            raw = self._prepared(grads, True, given, second)()
        return effects.effect(given) if self.plan.clips and not self.plan.fields else flatten(raw)

    def ask(
        self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None, whole: bool = True, one_pass: bool = False
    ) -> asking.Answer:
        """The answer with its structure; `one_pass` hands the gradients over as a generator. Raises TargetRaised."""
        wrap = asking.one_pass if one_pass else None
        step = (whole and self._caller.finish) or self._caller.function
        optional = declarations.declares_none(declarations.return_declaration(step))
        with on_device(self.device), self._target_errors():
            read = asking.take_answer(self._prepared(grads, whole, None, second, wrap), self._roots, optional)
        answer = read()
        return answer._replace(broken={path: self._raised(error) for path, error in answer.broken.items()})

    @property
    def has_finish(self) -> bool:
        """Whether a second step finishes the answer."""
        return self._caller.finish is not None

    @property
    def declares_sized(self) -> bool:
        """Whether the target says that it wants a list, not any iterable."""
        return declarations.declares_sized(self._caller, self.plan.feed)

    @staticmethod
    def common_structure(answers: Sequence[asking.Answer]) -> Dict[str, str]:
        """The parts that every answer has, without those that stand for one of its tensors."""
        return common_structure([answer.structure for answer in answers])

    @staticmethod
    def differences(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
        """The fields of `first` that `second` lacks or holds another value of."""
        return differences(first, second)

    def norm(self, grads: Sequence[Any]) -> float:
        """The norm that the target reports (the root of a squared one). Raises TargetRaised, NotApplicable."""
        role = self.role("norm")
        value = self.answer(grads).get(role.path)
        if value is None:
            return math.nan
        number = float(value)
        return math.sqrt(number) if role.degree == 2 and number >= 0 else number

    def left_by(self, grads: Sequence[Any]) -> List[Optional[torch.Tensor]]:
        """The gradients after one call, dense on the host; None where one was taken away. Raises TargetRaised."""
        given: List[Given] = []
        with on_device(self.device), self._target_errors():
            self._prepared(grads, True, given)()
        return effects.on_host(effects.gradients_now(given[0]))

    @property
    def writes_gradients(self) -> bool:
        """Whether the target is there to change gradients: it clips, or its name says so, as in torch (`clip_`)."""
        name = getattr(self._caller.function, "__name__", "")
        in_name = name.endswith("_") or name.strip("_").split("_")[0] in _WRITING_VERBS
        return in_name or self.plan.clips

    def role(self, name: str) -> Any:
        """The role `name` of the answer. Raises NotApplicable where the answer has none."""
        if name not in self.plan.roles:
            raise NotApplicable("its answer has no {}; fields: {}".format(name, ", ".join(self.plan.fields) or "none"))
        return self.plan.roles[name]

    @contextlib.contextmanager
    def _target_errors(self) -> Any:
        try:
            yield
        except (MemoryError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            memory.raise_if_out_of_memory(error)
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> Exception:
        site = self._roots.of_traceback(error.__traceback__)
        return TargetRaised(error, site, lines.is_deliberate(error, self._roots))

    def _prepared(
        self,
        grads: Sequence[Any],
        whole: bool,
        given: Optional[List[Given]] = None,
        second: Optional[Sequence[Any]] = None,
        wrap: Optional[Callable[[List[Any]], Any]] = None,
    ) -> Callable[[], Any]:
        """A fresh call on `grads`; `whole` adds the step that finishes an asynchronous answer.

        Without `second` the second group is the one that the plan was found with.
        """
        if second is None:
            second = self._second_group()
        with on_device(self.device):
            return self._caller.prepare(self.plan.feed, (grads, second), whole, given, wrap)

    def _second_group(self) -> List[Any]:
        """The second group that the plan was found with: one gradient, or a parameter without any."""
        return self.place([torch.ones(2, 3)]) if self.plan.groups == 3 else [None]

    # --- instruments ---

    def syncs(self, grads: Sequence[Any], whole: bool = True) -> Count:
        """Synchronisations of one call; `whole=False` leaves out the finishing step."""
        self._warm_up(grads, whole)
        with self._target_errors():
            return count_syncs(self._prepared(grads, whole), self.device, self._roots)

    def launches(self, grads: Sequence[Any]) -> Count:
        """Kernel launches of one call."""
        self._warm_up(grads, True)
        with self._target_errors():
            return count_launches(self._prepared(grads, True), self.device, self._roots)

    def peak_bytes(self, grads: Sequence[Any]) -> int:
        """Peak bytes that one call adds, by the allocator."""
        with self._target_errors():
            return memory.peak_bytes(self._prepared(grads, True), self.device)

    def python_peak_bytes(self, grads: Sequence[Any]) -> int:
        """Peak bytes of NumPy and Python memory that one call adds."""
        with self._target_errors():
            return memory.python_peak_bytes(self._prepared(grads, True), self.device)

    def transfers(self, grads: Sequence[Any]) -> Moved:
        """What one whole call moves between devices, in bytes."""
        with self._target_errors():
            return count_transfers(self._prepared(grads, True), self.device, self._roots)

    def replay(self, grads: Sequence[Any], others: Sequence[Any]) -> graph_capture.Replay:
        """The collecting step captured in a CUDA graph on `grads` and replayed on the values of `others`.

        Raises NotApplicable where the answer is on the host, TargetRaised where an ordinary call raises.
        """
        second = self._second_group()

        def make_step() -> graph_capture.Step:
            return graph_capture.Step(*self._caller.steps(self.plan.feed, (grads, second)))

        with self._target_errors():
            step = make_step()
            is_on_device = graph_capture.holds_device_tensor(step.collect())
        if step.finish is None and not is_on_device and not self.plan.clips:
            raise NotApplicable("its answer is on the host: a read cannot be captured")
        with self._target_errors():
            return graph_capture.replay_graph(make_step, grads, others)

    @staticmethod
    def unequal_fields(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
        """The fields that are not bit by bit the same."""
        return graph_capture.unequal_fields(first, second)

    def where_raised(self, error: BaseException) -> Optional[Site]:
        """The checkout's line closest to where `error` was raised."""
        return self._roots.of_traceback(error.__traceback__) or self.definition()

    def changes(self, grads: Sequence[Any], leaves: Sequence[Any] = ()) -> List[mutation.Change]:
        """What one call changes in what it was given; `leaves` as `with_graph` made them. Raises TargetRaised."""
        given: List[Given] = []
        call = self._prepared(grads, True, given)
        with on_device(self.device):
            watched = mutation.Watched(given, leaves)
            with self._target_errors():
                call()
            return watched.changes()

    def graphs(self, grads: Sequence[Any], whole: bool = True) -> Trace:
        """How torch.compile cuts one call into graphs; `whole=False` leaves out the finishing step."""
        self._warm_up(grads, whole)
        return trace(self._compilable(grads, whole), self._roots)

    def fullgraph_failure(self, grads: Sequence[Any], whole: bool = True) -> Optional[Stop]:
        """Why `torch.compile(fullgraph=True)` refuses the call; None where it compiles."""
        return fullgraph_failure(self._compilable(grads, whole), self._roots)

    def compilations(self, cases: Sequence[Sequence[Any]], whole: bool = True) -> List[int]:
        """How many graphs are compiled anew for each case, after the cases before it."""
        return compilations([self._compilable(grads, whole) for grads in cases])

    def _compilable(self, grads: Sequence[Any], whole: bool) -> Callable[[], Any]:
        """A call that torch.compile can take. Raises NotApplicable where its answer would not be about the target."""
        if self.device == "simulated":
            raise NotApplicable("torch.compile does not trace the simulated device: ask with --device auto or cpu")
        if is_declared_eager(self._caller.function):
            raise NotApplicable("it is declared to run outside compiled code (torch.compiler.disable)")
        return self._prepared(grads, whole)

    def returns_host_numbers(self) -> bool:
        """Whether a number outside of tensors in the answer depends on the gradients: it had to be read back."""
        seen = set()
        for case in ({}, {"scale": 4.0}, {"zeros": 5}, {"nans": 5}, {"infs": 5}):
            with contextlib.suppress(TargetRaised), on_device(self.device), self._target_errors():
                seen.add(repr(host_numbers(self._prepared(self.benign(**case), True)())))
        return len(seen) > 1

    def live_at_peak(self, grads: Sequence[Any]) -> List[memory.LiveBytes]:
        """The checkout's lines that hold memory at the peak of one call, largest first."""
        with self._target_errors():
            return memory.live_at_peak(self._prepared(grads, True), self.device, self._roots)

    def held_bytes(self, make: Callable[[], Sequence[Any]], counts: Sequence[int]) -> Dict[int, int]:
        """Bytes that one instance holds after so many calls, each on new gradients that are dropped afterwards."""
        with self._target_errors():
            return memory.held_bytes(self._loop(make), counts, self.device)

    def python_held_bytes(self, make: Callable[[], Sequence[Any]], counts: Sequence[int]) -> Dict[int, int]:
        """The same for NumPy and Python memory."""
        with self._target_errors():
            return memory.python_held_bytes(self._loop(make), counts, self.device)

    def kept_by_answer(self, make: Callable[[], Sequence[Any]]) -> retention.Kept:
        """Bytes that the answer alone keeps alive, and its tensors that carry a graph, by path."""
        with self._target_errors():
            return retention.kept_by_answer(self._repeated(make), make, self.device)

    def _loop(self, make: Callable[[], Sequence[Any]]) -> Callable[[], None]:
        repeated = self._repeated(make)

        def step() -> None:
            repeated.call(make())
            repeated.forget()

        return step

    def _repeated(self, make: Callable[[], Sequence[Any]]) -> retention.RepeatedCall:
        second = self._second_group()
        with on_device(self.device):
            return retention.RepeatedCall(self._caller, self.plan.feed, make(), second)

    def available_bytes(self) -> int:
        """Memory that a case may use on this device now."""
        return memory.available_bytes(self.device)

    def _warm_up(self, grads: Sequence[Any], whole: bool) -> None:
        with on_device(self.device), self._target_errors():
            # What is counted next must meet the gradients as they were before a clipping target changed them.
            fresh = [grad.clone() for grad in grads] if self.plan.clips else grads
            self._prepared(fresh, whole)()

    # --- where ---

    def where_nonfinite(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """The line where finite values become infinite or NaN."""
        return self._first(grads, tracing.becomes_nonfinite, second)

    def where_retained(self, make: Callable[[], Sequence[Any]], with_graph: bool = False) -> Optional[Site]:
        """The line that made what outlives a call, or, `with_graph`, what in the answer carries a graph."""
        repeated = self._repeated(make)
        found = retention.where_retained(repeated, make, with_graph, self.device, self._roots)
        return found or self.definition()

    def where_imprecise(self, grads: Sequence[Any], tolerance: float) -> Optional[Site]:
        """The line whose value is the first to be off by more than `tolerance` (relative)."""
        call = self._prepared(grads, True)
        return precision.first_imprecise(call, tolerance, self.device, self._roots) or self.definition()

    def where_zero(self, grads: Sequence[Any]) -> Optional[Site]:
        """The line where non-zero values become all zero."""
        return self._first(grads, tracing.becomes_zero)

    def where_count_rounds(self, grads: Sequence[Any], exact_count: int) -> Optional[Site]:
        """The line where an exact count becomes an inexact float, or where a fraction is averaged."""
        return self._first(grads, tracing.rounds_count(exact_count)) or self._first(grads, tracing.averages)

    def _first(
        self, grads: Sequence[Any], description: tracing.Description, second: Optional[Sequence[Any]] = None
    ) -> Optional[Site]:
        try:
            call = self._prepared(grads, True, second=second)
        except Exception:
            return self.definition()
        return tracing.first_operator(call, description, self.device, self._roots) or self.definition()

    def where_different(self, grads: Sequence[Any], others: Sequence[Any]) -> Optional[Site]:
        """The line that first computes something else from `grads` than from `others`, the same values."""
        calls = [self._prepared(each, True) for each in (grads, others)]
        return tracing.first_difference(calls[0], calls[1], self.device, self._roots) or self.definition()

    def where_changed(self, grads: Sequence[Any], leaves: Sequence[Any] = ()) -> Optional[Site]:
        """The line that first changes what the target was given."""
        given: List[Given] = []
        call = self._prepared(grads, True, given)
        with on_device(self.device):
            watched = mutation.Watched(given, leaves)
            return mutation.first_changing_line(call, watched, self._roots) or self.definition()

    def where_read_again(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """The line that reads an iterator of the gradients after its end."""
        handed: List[lines.WatchedIterator] = []

        def watch(listed: List[Any]) -> lines.WatchedIterator:
            handed.append(lines.WatchedIterator(listed, self._roots))
            return handed[-1]

        with on_device(self.device), contextlib.suppress(Exception):
            self._prepared(grads, True, None, second, watch)()
        found = [iterator.read_again for iterator in handed if iterator.read_again is not None]
        return found[0] if found else self.definition()

    def most_common(self, sites: List[Optional[Site]]) -> Optional[Site]:
        return most_common(sites) or self.definition()

    def definition(self) -> Optional[Site]:
        """The line where the target is defined: the location when no single line is to blame."""
        function = inspect.unwrap(self._caller.function)
        code = getattr(function, "__code__", None)
        relative = self._roots.relative(code.co_filename) if code is not None else None
        if code is None or relative is None:
            return None
        return Site(relative, code.co_firstlineno, getattr(function, "__qualname__", function.__name__))

    # --- what a probe yields ---

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
