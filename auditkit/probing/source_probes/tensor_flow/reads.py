"""What following a function finds: reads of tensors in loops, the loops, and what helpers do."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Protocol

from auditkit.probing.source_code.modules import Function, dotted_name
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.tensor_flow.kinds import Kind


@dataclass(frozen=True, order=True)
class HostRead:
    """One expression that is read back once for each tensor.

    `what` is how (`.item()`, `if`, `any()`), `value` what is read, `loop_line` and `over` the loop.
    Where a helper reads, `helper` says which and at what line. `guard` is the test of an interval or a flag under
    which alone it is read (`step % 100 == 0`, `self.check_gradients`). `of_gradients` says that the loop is one over
    gradients, or over parameters and their like where the function deals with gradients.
    """

    line: int
    column: int
    what: str
    value: str
    loop_line: int
    over: str
    helper: str = ""
    guard: str = ""
    of_gradients: bool = False


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
    body: ast.AST | None = None

    def is_over_gradients(self, value: ast.expr, function: Function) -> bool:
        """Whether reading `value` in it is about gradients, or their like in a function that deals with gradients."""
        parts = [value, *([] if self.over is None else [self.over])]
        if any(map(names_gradients, parts)) or self._reads_gradients():
            return True
        return any(names_gradients(part, or_their_like=True) for part in parts) and names_gradients(function.node)

    def _reads_gradients(self) -> bool:
        """Whether its turns read the `.grad` of what changes with them."""
        return self.body is not None and any(
            isinstance(part, ast.Attribute)
            and part.attr == "grad"
            and dotted_name(part).partition(".")[0] in self.names
            for part in walk([self.body])
        )

    def asks_for(self, name: str) -> bool:
        """Whether a `while` loop's test names `name`, or names nothing (`while True`)."""
        if not name or not self.is_while or self.over is None:
            return False
        return isinstance(self.over, ast.Constant) or any(
            isinstance(part, ast.expr) and dotted_name(part) == name for part in walk([self.over])
        )


_GRADIENTS = re.compile(
    r"(?!no_|requires_|enable_|zero_)(\w+_)?(grads?|gradients)|clip_grad_norm_?|(grads?|gradient)_norms?"
)
_THEIR_LIKE = re.compile(r"(\w+_)?(grads?|gradients?|params?|parameters?|norms?|updates?|momentum)(_\w+)?")


def names_gradients(node: ast.AST, or_their_like: bool = False) -> bool:
    """Whether code names gradients; `or_their_like`: or parameters, norms and updates."""
    pattern = _THEIR_LIKE if or_their_like else _GRADIENTS
    words = (getattr(part, field, None) for part in walk([node]) for field in ("id", "attr", "arg", "value"))
    return any(isinstance(word, str) and pattern.fullmatch(word) for word in words)


class Helpers(Protocol):
    """Where the functions of the same module are followed."""

    def find(self, function: Function, called: ast.expr) -> tuple[Function, int] | None:
        """The function that `called` means inside `function`, and how many first arguments are its object."""

    def full_name(self, name: str) -> str:
        """`torch.nn.functional.norm` for `F.norm`; "" for names that are not imported."""

    def summary(self, function: Function, given: tuple[Kind, ...], depth: int) -> Summary:
        """What a call of `function` brings back and reads."""
