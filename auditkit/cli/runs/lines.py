"""Lines of the report of a run: how targets are called and read, and what has no result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditkit.model.runs.run import ProbeResult, TargetReading


def without_answer(results: Sequence[ProbeResult]) -> list[str]:
    """Errors and missing devices, each reason once with the probes that it stopped, and the targets if several."""
    stopped: dict[str, list[ProbeResult]] = {}
    causes: dict[str, str] = {}
    for result in results:
        if result.outcome.value in ("error", "unavailable"):
            reason = f" ({result.reason.value})" if result.reason else ""
            stopped.setdefault(result.message, []).append(result)
            causes[result.message] = f"{result.outcome.value}{reason}"
    lines = []
    for message, without in stopped.items():
        probes, targets = ({getattr(result, name) for result in without} for name in ("probe", "target"))
        named = without[0].probe if len(probes) == 1 else f"{len(probes)} probes"
        where = f" on {len(targets)} targets" if len(targets) > 1 else ""
        lines.append(f"{causes[message]}  {named}{where}: {message}")
    return lines


def how_it_is_read(reading: TargetReading) -> str:
    """Return how auditkit called the target and read its result, with the options that change it."""
    target = reading.target
    parts = [f"called with {target.takes.value} (--takes)" if target.takes else "auditkit knows no way to call it"]
    parts += [f"{name}={value}" for name, value in target.arguments.items()]
    parts += [f"after {target.setup}()"] if target.setup else []
    parts += [f"then {target.finish} (--finish)"] if target.finish else []
    roles = ", ".join(f"{path or 'the result'} is {role}" for role, path in reading.roles.items())
    parts.append(f"returns {reading.answer or 'nothing'}" + (f": {roles} (--returns)" if roles else ""))
    parts += [f"checked as {target.contract.value} (--contract)"] if target.contract else []
    return ", ".join(parts)
