"""Blocks as a worker is asked about them: found in the checkout that is measured, sent as the function they make."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from auditkit.model.runs.target import split_call
from auditkit.probing.discovery.blocks.blocks import blocks_at, nearest_blocks, undefined_names
from auditkit.probing.hosts.protocol import BlockRequest
from auditkit.probing.source_code.python_files import PythonFiles


def block_requests(checkout: Path, roots: Sequence[Path], calls: Iterable[str]) -> dict[str, BlockRequest]:
    """Each of `calls` that names a block, with its function; where the checkout has none of that name, why."""
    wanted = [call for call in dict.fromkeys(calls) if split_call(call)[2]]
    if not wanted:
        return {}
    files = PythonFiles(checkout, roots)
    return {call: _request(files, call) for call in wanted}


def _request(files: PythonFiles, call: str) -> BlockRequest:
    file, function, _ = split_call(call)
    block = next((each for each in blocks_at(files, file) if each.call == call), None)
    if block is None:
        near = nearest_blocks(files, call)
        hint = f"; {file} has {', '.join(near)}" if near else ""
        return {"file": file, "function": function, "missing": f"there is no block {call}{hint}"}
    undefined = undefined_names(block)
    if undefined:
        return {
            "file": file,
            "function": function,
            "missing": f"{call} reads {', '.join(undefined)}, which nothing sets",
        }
    return {"file": file, "function": function, "names": list(block.names), "tree": encoded(block.node)}


def encoded(node: Any) -> Any:
    """A syntax tree as JSON."""
    if isinstance(node, list):
        return [encoded(each) for each in node]
    if isinstance(node, ast.Constant):
        return _node(node, {"value": {"literal": ast.unparse(node)}, "kind": node.kind})
    if isinstance(node, ast.AST):
        return _node(node, {name: encoded(getattr(node, name, None)) for name in node._fields})
    return node


def _node(node: ast.AST, fields: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": type(node).__name__, "fields": fields}
    if isinstance(node, ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.keyword) and hasattr(node, "lineno"):
        said["at"] = [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]
    return said
