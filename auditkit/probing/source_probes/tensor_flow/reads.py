"""What following a function finds: reads of tensors in loops, the loops, and what helpers do."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Protocol

from auditkit.probing.source_code.modules import Function, dotted_name
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.tensor_flow.kinds import Kind


@dataclass(frozen=True, order=True)
class HostRead:
    """One expression that is read back once for each tensor.

    `what` is how (`.item()`, `if`, `any()`), `value` what is read, `loop_line` and `over` the loop.
    Where a helper reads, `helper` says which and at what line. `only_if` is the test of a parameter for another
    value than its default that the read stands under: `norm_type == inf`.
    """

    line: int
    column: int
    what: str
    value: str
    loop_line: int
    over: str
    helper: str = ""
    only_if: str = ""


@dataclass(frozen=True)
class Summary:
    """What a helper gives back, and what it reads back outside loops of its own."""

    result: Kind
    reads: tuple[HostRead, ...]


@dataclass
class Loop:
    """A loop that runs: over tensors or not, and the names that change with each turn.

    The call of a helper is one, with line 0: whoever calls it may do so in a loop. The names of a `while` loop
    are those that its turns change and its test asks for.
    """

    line: int
    over: ast.expr | None
    is_over_tensors: bool
    names: frozenset[str] = frozenset()
    is_while: bool = False

    def asks_for(self, name: str) -> bool:
        """Whether a `while` loop's test names `name`, or names nothing (`while True`)."""
        if not name or not self.is_while or self.over is None:
            return False  # `next(model.parameters())` has no name that the test could ask for
        return isinstance(self.over, ast.Constant) or any(
            isinstance(part, ast.expr) and dotted_name(part) == name for part in walk([self.over])
        )


class Helpers(Protocol):
    """Where the functions of the same module are followed."""

    def find(self, function: Function, name: str) -> Function | None:
        """The function that `name` means inside `function`."""

    def full_name(self, name: str) -> str:
        """`torch.nn.functional.norm` for `F.norm`; "" for names that are not imported."""

    def summary(self, function: Function, given: tuple[Kind, ...], depth: int) -> Summary:
        """What a call of `function` brings back and reads."""
