"""How a target is fed: which argument takes the gradients, in what form, after which set-up call.

A `Feed` is found by trying (see `search.py`); `prepare` turns it and a list of gradients into a call
without arguments, so that building modules and registering them is never part of what is measured.
"""

import copy
import functools
import inspect
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..base.refusals import CannotFeedError
from ..gradients import forms
from ..gradients.gradients import GradientHolder, placed, total_norm
from .guesses import DEVICE, DEVICE_NAME, TOTAL_NORM, Guess, guess
from .module_state import ModuleState
from .plan import Feed

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


Wrap = Callable[[List[Any]], Any]


def _guesses(function: Callable, owner: Optional[type]) -> Dict[str, Guess]:
    """Guesses for what the function demands beside another argument, and for what its class demands by name."""
    found: Dict[str, Guess] = {}
    for called in filter(callable, (function, owner)):
        try:
            names = required_parameters(called, [])
        except CannotFeedError:  # said again, where it is asked for
            continue
        parameters = inspect.signature(called).parameters
        # A number that a constructor demands is known by its name alone.
        known = {
            name: guess(name, _text(parameters[name].annotation) if called is function or name == "device" else "")
            for name in names
        }
        if called is owner or not all(known.values()):
            found.update({name: value for name, value in known.items() if value is not None})
    return found


def _text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation.strip("'\"") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _with_those_of_the_call(given: Dict[str, Any], grads: Sequence[Optional[torch.Tensor]]) -> Dict[str, Any]:
    """The arguments with what depends on the gradients of the call: their norm, their device."""
    first = next((grad for grad in grads if isinstance(grad, torch.Tensor)), None)
    device = torch.device("cpu") if first is None else first.device
    made = dict(given)
    for name, value in given.items():
        if value is TOTAL_NORM:
            made[name] = total_norm(grads)
        elif value is DEVICE or value is DEVICE_NAME:
            made[name] = device if value is DEVICE else str(device)
    return made


class GroupInput(NamedTuple):
    """What a target was handed for one group: the module behind it, and the list itself where it got one."""

    module: Optional[torch.nn.Module]
    listed: Optional[List[Any]]


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
        self.guesses = {name: made for name, made in _guesses(function, owner).items() if name not in arguments}
        self.arguments = {**self.filled, **arguments}
        self.finish = finish
        self.finish_method = finish_method
        self.device = "cpu"
        self.starts_fresh = False
        self._module_state = ModuleState(function, owner)

    def on(self, device: str) -> "Caller":
        """The same target, which gets what it is fed on another device."""
        other = copy.copy(self)
        other.device = device
        return other

    @property
    def filled(self) -> Dict[str, Any]:
        """The guessed arguments with their values."""
        return {name: made.value for name, made in self.guesses.items()}

    @property
    def others(self) -> Dict[str, Any]:
        """Second values for those guesses that have one."""
        return {name: made.other for name, made in self.guesses.items() if made.other is not None}

    def numbers(self) -> Dict[str, float]:
        """The arguments of the target and of its class that are numbers: given, guessed, or by default."""
        found: Dict[str, Any] = {}
        for called in filter(callable, (self.function, self.owner)):
            found.update({name: each.default for name, each in inspect.signature(called).parameters.items()})
        found.update(self.arguments)
        return {name: value for name, value in found.items() if type(value) in (int, float)}

    def with_argument(self, name: str, value: Any) -> "Caller":
        """The same target with another value of one argument."""
        other = copy.copy(self)
        other.arguments = {**self.arguments, name: value}
        return other

    def that_remembers(self) -> "Caller":
        """The same target, whose module keeps from now on what the target leaves there."""
        if self.starts_fresh:
            self._module_state.put_back()
        other = copy.copy(self)
        other.starts_fresh = False
        return other

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

    def annotation(self, setup: Optional[str], slot: str) -> Any:
        """What the argument `slot`, of the set-up step if there is one, is declared as; "" where it is not."""
        function: Any = self.function
        if setup is not None and self.owner is not None:
            function = self.owner if setup == CONSTRUCTOR else getattr(self.owner, setup)
        parameter = inspect.signature(function).parameters.get(slot)
        return "" if parameter is None or parameter.annotation is parameter.empty else parameter.annotation

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

    def new_instance(self, inputs: Optional[Dict[str, Any]] = None, grads: Sequence[Any] = ()) -> Any:
        """An object of the target's class, for `grads`. Raises CannotFeedError where its constructor needs more."""
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
        return self.owner(**_with_those_of_the_call(given, grads))

    def call_arguments(self, function: Callable) -> Dict[str, Any]:
        parameters = inspect.signature(function).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        owned = inspect.signature(self.owner).parameters if self.owner else {}
        return {k: v for k, v in self.arguments.items() if k in parameters or (open_ended and k not in owned)}

    def prepare(
        self,
        feed: Feed,
        groups: Sequence[Sequence[Optional[torch.Tensor]]],
        whole: bool = True,
        given: Optional[List[GroupInput]] = None,
        wrap: Optional[Wrap] = None,
        instance: Any = None,
    ) -> Callable[[], Any]:
        """A call without arguments on `groups` (gradients of the first and the second group).

        `whole` adds the step that finishes an asynchronous answer.
        What the target is handed is appended to `given`; `wrap` turns a list into what is handed instead;
        `instance` is used instead of a new one, as it is.
        """
        collect, finish = self.steps(feed, [placed(group, self.device) for group in groups], given, wrap, instance)
        if not whole or finish is None:
            return collect
        finishing = finish
        return lambda: finishing(collect())

    def _set_up(self, feed: Feed, groups: Sequence[Any], fill: Wrap) -> Any:
        """A new instance that has been handed what it watches, where it watches something."""
        built_with = _inputs(feed.setup_slots, groups, fill) if feed.setup == CONSTRUCTOR else None
        instance = self.new_instance(built_with, groups[0])
        if feed.setup not in (None, CONSTRUCTOR):
            getattr(instance, str(feed.setup))(**_inputs(feed.setup_slots, groups, fill))
        return instance

    def steps(
        self,
        feed: Feed,
        groups: Sequence[Sequence[Optional[torch.Tensor]]],
        given: Optional[List[GroupInput]] = None,
        wrap: Optional[Wrap] = None,
        instance: Any = None,
    ) -> Tuple[Callable[[], Any], Optional[Callable[[Any], Any]]]:
        """The collecting step as a call, and the one that finishes its answer, of the same instance if a method."""
        if self.starts_fresh:
            self._module_state.put_back()
        fill = functools.partial(_input, feed, [] if given is None else given, wrap)
        if instance is None and self.needs_instance():
            instance = self._set_up(feed, groups, fill)
        function = self.function if instance is None else getattr(instance, self.method)
        keywords = self.call_arguments(function)
        if feed.setup is None:
            keywords.update(
                forms.arguments_of(feed.slots, feed.forms, groups[0][0])
                if feed.forms
                else _inputs(feed.slots, groups, fill)
            )
        keywords = _with_those_of_the_call(keywords, groups[0])
        positional = [keywords.pop(name) for name in _positional_only(function) if name in keywords]
        finish = getattr(instance, self.finish_method) if instance is not None and self.finish_method else self.finish
        return lambda: function(*positional, **keywords), finish


def _inputs(slots: List[str], groups: Sequence[Any], fill: Wrap) -> Dict[str, Any]:
    return {name: fill(groups[min(i, len(groups) - 1)]) for i, name in enumerate(slots)}


def _positional_only(function: Callable) -> List[str]:
    return [n for n, p in inspect.signature(function).parameters.items() if p.kind is p.POSITIONAL_ONLY]


def _input(feed: Feed, given: List[GroupInput], wrap: Optional[Wrap], grads: Sequence[Optional[torch.Tensor]]) -> Any:
    if feed.takes == "gradients":
        listed: List[Any] = [grad for grad in grads if grad is not None]
        given.append(GroupInput(None, listed))
    else:
        module = GradientHolder(grads)
        if feed.takes == "module":
            given.append(GroupInput(module, None))
            return module
        listed = list(module.parameters()) if feed.takes == "parameters" else list(module.named_parameters())
        given.append(GroupInput(module, listed))
    if wrap is not None:
        return wrap(listed)
    return generator(listed) if feed.container == "iterator" else listed


def generator(listed: List[Any]) -> Iterator[Any]:
    """One pass over the items, as `module.parameters()` is one."""
    return (item for item in listed)
