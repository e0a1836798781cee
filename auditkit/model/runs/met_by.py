"""Who meets a finding: the places that call a target and what they pass, from a recorded run or from the source."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.codec import Record
from auditkit.model.text import counted, listed

_MOST_CALLERS = 2


@dataclass(frozen=True)
class MetBy(
    Record, keys="source callers? calls_per_step? tensors? dtypes? devices? layouts? when? conditions? entry_points?"
):
    """The calls of one target in a recorded run (`source` is `run`), or the calls that its source shows (`read`).

    `callers` are lines of the checkout such as `trainer/loop.py:88`, the most frequent first. `tensors` counts the
    gradients or parameters of one call; `dtypes`, `devices` and `layouts` are theirs, as torch prints them without
    `torch.`, the most frequent first. `when` is the day of the run, such as `24 November`. What is not known is None
    or empty: a reading of the source knows only the callers, the tests under which they call (`if args.clip`), and
    the scripts, tests or functions where the calls begin (`entry_points`).
    """

    source: str
    callers: tuple[str, ...] = ()
    calls_per_step: float | None = None
    tensors: int | None = None
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    when: str = ""
    conditions: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()

    def sentence(self) -> str:
        """`in the run of 24 November: once a step from trainer/loop.py:88, 148 float32 tensors on cuda:0`."""
        place = f" from {listed(self.callers, _MOST_CALLERS)}" if self.callers else ""
        if self.source == "run":
            parts = filter(None, (_often(self.calls_per_step) + place, self._tensors()))
            return f"in the run{f' of {self.when}' if self.when else ''}: {', '.join(parts)}"
        if not place and not self.entry_points:
            return "no caller in this checkout"
        under = "".join(f"{' and' * bool(n)} `{each}`" for n, each in enumerate(self.conditions[:_MOST_CALLERS]))
        if not place:
            return f"run by {listed(self.entry_points, _MOST_CALLERS)}{under}"
        files = {each.partition(":")[0] for each in self.callers}
        begins = [each for each in self.entry_points if each not in files]
        return f"called{place}{under}" + (f" (reached from {listed(begins, _MOST_CALLERS)})" if begins else "")

    def _tensors(self) -> str:
        """`148 float32 tensors on cuda:0`; "" for a target that got no tensor."""
        if not self.tensors:
            return ""
        unusual = [each for each in self.layouts if each != "strided"]
        kinds = " ".join(filter(None, (" and ".join(self.dtypes), " and ".join(unusual))))
        where = f" on {' and '.join(self.devices)}" if self.devices else ""
        return counted(self.tensors, f"{kinds} tensor".strip()) + where


def _often(per_step: float | None) -> str:
    if per_step is None:
        return "called"
    if 0.95 <= per_step <= 1.05:
        return "once a step"
    if per_step > 1:
        return f"{per_step:.3g} times a step"
    return f"once in {round(1 / per_step):,} steps" if per_step > 0 else "called outside of the steps"
