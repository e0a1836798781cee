"""Find the blocks among targets in the checkout that is measured, and encode each as a function for the worker."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from auditkit.model.runs.target import split_call
from auditkit.probing.engine.protocol import BlockRequest
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.find.blocks.blocks import blocks_of, nearest_blocks, undefined_names
from auditkit.probing.source.modules import Module, module_name, parse_module, source_bytes


def block_requests(setting: Setting, calls: Iterable[str]) -> dict[str, BlockRequest]:
    """Each of `calls` that names a block, with its function; where the checkout has none of that name, why."""
    return {call: _request(call, setting) for call in dict.fromkeys(calls) if split_call(call)[2]}


def _request(call: str, setting: Setting) -> BlockRequest:
    file, name = call.split(":", 1)
    path = setting.checkout / file
    source = source_bytes(path)
    module = parse_module(path, source, setting.checkout, module_name(path, setting.import_roots) or file)
    if not source or not isinstance(module, Module):
        why = "is not there" if isinstance(module, Module) else f"cannot be read: line {module.line}: {module.message}"
        return {"file": file, "name": name, "missing": f"there is no block {call}: {file} {why}"}
    block = next((each for each in blocks_of(module) if each.call == call), None)
    if block is None:
        near = nearest_blocks(module, call)
        hint = f"; {file} has {', '.join(near)}" if near else f"; {file} has none"
        return {"file": file, "name": name, "missing": f"there is no block {call}{hint}"}
    undefined = undefined_names(block)
    if undefined:
        return {"file": file, "name": name, "missing": f"{call} reads {', '.join(undefined)}, which nothing sets"}
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
