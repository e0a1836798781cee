"""Blocks as functions that a fix completes, and the completed function as statements again."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace

from auditkit.model.enums import Takes
from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.discovery.blocks.bodies import RECORDED
from auditkit.probing.discovery.blocks.marks import own_nodes
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.local_names import names_of, parameters
from auditkit.probing.patching.source_text import SourceText, indented
from auditkit.probing.patching.whole_functions import Completed, Original

_INDENT = "    "


def original_of(
    block: Block, text: str, known: frozenset[str], blamed: frozenset[int], quoted: frozenset[str], takes: Takes | None
) -> Original:
    """The block's statements under a `def` of their own, with their comments; `blamed` are lines of the file."""
    first, _ = block.lines
    whole = _as_written(block, text)
    if whole is None:
        whole, blamed = ast.unparse(block.node), frozenset()
    node = ast.parse(whole).body[0]
    assert isinstance(node, ast.FunctionDef)
    if block.holder is not None:
        known |= names_of(block.holder.node.body).stores | parameters(block.holder.node.args)
    return Original(whole, node, known, "", frozenset(line - first + 2 for line in blamed), quoted, takes)


def _as_written(block: Block, text: str) -> str | None:
    """The block's lines under a `def`; None where its answer is not among what they set."""
    if any(name.startswith(RECORDED) for name in block.outputs):
        return None
    first, last = block.lines
    lines = textwrap.dedent("\n".join(text.split("\n")[first - 1 : last])).splitlines()
    answer = block.node.body[-1]
    lines = [f"def {block.name}({ast.unparse(block.node.args)}):", *indented(lines, _INDENT)]
    lines += [_INDENT + ast.unparse(answer)] if isinstance(answer, ast.Return) and not block.ends_its_function else []
    return "\n".join(lines)


def as_statements(completed: Completed, block: Block, text: str) -> Completed:
    """A completed function in the place of the block: its body, or itself and a call of it where it returns early."""
    blanks = SourceText(text).indentation(block.statements[0])
    whole = "\n".join(completed.function)
    node = ast.parse(whole).body[0]
    assert isinstance(node, ast.FunctionDef)
    if block.ends_its_function:
        return replace(completed, function=tuple(indented(_body(node, whole), blanks)))
    returns = [each for each in own_nodes(node.body) if isinstance(each, ast.Return)]
    last = node.body[-1]
    if returns and (len(returns) > 1 or returns[0] is not last):
        lines = [whole.replace(f"def {node.name}", f"def _recommended_{node.name}", 1)]
        lines = [*lines[0].split("\n"), _assigned(block, f"_recommended_{node.name}({_given(node)})")]
        return replace(completed, function=tuple(indented(lines, blanks)))
    value = last.value if isinstance(last, ast.Return) else None
    kept = _body(node, whole, without_last=value is not None)
    if value is not None and ast.unparse(value) not in block.outputs:
        answer = block.node.body[-1]
        if not (isinstance(answer, ast.Return) and answer.value and ast.dump(answer.value) == ast.dump(value)):
            kept.append(_assigned(block, ast.unparse(value)))
    return replace(completed, function=tuple(indented(kept, blanks)))


def _body(node: ast.FunctionDef, whole: str, without_last: bool = False) -> list[str]:
    lines = whole.split("\n")[node.body[0].lineno - 1 if node.body[0].lineno == node.lineno else node.lineno :]
    end = node.end_lineno or node.lineno
    count = (node.body[-1].lineno - 1 if without_last else end) - (len(whole.split("\n")) - len(lines))
    return textwrap.dedent("\n".join(lines[: max(count, 0)])).splitlines()


def _given(node: ast.FunctionDef) -> str:
    return ", ".join(item.arg for item in node.args.args)


def _assigned(block: Block, value: str) -> str:
    """The block's answer set to a value."""
    if len(block.outputs) > 1:
        raise CannotComplete(f"returns one value, where {', '.join(block.outputs)} are read behind the block")
    return f"{block.outputs[0]} = {value}" if block.outputs else value
