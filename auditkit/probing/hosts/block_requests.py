"""Blocks as a worker is asked about them: found in the checkout that is measured, sent as the function they make."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from auditkit.model.runs.target import split_call
from auditkit.probing.discovery.blocks.blocks import block_in_lines, block_named, nearest_blocks, undefined_names
from auditkit.probing.hosts.protocol import BlockRequest
from auditkit.probing.hosts.sandbox import Setting
from auditkit.probing.source_code.python_files import PythonFiles


def block_requests(setting: Setting, calls: Iterable[str]) -> dict[str, BlockRequest]:
    """Each of `calls` that names a block, with its function; where the checkout has none of that name, why."""
    wanted = [call for call in dict.fromkeys(calls) if split_call(call)[2]]
    if not wanted:
        return {}
    files = PythonFiles(setting.checkout, setting.import_roots)
    return {call: _request(files, call, setting) for call in wanted}


def _request(files: PythonFiles, call: str, setting: Setting) -> BlockRequest:
    file, name = call.split(":", 1)
    lines, outputs = setting.replaced.get(call, ((0, 0), ()))
    block = block_in_lines(files, call, lines, outputs) if call in setting.replaced else block_named(files, call)
    if block is None:
        near = nearest_blocks(files, call)
        hint = f"; {file} has {', '.join(near)}" if near else ""
        return {"file": file, "name": name, "missing": f"there is no block {call}{hint}"}
    undefined = undefined_names(block)
    if undefined:
        return {
            "file": file,
            "name": name,
            "missing": f"{call} reads {', '.join(undefined)}, which nothing sets",
        }
    return {"file": file, "name": name, "names": list(block.names), "tree": encoded(block.node)}


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
