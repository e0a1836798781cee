"""What annotations promise: that an answer may be None, that an argument must be a list.

An annotation is an object, or text where the module postpones evaluation; text is parsed, not evaluated.
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
    """Whether `annotation` allows None anywhere: `float | None`, `Optional[float]`, `dict[str, float | None]`."""
    if annotation is None or annotation is type(None):
        return True
    if isinstance(annotation, str):
        return _text_declares_none(annotation)
    return any(declares_none(part) for part in typing.get_args(annotation))


def _text_declares_none(annotation: str) -> bool:
    try:
        tree = ast.parse(annotation.strip(), mode="eval")
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value is None:
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and getattr(node, "id", getattr(node, "attr", "")) == "Optional":
            return True
    return False


def return_declaration(function: Callable) -> Any:
    """The annotation of what `function` returns; the empty text where there is none."""
    with contextlib.suppress(TypeError, ValueError):
        annotation = inspect.signature(function).return_annotation
        return "" if annotation is inspect.Signature.empty else annotation
    return ""


def field_declaration(value: Any, name: str) -> Any:
    """The annotation of an attribute or a property of `value`; the empty text where there is none."""
    member = inspect.getattr_static(type(value), name.rstrip("()"), None)
    asked = member.fget if isinstance(member, property) else member
    if inspect.isfunction(asked):
        return return_declaration(asked)
    for owner in type(value).__mro__:
        with contextlib.suppress(Exception):
            annotations = inspect.get_annotations(owner)
            if name in annotations:
                return annotations[name]
    return ""


def declares_sized(annotation: Any) -> bool:
    """Whether an argument is declared as a list, and not as any iterable."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return bool(_SIZED.search(text)) and not _ANY_ITERABLE.search(text)
