"""What a probe is handed: gradients, the target as calls, the instruments, and ways to say "no answer"."""

import contextlib
import inspect
import math
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from . import gradients, memory, tracing
from .answers import flatten
from .feeding import Caller
from .frames import Site, SourceRoots, most_common
from .launches import count_launches
from .laws import fit_law
from .plan import Plan
from .simulated import to_simulated
from .simulated_device import on_device
from .syncs import Count, count_syncs


class NotApplicable(Exception):
    """The question makes no sense for this target."""


class Unavailable(Exception):
    """The question needs hardware or memory that is not here."""


class TargetRaised(Exception):
    """The target raised on a valid case; `site` is the line in the checkout."""

    def __init__(self, error: BaseException, site: Optional[Site]) -> None:
        super().__init__("{}: {}".format(type(error).__name__, " ".join(str(error).split())[:300]))
        self.site = site


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

    def benign(self, **planted: int) -> List[Any]:
        """Three small standard-normal gradients; `zeros`, `nans`, `infs` plant special values."""
        return self.place(gradients.benign(**planted))

    def place(self, grads: Sequence[torch.Tensor]) -> List[Any]:
        """CPU tensors as gradients of the device."""
        if self.device == "simulated":
            return [to_simulated(grad) for grad in grads]
        return [grad.to("cuda") for grad in grads] if self.device == "cuda" else list(grads)

    # --- the target ---

    @property
    def roles(self) -> Dict[str, Any]:
        """What the answer's fields mean: `norm`, `zero`, `nan`, `inf`, by name."""
        return self.plan.roles

    def answer(self, grads: Sequence[Any]) -> Dict[str, Any]:
        """Every number of the target's answer by field. Raises TargetRaised."""
        with on_device(self.device), self._target_errors():
            raw = self._prepared(grads, whole=True)()
        return flatten(raw)

    def norm(self, grads: Sequence[Any]) -> float:
        """The norm that the target reports (the root of a squared one). Raises TargetRaised, NotApplicable."""
        role = self.role("norm")
        value = self.answer(grads).get(role.path)
        if value is None:
            return math.nan
        number = float(value)
        return math.sqrt(number) if role.degree == 2 and number >= 0 else number

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
            raise TargetRaised(error, self._roots.of_traceback(error.__traceback__)) from error

    def _prepared(self, grads: Sequence[Any], whole: bool) -> Callable[[], Any]:
        """A fresh call on `grads`; `whole` adds the step that finishes an asynchronous answer."""
        second: List[Any] = self.place([torch.ones(2, 3)]) if self.plan.groups == 3 else [None]
        with on_device(self.device):
            return self._caller.prepare(self.plan.feed, (grads, second), whole)

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

    def live_at_peak(self, grads: Sequence[Any]) -> List[memory.LiveBytes]:
        """The checkout's lines that hold memory at the peak of one call, largest first."""
        with self._target_errors():
            return memory.live_at_peak(self._prepared(grads, True), self.device, self._roots)

    def available_bytes(self) -> int:
        """Memory that a case may use on this device now."""
        return memory.available_bytes(self.device)

    def _warm_up(self, grads: Sequence[Any], whole: bool) -> None:
        with on_device(self.device), self._target_errors():
            self._prepared(grads, whole)()

    # --- where ---

    def where_nonfinite(self, grads: Sequence[Any]) -> Optional[Site]:
        """The line where finite values become infinite or NaN."""
        return self._first(grads, tracing.becomes_nonfinite)

    def where_zero(self, grads: Sequence[Any]) -> Optional[Site]:
        """The line where non-zero values become all zero."""
        return self._first(grads, tracing.becomes_zero)

    def where_count_rounds(self, grads: Sequence[Any], exact_count: int) -> Optional[Site]:
        """The line where an exact count becomes an inexact float, or where a fraction is averaged."""
        return self._first(grads, tracing.rounds_count(exact_count)) or self._first(grads, tracing.averages)

    def _first(self, grads: Sequence[Any], description: tracing.Description) -> Optional[Site]:
        try:
            call = self._prepared(grads, True)
        except Exception:
            return self.definition()
        return tracing.first_operator(call, description, self.device, self._roots) or self.definition()

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
