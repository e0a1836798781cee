"""What annotations promise: that a result may be None, that an argument must be a list.

An annotation is an object, or text if the module postpones evaluation; text is parsed, not evaluated.
"""

import ast
import contextlib
import inspect
import re
import typing
from typing import Any, Callable

_SIZED = re.compile(r"\b(list|tuple|Sequence|MutableSequence|Collection|Sized|dict|Mapping|ParameterList)\b", re.I)
_ANY_ITERABLE = re.compile(r"\b(Iterable|Iterator|Generator|Any)\b")


def declares_none(annotation: Any) -> bool:
    """Return whether `annotation` allows None anywhere: `float | None`, `dict[str, float | None]`."""
    if not isinstance(annotation, str):
        is_none = annotation is None or annotation is type(None)
        return is_none or any(declares_none(part) for part in typing.get_args(annotation))
    try:
        nodes = list(ast.walk(ast.parse(annotation.strip(), mode="eval")))
    except SyntaxError:
        return False
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes}
    return "Optional" in names or any(isinstance(node, ast.Constant) and node.value is None for node in nodes)


def return_declaration(function: Callable) -> Any:
    """Return the annotation of the result of `function`; "" without one."""
    with contextlib.suppress(TypeError, ValueError):
        annotation = inspect.signature(function).return_annotation
        return "" if annotation is inspect.Signature.empty else annotation
    return ""


def field_declaration(value: Any, name: str) -> Any:
    """Return the annotation of an attribute or a property of `value`; "" without one."""
    member = inspect.getattr_static(type(value), name.rstrip("()"), None)
    member = member.fget if isinstance(member, property) else member
    if inspect.isfunction(member):
        return return_declaration(member)
    for owner in type(value).__mro__:
        with contextlib.suppress(Exception):
            annotations = inspect.get_annotations(owner)
            if name in annotations:
                return annotations[name]
    return ""


def declares_sized(annotation: Any) -> bool:
    """Return whether an argument is declared as a list, and not as any iterable."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return bool(_SIZED.search(text)) and not _ANY_ITERABLE.search(text)
