"""Calls of libraries' own gradient functions: what is called, where, and with which literal arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auditkit.model.enums import Contract, Takes
from auditkit.model.text import counted
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.discovery.library_methods import FUNCTION, METHODS, LibraryMethods
from auditkit.probing.source_code.modules import Module, dotted_name
from auditkit.probing.source_code.python_files import PythonFiles
from auditkit.probing.source_code.walking import children

_MODULE = "torch.nn.utils"
_NAMED = re.compile(rb"clip_\w*grad|grad_norm\(|get_total_norm|\.(" + "|".join(METHODS).encode() + rb")\(")
_HOW = ("norm_type", "error_if_nonfinite", "foreach")
_FUNCTIONS: dict[str, tuple[Takes, tuple[str, ...]]] = {
    "clip_grad_norm_": (Takes.PARAMETERS, ("parameters", "max_norm", *_HOW)),
    "clip_grad_value_": (Takes.PARAMETERS, ("parameters", "clip_value", "foreach")),
    "get_total_norm": (Takes.GRADIENTS, ("tensors", *_HOW)),
    "clip_grads_with_norm_": (Takes.PARAMETERS, ("parameters", "max_norm", "total_norm", "foreach")),
}
_DEPRECATED = {"clip_grad_norm": "clip_grad_norm_"}
_DEFAULTS = {"norm_type": 2.0, "error_if_nonfinite": False, "foreach": None}
_LIMITS = ("max_norm", "clip_value")
_INFINITIES = frozenset(("math.inf", "torch.inf", "numpy.inf"))
_MOST_HOPS = 3


@dataclass(frozen=True)
class LibraryCall:
    """One place that calls a library's function, `module:qualified.name`; `arguments` are those that are literal."""

    function: str
    file: str
    line: int
    inside: str
    arguments: Mapping[str, Any]

    @property
    def place(self) -> str:
        """`train.py:312 in main`; a line at module level is in nothing."""
        return f"{self.file}:{self.line}" + (f" in {self.inside}" if self.inside else "")

    @property
    def manner(self) -> dict[str, Any]:
        """The arguments under which the function does something else than by default; a limit is none."""
        given = {name: self.arguments.get(name, default) for name, default in _DEFAULTS.items()}
        return {name: value for name, value in given.items() if value != _DEFAULTS[name]}


def library_calls(files: PythonFiles) -> Iterator[LibraryCall]:
    """Every call of a library's gradient function, in functions, methods and at module level, by any name."""
    if files.file_of(_MODULE) is not None:
        return  # it is torch itself that is read
    methods = LibraryMethods(files)
    for module in list(files.matching(_NAMED)):
        for call, inside in _calls(module):
            function = _torch_function(files, module, dotted_name(call.func))
            literals = _literals(module, function, call) if function else {}
            called = f"{_MODULE}:{function}" if function else methods.called(module, call, inside)
            if called:
                yield LibraryCall(called, module.file, call.lineno, inside, literals)


def library_candidates(calls: Iterable[LibraryCall]) -> list[Candidate]:
    """One for each function and each manner in which it is called, with the first literal limit of its places."""
    groups: dict[tuple[str, str], list[LibraryCall]] = {}
    for call in calls:
        groups.setdefault((call.function, repr(call.manner)), []).append(call)
    return [_candidate(group) for group in groups.values()]


def _candidate(calls: list[LibraryCall]) -> Candidate:
    first = calls[0]
    limits = ({name: call.arguments[name] for name in _LIMITS if name in call.arguments} for call in calls)
    places = tuple(call.place for call in calls)
    contract, takes = _answer_and_feed(first.function)
    return Candidate(
        call=first.function,
        file=first.file,
        line=first.line,
        contract_guess=contract,
        takes_guesses=takes,
        arguments={**next(filter(None, limits), {}), **first.manner},
        evidence=(f"called at {counted(len(places), 'place')}: {', '.join(places)}",),
        places=places,
    )


def _answer_and_feed(function: str) -> tuple[Contract, tuple[Takes, ...]]:
    package, _, name = function.partition(":")
    if package == _MODULE:
        return Contract.GRAD_NORM, (_FUNCTIONS[name][0],)
    method = METHODS.get(name.rpartition(".")[2], FUNCTION)
    return method.contract, method.takes


def _calls(module: Module) -> list[tuple[ast.Call, str]]:
    """Each call in the order of the file, with the qualified name of the function or class that it stands in."""
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
    """The function of `torch.nn.utils` that a dotted name in a module means, through imports; "" for none."""
    head, _, rest = written.partition(".")
    origin, _, name = module.origins.get(head, "").partition(":")
    full = ".".join(part for part in (origin, name, rest) if part)
    package, _, function = full.rpartition(".")
    if package in (_MODULE, f"{_MODULE}.clip_grad"):
        function = _DEPRECATED.get(function, function)
        return function if function in _FUNCTIONS else ""
    # `from .utils import clip_grad_norm_`, or `utils.clip_grad_norm_`, where utils imports it from torch.
    holder, passed = (package, function) if full.startswith(f"{origin}.") else ("", "")
    other = files.modules.get(holder)
    if other is None or other is module or passed in other.own_names or hops == _MOST_HOPS:
        return ""
    return _torch_function(files, other, passed, hops + 1)


def _literals(module: Module, function: str, call: ast.Call) -> dict[str, Any]:
    names = _FUNCTIONS[function][1]
    given = [*zip(names, call.args, strict=False), *((each.arg or "", each.value) for each in call.keywords)]
    found = {name: _literal(module, node) for name, node in given if name in (*_LIMITS, *_HOW)}
    return {name: value for name, value in found.items() if isinstance(value, bool | int | float)}


def _literal(module: Module, node: ast.expr) -> Any:
    """The number or flag that is written there, infinity in all its spellings; None for what is computed."""
    if isinstance(node, ast.Constant):
        return float("inf") if node.value == "inf" else node.value
    if isinstance(node, ast.Call) and dotted_name(node.func) == "float" and len(node.args) == 1:
        return float("inf") if _literal(module, node.args[0]) == float("inf") else None
    is_infinity = isinstance(node, ast.Attribute | ast.Name) and module.full_name(dotted_name(node)) in _INFINITIES
    return float("inf") if is_infinity else None
