"""Which functions of a checkout return statistics of gradients, directly or through one another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from auditkit.model.enums import Takes
from auditkit.probing.discovery.answers import literal_keys
from auditkit.probing.discovery.gradient_flow import STATISTICS, GradientFlow, HelperMark, trace
from auditkit.probing.discovery.signatures import gradient_parameters, parameter_kinds
from auditkit.probing.source_code.modules import Class, Function, dotted_name
from auditkit.probing.source_code.python_files import PythonFiles

_MOST_ROUNDS = 4  # a collector called by a collector called by a collector, and one to spare
_MOST_DEPTH = 3
_READS = re.compile(r"\.grad\b|['\"]grad['\"]|\bclip_grad_norm_?\b")


class CollectorCalls:
    """The flows of a checkout's functions; `collectors` are those whose answer holds statistics."""

    def __init__(self, files: PythonFiles) -> None:
        self.files = files
        self.collectors: dict[Function, GradientFlow] = {}
        self._functions = list(files.functions())
        self._instances: dict[Function, dict[str, Class]] = {}
        self._given_gradients: dict[Function, bool] = {}

    def find(self) -> None:
        """Fill `collectors`: first those that read gradients themselves, then their callers."""
        self._keep(function for function in self._functions if may_read_gradients(function))
        for _ in range(_MOST_ROUNDS):
            known = _calls_of(self.names())
            callers = [
                function
                for function in self._functions
                if function not in self.collectors and known.search(function.text)
            ]
            if not self._keep(callers):
                return

    def names(self) -> set[str]:
        """What the collectors are called: their names, and the names that modules import them under."""
        names = {function.name for function in self.collectors}
        for module in self.files.modules.values():
            names |= {name for name, origin in module.origins.items() if origin.rpartition(":")[2] in names}
        return names

    def _keep(self, functions: Iterator[Function] | list[Function]) -> bool:
        found = False
        for function in functions:
            flow = trace(function.node, gradient_parameters(function), self._helper_mark(function, 0))
            if flow.returns_statistics:
                self.collectors[function] = flow
                found = True
        return found

    def _helper_mark(self, function: Function, depth: int) -> HelperMark:
        def mark(call: ast.Call, given: int) -> int | None:
            callee = self.callee(function, call)
            if callee is None or callee is function:
                return None
            if callee in self.collectors or (given and self._reduces_what_it_is_given(callee, depth)):
                return STATISTICS
            return None

        return mark

    def _reduces_what_it_is_given(self, function: Function, depth: int) -> bool:
        """Whether a helper that is handed gradients returns statistics of them."""
        if depth >= _MOST_DEPTH:
            return False
        if function not in self._given_gradients:
            self._given_gradients[function] = False  # a helper that calls itself
            names = [item.arg for item in function.parameters]
            flow = trace(function.node, names, self._helper_mark(function, depth + 1))
            self._given_gradients[function] = flow.returns_statistics
        return self._given_gradients[function]

    def callee(self, function: Function, call: ast.Call) -> Function | None:
        """The function of the checkout that a call reaches, where that can be told."""
        if function not in self._instances:
            self._instances[function] = self._local_instances(function)
        return self.files.callee(function, call, self._instances[function])

    def _local_instances(self, function: Function) -> dict[str, Class]:
        """Names that hold an instance of a class of the checkout, `self.x` set in `__init__` included."""
        found: dict[str, Class] = {}
        bodies = [function]
        if function.owner is not None and "__init__" in function.owner.methods:
            bodies.append(function.owner.methods["__init__"])
        for body in bodies:
            for node in body.nodes:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    made = self.files.resolve(function.module, dotted_name(node.value.func))
                    if isinstance(made, Class):
                        found |= {dotted_name(target): made for target in node.targets}
        return found

    def calls_any_of(self, function: Function, others: set[Function]) -> bool:
        """Whether a function calls one of some others."""
        if not _calls_of({other.name for other in others}).search(function.text):
            return False
        calls = (node for node in function.nodes if isinstance(node, ast.Call))
        return any(self.callee(function, call) in others for call in calls)

    def kinds_of(self, function: Function, item: ast.arg, depth: int = 0) -> tuple[Takes, ...]:
        """How a parameter can be fed: by what the function does with it, or the helper it hands it to."""
        kinds = parameter_kinds(function, item, gradient_parameters(function))
        if kinds or depth >= _MOST_DEPTH:
            return kinds
        for node in function.nodes:
            if isinstance(node, ast.Call) and any(dotted_name(given) == item.arg for given in node.args):
                callee = self.callee(function, node)
                if callee in self.collectors and callee is not function:
                    place = next(i for i, given in enumerate(node.args) if dotted_name(given) == item.arg)
                    if place < len(callee.parameters):
                        return self.kinds_of(callee, callee.parameters[place], depth + 1)
        return ()

    def returned_calls(self, function: Function, value: ast.expr) -> list[Function]:
        """The functions of the checkout whose answer a returned expression is, by one name at most."""
        name = dotted_name(value)
        expressions = [value]
        if name:
            expressions += [
                node.value
                for node in function.nodes
                if isinstance(node, ast.Assign) and name in map(dotted_name, node.targets)
            ]
        calls = [item for item in expressions if isinstance(item, ast.Call)]
        return [found for call in calls if (found := self.callee(function, call)) and found is not function]

    def produced_keys(self, function: Function, depth: int = 0) -> list[str]:
        """The text keys of the mapping that a function returns, its helpers' included."""
        keys: list[str] = []
        for node in function.nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                keys += literal_keys(function, node.value)
                if depth < _MOST_DEPTH:
                    for helper in self.returned_calls(function, node.value):
                        keys += self.produced_keys(helper, depth + 1)
        return list(dict.fromkeys(keys))


def _calls_of(names: set[str]) -> re.Pattern[str]:
    """A cheap look for calls by any of these names, before the syntax tree is asked."""
    return re.compile(rf"\b({'|'.join(sorted(map(re.escape, names)))})\s*\(" if names else r"(?!)")


def may_read_gradients(function: Function) -> bool:
    """A cheap look before the flow is followed."""
    return bool(_READS.search(function.text)) or bool(gradient_parameters(function))
