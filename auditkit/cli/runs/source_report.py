"""How what was read of the source is shown: one block, a line for each finding with what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditkit.cli.common import say
from auditkit.cli.runs.lines import place_and_ticket, without_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from auditkit.model.runs.run import ProbeResult

_LABELS = ("not reproduced", "not applicable")


def print_source(results: Sequence[ProbeResult], say_severity: Callable[[str, str], None], verbose: bool) -> None:
    """The findings of source probes, worst first, then files that could not be read, then what was not found."""
    say("")
    say("source")
    for result in sorted(
        (item for item in results if item.severity), key=lambda item: (str(item.severity), item.probe)
    ):
        say_severity(str(result.severity), f"{result.probe}  {place_and_ticket(result)}")
        say(f"      {result.target}: {result.message}")
    for line in without_answer(list(results)):
        say(f"  {line}")
    for line in _without_finding(results, verbose):
        say(f"  {line}")


def _without_finding(results: Sequence[ProbeResult], verbose: bool) -> list[str]:
    """What was not found, counted in one line; with what was examined, a line for each, where `verbose`."""
    by_label = {label: [item for item in results if item.outcome.value == label.replace(" ", "_")] for label in _LABELS}
    if verbose:
        return [f"{label}: {item.probe}: {item.message}" for label, found in by_label.items() for item in found]
    counts = ", ".join(f"{len(found)} {label}" for label, found in by_label.items() if found)
    return [counts] if counts else []
