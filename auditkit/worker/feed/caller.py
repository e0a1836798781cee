"""Call a target: which argument gets the gradients, in what form, after which set-up call.

The search finds a `Feed` by trying (see `search.py`); `prepare` turns it and a list of gradients into a call without
arguments, so that measurements exclude building modules and registering them.
"""

import copy
import inspect
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..base.refusals import CannotFeedError
from ..gradients import forms
from ..gradients.gradients import placed
from . import groups, guesses, recorded, uninitialized
from .given import GroupInput, Wrap, end_to_end, handed_over
from .guesses import Guess
from .module_state import ModuleState
from .plan import MADE, SINGLE, Feed
from .signatures import VARIADIC, guessed, required_parameters, shared, source_of, with_own_signature
from .silent import with_result
from .surroundings import Surroundings
from .uninitialized import SELF

CONSTRUCTOR = "__init__"
"""The set-up step of a class whose constructor gets the modules it watches."""


class Caller:
    """Binds one target (a function, or a method of a new instance) to a `Feed`.

    `given` are the user's arguments; a dotted name is an attribute of an argument or of `self`. During the search,
    `around` has the values made for the last call. `turn` counts the earlier calls of the instance.
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
        self.recorded: Dict[str, Any] = {}
        self.is_recorded = False
        self.around = Surroundings(self.given, ())
        self.module_state = ModuleState(function, owner)

    def replaced(self, **changes: Any) -> "Caller":
        """Return the same target with these attributes: on another `device`, without its recording."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def with_argument(self, name: str, value: Any) -> "Caller":
        """Return the same target with another value of one argument."""
        return self.replaced(given={**self.given, name: value})

    def as_recorded(self, size: str) -> "Caller":
        """Return the same target, called with the arguments of the recorded run."""
        arguments = recorded.in_size(self.recorded["arguments"], size)
        feed = recorded.feed_of(arguments, self.needs_instance())
        given = recorded.given_of(arguments, feed.slots[0] if feed is not None and feed.slots else "")
        calls = {**self.recorded, "arguments": arguments}
        return self.replaced(given={**given, **self.given}, recorded=calls, is_recorded=True)

    @property
    def _called(self) -> List[Callable]:
        return [each for each in (self.owner, self.function) if each is not None]

    @property
    def guesses(self) -> Dict[str, Guess]:
        """Guesses for the required arguments of the target and of its class, except one that carries the gradients."""
        found: Dict[str, Guess] = {}
        for called in self._called:
            names = required_parameters(called, self.given)
            names = [name for name in names if name != SELF or self.owner is None]
            parameters = inspect.signature(called).parameters
            values = {name: guessed(name, parameters[name], called is self.owner) for name in names}
            if called is self.function and all(values.values()) and not self.needs_instance():
                carriers = [name for name, made in values.items() if made and made.value in tuple(guesses.CARRIERS)]
                carriers = carriers or [name for name in values if self._reads_gradients_of(name)]
                values = {name: made for name, made in values.items() if carriers and name != carriers[0]}
            found.update({name: made for name, made in values.items() if made is not None})
        return found

    def _reads_gradients_of(self, name: str) -> bool:
        """Return whether the source of the target reads gradients or parameters of an argument."""
        return re.search(r"\b{}\.(\w*grad\w*|parameters)\b".format(name), source_of(self.function)) is not None

    @property
    def arguments(self) -> Dict[str, Any]:
        """The given and the guessed arguments with their values, or the words for them."""
        return {**{name: made.value for name, made in self.guesses.items()}, **self.given}

    def numbers(self) -> Dict[str, float]:
        """Return the numbers that the target gets or reads, including defaults."""
        read = {path: made.value for path, made in self.around.read.items()}
        found = {**self._defaults, **read, **self.given}
        return {name: value for name, value in found.items() if type(value) in (int, float)}

    @property
    def _defaults(self) -> Dict[str, Any]:
        parameters = [each for one in self._called[::-1] for each in inspect.signature(one).parameters.values()]
        return {each.name: each.default for each in parameters}

    def neutral_numbers(self) -> Dict[str, float]:
        """Return the defaults of the target and its class that may switch off its effect: 1, 1.0 and 0.0."""
        neutral = ((int, 1), (float, 1.0), (float, 0.0))
        found = {name: value for name, value in self._defaults.items() if name not in self.given}
        return {name: value for name, value in found.items() if (type(value), value) in neutral}

    def refuse_unknown_arguments(self) -> None:
        """Raise CannotFeedError for an argument that neither the target nor its class has."""
        known: Dict[str, Any] = {}
        for called in self._called[::-1]:
            known.update(inspect.signature(called).parameters)
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            return
        for name in self.given:
            if "." not in name and name not in known:
                named = ", ".join(other for other in known if other != SELF) or "none"
                raise CannotFeedError("it has no argument '{}'; it has: {}".format(name, named))

    def annotation(self, setup: Optional[str], slot: str) -> Any:
        """Return the annotation of the argument `slot`, of the set-up step if there is one; "" without one."""
        function: Any = self.function
        if setup not in (None, MADE) and self.owner is not None:
            function = self.owner if setup == CONSTRUCTOR else getattr(self.owner, str(setup))
        parameter = inspect.signature(function).parameters.get(slot)
        return "" if parameter is None or parameter.annotation is parameter.empty else parameter.annotation

    def _keywords(
        self, called: Callable, slots: Sequence[str], paths: Sequence[str], around: Surroundings
    ) -> Dict[str, Any]:
        """Fill the arguments of `called` other than `slots`: given, guessed, or another view of the same gradients.

        Optional ones are filled only if `paths` names them.
        """
        parameters = inspect.signature(called).parameters
        of_class = called is self.owner
        filled: Dict[str, Any] = {}
        for name, parameter in parameters.items():
            is_open = parameter.default is parameter.empty and parameter.kind not in VARIADIC
            if name not in slots and (is_open or name in self.given or name in paths):
                filled[name] = around.filled(name, guessed(name, parameter, of_class) or shared(name, parameter))
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            owned = inspect.signature(self.owner).parameters if self.owner and not of_class else {}
            filled.update({k: v for k, v in self.given.items() if "." not in k and k not in owned and k not in slots})
        return filled

    def needs_instance(self) -> bool:
        """Return whether the target is a method that needs an object of its class."""
        if self.owner is None:
            return False
        return not isinstance(inspect.getattr_static(self.owner, self.method), (staticmethod, classmethod))

    def constructor_slots(self) -> List[str]:
        """Return the constructor's arguments that cannot be guessed: a model to watch, for example."""
        return required_parameters(self.owner, self.arguments) if self.owner is not None else []

    def new_instance(
        self,
        inputs: Optional[Dict[str, Any]] = None,
        around: Optional[Surroundings] = None,
        paths: Sequence[str] = (),
    ) -> Any:
        """Return an object of the target's class. Raises CannotFeedError if its constructor needs more arguments."""
        assert self.owner is not None
        inputs = inputs or {}
        missing = [name for name in self.constructor_slots() if name not in inputs]
        if missing:
            text = "{}() needs {}: give a value with --argument {}=VALUE"
            raise CannotFeedError(text.format(self.owner.__name__, " and ".join(missing), missing[0]))
        filled = self._keywords(self.owner, list(inputs), paths, around or Surroundings(self.given, ()))
        return self.owner(**filled, **inputs)

    def instance_for(self, feed: Feed, like: Sequence[Any]) -> Any:
        """Return the instance for repeated calls with new gradients; None for a function."""
        return self._set_up(feed, lambda _: {}, self._surroundings(feed, like)) if self.needs_instance() else None

    def _surroundings(self, feed: Feed, grads: Sequence[Optional[torch.Tensor]]) -> Surroundings:
        return Surroundings(self.given, grads, self.device, feed.by_use, inspect.unwrap(self.function), self.owner)

    def _set_up(self, feed: Feed, fill: Callable[[List[str]], Dict[str, Any]], around: Surroundings) -> Any:
        """Return a new instance that has been given what it watches, if it watches anything."""
        assert self.owner is not None
        if feed.setup == MADE:
            node = self.recorded["arguments"].get(SELF) if self.is_recorded else None
            made = (
                recorded.Recorded(node, self.recorded["arguments"]).build(around)
                if node
                else uninitialized.make(self.owner, around)
            )
            around.read[SELF] = Guess(guesses.OBJECT)
            around.prepare([path for path in feed.paths if path.startswith("self.")], {SELF: made})
            return made
        instance = self.new_instance(fill(feed.setup_slots) if feed.setup == CONSTRUCTOR else None, around, feed.paths)
        if feed.setup not in (None, CONSTRUCTOR):
            setup = getattr(instance, str(feed.setup))
            setup(**self._keywords(setup, feed.setup_slots, (), around), **fill(feed.setup_slots))
        return instance

    def prepare(
        self,
        feed: Feed,
        groups: Sequence[Sequence[Optional[torch.Tensor]]],
        whole: bool = True,
        given: Optional[List[GroupInput]] = None,
        wrap: Optional[Wrap] = None,
        instance: Any = None,
    ) -> Callable[[], Any]:
        """Return a call without arguments on `groups` (gradients of the first and the second group).

        `whole` includes the step that finishes an asynchronous result. The inputs are appended to `given`; `wrap`
        replaces a list by another object; `instance` is used instead of a new one.
        """
        collect, finish = self.steps(feed, [placed(group, self.device) for group in groups], given, wrap, instance)
        return collect if not whole or finish is None else lambda: finish(collect())

    def steps(
        self,
        feed: Feed,
        grads_of_groups: Sequence[Sequence[Optional[torch.Tensor]]],
        given: Optional[List[GroupInput]] = None,
        wrap: Optional[Wrap] = None,
        instance: Any = None,
    ) -> Tuple[Callable[[], Any], Optional[Callable[[Any], Any]]]:
        """Return the collecting step as a call, and the step that finishes its result, of the same instance."""
        if self.starts_fresh:
            self.module_state.put_back()
        first, *others = grads_of_groups
        handed = [] if given is None else given
        single = end_to_end(first) if feed.container == SINGLE else None
        around = self._surroundings(feed, first if single is None else [single[0]])
        if self.is_searched:  # only in the search, so that a measured call can be freed
            self.around = around

        def fill(slots: List[str]) -> Dict[str, Any]:
            owns = [around, *(Surroundings({}, group, self.device) for group in others)]
            return {name: handed_over(feed, handed, wrap, owns[index], name) for index, name in enumerate(slots)}

        groups.join(feed.paths, around.filled)
        if instance is None and self.needs_instance():
            instance = self._set_up(feed, fill, around)
        function = self.function if instance is None else getattr(instance, self.method)
        keywords = self._keywords(function, feed.slots, feed.paths, around)
        keywords.update(forms.arguments_of(feed.slots, feed.forms, first[0]) if feed.forms else fill(feed.slots))
        if not handed and not feed.forms:
            handed.append(GroupInput(around.module, None))
        if single is not None:
            handed[0] = handed[0]._replace(module=None, listed=single[1])
        around.prepare(feed.paths, keywords if instance is None else {**keywords, SELF: instance})
        finish = getattr(instance, self.finish_method) if instance is not None and self.finish_method else self.finish
        parameters = inspect.signature(function).parameters
        first_steps = {
            name: value
            for name, value in ((name, keywords.get(name, each.default)) for name, each in parameters.items())
            if type(value) is int and guesses.known(name) == guesses.STEP and name not in (*self.given, *feed.slots)
        }
        positional = [
            keywords.pop(name)
            for name, each in parameters.items()
            if each.kind is each.POSITIONAL_ONLY and name in keywords
        ]

        def called() -> Any:
            if self.turn:  # arguments that count steps increase with every call
                advance = self.turn * guesses.STEPS_OF_A_CALL
                return function(*positional, **{**keywords, **{n: v + advance for n, v in first_steps.items()}})
            return function(*positional, **keywords)

        return with_result(feed, function, called, around, handed, instance), finish


def file_of(function: Callable) -> str:
    """Return the text of the file that defines a function; "" if it cannot be read."""
    try:
        with open(inspect.getsourcefile(inspect.unwrap(function)) or "", encoding="utf-8") as file:
            return file.read()
    except (OSError, TypeError, UnicodeDecodeError):
        return ""
