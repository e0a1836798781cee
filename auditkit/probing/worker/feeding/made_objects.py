"""Objects of a class made without its `__init__`: what their methods read is filled by name and recorded.

What `__init__` would store as a literal, its own or a parameter's default, is a better witness than a name.
"""

import ast
import contextlib
import copy
import dataclasses
import functools
import inspect
import sys
import textwrap
import types
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..base.refusals import CannotFeedError
from ..process import placeholders
from . import guesses
from .guesses import Guess
from .named_objects import UnknownValueError, is_called, is_plain_read
from .stand_ins import SELF, Surroundings


def make(owner: type, around: Surroundings, at: str = SELF) -> Any:
    """An object of `owner` at a path, whose attributes are those of the surroundings. Raises CannotFeedError."""
    stored = _stored_by_constructor(owner)
    asked: List[str] = []

    def read(self: Any, name: str) -> Any:
        inherited = getattr(super(made_class, self), "__getattr__", None)
        # A wrapper's own looks at what it wraps, which is filled by this.
        if inherited is not None and name not in asked:
            asked.append(name)
            with contextlib.suppress(AttributeError), placeholders.loading():  # an absent base class has none
                return inherited(name)
        is_read = around.is_preparing or name in stored or is_plain_read(sys._getframe(1))
        if name.startswith("__") or not is_read:
            raise AttributeError("'{}' object has no attribute '{}'".format(owner.__name__, name))
        path = "{}.{}".format(at, name)
        found = _guess(name, stored)
        if around.uses is not None and is_called(sys._getframe(1)) and not guesses.is_callable(found):
            found = None
        computed = stored.get(name)
        if found is not None and found.value == guesses.CONFIG and isinstance(computed, Computed):
            around.defaults[path] = computed.field_defaults()
        method = _method_of_subclass(owner, name)
        try:
            if method is not None and path not in around.given:
                around.read[path] = Guess("{} of a class that derives from it".format(method.__qualname__))
                value = types.MethodType(method, self)
            elif found is None and isinstance(computed, Computed) and path not in around.given:
                value = _computed(computed, self, path, around)
            else:
                value = around.filled(path, found)
            self.__dict__[name] = value
        except UnknownValueError:
            around.unknown.append(path)
            raise
        return value

    try:
        # What the class tears down was never set up.
        members = {"__getattr__": read, "__del__": lambda self: None}
        made_class: Any = types.new_class(owner.__name__, (owner,), {}, lambda names: names.update(members))
        made_class.__abstractmethods__ = frozenset()
        made_class.__module__, made_class.__qualname__ = owner.__module__, owner.__qualname__
        made = _without_init(made_class)
    except Exception as error:
        raise CannotFeedError("{} cannot be made without its __init__: {}".format(owner.__name__, error)) from error
    _initialise_base(made, around)
    return made


def _computed(computed: "Computed", made: Any, path: str, around: Surroundings) -> Any:
    try:
        found, value = computed.evaluated(made)
    except UnknownValueError:
        if around.uses is None:
            raise
        return around.filled(path, None)
    around.read[path] = found
    return value


def _without_init(made_class: Any) -> Any:
    try:
        return object.__new__(made_class)
    except TypeError:  # of a built-in type, which has a __new__ of its own
        return made_class.__new__(made_class)


def _initialise_base(made: Any, around: Surroundings) -> None:
    """torch's own classes keep what they need in their own constructors."""
    if isinstance(made, torch.nn.Module):
        torch.nn.Module.__init__(made)
        for name, parameter in around.module.named_parameters():
            made._parameters[name] = parameter
    elif isinstance(made, torch.optim.Optimizer):
        made.__dict__.update(copy.copy(around.optimizer.__dict__))


def _guess(name: str, stored: Dict[str, Any]) -> Optional[Guess]:
    found, literal = guesses.of_object(name), stored.get(name, Computed)
    is_computed = literal is Computed or isinstance(literal, Computed)
    is_made = found is not None and (isinstance(found.value, str) or guesses.is_limit(name))
    # What is off by default is asked about as if it were on.
    is_off = not literal and isinstance(literal, (bool, float)) and found is not None and bool(found.value)
    if literal is not None and not is_computed and not (is_made or is_off):
        return Guess(copy.copy(literal))
    return found or (Guess(None) if literal is None else None)


def _method_of_subclass(owner: type, name: str) -> Any:
    """The method that an abstract class or a mixin leaves to those that derive from it; None where there is none."""
    deriving: List[type] = owner.__subclasses__()
    for each in deriving:
        found = vars(each).get(name) or _method_of_subclass(each, name)
        if inspect.isfunction(found):
            return found
    return None


class Computed:
    """What a constructor stores that is no literal: an expression over what its module has and its defaults."""

    def __init__(self, node: ast.expr, constructor: Any, defaults: Dict[str, Any]) -> None:
        self._node, self._globals = node, constructor.__globals__
        self._annotations = constructor.__annotations__
        self._defaults = {name: value for name, value in defaults.items() if value is not inspect.Parameter.empty}

    def field_defaults(self) -> Dict[str, Any]:
        """The plain defaults of the dataclass that a stored parameter is declared as."""
        declared = self._annotations.get(self._node.id, "") if isinstance(self._node, ast.Name) else ""
        with contextlib.suppress(Exception):  # an annotation may name what only a type checker imports
            declared = eval(declared, self._globals) if isinstance(declared, str) else declared
        fields: Any = dataclasses.fields(declared) if dataclasses.is_dataclass(declared) else ()
        return {each.name: each.default for each in fields if type(each.default) in (bool, int, float, str, type(None))}

    def evaluated(self, made: Any) -> Tuple[Guess, Any]:
        """The value as `__init__` would store it, and what the reader is told. Raises UnknownValueError."""
        text = ast.unparse(self._node)
        try:
            code = compile(ast.Expression(self._node), text, "eval")
            value = eval(code, self._globals, {**self._defaults, SELF: made})
        except Exception as error:
            raise UnknownValueError("{} = {}: {}".format(SELF, text, error)) from error
        return Guess("{}, as __init__ stores it".format(text)), value


def _stored_by_constructor(owner: type) -> Dict[str, Any]:
    """The attributes that the constructors of a class store, with the literals among them."""
    found: Dict[str, Any] = {}
    for each in reversed(owner.__mro__):
        constructor = vars(each).get("__init__")
        if inspect.isfunction(constructor) and not each.__module__.startswith("torch."):
            found.update(_stored_by(constructor))
    return found


def _stored_by(constructor: Any) -> Dict[str, Any]:
    stored, defaults = _read(constructor)
    return {name: _literal(value, constructor, defaults) for name, value in stored.items()}


@functools.lru_cache(maxsize=None)
def _read(constructor: Any) -> Tuple[Dict[str, ast.expr], Dict[str, Any]]:
    """The expressions that it stores on `self`, and its parameters' defaults: a search asks a hundred times."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(constructor)))
    except (OSError, TypeError, SyntaxError):
        return {}, {}
    stored = {
        target.attr: value
        for target, value in _assignments(tree)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == SELF
    }
    return stored, {name: each.default for name, each in inspect.signature(constructor).parameters.items()}


def _assignments(tree: ast.AST) -> Iterator[Tuple[Any, Any]]:
    """Every target of an assignment with its value; of tuples, item by item."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and value is not None:
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    yield from zip(target.elts, value.elts, strict=False)
                else:
                    yield target, value


def _literal(node: Any, constructor: Any, defaults: Dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        value = defaults.get(node.id, inspect.Parameter.empty)
        return value if type(value) in (bool, int, float, str) else Computed(node, constructor, defaults)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return Computed(node, constructor, defaults)
