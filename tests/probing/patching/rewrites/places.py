"""Small files as the rewrites are given them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.patching.patches import FunctionFile, find_function
from auditkit.probing.patching.rewrites.rewrite import Rewrite, rewrites_of, rewritten


def place_of(folder: Path, source: str, call: str = "watch:norm") -> FunctionFile:
    """The function `call` of the file watch.py with this text."""
    (folder / "watch.py").write_text(source, "utf-8")
    place = find_function(folder, [folder], call)
    assert place is not None
    return place


def finding(probe: str) -> ProbeResult:
    return ProbeResult(probe, 1, "watch:norm", Outcome.REPRODUCED, "", f"{probe}/1/watch:norm")


def rewrites(folder: Path, source: str, *probes: str, call: str = "watch:norm") -> list[Rewrite]:
    return rewrites_of(place_of(folder, source, call), [finding(probe) for probe in probes])


def after(folder: Path, source: str, name: str, *probes: str, call: str = "watch:norm") -> str:
    """The file's text with the one rewrite of that name made; the same text where there is none."""
    place = place_of(folder, source, call)
    found = [one for one in rewrites_of(place, [finding(probe) for probe in probes]) if one.name == name]
    return rewritten(place, found).text if found else source


def diff(before: str, text: str) -> Sequence[tuple[str, str]]:
    """The lines that differ, in pairs, of two texts of equally many lines."""
    pairs = zip(before.split("\n"), text.split("\n"), strict=True)
    return [(old, new) for old, new in pairs if old != new]
