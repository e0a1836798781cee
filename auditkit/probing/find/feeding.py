"""Hints read from source: how a function can be fed, and what its object's constructor needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from auditkit.model.enums import Takes
from auditkit.probing.find import vocabulary
from auditkit.probing.find.gradient_names import holds_gradients
from auditkit.probing.source.modules import Class, Function, dotted_name
from auditkit.worker.feed.guesses import guess

_OF_MODULES = frozenset(("parameters", "named_parameters", "modules", "named_modules"))
_SEVERAL_MODULES = re.compile(r"ModuleList|(list|List|Sequence|Iterable|tuple|Tuple|dict|Dict)\[.*Module\b")
_ABOUT_GRADIENTS = re.compile(r"grad|norm")


@dataclass(frozen=True)
class Feeding:
    """How a function gets its gradients.

    `takes` is in order of likelihood; `groups` is the number of such arguments (two for host and seed); `missing` are
    the required parameters that auditkit cannot fill.
    """

    takes: tuple[Takes, ...]
    groups: int
    missing: tuple[str, ...]


def gradient_parameters(function: Function) -> list[str]:
    """Return the parameters that are gradients, by their names and the function's."""
    about_gradients = _ABOUT_GRADIENTS.search(function.name.lower())
    return [
        item.arg
        for item in function.parameters
        if holds_gradients(item.arg)
        or ("hook" in function.name and item.arg in ("grad_input", "grad_output"))
        or (about_gradients and vocabulary.TENSORS_NAME.fullmatch(item.arg))
    ]


def feeding(function: Function, kinds: dict[str, tuple[Takes, ...]]) -> Feeding:
    """Fit the required parameters; `kinds` says how each of the function's parameters may be fed.

    An optional first parameter counts if no required one carries gradients.
    """
    required = function.required
    fed = [item for item in required if kinds.get(item.arg)]
    if not fed and not required and function.parameters and kinds.get(function.parameters[0].arg):
        fed = function.parameters[:1]
    # An optimizer beside a model is not a second group of gradients.
    companions = [item for item in fed if kinds[item.arg] == (Takes.OPTIMIZER,)]
    if len(companions) < len(fed):
        fed = [item for item in fed if item not in companions]
    missing = [
        item.arg for item in required if item not in (*fed, *companions) and guess(item.arg, _annotation(item)) is None
    ]
    shared = [set(kinds[item.arg]) for item in fed]
    common = set.intersection(*shared) if shared else set()
    takes = tuple(kind for kind in kinds[fed[0].arg] if kind in common) if fed else ()
    if fed and not takes:
        missing += [item.arg for item in fed[1:]]
        takes = kinds[fed[0].arg]
        fed = fed[:1]
    return Feeding(takes, len(fed), tuple(missing))


def parameter_kinds(function: Function, item: ast.arg, gradient_names: list[str]) -> tuple[Takes, ...]:
    """Return how a parameter can be fed, most likely first: by its use, its annotation, its name."""
    used = _kinds_by_use(function, item.arg)
    annotated = _kinds_by_annotation(_annotation(item), item.arg in gradient_names)
    named = _kinds_by_name(item.arg, gradient_names)
    if used and not annotated:
        named = ()  # The code is better evidence than the name.
    ordered = (*used, *annotated, *(() if annotated else named))
    return tuple(dict.fromkeys(ordered))


def _annotation(item: ast.arg) -> str:
    return ast.unparse(item.annotation).strip("'\"") if item.annotation else ""


def _kinds_by_annotation(annotation: str, holds_gradients: bool) -> tuple[Takes, ...]:
    found = []
    if re.search(r"\bModule(List)?\b", annotation) and not re.search(r"ModuleType", annotation):
        found.append(Takes.MODULES if _SEVERAL_MODULES.search(annotation) else Takes.MODULE)
    if re.search(r"\bOptimizer\b", annotation):
        found.append(Takes.OPTIMIZER)
    if re.search(r"[tT]uple\[str, .*(Parameter|Tensor)", annotation):
        found.append(Takes.NAMED_PARAMETERS)
    elif re.search(r"\bParameter\b", annotation):
        found.append(Takes.PARAMETERS)
    elif re.search(r"[tT]ensor", annotation) and re.search(r"\[|_or_", annotation):
        found += [Takes.GRADIENTS] if holds_gradients else [Takes.PARAMETERS, Takes.GRADIENTS]
    return tuple(found)


def _kinds_by_name(name: str, gradient_names: list[str]) -> tuple[Takes, ...]:
    if name in gradient_names:
        return (Takes.GRADIENTS,)
    if vocabulary.NAMED_PARAMETERS_NAME.fullmatch(name):
        return (Takes.NAMED_PARAMETERS,)
    if vocabulary.PARAMETERS_NAME.fullmatch(name):
        return (Takes.PARAMETERS,)
    named = (
        (vocabulary.MODULE_NAME, Takes.MODULE),
        (vocabulary.MODULES_NAME, Takes.MODULES),
        (vocabulary.OPTIMIZER_NAME, Takes.OPTIMIZER),
    )
    return next(((kind,) for pattern, kind in named if pattern.fullmatch(name)), ())


def _kinds_by_use(function: Function, name: str) -> tuple[Takes, ...]:
    """Return kinds by use:

    `name.parameters()` means a module, a loop that reads its items' `.grad` means parameters.
    """
    aliases = {name} | {
        dotted_name(node.targets[0])
        for node in function.nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _unwrapped(node.value) == name
    }
    found = []
    for node in function.nodes:
        if isinstance(node, ast.Attribute) and dotted_name(node.value) in aliases:
            if node.attr in _OF_MODULES:
                found.append(Takes.MODULE)
            elif node.attr == "param_groups":
                found.append(Takes.OPTIMIZER)
        elif isinstance(node, ast.For | ast.comprehension) and _unwrapped(node.iter) in aliases:
            found += _kinds_by_loop(function, node.target)
    return tuple(dict.fromkeys(found))


def _unwrapped(node: ast.expr) -> str:
    """Return the name inside `list(name)`, `enumerate(name)`, `name.items()` or `filter(f, name)`."""
    if isinstance(node, ast.Call) and dotted_name(node.func) in (
        "list",
        "tuple",
        "iter",
        "enumerate",
        "reversed",
        "filter",
    ):
        node = node.args[-1] if node.args else node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "values"):
        node = node.func.value
    return dotted_name(node)


def _kinds_by_loop(function: Function, target: ast.expr) -> list[Takes]:
    """Return the kind by a loop's items: objects with `.grad`, pairs of a name and such an object, or modules."""
    pair = isinstance(target, ast.Tuple) and len(target.elts) == 2
    item = dotted_name(target.elts[1]) if isinstance(target, ast.Tuple) and pair else dotted_name(target)
    read = {
        node.attr
        for node in function.nodes
        if item and isinstance(node, ast.Attribute) and dotted_name(node.value) == item
    }
    if any(map(holds_gradients, read)):
        return [Takes.NAMED_PARAMETERS if pair else Takes.PARAMETERS]
    return [Takes.MODULES] if read & _OF_MODULES else []


def setup_method(function: Function, kinds_of: Callable[[Function, ast.arg], tuple[Takes, ...]]) -> Function | None:
    """Return the method of the same class that is given modules or parameters: `register(host, seed)`."""
    for method in function.owner.methods.values() if function.owner is not None else ():
        is_other = method is not function and method.is_bound and bool(method.required)
        is_named = vocabulary.SETUP_NAME.fullmatch(method.name) is not None
        if is_other and is_named and all(set(kinds_of(method, one)) - {Takes.GRADIENTS} for one in method.required):
            return method
    return None


def required_by_constructor(owner: Class, constructor: Function | None) -> tuple[str, ...]:
    """Return the required arguments of the constructor, which may be a base's."""
    if constructor is not None:
        return tuple(item.arg for item in constructor.required)
    if "dataclass" in owner.decorators:
        return tuple(ast.unparse(item.target) for item in owner.fields if item.value is None)
    return ()
