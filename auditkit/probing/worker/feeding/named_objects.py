"""Objects that answer by name: configurations and others, loggers, and the error for what no name explains."""

import dis
import sys
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

import torch

from ..base.refusals import CannotFeedError
from .guesses import Guess, known

_PLAIN_READS = ("LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR", "BINARY_OP")


class Filling(Protocol):
    """What fills an object: see `stand_ins.Surroundings`."""

    given: Dict[str, Any]
    unknown: List[str]

    def filled(self, path: str, found: Optional[Guess]) -> Any: ...


class UnknownValueError(CannotFeedError, AttributeError, KeyError):
    """A target reads something that no name explains; code that looks whether it is there sees that it is not."""

    def __str__(self) -> str:
        return str(self.args[0])


def no_value(path: str) -> UnknownValueError:
    """The error that names what is read, with the option that gives it."""
    return UnknownValueError("{0}: no value is known: give --argument {0}=VALUE".format(path))


class Answering:
    """An object that answers reads of attributes and items by their names, each recorded by its path."""

    def __init__(self, surroundings: Filling, path: str, find: Callable[[str], Optional[Guess]]) -> None:
        self.__dict__.update(_surroundings=surroundings, _path=path, _find=find)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = value = self._read(name, sys._getframe(1))
        return value

    def __getitem__(self, name: Any) -> Any:
        if not isinstance(name, str):
            raise KeyError(name)
        if name not in self.__dict__:
            self.__dict__[name] = self._read(name, sys._getframe(1))
        return self.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__ or self._knows(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The default of the code that asks is better than a guess."""
        return self[name] if name in self and (default is None or name in self.__dict__) else default

    def _knows(self, name: str) -> bool:
        return "{}.{}".format(self._path, name) in self._surroundings.given or self._find(name) is not None

    def _read(self, name: str, frame: FrameType) -> Any:
        path = "{}.{}".format(self._path, name)
        try:
            return self._surroundings.filled(path, self._find(name))
        except UnknownValueError:
            if is_plain_read(frame):
                self._surroundings.unknown.append(path)
            raise


def is_plain_read(frame: FrameType) -> bool:
    """Whether code reads an attribute or an item as it stands there: not by `getattr`, `hasattr` or `get`."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in _PLAIN_READS


def is_called(frame: FrameType, place: Optional[int] = None) -> bool:
    """Whether code reads an attribute to call it, `x.name(...)`: where the frame is now, or at a `place` of it."""
    code, place = frame.f_code.co_code, frame.f_lasti if place is None else place
    name = dis.opname[code[place]]
    return name == "LOAD_METHOD" or (name == "LOAD_ATTR" and sys.version_info >= (3, 12) and bool(code[place + 1] & 1))


def raised_at(error: BaseException) -> Tuple[FrameType, int]:
    """The frame that raised, and the place in its code."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame, trace.tb_lasti


class ParameterGroup(Dict[str, Any]):
    """A group of an optimizer, which may be asked for settings of other optimizers than SGD."""

    def __init__(self, surroundings: Filling, held: Dict[str, Any]) -> None:
        super().__init__(held)
        self._surroundings = surroundings

    def __missing__(self, key: str) -> Any:
        self[key] = self._surroundings.filled("param_group." + key, known(key))
        return self[key]


class Quiet:
    """A logger or writer: any method takes anything, keeps the numbers by their names, and returns None.

    Writers (`add_scalar`, `wandb.log`, `logger.info`) copy a tensor to the host, and so does this.
    """

    def __init__(self, said: Dict[str, Any]) -> None:
        self.__dict__["_said"] = said

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def debug(self, *_: Any, **__: Any) -> None:
        """Do nothing: `logging` formats no message of a level that is off."""

    def __call__(self, *values: Any, **named: Any) -> None:
        names = [value for value in values if isinstance(value, str)]
        for value in values:
            if isinstance(value, dict):
                named.update({str(key): each for key, each in value.items()})
            elif names and isinstance(value, (int, float, torch.Tensor)) and names[0] not in named:
                named[names[0]] = value
        for name, value in named.items():
            if isinstance(value, (int, float, torch.Tensor)):
                self._said[name] = value.detach().cpu() if isinstance(value, torch.Tensor) else value

    def __setitem__(self, name: str, value: Any) -> None:
        self(name, value)
