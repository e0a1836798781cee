"""Calls of libraries' own gradient functions: what is called, where, and with which literal arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from auditkit.model.enums import Contract
from auditkit.probing.find import gradient_names as names
from auditkit.probing.find.candidates import Candidate
from auditkit.probing.source.modules import Class, Module, dotted_name, last_name, targets_of
from auditkit.probing.source.python_files import PythonFiles
from auditkit.probing.source.walking import children, walk

_ONLY_OF = {
    "get_global_grad_norm": "deepspeed.runtime.engine:DeepSpeedEngine",
    "_check_inf_per_device": "torch.amp.grad_scaler:GradScaler",
}
"""Methods that one class alone has."""
_CONTRACTS = {
    "_check_inf_per_device": Contract.GRAD_STATS,
    "_unscale_grads_": Contract.GRAD_STATS,
    "watch": Contract.MONITOR,
}
"""What functions return that return no norm."""
METHODS = frozenset(("clip_grad_norm_", "clip_grad_value_", "clip_gradients", *_ONLY_OF, *_CONTRACTS))
_SHARDED = "FullyShardedDataParallel"


class LibraryMethods:
    """Recognizes calls of libraries' methods in one checkout."""

    def __init__(self, files: PythonFiles) -> None:
        self._files = files
        self._holders: dict[Module, dict[str, str]] = {}

    def called(self, module: Module, call: ast.Call, inside: str) -> str:
        """Return `accelerate:Accelerator.clip_grad_norm_` for a call of it; "" for another call."""
        name = last_name(call.func)
        if name not in METHODS or not isinstance(call.func, ast.Attribute):
            return self._function(module, dotted_name(call.func))
        receiver = dotted_name(call.func.value)
        if name == "watch":
            is_wandb = "wandb" in module.origins.values() and not self._is_own(module, "wandb")
            return "wandb:watch" if receiver != "self" and call.args and is_wandb else ""
        is_super = isinstance(call.func.value, ast.Call) and dotted_name(call.func.value.func) == "super"
        owner = module.named(inside.rpartition(".")[0]) if is_super else None
        bases = owner.node.bases if isinstance(owner, Class) else ()
        of_bases = filter(None, (self._foreign(module, dotted_name(base)) for base in bases))
        holder = next(of_bases, "") if is_super else self._holder(module, receiver, name)
        return f"{holder}.{name}" if holder else self._function(module, dotted_name(call.func))

    def _function(self, module: Module, written: str) -> str:
        """Return `timm.utils:dispatch_clip_grad` for a function of an imported package that is not in the checkout."""
        package, _, name = module.full_name(written).rpartition(".")
        top = package.partition(".")[0]
        is_plain = package.replace(".", "").isidentifier() and package == package.lower()
        is_own = not is_plain or top == "torch" or top in self._parts
        is_known = names.clips(name) or names.gets_norm(name) or name == "grad_norm"
        return "" if is_own or not is_known else f"{package}:{name}"

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The names of all folders and files of the checkout, which scripts may import."""
        return frozenset(part for file in self._files.names for part in file.with_suffix("").parts)

    def _holder(self, module: Module, receiver: str, method: str) -> str:
        """Return the library's class whose instance a name is: by its constructor, or by a method of only one class."""
        if module not in self._holders:
            self._holders[module] = dict(self._made(module))
        known = self._holders[module].get(receiver)
        if known or not receiver:
            return known or ""
        only_of = _ONLY_OF.get(method)
        if only_of:
            return "" if self._is_defined_here(only_of, method) else only_of
        if module.origins.get(receiver.partition(".")[0]):
            return ""
        sharded = (self._foreign(module, local) for local in module.origins if method == "clip_grad_norm_")
        return next((each for each in sharded if each.endswith(_SHARDED)), "")

    def _is_own(self, module: Module, package: str) -> bool:
        """Return whether an import of a package reaches a file of the checkout, perhaps beside a script."""
        top, file = package.partition(".")[0], self._files.path / module.file
        own = {file.parent / f"{top}.py", file.parent / top / "__init__.py"} - {file}
        return self._files.file_of(top) is not None or not self._files.names.keys().isdisjoint(own)

    def _is_defined_here(self, known: str, method: str) -> bool:
        """Return whether the checkout is that library, or has a class of its own with that method."""
        package = re.split("[.:]", known)[0]
        methods = (function.name for function in self._files.functions() if function.owner is not None)
        return self._files.file_of(package) is not None or method in methods

    def _made(self, module: Module) -> Iterator[tuple[str, str]]:
        """Yield the names that get an instance of a library's class, by an assignment or an annotation."""
        for node in walk([module.tree]):
            if isinstance(node, ast.arg) and node.annotation is not None:
                yield node.arg, self._foreign(module, dotted_name(node.annotation))
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Call):
                made = self._foreign(module, dotted_name(value.func))
                yield from ((dotted_name(target), made) for target in targets_of(node))

    def _foreign(self, module: Module, written: str) -> str:
        """Return `package:Class` for a class imported from outside the checkout; "" for others and torch's Module."""
        head, _, rest = written.partition(".")
        package, _, name = module.origins.get(head, "").partition(":")
        if not package or self._is_own(module, package) or module.full_name(written) == "torch.nn.Module":
            return ""
        *inner, last = [part for part in (*name.split("."), *rest.split(".")) if part] or [""]
        return f"{'.'.join((package, *inner))}:{last}" if last[:1].isupper() else ""


_MODULE = "torch.nn.utils"
_NAMED = re.compile(rb"clip_\w*grad|grad_norm\(|get_total_norm|\.(" + "|".join(sorted(METHODS)).encode() + rb")\(")
_HOW = ("norm_type", "error_if_nonfinite", "foreach")
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "clip_grad_norm_": ("parameters", "max_norm", *_HOW),
    "clip_grad_value_": ("parameters", "clip_value", "foreach"),
    "get_total_norm": ("tensors", *_HOW),
    "clip_grads_with_norm_": ("parameters", "max_norm", "total_norm", "foreach"),
}
_DEPRECATED = {"clip_grad_norm": "clip_grad_norm_"}
_DEFAULTS = {"norm_type": 2.0, "error_if_nonfinite": False, "foreach": None}
_LIMITS = ("max_norm", "clip_value")
_INFINITIES = frozenset(("math.inf", "torch.inf", "numpy.inf"))
_MOST_HOPS = 3


def library_calls(files: PythonFiles) -> Iterator[Candidate]:
    """Yield every call of a library's gradient function, in functions, methods and at module level, under any name.

    Each is a candidate with one place, such as `train.py:312 in main`, and its literal arguments.
    """
    if files.file_of(_MODULE) is not None:
        return  # The checkout is torch itself.
    methods = LibraryMethods(files)
    for module in list(files.matching(_NAMED)):
        for call, inside in _calls(module):
            function = _torch_function(files, module, dotted_name(call.func))
            literals = _literals(module, function, call) if function else {}
            called = f"{_MODULE}:{function}" if function else methods.called(module, call, inside)
            if called:
                contract = _CONTRACTS.get(re.split("[:.]", called)[-1], Contract.GRAD_NORM)
                place = f"{module.file}:{call.lineno}" + (f" in {inside}" if inside else "")
                yield Candidate(called, module.file, call.lineno, contract, arguments=literals, places=(place,))


def library_candidates(calls: Iterable[Candidate]) -> list[Candidate]:
    """Return a candidate for each function and each set of arguments, with the first literal limit of its places."""
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for call in calls:
        groups.setdefault((call.call, repr(_manner(call))), []).append(call)
    return [_joined(group) for group in groups.values()]


def _joined(calls: list[Candidate]) -> Candidate:
    limits = ({name: each.arguments[name] for name in _LIMITS if name in each.arguments} for each in calls)
    arguments = {**next(filter(None, limits), {}), **_manner(calls[0])}
    return replace(calls[0], arguments=arguments, places=tuple(place for each in calls for place in each.places))


def _manner(call: Candidate) -> dict[str, Any]:
    """Return the arguments that differ from the defaults, except limits."""
    given = {name: call.arguments.get(name, default) for name, default in _DEFAULTS.items()}
    return {name: value for name, value in given.items() if value != _DEFAULTS[name]}


def _calls(module: Module) -> list[tuple[ast.Call, str]]:
    """Return each call in the order of the file, with the qualified name of the function or class around it."""
    found: list[tuple[ast.Call, str]] = []
    waiting: list[tuple[ast.AST, str]] = [(module.tree, "")]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.Call):
            found.append((node, inside))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{inside}.{node.name}".lstrip(".")
        waiting += [(child, inside) for child in children(node)]
    return sorted(found, key=lambda each: each[0].lineno)


def _torch_function(files: PythonFiles, module: Module, written: str, hops: int = 0) -> str:
    """Return the function of `torch.nn.utils` that a dotted name means, through imports; or ""."""
    head, _, rest = written.partition(".")
    origin, _, name = module.origins.get(head, "").partition(":")
    full = ".".join(part for part in (origin, name, rest) if part)
    package, _, function = full.rpartition(".")
    if package in (_MODULE, f"{_MODULE}.clip_grad"):
        function = _DEPRECATED.get(function, function)
        return function if function in _FUNCTIONS else ""
    # `from .utils import clip_grad_norm_`, or `utils.clip_grad_norm_`, if utils imports it from torch.
    holder, passed = (package, function) if full.startswith(f"{origin}.") else ("", "")
    other = files.modules.get(holder)
    if other is None or passed in other.own_names or hops == _MOST_HOPS:
        return ""
    return _torch_function(files, other, passed, hops + 1)


def _literals(module: Module, function: str, call: ast.Call) -> dict[str, Any]:
    names = _FUNCTIONS[function]
    given = [*zip(names, call.args, strict=False), *((each.arg or "", each.value) for each in call.keywords)]
    found = {name: _literal(module, node) for name, node in given if name in (*_LIMITS, *_HOW)}
    return {name: value for name, value in found.items() if isinstance(value, bool | int | float)}


def _literal(module: Module, node: ast.expr) -> Any:
    """Return a literal number or flag, with every spelling of infinity; None for a computed value."""
    if isinstance(node, ast.Constant):
        return float("inf") if node.value == "inf" else node.value
    is_infinity = isinstance(node, ast.Attribute | ast.Name) and module.full_name(dotted_name(node)) in _INFINITIES
    return float("inf") if is_infinity else None
