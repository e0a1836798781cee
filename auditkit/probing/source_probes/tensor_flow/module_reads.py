"""Find where a function waits for the device once for each of many tensors: reads inside loops over tensors.

The static shadow of counting synchronisations. Values are followed through assignments, branches, loops,
comprehensions and helpers of the same module; `kinds` says what they can be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.probing.source.modules import (
    Class,
    Function,
    FunctionNode,
    Module,
    changed_by,
    dotted_name,
    instances_in,
    method_of,
    statements,
)
from auditkit.probing.source_probes.tensor_flow.kinds import (
    HOST,
    NONE,
    Kind,
    is_of_host,
    join,
    of_annotation,
    of_parameter,
)
from auditkit.probing.source_probes.tensor_flow.value_flow import HostRead, Summary, ValueFlow

MOST_HELPERS_DEEP = 3

HAS_TENSORS = re.compile(
    rb"\b(import|from)\b[^\n#]*\btorch\b|\.(named_)?(parameters|buffers)\(|\.param_groups\b|\.grad\b(?!\s*\()"
)
"""A file with tensors names torch, or what only its modules, optimisers and tensors have."""


@dataclass(frozen=True)
class FunctionReads:
    """The reads in loops of one function, those of functions inside it included.

    `call` is `package.module:Qualified.name`.
    """

    call: str
    qualified_name: str
    reads: tuple[HostRead, ...]


class ModuleReads:
    """Follows the functions of one module; helpers are followed with what they are given."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._summaries: dict[tuple[str, tuple[Kind, ...]], Summary] = {}
        self._instances: dict[str, dict[str, Kind]] = {}
        self._made: dict[str, dict[str, Class]] = {}

    def functions(self) -> Iterator[FunctionReads]:
        """Every function and method with reads in loops over tensors, in the order of lines."""
        for function in sorted(self.module.defined(), key=lambda item: item.node.lineno):
            reads = self._follow(function, (), 0, False).reads
            if reads:
                yield FunctionReads(function.call, function.qualified_name, tuple(sorted(reads.values())))

    # --- what a flow needs ---

    def find(self, function: Function, called: ast.expr) -> tuple[Function, int] | None:
        """The function of this module that `called` means inside `function`.

        With it, how many of the first arguments are its object: one in `Class.method(object, grad)`.
        """
        if isinstance(called, ast.Name):
            found = self._local(function, called.id) or self.module.functions.get(called.id)
            return (found, 0) if found is not None else None
        if not isinstance(called, ast.Attribute):
            return None
        head = dotted_name(called.value)
        owner = self.module.classes.get(head)
        method = self._method(owner, called.attr)
        if method is not None:
            return method, int(method.is_bound)
        if isinstance(called.value, ast.Call):
            owner = self.module.classes.get(dotted_name(called.value.func))
        elif head in ("self", "cls"):
            owner = function.owner
        else:
            owner = self._objects(function).get(head)
        method = self._method(owner, called.attr)
        return (method, 0) if method is not None else None

    def _local(self, function: Function, name: str) -> Function | None:
        """A function that `function` defines itself."""
        defined = (node for node in function.node.body if isinstance(node, FunctionNode) and node.name == name)
        node = next(defined, None)
        return Function(self.module, f"{function.qualified_name}.{name}", node) if node is not None else None

    def _method(self, owner: Class | None, name: str) -> Function | None:
        """A method of a class, or of its bases in this module."""
        return method_of(owner, name, lambda _, base: self.module.classes.get(base))

    def _objects(self, function: Function) -> dict[str, Class]:
        """The names of `function` that hold an object of a class of this module, those on `self` included."""
        if function.qualified_name not in self._made:
            functions = (self._method(function.owner, "__init__"), function)
            self._made[function.qualified_name] = instances_in(functions, lambda _, name: self.module.classes.get(name))
        return self._made[function.qualified_name]

    def full_name(self, name: str) -> str:
        """`torch.nn.functional.norm` for `F.norm`; "" for names that are not imported."""
        return self.module.full_name(name)

    def summary(self, function: Function, given: tuple[Kind, ...], depth: int) -> Summary:
        """What a call of `function` brings back and reads; nothing where helpers call too deep or each other."""
        key = (function.qualified_name, given)
        if key not in self._summaries:
            self._summaries[key] = Summary(None, ())  # a helper that calls itself
            if depth <= MOST_HELPERS_DEEP:
                flow = self._follow(function, given, depth, True)
                reads = sorted(read for read in flow.reads.values() if not read.loop_line)
                declared = function.node.returns
                says = of_annotation(declared) if declared is not None else None
                is_believed = says is not None and is_of_host(says)
                self._summaries[key] = Summary(says if is_believed else flow.returned, tuple(reads))
        return self._summaries[key]

    def _follow(self, function: Function, given: tuple[Kind, ...], depth: int, as_helper: bool) -> ValueFlow:
        flow = ValueFlow(self, function, self._environment(function, given), depth, as_helper)
        flow.block(function.node.body)
        return flow

    def _environment(self, function: Function, given: tuple[Kind, ...]) -> dict[str, Kind]:
        """What the names of a function hold as it starts: its parameters, and the attributes of `self`."""
        known: dict[str, Kind] = {}
        if function.owner is not None:
            known |= self._instance(function.owner)
        for place, item in enumerate(function.parameters):
            passed = given[place] if place < len(given) else None
            default = function.defaults.get(item.arg)
            is_number = isinstance(default, ast.Constant) and default.value is not None
            declared = HOST if is_number else of_parameter(item.arg, item.annotation)
            known[item.arg] = passed if passed not in (None, NONE) else declared
        return known

    def _instance(self, owner: Class) -> dict[str, Kind]:
        """What the attributes of `self` hold after any of the class's methods."""
        if owner.qualified_name not in self._instances:
            found = self._instances[owner.qualified_name] = {}
            for method in sorted(owner.methods.values(), key=lambda item: item.name != "__init__"):
                if any(map(_sets_self, statements(method.node.body))):
                    flow = self._follow(method, (), MOST_HELPERS_DEEP, False)
                    for name, kind in flow.known.items():
                        if name.startswith("self."):
                            found[name] = join(found.get(name, NONE), kind)
        return self._instances[owner.qualified_name]


def _sets_self(node: ast.stmt) -> bool:
    return any(dotted_name(target).startswith("self.") for target in changed_by(node))
