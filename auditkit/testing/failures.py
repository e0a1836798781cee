"""How a guard fails, and how it reports that it could not run."""

from __future__ import annotations

import linecache
import os
import re
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from auditkit.model.enums import Evidence

__tracebackhide__ = True  # pytest shows the test's own line

_WIDTH = 9
_MOST_LINES = 3
_INNER = re.compile(r"(\.<locals>\.<\w+>)+$")
"""A comprehension's own name, which Python 3.12 and later have no more."""


class Unused:
    """A guard that was made and is not used yet: it checks nothing until `use` is called.

    The pytest plugin fails a test that makes a guard and does not use it.
    """

    made: ClassVar[dict[Unused, str]] = {}
    """What to say of each unused guard."""

    def __init__(self, what: str) -> None:
        self.made[self] = what

    def use(self) -> None:
        """Note that the guard checks something."""
        self.made.pop(self, None)


class GuardFailed(AssertionError):
    """Code does not keep to its guard: the number, the law, the line and the evidence, one a line."""


class GuardUnavailable(unittest.SkipTest):
    """A guard could not run here, and why: it neither passed nor failed."""


def failure(headline: str, *facts: tuple[str, str | Sequence[str]]) -> GuardFailed:
    """A failure with its facts below it, each beside its name; those without a word are left out."""
    lines = [headline]
    for name, said in facts:
        texts = [said] if isinstance(said, str) else said
        heads = [name, *[""] * len(texts)]
        lines += [f"  {head:<{_WIDTH}} {text}" for head, text in zip(heads, texts, strict=False) if text]
    return GuardFailed("\n".join(lines))


def in_words(evidence: Evidence | None, device: str) -> str:
    """Where the numbers come from."""
    if evidence is Evidence.SIMULATED:
        behind = "CPU tensors that stand for a device's" if device == "cpu" else "the simulated CUDA device"
        return f"simulated: counted on the CPU with {behind}; no number is a GPU's"
    if device != "cuda":
        return "measured on the CPU"
    import torch

    return f"measured on {torch.cuda.get_device_name()}"


def places(sites: Sequence[Any], root: Path) -> list[str]:
    """The lines where something happened most often, each with its code; a site has `file`, `line`, `function`."""
    times: dict[Any, int] = {}
    for site in sites:
        times[site] = times.get(site, 0) + 1
    found = []
    for site in sorted(times, key=lambda each: -times[each])[:_MOST_LINES]:
        count = f": {times[site]} of {len(sites)}" if len(sites) > 1 else ""
        found += ["no line of this project" + count] if site is None else lines_of(site, root, count)
    return found


def lines_of(site: Any, root: Path, count: str = "") -> list[str]:
    """`stats.py:7 in layer_norms: 64 of 64`, and the line itself."""
    path = os.path.join(getattr(site, "folder", "") or root, site.file)
    code = linecache.getline(path, site.line).strip()
    function = _INNER.sub("", site.function)
    where = f" in {function}" if function else ""
    return [f"{site.file}:{site.line}{where}{count}", *([f"  {code}"] if code else [])]
