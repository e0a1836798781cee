"""The arguments that a function or a class requires, and what is known about each."""

import functools
import inspect
import linecache
import textwrap
from types import CodeType, FunctionType
from typing import Any, Callable, Container, List, Optional

import torch

from ..base.refusals import CannotFeedError
from . import guesses
from .guesses import Guess, guess

_SETUP_NAMES = ("register", "attach", "watch", "setup", "set_modules", "track", "add_module", "register_modules")
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def with_own_signature(function: Callable) -> Callable:
    """Set `__wrapped__` if a decorator without functools.wraps hides the function behind `*args`; return it."""
    if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
        code = function.__code__
        takes_anything = code.co_flags & inspect.CO_VARARGS and not code.co_argcount + code.co_kwonlyargcount
        held = [cell.cell_contents for cell in function.__closure__ or () if takes_anything]
        wrapped = [each for each in held if isinstance(each, FunctionType)]
        if len(wrapped) == 1:
            function.__wrapped__ = wrapped[0]  # type: ignore[attr-defined]
    return function


def required_parameters(function: Callable, given: Container[str]) -> List[str]:
    """Return the arguments that a caller must provide, without those in `given`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise CannotFeedError("its signature cannot be read") from error
    return [p.name for p in parameters if p.default is p.empty and p.kind not in VARIADIC and p.name not in given]


def optional_first_parameter(function: Callable, given: Container[str]) -> List[str]:
    """Return the first argument of a function whose arguments all have defaults, except callables."""
    for name, each in inspect.signature(function).parameters.items():
        has_default = each.default is not each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        if has_default and name not in given and not guesses.is_callable(guesses.known(name)):
            return [name]
    return []


def setup_method(owner: type, method: str, named: Optional[str]) -> Optional[str]:
    """Return the method that takes the modules before `method` is called: the named one, or one found by name."""
    if named is not None:
        if not callable(getattr(owner, named, None)):
            raise CannotFeedError("{} has no method '{}' to set it up".format(owner.__name__, named))
        return named
    for name in _SETUP_NAMES:
        found = next((vars(each)[name] for each in owner.__mro__ if name in vars(each)), None)  # not the metaclass's
        if callable(found) and name != method and not hasattr(torch.nn.Module, name):
            return name
    return None


def annotation_text(annotation: Any) -> str:
    """Return an annotation as it is written in the source; "" for none."""
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation.strip("'\"") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def guessed(name: str, parameter: inspect.Parameter, of_class: bool = False) -> Optional[Guess]:
    """Return a guess for an argument by its name and annotation; a class's numbers are known by name only."""
    annotation = annotation_text(parameter.annotation)
    is_number = annotation in ("float", "int", "bool", "str") and name != "device"
    return guess(name, "" if of_class and is_number else annotation)


def shared(name: str, parameter: inspect.Parameter) -> Optional[Guess]:
    """Return another view of the same gradients if the name of an argument means one."""
    kind = guesses.carrier(name, annotation_text(parameter.annotation))
    return Guess(kind) if kind else None


def is_block(function: Any) -> bool:
    """Return whether a function was made of statements in a script or a function."""
    return hasattr(function, "text")


@functools.lru_cache(maxsize=None)
def source_of(function: Any) -> str:
    """Return the text of a function, or of a code object; "" if it has none.

    `inspect.getsource` is slow: it resolves the path of every loaded module in each process.
    """
    if is_block(function):
        return str(function.text)
    code = getattr(inspect.unwrap(function), "__code__", function)
    if not isinstance(code, CodeType):
        return ""
    lines = linecache.getlines(code.co_filename)
    if code.co_name != "<module>":
        lines = inspect.getblock(lines[code.co_firstlineno - 1 :])
    return textwrap.dedent("".join(lines))
