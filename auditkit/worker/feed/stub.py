"""Stubs that replace what a target reads and record it, and the error for a value that nothing explains.

A stub first returns a value by the attribute's name. Other values are inferred from their use: an iterated value
contains one item, a called value returns one, and an object is of the checkout's class that defines the called methods.
A value that is used as a truth, a number or a tensor stays unknown.
"""

import copy
import dis
import sys
from types import FrameType
from typing import Any, Callable, ClassVar, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from ..base.refusals import CannotFeedError
from . import groups, guesses
from .guesses import Guess

_PLAIN_READS = ("LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR", "BINARY_OP")


class UnknownValueError(CannotFeedError, AttributeError, KeyError):
    """A target reads a value that nothing explains; to code that checks for the value, it does not exist."""

    def __str__(self) -> str:
        return str(self.args[0])


def no_value(path: str) -> UnknownValueError:
    """Return the error that names the value, with the option that sets it."""
    return UnknownValueError("{0}: no value is known: give --argument {0}=VALUE".format(path))


def is_plain_read(frame: FrameType) -> bool:
    """Return whether code reads an attribute or an item directly: not by `getattr`, `hasattr` or `get`."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in _PLAIN_READS


def is_called(frame: FrameType, place: Optional[int] = None) -> bool:
    """Return whether code reads an attribute to call it, `x.name(...)`: at the frame's position, or at `place`."""
    code, place = frame.f_code.co_code, frame.f_lasti if place is None else place
    name = dis.opname[code[place]]
    return name == "LOAD_METHOD" or (name == "LOAD_ATTR" and sys.version_info >= (3, 12) and bool(code[place + 1] & 1))


def raised_at(error: BaseException) -> Tuple[FrameType, int]:
    """Return the frame that raised, and the position in its code."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame, trace.tb_lasti


class Recorder:
    """Creates the values that one call reads and records them in `read` by dotted path; `given` are the user's values.

    A value that no name explains is None if a recorder `has_none`; else it is inferred from its use. `by_use` has the
    inferred values by path: the class of an object as `module:Class`, or "". `waiting` are the paths whose use has not
    shown anything yet, `stored` the attributes that the target set on stubs. While `is_preparing`, values are created
    before the target reads them.
    """

    has_none = False
    fakes: ClassVar[Dict[Any, Callable[[Any, str], Any]]] = {}
    """Functions that create the value of each word, for a call and a path."""

    def __init__(self, given: Dict[str, Any]) -> None:
        self.given = given
        self.read: Dict[str, Guess] = {}
        self.by_use: Dict[str, str] = {}
        self.waiting: Dict[str, None] = {}
        self.logged: Dict[str, Any] = {}
        self.stored: Dict[str, Any] = {}
        self.is_preparing = False

    module: Any = None
    optimizer: Any = None

    def filled(self, path: str, found: Optional[Guess]) -> Any:
        """Return the value at `path`: given, or what `found` means."""
        raise NotImplementedError

    def made(self, value: Any, path: str = "") -> Any:
        """Return a guessed value, or the object that its words mean."""
        is_known = isinstance(value, str) and value in self.fakes
        return self.fakes[value](self, path) if is_known else copy.copy(value)

    def object_at(self, path: str, method: str = "") -> Any:
        """Return the object of a class of the checkout at a path; None if no class is known."""
        return None

    def wait_for(self, path: str) -> None:
        """Record that a value was used in a way that does not show what it is."""

    def silences(self, _: str) -> bool:
        """Return whether an object that does nothing replaces what a constructor stores under this name."""
        return False


class Stub:
    """Replaces the value at `path`; `find` knows its attributes by name, None for a value of unknown kind."""

    def __init__(self, around: Recorder, path: str, find: Optional[Callable[[str], Optional[Guess]]] = None) -> None:
        self.__dict__.update(_around=around, _path=path, _find=find or guesses.of_object, _is_known=find is not None)

    def _part(self, end: str, found: Optional[Guess] = None) -> Any:
        around = self._around
        around.waiting.pop(self._path, None)
        if end not in self.__dict__:
            self.__dict__[end] = around.filled(self._path + end, found)
        return self.__dict__[end]

    def _held(self) -> List[Any]:
        """Return its items: the gradients or parameters that its name means, else one item."""
        kind = guesses.carrier(guesses.last_name(self._path))
        if kind not in (guesses.GRADIENTS, guesses.PARAMETERS):
            return [self._part("[0]")]
        held: List[Any] = self._part("[:]", Guess(kind))
        return held

    def _read(self, name: str, frame: FrameType) -> Any:
        around, path = self._around, "{}.{}".format(self._path, name)
        found, is_method = self._find(name), is_called(frame)
        if is_method and not (guesses.is_callable(found) or around.has_none):
            found = None
        returns_gradients = is_method and name[:4] == "get_" and guesses.carrier(name[4:]) == guesses.GRADIENTS
        is_unknown_method = is_method and found is None and not (self._is_known or returns_gradients)
        made = None if path in around.given else around.object_at(self._path, name if is_unknown_method else "")
        if made is not None:
            return getattr(made, name)
        is_plain = around.is_preparing or is_plain_read(frame)
        if found is None and path not in around.given and not is_plain:
            raise no_value(path)
        if found is None and path not in around.given and around.has_none:
            found = Guess(None)
        value = self.__dict__[name] = self._part("." + name, found)
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._read(name, sys._getframe(1))

    def __setattr__(self, name: str, value: Any) -> None:
        made = self._around.object_at(self._path)
        if made is None:
            self._around.stored["{}.{}".format(self._path, name)] = value
        (self.__dict__ if made is None else made.__dict__)[name] = value

    def __call__(self, *_: Any, **__: Any) -> Any:
        name = guesses.last_name(self._path)
        return self._part("()", guesses.guess(name, "") or guesses.of_object(name))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.__dict__[key] if key in self.__dict__ else self._read(key, sys._getframe(1))
        held = self._held()
        return held[key] if isinstance(key, (int, slice)) and len(held) > 1 else held[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__[key] = value

    def __contains__(self, key: Any) -> bool:
        known = key in self.__dict__ or "{}.{}".format(self._path, key) in self._around.given
        return known or (self._is_known and self._find(key) is not None)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the calling code's default, which is better than a guess."""
        return self[key] if key in self and (default is None or key in self.__dict__) else default

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def __len__(self) -> int:
        return len(self._held())

    def values(self) -> List[Any]:
        return self._held()

    def items(self) -> List[Tuple[int, Any]]:
        return list(enumerate(self._held()))

    def __bool__(self) -> bool:
        self._is_used_as_a_value()
        return True

    def __eq__(self, other: object) -> bool:
        self._is_used_as_a_value()
        return self is other

    __hash__ = object.__hash__

    def _is_used_as_a_value(self) -> None:
        if not self._is_known and not any(part[0] in ".[(" for part in self.__dict__):
            self._around.wait_for(self._path)


class Quiet:
    """A logger or writer: any method accepts anything, records the numbers by their names, and returns None.

    Like writers (`add_scalar`, `wandb.log`, `logger.info`), it copies a tensor to the host.
    """

    def __init__(self, said: Dict[str, Any]) -> None:
        self.__dict__["_said"] = said

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def debug(self, *_: Any, **__: Any) -> None:
        """Do nothing: `logging` formats no message of a disabled level."""

    def __call__(self, *values: Any, **named: Any) -> Any:
        names = [value for value in values if isinstance(value, str)]
        for value in values:
            if isinstance(value, dict):
                named.update({str(key): each for key, each in value.items()})
            elif names and isinstance(value, (int, float, torch.Tensor)) and names[0] not in named:
                named[names[0]] = value
        for name, value in named.items():
            if isinstance(value, (int, float, torch.Tensor)):
                self._said[name] = value.detach().cpu() if isinstance(value, torch.Tensor) else value


class Silent(Quiet):
    """An object whose methods do nothing and whose values are 0; calling it returns another one with the same items."""

    val = avg = sum = count = global_avg = value = 0.0

    def __init__(self, items: Any = ()) -> None:
        super().__init__({})
        self.__dict__["_items"] = range(items) if isinstance(items, int) else items

    def __call__(self, *values: Any, **_: Any) -> "Silent":
        return Silent(values[0] if values and isinstance(values[0], (int, Iterable)) else ())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


COMMON: Dict[Any, Callable[[Any, str], Any]] = {
    guesses.GROUP: lambda around, _: groups.world(),
    guesses.BACKEND: lambda around, _: groups.backend(),
    guesses.GIVES_GROUP: lambda around, _: lambda *_, **__: groups.world(),
    guesses.GIVES_ZERO: lambda around, _: lambda *_, **__: 0,
    guesses.GIVES_ONE: lambda around, _: lambda *_, **__: 1,
    guesses.SAME_VALUE: lambda around, _: lambda value=None, *_, **__: value,
    guesses.OPTIMIZER: lambda around, _: around.optimizer,
    guesses.OPTIMIZERS: lambda around, _: [around.optimizer],
    guesses.PARAM_GROUPS: lambda around, _: around.optimizer.param_groups,
    guesses.LOGGER: lambda around, _: Quiet(around.logged),
    guesses.SILENT: lambda around, _: Silent(),
    guesses.MODULE: lambda around, _: around.module,
    guesses.MODULES: lambda around, _: [around.module],
    guesses.PARAMETERS: lambda around, _: list(around.module.parameters()),
    guesses.NAMED_PARAMETERS: lambda around, _: list(around.module.named_parameters()),
}
"""Fakes that a collector and a training step share."""
