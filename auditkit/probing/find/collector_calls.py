"""Find the functions of a checkout that compute statistics of gradients or limit them, directly or through others."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable

from auditkit.probing.find import gradient_names as names
from auditkit.probing.find import vocabulary
from auditkit.probing.find.answers import literal_keys, values_of
from auditkit.probing.find.gradient_flow import (
    GRADIENTS,
    NORM,
    NOTHING,
    STATISTICS,
    GradientFlow,
    HelperAnswer,
    HelperMark,
    trace,
    trains,
)
from auditkit.probing.source.modules import Class, Function, dotted_name, instances_in, last_name
from auditkit.probing.source.python_files import PythonFiles

_MOST_ROUNDS = 4  # a chain of three collectors, and one to spare
_MOST_DEPTH = 3
_READS = re.compile(
    r"grad(?<!no_grad)(?<!requires_grad)(?<!enable_grad)(?<!zero_grad)(?<!set_grad)(?:ient)?s?"
    r"(?!_fn\b|_scaler|_checkpoint|ient_checkpoint|_enabled)|backprops|clip_(?:func|fn)|clipper|global_norm"
)
_WORDS = ("grad", "backprops", "clip", "global_norm")  # a hundredth of the pattern's cost; most functions have none
_CALLED = re.compile(r"\b(\w+)\s*\(")
_ABOUT_GRADIENTS = re.compile(r"grad|norm")
_TRAINS = re.compile(rf"\.({'|'.join(vocabulary.TRAINING_METHODS)})\(")


class CollectorCalls:
    """The flows of a checkout's functions; `collectors` compute statistics of gradients, or limit them.

    `joiners` return gradients to their callers.
    """

    def __init__(self, files: PythonFiles) -> None:
        self.files = files
        self.collectors: dict[Function, GradientFlow] = {}
        self.joiners: dict[Function, GradientFlow] = {}
        self._known: set[Function] = set()
        self._callers: dict[str, list[Function]] = defaultdict(list)
        """Callers, by the last word of the function that they call."""
        self._aliases: dict[str, set[str]] = defaultdict(set)
        self._methods: dict[str, list[Function]] = defaultdict(list)
        self._instances: dict[Function, dict[str, Class]] = {}
        self._handed: dict[tuple[Function, frozenset[str]], HelperAnswer] = {}
        self._named_helpers: dict[Function, GradientFlow] = {}
        self._trains: dict[Function, bool] = {}

    def find(self) -> None:
        """Update `collectors` with newly parsed files: first functions that read gradients, then their callers."""
        new = [function for function in self.files.functions() if function not in self._known]
        self._known.update(new)
        for function in new:
            if function.owner is not None:
                self._methods[function.name].append(function)
            for name in dict.fromkeys(_CALLED.findall(function.text)):
                self._callers[name].append(function)
        for module in self.files.modules.values():
            for name, origin in module.origins.items():
                self._aliases[origin.rpartition(":")[2]].add(name)
        known = set(self._callers_of((*self.collectors, *self.joiners)))
        may_read = (each for each in new if each in known or may_read_gradients(each))
        changed = self._keep(may_read)
        for _ in range(_MOST_ROUNDS):
            changed = self._keep(self._callers_of(changed))
            if not changed:
                break
        for helper, flow in self._named_helpers.items():
            self.collectors.setdefault(helper, flow)

    def names(self) -> set[str]:
        """Return the names of collectors, and of joiners named for gradients, also as modules import them."""
        joiners = (function.name for function in self.joiners if names.speaks_of_gradients(function.name))
        return self._imported_as({*joiners, *(each.name for each in self.collectors)} - vocabulary.PARTS_OF_TRAINING)

    def _imported_as(self, names: set[str]) -> set[str]:
        return names.union(*(self._aliases.get(name, ()) for name in names))

    def _callers_of(self, functions: Iterable[Function]) -> dict[Function, None]:
        """Return the functions that call one of these by name, in a deterministic order."""
        called = sorted(self._imported_as({function.name for function in functions} - vocabulary.PARTS_OF_TRAINING))
        return dict.fromkeys(caller for name in called for caller in self._callers.get(name, ()))

    def _keep(self, functions: Iterable[Function]) -> dict[Function, None]:
        """Follow functions, keep those that collect or return gradients, and return the new ones."""
        found: dict[Function, None] = {}
        for function in functions:
            flow = trace(function.node, marked_parameters(function), self._helper_mark(function))
            if flow.tells and not flow.differentiates:
                if function not in self.collectors:
                    found[function] = None
                self.collectors[function] = flow
            elif flow.brings(GRADIENTS) or flow.differentiates:
                if function not in self.joiners:
                    found[function] = None
                self.joiners[function] = flow
                self.collectors.pop(function, None)
        return found

    def _helper_mark(self, function: Function) -> HelperMark:
        def mark(call: ast.Call, given: list[int]) -> HelperAnswer | None:
            callee = self.callee(function, call) or self._by_name(call)
            if callee is None or callee is function:
                return None
            if self.trains(callee):
                return HelperAnswer(NOTHING, differentiates=names.gets_gradients(callee.name))
            flow = self.collectors.get(callee) or self.joiners.get(callee)
            known = _answer(callee, flow) if flow is not None else None
            if (known is None or known.mark != STATISTICS) and GRADIENTS in given:
                handed = self._handed_gradients(callee, call, given)
                if handed is None:
                    return known
                if known is None:
                    return handed
                return HelperAnswer(max(handed.mark, known.mark), known.clips)
            return known

        return mark

    def _by_name(self, call: ast.Call) -> Function | None:
        """Return the method that a call on an unknown object means, if its name is distinctive."""
        name = last_name(call.func)
        is_known = name in vocabulary.REDUCTIONS or names.clips(name)  # `x.norm()` is a tensor's
        if not isinstance(call.func, ast.Attribute) or is_known or not names.speaks_of_gradients(name):
            return None
        found = self._methods.get(name, [])
        return next(
            (each for each in found if each in self.collectors or each in self.joiners), next(iter(found), None)
        )

    def _handed_gradients(self, function: Function, call: ast.Call, given: list[int]) -> HelperAnswer | None:
        """Return what a helper does with the gradients that it is called with.

        Return None if they go into `*args`, or into a method without `self`. A helper named for collecting is a
        collector, too.
        """
        taken = [item.arg for item in function.parameters]
        places = [*taken[: len(call.args)], *(item.arg for item in call.keywords)]
        handed = frozenset(name for name, mark in zip(places, given, strict=False) if mark == GRADIENTS and name)
        if not handed:
            return None
        if (function, handed) not in self._handed:
            self._handed[function, handed] = HelperAnswer(NOTHING)  # stops recursion
            marked = marked_parameters(function) | dict.fromkeys(handed, GRADIENTS)
            flow = trace(function.node, marked, self._helper_mark(function))
            self._handed[function, handed] = _answer(function, flow)
            if flow.tells and names.is_helper_of_collectors(function.name):
                self._named_helpers[function] = flow
        return self._handed[function, handed]

    def callee(self, function: Function, call: ast.Call) -> Function | None:
        """Return the checkout's function that a call reaches; None if it cannot be resolved."""
        if function not in self._instances:
            own = function.owner.methods.get("__init__") if function.owner is not None else None
            self._instances[function] = instances_in((function, own), self.files.resolve)
        return self.files.callee(function, call, self._instances[function])

    def trains(self, function: Function) -> bool:
        """Return whether a function itself runs a part of training: a step, a backward pass."""
        if function not in self._trains:
            self._trains[function] = _TRAINS.search(function.text) is not None and trains(function.node)
        return self._trains[function]

    def trains_through(self, function: Function) -> bool:
        """Return whether a function trains in a method of its object: a wrapper's `step` calls `_step`."""
        called = (node for node in function.nodes if isinstance(node, ast.Call))
        own = (node for node in called if dotted_name(node.func).startswith("self."))
        return any(self.trains(each) for node in own if (each := self.callee(function, node)))

    def callers(self, function: Function) -> list[Function]:
        """Return the collectors that call a function."""
        named = (
            caller for caller in self._callers_of([function]) if caller in self.collectors and caller is not function
        )
        return sorted((caller for caller in named if self.calls(caller, function)), key=lambda caller: caller.call)

    def calls(self, function: Function, other: Function) -> bool:
        """Return whether a function calls another one."""
        if other.name not in function.text and not self._aliases.get(other.name):
            return False
        calls = (node for node in function.nodes if isinstance(node, ast.Call))
        return any(self.callee(function, call) is other for call in calls)

    def produced_keys(self, function: Function, depth: int = 0) -> list[str]:
        """Return the text keys of the mapping that a function returns, including its helpers' keys."""
        keys: list[str] = []
        for node in function.nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                keys += literal_keys(function, node.value)
                made = [each for each in values_of(function, node.value) if isinstance(each, ast.Call)]
                helpers = [found for call in made if (found := self.callee(function, call)) and found is not function]
                for helper in helpers if depth < _MOST_DEPTH else ():
                    keys += self.produced_keys(helper, depth + 1)
        return list(dict.fromkeys(keys))


def may_read_gradients(function: Function) -> bool:
    """Return whether it is worth following gradients through a function, by a cheap text search."""
    text = function.text
    is_likely = any(word in text for word in _WORDS) and _READS.search(text) is not None
    return is_likely or bool(gradient_parameters(function))


def gradient_parameters(function: Function) -> list[str]:
    """Return the parameters that are gradients, by their names and the function's."""
    about_gradients = _ABOUT_GRADIENTS.search(function.name.lower())
    return [
        item.arg
        for item in function.parameters
        if names.holds_gradients(item.arg)
        or ("hook" in function.name and item.arg in ("grad_input", "grad_output"))
        or (about_gradients and item.arg in ("tensors", "tensor_list", "xs"))
    ]


def marked_parameters(function: Function) -> dict[str, int]:
    """Return which parameters are gradients or norms, by their names."""
    norms = {item.arg: NORM for item in function.parameters if names.holds_norm(item.arg)}
    return norms | dict.fromkeys(gradient_parameters(function), GRADIENTS)


def _answer(function: Function, flow: GradientFlow) -> HelperAnswer:
    mark = max(flow.returns.values(), default=NOTHING)
    flags = flow.tells_flags or names.is_finite_check(function.name)
    return HelperAnswer(mark, bool(flow.clips), flags, flow.differentiates)
