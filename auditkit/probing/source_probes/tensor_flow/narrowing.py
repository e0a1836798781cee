"""What tests and uses say of a name: `isinstance(x, torch.Tensor)`, `x.is_cuda`, `x.detach()`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from auditkit.probing.source_code.modules import dotted_name
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.tensor_flow.kinds import (
    HOST,
    MODULE,
    TENSOR,
    Kind,
    element,
    lies_on_host,
    row,
    shape,
)
from auditkit.probing.source_probes.tensor_flow.reads import Helpers

# Only tensors have these: a name that is used so holds one.
_OF_TENSORS = frozenset(("grad", "detach", "requires_grad", "is_cuda", "grad_fn", "is_sparse", "norm", "numel"))
_ONLY_ON_HOST = frozenset(("float", "int", "bool", "str", "bool_", "list", "dict", "tuple"))
_MODULES = frozenset(("Module", "Linear", "Conv2d", "DistributedDataParallel"))
_OF_BATCHES = re.compile(r"(data)?loaders?|datasets?|batches", re.IGNORECASE)

Narrowed = tuple[dict[str, Kind], dict[str, Kind]]
"""What names hold where a test is true, and where it is false."""

_NOTHING: Narrowed = ({}, {})


def narrowed(test: ast.expr, known: Mapping[str, Kind], helpers: Helpers) -> Narrowed:
    """What `test` says of names. What is asked for being a tensor may be none: the test alone makes it no tensor."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            when_true, when_false = narrowed(operand, known, helpers)
            return when_false, when_true
        case ast.BoolOp(op=ast.And(), values=values):
            found: dict[str, Kind] = {}
            for value in values:
                found |= narrowed(value, known, helpers)[0]
            return found, {}
        case ast.Call(func=function, args=[asked, *types]):
            name = helpers.full_name(dotted_name(function)) or dotted_name(function)
            if name == "torch.is_tensor" or (name == "isinstance" and types):
                return _by_type(dotted_name(asked), types, known)
        case ast.Attribute(value=asked, attr="is_cuda"):
            return _by_place(dotted_name(asked), True)
        case ast.Attribute(value=asked, attr="is_cpu"):
            return _by_place(dotted_name(asked), False)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant(value=place)]):
            written = dotted_name(left)
            if written.endswith(".device.type") and place in ("cpu", "cuda"):
                return _by_place(written.removesuffix(".device.type"), (place == "cuda") == isinstance(op, ast.Eq))
    return _NOTHING


def _by_type(name: str, types: list[ast.expr], known: Mapping[str, Kind]) -> Narrowed:
    """`isinstance(x, torch.Tensor)`: whatever is known of it, and on the host where it is none."""
    asked = {part.rpartition(".")[2] for kind in types for part in _type_names(kind)}
    if not name:
        return _NOTHING
    if not types or asked == {"Tensor"}:
        return {}, ({name: HOST} if known.get(name) in (None, TENSOR) else {})
    if asked & _MODULES:
        return {name: MODULE}, {}
    return ({name: HOST}, {}) if asked and asked <= _ONLY_ON_HOST else _NOTHING


def _by_place(name: str, on_device: bool) -> Narrowed:
    if not name:
        return _NOTHING
    return ({}, {name: HOST}) if on_device else ({name: HOST}, {})


def _type_names(node: ast.expr) -> list[str]:
    """The types that `isinstance(x, ...)` asks for."""
    match node:
        case ast.Tuple(elts=parts):
            return [name for part in parts for name in _type_names(part)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_type_names(left), *_type_names(right)]
    return [dotted_name(node)]


def element_in(target: ast.expr, source: Kind, body: ast.AST) -> Kind:
    """What a loop's names hold; where the source does not say, their use in the loop does."""
    return _used_in(target, element(source), body)


def _used_in(target: ast.expr, given: Kind, body: ast.AST) -> Kind:
    """`given`, and where that is not known, also for a part of it, what the use of the names says."""
    if isinstance(target, ast.Tuple) and (given is None or shape(given) == "row"):
        parts = given[1] if given is not None and len(given[1]) == len(target.elts) else [None] * len(target.elts)
        return row(_used_in(part, kind, body) for part, kind in zip(target.elts, parts, strict=True))
    name = dotted_name(target)
    return TENSOR if given is None and name and _is_used_as_tensor(name, body) else given


def _is_used_as_tensor(name: str, body: ast.AST) -> bool:
    """Whether a loop asks its own name for what only tensors have; not where it asks first whether it is a tensor."""
    if lies_on_host(name):
        return False
    nodes = list(walk([body]))
    asked = {
        dotted_name(node.args[0])
        for node in nodes
        if isinstance(node, ast.Call) and node.args and dotted_name(node.func).endswith(("isinstance", "is_tensor"))
    }
    return name not in asked and any(
        isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS and dotted_name(node.value) == name
        for node in nodes
    )


def draws_batches(source: ast.expr) -> bool:
    """Whether a loop over `source` turns once for a batch of training data, however many tensors a model has."""
    names = (dotted_name(part).rpartition(".")[2] for part in walk([source]) if isinstance(part, ast.expr))
    return any(_OF_BATCHES.fullmatch(word) for name in names for word in name.split("_"))
