"""How a target is fed: which argument takes the gradients, in what form, after which set-up call.

A `Feed` is found by trying (see `search.py`); `prepare` turns it and a list of gradients into a call
without arguments, so that building modules and registering them is never part of what is measured.
"""

import copy
import inspect
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..base.refusals import CannotFeedError
from ..gradients import forms
from ..gradients.gradients import placed
from . import guesses, made_objects
from .given import GroupInput, Wrap, end_to_end, handed_over
from .guesses import Guess
from .module_state import ModuleState
from .plan import MADE, SINGLE, Feed
from .signatures import VARIADIC, guessed, required_parameters, shared, with_own_signature
from .silent_answers import answering
from .stand_ins import SELF, Surroundings
from .uses import Uses

CONSTRUCTOR = "__init__"
"""The set-up step of a class that is built with the modules it watches."""


class Caller:
    """Binds one target (function, or method of a class built anew each time) to a `Feed`.

    `given` are the arguments that somebody gave; a dotted name is what the target reads of an argument or of `self`.
    While a way to feed it is searched, `around` is what was made up for the last call. `turn` says how many calls of
    one instance came before this one.
    """

    def __init__(
        self,
        function: Callable,
        owner: Optional[type],
        method: str,
        arguments: Dict[str, Any],
        finish: Optional[Callable] = None,
        finish_method: str = "",
    ) -> None:
        self.function = with_own_signature(function)
        self.owner = owner
        self.method = method
        self.given = dict(arguments)
        self.finish = finish
        self.finish_method = finish_method
        self.device = "cpu"
        self.starts_fresh = False
        self.is_searched = False
        self.turn = 0
        self.around = Surroundings(self.given, ())
        self._module_state = ModuleState(function, owner)

    def on(self, device: str) -> "Caller":
        """The same target, which gets what it is fed on another device."""
        other = copy.copy(self)
        other.device = device
        return other

    @property
    def guesses(self) -> Dict[str, Guess]:
        """Guesses for the required arguments of the target and of its class, but for one that brings the gradients."""
        found: Dict[str, Guess] = {}
        for called in filter(callable, (self.owner, self.function)):
            names = [
                name for name in required_parameters(called, list(self.given)) if name != "self" or self.owner is None
            ]
            parameters = inspect.signature(called).parameters
            values = {name: guessed(name, parameters[name], called is self.owner) for name in names}
            if called is self.function and all(values.values()) and not self.needs_instance():
                carriers = [name for name, made in values.items() if made and made.value in tuple(guesses.CARRIERS)]
                carriers += self._read_for_gradients(list(values))
                values = {name: made for name, made in values.items() if carriers and name != carriers[0]}
            found.update({name: made for name, made in values.items() if made is not None})
        return found

    def _read_for_gradients(self, names: Sequence[str]) -> List[str]:
        """The arguments whose gradients or parameters the source of the target reads."""
        try:
            source = inspect.getsource(inspect.unwrap(self.function))
        except (OSError, TypeError):
            return []
        return [name for name in names if re.search(r"\b{}\.(\w*grad\w*|parameters)\b".format(name), source)]

    @property
    def arguments(self) -> Dict[str, Any]:
        """The given and the guessed arguments with their values, or the words for them."""
        return {**{name: made.value for name, made in self.guesses.items()}, **self.given}

    def numbers(self) -> Dict[str, float]:
        """The numbers among the arguments of the target and of its class, and among what it read: also by default."""
        found: Dict[str, Any] = {}
        for called in filter(callable, (self.function, self.owner)):
            found.update({name: each.default for name, each in inspect.signature(called).parameters.items()})
        found.update({path: made.value for path, made in self.around.read.items()})
        found.update(self.given)
        return {name: value for name, value in found.items() if type(value) in (int, float)}

    def neutral_numbers(self) -> Dict[str, float]:
        """The defaults of the target and of its class that may switch off what it does: 1, 1.0 and 0.0."""
        found = {
            name: each.default
            for called in filter(callable, (self.function, self.owner))
            for name, each in inspect.signature(called).parameters.items()
        }
        return {
            name: value
            for name, value in found.items()
            if name not in self.given and (type(value), value) in ((int, 1), (float, 1.0), (float, 0.0))
        }

    def with_argument(self, name: str, value: Any) -> "Caller":
        """The same target with another value of one argument."""
        other = copy.copy(self)
        other.given = {**self.given, name: value}
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
        for name in self.given:
            if name.split(".")[0] not in known and "." not in name:
                named = ", ".join(other for other in known if other != "self") or "none"
                raise CannotFeedError("it has no argument '{}'; it has: {}".format(name, named))

    def annotation(self, setup: Optional[str], slot: str) -> Any:
        """What the argument `slot`, of the set-up step if there is one, is declared as; "" where it is not."""
        function: Any = self.function
        if setup not in (None, MADE) and self.owner is not None:
            function = self.owner if setup == CONSTRUCTOR else getattr(self.owner, str(setup))
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
        """What the class must be given that nothing else fills: a model to watch, for example."""
        return required_parameters(self.owner, list(self.arguments)) if self.owner is not None else []

    def new_instance(
        self,
        inputs: Optional[Dict[str, Any]] = None,
        around: Optional[Surroundings] = None,
        paths: Sequence[str] = (),
    ) -> Any:
        """An object of the target's class. Raises CannotFeedError where its constructor needs more."""
        assert self.owner is not None
        missing = [name for name in self.constructor_slots() if name not in (inputs or {})]
        if missing:
            raise CannotFeedError(
                "{}() needs {}: give a value with --argument {}=VALUE".format(
                    self.owner.__name__, " and ".join(missing), missing[0]
                )
            )
        around = around or Surroundings(self.given, ())
        filled = self._keywords(self.owner, list(inputs or ()), paths, around)
        return self.owner(**filled, **(inputs or {}))

    def instance_for(self, feed: Feed, like: Sequence[Any]) -> Any:
        """The one object that is asked again and again with new gradients in its arguments; None for a function."""
        if not self.needs_instance():
            return None
        around = self._surroundings(feed, like)
        return self.made_object(feed, around) if feed.setup == MADE else self.new_instance(None, around, feed.paths)

    def _surroundings(self, feed: Feed, grads: Sequence[Optional[torch.Tensor]]) -> Surroundings:
        around = Surroundings(self.given, grads, self.device)
        if feed.by_use is not None:
            around.uses = Uses(around, feed.by_use, inspect.unwrap(self.function), self.owner)
        return around

    def made_object(self, feed: Feed, around: Surroundings) -> Any:
        """An object of the target's class without its constructor's work, with what the target reads of it."""
        assert self.owner is not None
        made = made_objects.make(self.owner, around)
        around.read[SELF] = Guess(guesses.OBJECT)
        around.prepare([path for path in feed.paths if path.startswith("self.")], {"self": made})
        return made

    def _keywords(
        self, called: Callable, slots: Sequence[str], paths: Sequence[str], around: Surroundings
    ) -> Dict[str, Any]:
        """The arguments of `called` that are no `slots`: given, guessed, or another view of the same gradients.

        Optional ones are filled where `paths` has them. Raises CannotFeedError where nothing is known.
        """
        parameters = inspect.signature(called).parameters
        of_class = called is self.owner
        filled: Dict[str, Any] = {}
        for name, parameter in parameters.items():
            is_open = parameter.default is parameter.empty and parameter.kind not in VARIADIC
            if name in slots or not (is_open or name in self.given or name in paths):
                continue
            found = guessed(name, parameter, of_class) or shared(name, parameter)
            filled[name] = around.filled(name, found)
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            owned = inspect.signature(self.owner).parameters if self.owner and not of_class else {}
            filled.update({k: v for k, v in self.given.items() if "." not in k and k not in owned and k not in slots})
        return filled

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

    def _set_up(self, feed: Feed, fill: Callable[[List[str]], Dict[str, Any]], around: Surroundings) -> Any:
        """A new instance that has been handed what it watches, where it watches something."""
        if feed.setup == MADE:
            return self.made_object(feed, around)
        instance = self.new_instance(fill(feed.setup_slots) if feed.setup == CONSTRUCTOR else None, around, feed.paths)
        if feed.setup not in (None, CONSTRUCTOR):
            setup = getattr(instance, str(feed.setup))
            setup(**self._keywords(setup, feed.setup_slots, (), around), **fill(feed.setup_slots))
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
        handed = [] if given is None else given
        single = end_to_end(groups[0]) if feed.container == SINGLE else None
        around = self._surroundings(feed, groups[0] if single is None else [single.joined])
        if self.is_searched:  # a measured call is not kept alive
            self.around = around
            around.is_searched = True

        def fill(slots: List[str]) -> Dict[str, Any]:
            owns = [around, *(Surroundings({}, group, self.device) for group in groups[1:])]
            return {name: handed_over(feed, handed, wrap, owns[index], name) for index, name in enumerate(slots)}

        around.join_groups(feed.paths)
        if instance is None and self.needs_instance():
            instance = self._set_up(feed, fill, around)
        function = self.function if instance is None else getattr(instance, self.method)
        keywords = self._keywords(function, feed.slots, feed.paths, around)
        keywords.update(forms.arguments_of(feed.slots, feed.forms, groups[0][0]) if feed.forms else fill(feed.slots))
        if not handed and not feed.forms:
            handed.append(GroupInput(around.module, None))
        if single is not None:
            handed[0] = handed[0]._replace(module=None, listed=single.parts)
        around.prepare(feed.paths, keywords if instance is None else {**keywords, SELF: instance})
        positional = [keywords.pop(name) for name in _positional_only(function) if name in keywords]
        finish = getattr(instance, self.finish_method) if instance is not None and self.finish_method else self.finish
        counted = {name: value for name, value in self._counted(function, keywords).items() if name not in feed.slots}

        def called() -> Any:
            counts = {name: first + self.turn * guesses.STEPS_OF_A_CALL for name, first in counted.items()}
            return function(*positional, **{**keywords, **(counts if self.turn else {})})

        return answering(feed, function, called, around, handed, instance), finish

    def _counted(self, function: Callable, keywords: Dict[str, Any]) -> Dict[str, int]:
        """The arguments that count steps, with their first values; none that somebody gave."""
        parameters = inspect.signature(function).parameters
        found = {name: keywords.get(name, each.default) for name, each in parameters.items()}
        return {
            name: value
            for name, value in found.items()
            if type(value) is int and name not in self.given and guesses.known(name) == guesses.STEP
        }


def _positional_only(function: Callable) -> List[str]:
    return [n for n, p in inspect.signature(function).parameters.items() if p.kind is p.POSITIONAL_ONLY]
