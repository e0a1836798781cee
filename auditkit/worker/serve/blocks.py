"""Statements of a file as a function: built from the tree that the host sends, with the file's own name and lines."""

import ast
import builtins
import contextlib
import os
from types import CodeType, FunctionType
from typing import Any, Dict, List, Optional

from . import placeholders
from .loading import LoadError, namespace, owner_class


def load(block: Dict[str, Any], roots: List[str]) -> FunctionType:
    """The function of a block; what its file does not define is a parameter. Raises LoadError."""
    if block.get("missing"):
        raise LoadError("import_error", block["missing"], is_final=True)
    held = namespace(block["file"], block["names"], roots)
    node = decoded(block["tree"])
    assert isinstance(node, ast.FunctionDef)
    text = ast.unparse(node)
    node.args.args += [ast.arg(arg=name) for name in block["names"] if name not in held]
    tree = ast.fix_missing_locations(ast.Module(body=[node], type_ignores=[]))
    code = compile(tree, os.path.join(os.getcwd(), block["file"]), "exec", dont_inherit=True)
    (inner,) = (each for each in code.co_consts if isinstance(each, CodeType))
    place = block["name"]
    held.setdefault("__builtins__", builtins)
    function = FunctionType(_placed(inner, node.name, place), held)
    # Without a text `inspect` looks for one in the class that a dotted name seems to name.
    function.__name__, function.__qualname__, function.__doc__ = node.name, place, ""
    function.text = text  # type: ignore[attr-defined]
    function.enclosing = _enclosing(block, roots)  # type: ignore[attr-defined]
    return function


def _enclosing(block: Dict[str, Any], roots: List[str]) -> Optional[type]:
    """The class of whose method a block is a part; None where there is none, or where it cannot be had."""
    method, _, _ = block["name"].partition("#")
    with contextlib.suppress(Exception), placeholders.loading():
        found, _ = owner_class("{}:{}".format(block["file"], method), roots)
        return None if found is None or placeholders.why_failed(found) else found
    return None


def _placed(code: CodeType, name: str, place: str) -> CodeType:
    """The code under the block's own name, so that locations tell it from the rest of the function around it."""
    consts = tuple(_placed(each, name, place) if isinstance(each, CodeType) else each for each in code.co_consts)
    changed: Dict[str, Any] = {"co_consts": consts}
    if code.co_name == name:
        changed["co_name"] = place
    qualified = getattr(code, "co_qualname", None)
    if qualified is not None and qualified.partition(".")[0] == name:
        changed["co_qualname"] = place + qualified[len(name) :]
    return code.replace(**changed)


def decoded(said: Any) -> Any:
    """The syntax tree that the host wrote as JSON: `[kind, position, fields]` for a node."""
    if isinstance(said, list):
        return [decoded(each) for each in said]
    if not isinstance(said, dict):
        return said
    if "literal" in said:
        return ast.literal_eval(said["literal"])
    kind = getattr(ast, said["kind"])
    node = kind(**{name: decoded(value) for name, value in said["fields"].items() if name in kind._fields})
    if "at" in said:
        node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = said["at"]
    # Python 3.12 asks for them, and a block's function, which no source has, was made without.
    if "type_params" in node._fields and getattr(node, "type_params", None) is None:
        node.type_params = []
    return node
