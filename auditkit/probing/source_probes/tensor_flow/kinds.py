"""What a value is as far as waiting for a device goes: a tensor, things made of tensors, or on the host.

A kind is a text (`TENSOR`, `HOST`, ...), a tuple for things made of others, or None for what is not known.
Reading a HOST value is free: numbers, sizes, and tensors that were copied to the host once.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from typing import Any

from auditkit.probing.source_code.modules import dotted_name, is_constant

Kind = Any
"""TENSOR, HOST, NONE, MODULE, GROUP, or ("items", kind), ("row", kinds), ("table", kind); None: not known."""

TENSOR = "tensor"
HOST = "host"
NONE = "none"
MODULE = "module"
GROUP = "group"


def items(kind: Kind) -> Kind:
    """A list, tuple, set, iterator or generator of `kind`."""
    return ("items", kind)


def row(kinds: Iterable[Kind]) -> Kind:
    """A tuple of values of their own kinds, such as a name and a parameter."""
    return ("row", tuple(kinds))


def table(kind: Kind) -> Kind:
    """A mapping from keys on the host to `kind`."""
    return ("table", kind)


PARAMETERS = items(TENSOR)
NAMED_PARAMETERS = items(row((HOST, TENSOR)))


def shape(kind: Kind) -> str:
    return kind[0] if isinstance(kind, tuple) else ""


def element(kind: Kind) -> Kind:
    """What a loop over `kind` gives: a tensor's rows are tensors, a mapping's keys are on the host."""
    if kind in (TENSOR, MODULE, HOST):
        return kind
    match shape(kind):
        case "items":
            return kind[1]
        case "row":
            return join_all(kind[1])
        case "table":
            return HOST
    return None


def holds_tensors(kind: Kind) -> bool:
    """Whether taking `kind` apart gives tensors. An optimiser's groups are few, however many parameters they have."""
    if kind in (TENSOR, MODULE):
        return True
    match shape(kind):
        case "row":
            return any(map(holds_tensors, kind[1]))
        case "items" | "table":
            return holds_tensors(kind[1])
    return False


def is_of_host(kind: Kind) -> bool:
    """Whether a kind is known to its ground, and nothing in it is a tensor: numbers, lists and mappings of numbers."""
    if shape(kind) == "row":
        return all(map(is_of_host, kind[1]))
    return is_of_host(kind[1]) if shape(kind) in ("items", "table") else kind in (HOST, NONE)


def join(first: Kind, second: Kind) -> Kind:
    """What a name holds after two branches; a tensor in one and a number in the other is not known."""
    if first == second or second == NONE:
        return first
    if first == NONE:
        return second
    if HOST in (first, second):
        return None
    if shape(first) == shape(second) == "items":
        return items(join(first[1], second[1]))
    return first if second is None else second if first is None else None


def join_all(kinds: Iterable[Kind]) -> Kind:
    found: Kind = NONE
    for kind in kinds:
        found = join(found, kind)
    return found


def result_of(kinds: Iterable[Kind]) -> Kind:
    """What an operator makes of its operands: a tensor where one is, on the host where all are."""
    known = list(kinds)
    if any(kind == TENSOR for kind in known):
        return TENSOR
    return HOST if all(kind in (HOST, NONE) for kind in known) else None


# --- what a parameter is, by its annotation and by its name ------------------------------------------

_TENSOR_TYPES = frozenset(("Tensor", "Parameter", "FloatTensor", "Variable"))
_HOST_TYPES = frozenset(("float", "int", "bool", "str", "bytes", "complex", "ndarray", "Path", "Number"))
_SEQUENCES = frozenset((
    "list", "List", "tuple", "Tuple", "Sequence", "Iterable", "Iterator", "Generator", "set", "Set", "deque",
    "Collection", "ParameterList",
))  # fmt: skip
_MAPPINGS = frozenset(("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "ParameterDict"))
_ALIASES = {"_tensor_or_tensors": items(TENSOR), "_params_t": items(TENSOR), "ParamsT": items(TENSOR)}
_OF_CPU = re.compile(r"(^|_)(cpu|numpy|np|pinned)(_|$|\d)", re.IGNORECASE)
_STATE_STEPS = re.compile(r"(state_)?steps?(_t)?")
_CHECKPOINT = re.compile(r"(\w+_)?(state_dict|checkpoint|ckpt)s?")
_NAMED = (
    (re.compile(r"(\w+_)?(grads|gradients|tensors)"), items(TENSOR)),
    (re.compile(r"(\w+_)?(grad|gradient|tensor)"), TENSOR),
    (re.compile(r"(\w+_)?(model|module|net|network)"), MODULE),
)


@functools.lru_cache(maxsize=100_000)
def lies_on_host(name: str) -> bool:
    """Whether a value that nothing else is known of lies in host memory by its name: `cpu_grads`, `checkpoint`.

    A checkpoint is copied to the host because it goes to a file, and torch's optimizers keep `state["step"]` there
    unless they are captured. The name of a function or a file says nothing.
    """
    last = name.rpartition(".")[2]
    return _OF_CPU.search(last) is not None or any(each.fullmatch(last) for each in (_STATE_STEPS, _CHECKPOINT))


def of_parameter(name: str, annotation: ast.expr | None) -> Kind:
    """What is passed for a parameter, as far as its annotation or else its name says."""
    if lies_on_host(name):
        return HOST
    if annotation is not None:
        return of_annotation(annotation)
    return next((kind for pattern, kind in _NAMED if pattern.fullmatch(name)), None)


def of_annotation(node: ast.expr) -> Kind:
    """The kind that an annotation names; a union of tensors and numbers is not known."""
    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=str(text)):
            try:
                return of_annotation(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=value, slice=inner):
            return _of_generic(dotted_name(value).rpartition(".")[2], inner)
    name = dotted_name(node).rpartition(".")[2]
    if name in _TENSOR_TYPES:
        return TENSOR
    if name in _HOST_TYPES:
        return HOST
    if name in _ALIASES:
        return _ALIASES[name]
    return MODULE if name == "Module" or name.endswith("Module") else None


def _of_generic(name: str, inner: ast.expr) -> Kind:
    parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if name in ("Optional", "Union"):
        return _union(parts)
    if name in _MAPPINGS:
        return table(of_annotation(parts[-1]))
    if name in _SEQUENCES:
        kinds = [of_annotation(part) for part in parts if not is_constant(part, ...)]
        if name in ("tuple", "Tuple") and len(kinds) > 1:
            return row(kinds)
        return items(kinds[0] if kinds else None)
    return None


def _union(parts: list[ast.expr]) -> Kind:
    kinds = [kind for kind in map(of_annotation, parts) if kind != NONE]
    if TENSOR in kinds and len(kinds) > 1:
        # "a tensor or several of them" is taken apart as several.
        return next((kind for kind in kinds if shape(kind) == "items" and kind[1] == TENSOR), None)
    return join_all(kinds)
