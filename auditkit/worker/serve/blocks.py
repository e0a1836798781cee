"""Make a function of statements of a file, with the file's own name and lines."""

import ast
import builtins
import contextlib
import os
from types import CodeType, FunctionType
from typing import Any, Dict, List, Optional

from . import placeholders
from .loading import LoadError, namespace, owner_class


def load(block: Dict[str, Any], roots: List[str]) -> FunctionType:
    """Return the function of a block; names that its file does not define become parameters. Raises LoadError."""
    if block.get("missing"):
        raise LoadError("import_error", block["missing"], is_final=True)
    held = namespace(block["file"], block["names"], roots)
    node = _placed_tree(block["text"], block["places"])
    node.args.args += [ast.arg(arg=name) for name in block["names"] if name not in held]
    tree = ast.fix_missing_locations(ast.Module(body=[node], type_ignores=[]))
    code = compile(tree, os.path.join(os.getcwd(), block["file"]), "exec", dont_inherit=True)
    (inner,) = (each for each in code.co_consts if isinstance(each, CodeType))
    place = block["name"]
    held.setdefault("__builtins__", builtins)
    function = FunctionType(_placed(inner, node.name, place), held)
    # Without a docstring `inspect` searches one in the class that a dotted name seems to name.
    function.__name__, function.__qualname__, function.__doc__ = node.name, place, ""
    function.text = "\n".join((block["text"], block["context"]))  # type: ignore[attr-defined]
    function.has_epochs = block["has_epochs"]  # type: ignore[attr-defined]
    function.enclosing = _enclosing(block, roots)  # type: ignore[attr-defined]
    return function


def _enclosing(block: Dict[str, Any], roots: List[str]) -> Optional[type]:
    """Return the class whose method contains the block; None if there is none or it cannot be loaded."""
    method, _, _ = block["name"].partition("#")
    with contextlib.suppress(Exception), placeholders.loading():
        found, _ = owner_class("{}:{}".format(block["file"], method), roots)
        return None if found is None or placeholders.why_failed(found) else found
    return None


def _placed(code: CodeType, name: str, place: str) -> CodeType:
    """Return the code under the block's own name, so that locations differ from the function around it."""
    consts = tuple(_placed(each, name, place) if isinstance(each, CodeType) else each for each in code.co_consts)
    changed: Dict[str, Any] = {"co_consts": consts}
    if code.co_name == name:
        changed["co_name"] = place
    qualified = getattr(code, "co_qualname", None)
    if qualified is not None and qualified.partition(".")[0] == name:
        changed["co_qualname"] = place + qualified[len(name) :]
    return code.replace(**changed)


def _placed_tree(text: str, places: List[List[int]]) -> ast.FunctionDef:
    """Parse the function of a text, with the lines that its nodes have in the file."""
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    for each, place in zip((each for each in ast.walk(node) if "lineno" in each._attributes), places, strict=True):
        each.lineno, each.col_offset, each.end_lineno, each.end_col_offset = place  # type: ignore[attr-defined]
    return node
