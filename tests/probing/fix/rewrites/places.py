"""Small files as the rewrites are given them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import libcst as cst

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.fix.patches import FunctionFile, function_in
from auditkit.probing.fix.rewrites.drafts import Draft
from auditkit.probing.fix.rewrites.rewrite import Rewrite, rewrites_of, rewritten
from auditkit.probing.source.python_files import PythonFiles

_LONGEST = f"# {'-' * 110}\n"
"""What says that the file's lines may have 120 characters."""


def place_of(folder: Path, source: str, call: str = "watch:measure") -> FunctionFile:
    """The function `call` of the file watch.py with this text."""
    (folder / "watch.py").write_text(source + _LONGEST, "utf-8")
    place = function_in(PythonFiles(folder, [folder]), call)
    assert place is not None
    return place


def finding(probe: str) -> ProbeResult:
    return ProbeResult(probe, 1, "watch:measure", Outcome.REPRODUCED, "", f"{probe}/1/watch:measure")


def rewrites(folder: Path, source: str, *probes: str, call: str = "watch:measure") -> list[Rewrite]:
    return rewrites_of(place_of(folder, source, call), [finding(probe) for probe in probes])


def text_with(place: FunctionFile, rewrites: list[Rewrite]) -> str:
    return rewritten(place, rewrites).data.decode().removesuffix(_LONGEST)


def after(folder: Path, source: str, name: str, *probes: str, call: str = "watch:measure") -> str:
    """The file's text with the first rewrite of that name made; the same text where there is none."""
    place = place_of(folder, source, call)
    found = [one for one in rewrites_of(place, [finding(probe) for probe in probes]) if one.name == name]
    return text_with(place, found[:1]) if found else source


def of_lines(lines: Mapping[int, str], *probes: str, name: str = "test") -> Rewrite:
    """Whole lines by others."""

    def apply(draft: Draft) -> Draft:
        text = draft.data.decode().split("\n")
        for number, line in lines.items():
            text[number - 1] = line + "\r" * text[number - 1].endswith("\r")
        return Draft(draft.place, cst.parse_module("\n".join(text).encode()), ())

    return Rewrite(name, frozenset(probes), f"line {min(lines)}: changed", apply)
