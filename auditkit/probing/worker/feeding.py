"""How a target is fed: which argument takes the gradients, in what form, after which set-up call.

A `Feed` is found by trying (see `plan.py`); `prepare` turns it and a list of gradients into a call
without arguments, so that building modules and registering them is never part of what is measured.
"""

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from .gradients import GradientHolder

TAKES = ("module", "parameters", "named_parameters", "gradients")
SETUP_NAMES = (
    "register",
    "attach",
    "watch",
    "setup",
    "set_modules",
    "track",
    "add_module",
    "register_modules",
)

CONSTRUCTOR = "__init__"
"""The set-up step of a class that is built with the modules it watches."""


class CannotFeedError(Exception):
    """The target wants something that no gradient case provides; the message names it."""


class Feed(NamedTuple):
    """`container` is `list` or `iterator`; `slots` the arguments that take a group, first group first."""

    takes: str
    container: str
    slots: List[str]
    setup: Optional[str]
    setup_slots: List[str]

    def to_json(self) -> Dict[str, Any]:
        return dict(self._asdict())


def required_parameters(function: Callable, given: Sequence[str]) -> List[str]:
    """Names of the arguments that a caller must provide, without those in `given` and without `self`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise CannotFeedError("its signature cannot be read") from error
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic and p.name not in given]


def optional_first_parameter(function: Callable, given: Sequence[str]) -> List[str]:
    """The first argument of a function all of whose arguments have defaults."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in given and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            return [name]
    return []


def setup_method(owner: type, method: str, named: Optional[str]) -> Optional[str]:
    """The method that takes the modules before `method` is asked: the named one, or one found by name."""
    if named is not None:
        if not callable(getattr(owner, named, None)):
            raise CannotFeedError("{} has no method '{}' to set it up".format(owner.__name__, named))
        return named
    for name in SETUP_NAMES:
        candidate = getattr(owner, name, None)
        if callable(candidate) and name != method and not hasattr(torch.nn.Module, name):
            return name
    return None


class Caller:
    """Binds one target (function, or method of a class built anew each time) to a `Feed`."""

    def __init__(
        self,
        function: Callable,
        owner: Optional[type],
        method: str,
        arguments: Dict[str, Any],
        finish: Optional[Callable] = None,
        finish_method: str = "",
    ) -> None:
        self.function = function
        self.owner = owner
        self.method = method
        self.arguments = arguments
        self.finish = finish
        self.finish_method = finish_method

    def refuse_unknown_arguments(self) -> None:
        """Raise CannotFeedError for an argument that neither the target nor its class has."""
        known: Dict[str, Any] = {}
        for function in (self.function, self.owner):
            known.update(inspect.signature(function).parameters if function is not None else {})
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            return
        for name in self.arguments:
            if name not in known:
                named = ", ".join(other for other in known if other != "self") or "none"
                raise CannotFeedError("it has no argument '{}'; it has: {}".format(name, named))

    def bound(self) -> Callable:
        """The function, or the method of a new instance: collectors with state start fresh each time."""
        return getattr(self.new_instance(), self.method) if self.needs_instance() else self.function

    def needs_instance(self) -> bool:
        """Whether the target is a method that needs an object of its class."""
        if self.owner is None:
            return False
        return not isinstance(inspect.getattr_static(self.owner, self.method), (staticmethod, classmethod))

    def constructor_slots(self) -> List[str]:
        """What the class must be given that `arguments` does not hold: a model to watch, for example."""
        return required_parameters(self.owner, list(self.arguments)) if self.owner is not None else []

    def new_instance(self, inputs: Optional[Dict[str, Any]] = None) -> Any:
        """An object of the target's class. Raises CannotFeedError where its constructor needs more."""
        assert self.owner is not None
        names = inspect.signature(self.owner).parameters
        given = {name: value for name, value in self.arguments.items() if name in names}
        given.update(inputs or {})
        missing = required_parameters(self.owner, list(given))
        if missing:
            raise CannotFeedError(
                "{}() needs {}: give a value with --argument {}=VALUE".format(
                    self.owner.__name__, " and ".join(missing), missing[0]
                )
            )
        return self.owner(**given)

    def call_arguments(self, function: Callable) -> Dict[str, Any]:
        parameters = inspect.signature(function).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        owned = inspect.signature(self.owner).parameters if self.owner else {}
        return {k: v for k, v in self.arguments.items() if k in parameters or (open_ended and k not in owned)}

    def prepare(
        self, feed: Feed, groups: Sequence[Sequence[Optional[torch.Tensor]]], whole: bool = True
    ) -> Callable[[], Any]:
        """A call without arguments on `groups` (gradients of the first and the second group).

        `whole` adds the step that finishes an asynchronous answer, of the same instance where it is a method.
        """
        built_with = self._inputs(feed, feed.setup_slots, groups) if feed.setup == CONSTRUCTOR else None
        instance = self.new_instance(built_with) if self.needs_instance() else None
        if feed.setup not in (None, CONSTRUCTOR):
            getattr(instance, str(feed.setup))(**self._inputs(feed, feed.setup_slots, groups))
        function = self.function if instance is None else getattr(instance, self.method)
        keywords = self.call_arguments(function)
        if feed.setup is None:
            keywords.update(self._inputs(feed, feed.slots, groups))
        positional = [keywords.pop(name) for name in _positional_only(function) if name in keywords]
        if not whole or self.finish is None:
            return lambda: function(*positional, **keywords)
        finish = getattr(instance, self.finish_method) if instance is not None and self.finish_method else self.finish
        return lambda: finish(function(*positional, **keywords))

    def _inputs(self, feed: Feed, slots: List[str], groups: Sequence[Any]) -> Dict[str, Any]:
        return {name: _input(feed, groups[min(i, len(groups) - 1)]) for i, name in enumerate(slots)}


def _positional_only(function: Callable) -> List[str]:
    return [n for n, p in inspect.signature(function).parameters.items() if p.kind is p.POSITIONAL_ONLY]


def _input(feed: Feed, grads: Sequence[Optional[torch.Tensor]]) -> Any:
    if feed.takes == "gradients":
        listed: List[Any] = [grad for grad in grads if grad is not None]
    else:
        module = GradientHolder(grads)
        if feed.takes == "module":
            return module
        listed = list(module.parameters()) if feed.takes == "parameters" else list(module.named_parameters())
    return iter(listed) if feed.container == "iterator" else listed
