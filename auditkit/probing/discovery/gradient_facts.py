"""What was seen in one function that handles gradients: the marks of its values, and where statistics of them go."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from auditkit.probing.discovery import gradient_names as names

NOTHING, NORM, GRADIENTS, STATISTICS = 0, 1, 2, 3
"""What a value holds; a NORM is one that somebody else computed. Where two meet, the larger one counts."""


@dataclass(frozen=True)
class ReturnFact:
    """One `return` with a value, and what it brings back."""

    node: ast.Return | ast.Yield
    value: ast.expr
    mark: int


@dataclass
class GradientFlow:
    """What was seen in one function; lines are those of its file, the first of each."""

    grad_reads: set[int] = field(default_factory=set)
    reductions: dict[str, int] = field(default_factory=dict)
    """Every reduction of gradients, by its name as written."""
    helpers: dict[str, int] = field(default_factory=dict)
    """Every call of the checkout's own that yields gradients' statistics, by the called name as written."""
    flags: dict[str, bool] = field(default_factory=dict)
    """For every reduction and helper whether it gives flags or counts of NaN, infinity and zeros."""
    clips: dict[str, int] = field(default_factory=dict)
    """What limits gradients in place, or by a library's function."""
    reports: dict[str, int] = field(default_factory=dict)
    """Statistics that are printed, logged, or lead to an exception."""
    stores: dict[str, int] = field(default_factory=dict)
    """What keeps statistics after the call: attributes, and mappings that were handed in."""
    reduced: set[ast.Call] = field(default_factory=set)
    """The calls that reduce gradients, and not statistics of them."""
    returns: dict[int, ReturnFact] = field(default_factory=dict)
    trains: bool = False
    differentiates: bool = False
    scales: bool = False
    """Whether gradients are multiplied by statistics or by a norm."""

    @property
    def tells_flags(self) -> bool:
        """Whether every statistic is a flag or a count, none of them a norm."""
        return bool(self.flags) and all(self.flags.values())

    def reduce(self, written: str, line: int) -> None:
        """Note a reduction of gradients."""
        self.reductions.setdefault(written, line)
        self.flags[written] = names.is_finite_check(written.rpartition(".")[2])

    @property
    def returns_statistics(self) -> bool:
        return self.brings(STATISTICS)

    def brings(self, mark: int) -> bool:
        """Whether something with this mark comes back."""
        return any(fact.mark == mark for fact in self.returns.values())

    @property
    def tells(self) -> bool:
        """Whether statistics of gradients, or a limit on them, leave the function in any way."""
        return self.returns_statistics or bool(self.clips or self.reports or self.stores)


HelperMark = Callable[[ast.Call, list[int]], "HelperAnswer | None"]
"""What a call of a helper of the checkout brings back, given its arguments' marks; None: no helper."""


@dataclass(frozen=True)
class HelperAnswer:
    """What calling a function of the checkout brings back, and what it does beside."""

    mark: int
    clips: bool = False
    tells_flags: bool = False
    differentiates: bool = False
    """Whether it makes the gradients that it hands out."""
    reports: bool = False
    """Whether it logs statistics of what it is handed."""
