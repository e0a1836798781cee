"""A function that goes backward and steps, as rewrites of training steps read it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from auditkit.probing.discovery.blocks.training_calls import is_backward, is_step
from auditkit.probing.patching.rewrites.edits import Edit
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name

_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.While)
_NAN = re.compile(r"isfinite|isnan|isinf|\bnan\b", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """An optimizer's step: its statement, and the texts of the optimizer and of the scaler that makes it ("": none)."""

    statement: ast.stmt
    optimizer: str
    scaler: str


@dataclass(frozen=True)
class StepText:
    """The function with its steps and backward passes, and what is around each statement."""

    function: FunctionText

    @cached_property
    def places(self) -> dict[ast.stmt, tuple[Sequence[ast.stmt], tuple[ast.stmt, ...]]]:
        """For every statement its suite, and the statements around it, the outermost first."""
        found: dict[ast.stmt, tuple[Sequence[ast.stmt], tuple[ast.stmt, ...]]] = {}

        def walk(suite: Sequence[ast.stmt], around: tuple[ast.stmt, ...]) -> None:
            for statement in suite:
                found[statement] = suite, around
                for name in ("body", "orelse", "finalbody"):
                    if isinstance(statement, _COMPOUND):
                        walk(getattr(statement, name, []), (*around, statement))

        walk(self.function.suite, ())
        return found

    @cached_property
    def steps(self) -> list[Step]:
        """In the order of the text."""
        return [
            _step(self.function, statement, call) for statement in self.places for call in calls(statement, is_step)
        ]

    @cached_property
    def backward(self) -> list[ast.stmt]:
        return self.calling(is_backward)

    def calling(self, wanted: Callable[[ast.Call], bool]) -> list[ast.stmt]:
        """The statements of one line, or over several lines of their own, that make such a call."""
        return [one for one in self.places if self.function.has_own_lines(one) and any(calls(one, wanted))]

    def loop_of(self, statement: ast.stmt) -> ast.For | ast.While | None:
        """The innermost loop around a statement."""
        around = self.places[statement][1]
        return next((each for each in reversed(around) if isinstance(each, _LOOPS)), None)

    def next_step(self, statement: ast.stmt) -> Step | None:
        """The first step behind a statement, else the last one of all."""
        later = [step for step in self.steps if step.statement.lineno > statement.lineno]
        return next(iter(later or self.steps[-1:]), None)

    # --- edits ---------------------------------------------------------------------------------------

    def above(self, statement: ast.stmt, text: str) -> Edit:
        """Lines of their own before a statement and the comments above it."""
        top, blanks = self._top(statement), self.function.indentation(statement)
        return Edit((top, 0), (top, 0), "".join(f"{blanks}{line}\n" for line in text.split("\n")))

    def below(self, step: ast.stmt, text: str) -> Edit:
        """Lines of their own behind a step, and behind its scaler's update."""
        suite, place = self.places[step][0], self.places[step][0].index(step)
        follows = suite[place + 1] if place + 1 < len(suite) else step
        is_update = any(calls(follows, lambda call: dotted_name(call.func).endswith("scaler.update")))
        return self.function.line_after(follows if is_update else step, text)

    def cut(self, statement: ast.stmt) -> Edit | None:
        """The statement taken out with the comments above it; None where nothing would be left beside it."""
        suite = self.places[statement][0]
        top, last = self._top(statement), self.function.last(statement)[0]
        if len(suite) == 1 or top == 1 or not self.function.has_own_lines(statement):
            return None
        lines = self.function.lines
        return Edit((top - 1, len(lines[top - 2])), (last, len(lines[last - 1])), "")

    def text(self, statement: ast.stmt) -> str:
        """A statement's lines with the comments above it, without its indentation."""
        blanks = self.function.indentation(statement)
        lines = self.function.lines[self._top(statement) - 1 : self.function.last(statement)[0]]
        return "\n".join(line.removeprefix(blanks) for line in lines)

    def _top(self, statement: ast.stmt) -> int:
        blanks, top = self.function.indentation(statement), statement.lineno
        while top > 1 and self.function.lines[top - 2].startswith(f"{blanks}#"):
            top -= 1
        return top


def step_texts(functions: Sequence[FunctionText]) -> Iterator[StepText]:
    """Those of the functions that make a step."""
    found = map(StepText, functions)
    return (text for text in found if text.steps)


def calls(statement: ast.stmt, wanted: Callable[[ast.Call], bool]) -> Iterator[ast.Call]:
    """The calls that a statement makes by itself, not by one inside it."""
    if isinstance(statement, _COMPOUND):
        return iter(())
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call) and wanted(node))


def is_clip(call: ast.Call) -> bool:
    return dotted_name(call.func).rpartition(".")[2].startswith("clip_grad")


def is_unscale(call: ast.Call) -> bool:
    return dotted_name(call.func).endswith(".unscale_")


def is_zero(call: ast.Call) -> bool:
    return dotted_name(call.func).endswith(".zero_grad")


def looks_for_nan(statement: ast.stmt) -> bool:
    """Whether it is a condition that asks what is finite."""
    return isinstance(statement, ast.If) and _NAN.search(ast.unparse(statement.test)) is not None


def _step(function: FunctionText, statement: ast.stmt, call: ast.Call) -> Step:
    owner = function.text(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if "scaler" in owner.rpartition(".")[2].lower() and call.args:
        return Step(statement, function.text(call.args[0]), owner)
    return Step(statement, owner, "")
