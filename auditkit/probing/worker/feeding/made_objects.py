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
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from ..base.refusals import CannotFeedError
from ..process import placeholders
from . import guesses
from .guesses import Guess
from .named_objects import UnknownValueError, is_called, is_plain_read
from .signatures import guessed
from .stand_ins import SELF, Surroundings


def make(owner: type, around: Surroundings, at: str = SELF) -> Any:
    """An object of `owner` at a path, whose attributes are those of the surroundings. Raises CannotFeedError."""
    stored = {**(_stored_by_setup(owner) if around.has_none else {}), **_stored_by_constructor(owner)}
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
            elif (
                isinstance(computed, Computed)
                and computed.tells_more_than(found)
                and not (path in around.given or around.silences(name))
            ):
                value = _computed(computed, self, path, around, found)
            else:
                value = around.filled(path, found)
            self.__dict__[name] = value
        except UnknownValueError:
            around.unknown.append(path)
            raise
        return value

    try:
        # What the class tears down was never set up.
        members = {"__getattr__": read, "__del__": lambda self: None, **_with_methods(owner)}
        made_class: Any = types.new_class(owner.__name__, (owner,), {}, lambda names: names.update(members))
        made_class.__abstractmethods__ = frozenset()
        made_class.__module__, made_class.__qualname__ = owner.__module__, owner.__qualname__
        made = _without_init(made_class)
    except Exception as error:
        raise CannotFeedError("{} cannot be made without its __init__: {}".format(owner.__name__, error)) from error
    for name, method in _left_open(owner).items():
        path = "{}.{}".format(at, name)
        if method is not None:
            around.read[path] = Guess("{} of a class that derives from it".format(method.__qualname__))
        elif guesses.is_callable(guesses.of_object(name)):
            made.__dict__[name] = around.filled(path, guesses.of_object(name))
    _initialise_base(made, around)
    return made


def _computed(computed: "Computed", made: Any, path: str, around: Surroundings, found: Optional[Guess]) -> Any:
    try:
        told, value = computed.evaluated(made, around)
    except UnknownValueError:
        if around.uses is None and found is None and not around.has_none:
            raise
        return around.filled(path, found)
    around.read[path] = told
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
    is_object = found is not None and isinstance(found.value, str)
    is_made = found is not None and ((is_object and not isinstance(literal, bool)) or guesses.is_limit(name))
    # What is off by default is asked about as if it were on.
    is_off = not (literal or is_object) and isinstance(literal, (bool, float)) and found is not None
    is_off = is_off and found is not None and bool(found.value)
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


@functools.lru_cache(maxsize=None)
def _left_open(owner: type) -> Dict[str, Any]:
    """The methods that a class leaves to those which derive from it, as one of them has it; None where none does."""
    own: Dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        own.update(vars(base))
    names = (name for name, each in own.items() if inspect.isfunction(each) and _only_refuses(each))
    return {name: _method_of_subclass(owner, name) for name in names}


def _with_methods(owner: type) -> Dict[str, Any]:
    return {name: method for name, method in _left_open(owner).items() if method is not None}


def _only_refuses(method: Any) -> bool:
    return bool(method.__code__.co_names == ("NotImplementedError",)) and not method.__module__.startswith("torch.")


class Computed:
    """What a constructor stores that is no literal: an expression over its module's names, its arguments and locals."""

    def __init__(self, node: ast.expr, constructor: Any, local: Dict[str, ast.expr]) -> None:
        self._node, self._globals, self._local = node, constructor.__globals__, local
        self._arguments = inspect.signature(constructor).parameters

    def field_defaults(self) -> Dict[str, Any]:
        """The plain defaults of the dataclass that a stored parameter is declared as."""
        argument = self._arguments.get(self._node.id) if isinstance(self._node, ast.Name) else None
        declared: Any = None if argument is None else argument.annotation
        with contextlib.suppress(Exception):  # an annotation may name what only a type checker imports
            declared = eval(declared, self._globals) if isinstance(declared, str) else declared
        fields: Any = dataclasses.fields(declared) if dataclasses.is_dataclass(declared) else ()
        return {each.name: each.default for each in fields if type(each.default) in _PLAIN}

    def tells_more_than(self, found: Optional[Guess]) -> bool:
        """Whether the expression is a better witness than a name: a tensor, or an object of a class of the checkout."""
        if found is None or not isinstance(self._node, ast.Call):
            return found is None
        if found.value == guesses.LOGGER or found.value is False:
            return self.is_of_torch
        made = self._globals.get(ast.unparse(self._node.func))
        return found.value == guesses.SCALER and isinstance(made, type) and not made.__module__.startswith("torch.")

    @property
    def is_of_torch(self) -> bool:
        """Whether it is a tensor that torch makes."""
        return isinstance(self._node, ast.Call) and ast.unparse(self._node.func) in _TENSORS

    def evaluated(self, made: Any, around: Surroundings) -> Tuple[Guess, Any]:
        """The value as `__init__` would store it, and what the reader is told. Raises UnknownValueError."""
        text = ast.unparse(self._node)
        find = functools.partial(self._named, around, dict(self._local))
        try:
            value = self._value(self._node, _Names({SELF: made}, find))
        except Exception as error:
            raise UnknownValueError("{} = {}: {}".format(SELF, text, error)) from error
        return Guess("{}, as __init__ stores it".format(text)), value

    def _value(self, node: ast.expr, names: "_Names") -> Any:
        return eval(compile(ast.Expression(node), "__init__", "eval"), self._globals, names)

    def _named(self, around: Surroundings, local: Dict[str, ast.expr], name: str, names: "_Names") -> Any:
        """What the constructor assigns to a local name, or an argument of it. Raises KeyError."""
        if name in local:
            return self._value(local.pop(name), names)
        argument = self._arguments[name]
        if argument.default is not argument.empty and name not in around.given:
            return argument.default
        found = guessed(name, argument, of_class=True)
        if found is None and name not in around.given:
            raise KeyError(name)
        return around.filled(name, found)


class _Names(Dict[str, Any]):
    """The names that an expression of a constructor reads, each found when it is read."""

    def __init__(self, known: Dict[str, Any], find: Callable[[str, "_Names"], Any]) -> None:
        super().__init__(known)
        self._find = find

    def __missing__(self, name: str) -> Any:
        self[name] = self._find(name, self)
        return self[name]


_PLAIN = (bool, int, float, str, type(None))
_TENSORS = frozenset("torch." + name for name in ("tensor", "zeros", "ones", "full", "empty"))


@functools.lru_cache(maxsize=None)
def _stored_by_constructor(owner: type) -> Dict[str, Any]:
    """The attributes that the constructors of a class store, with the literals among them; of a mixin its users'."""
    found: Dict[str, Any] = {}
    constructors = [vars(each).get("__init__") for each in reversed(owner.__mro__)]
    if not any(map(inspect.isfunction, constructors)):
        deriving: List[type] = owner.__subclasses__()
        constructors = [vars(each).get("__init__") for each in deriving[:1]]
    for constructor in filter(inspect.isfunction, constructors):
        if not constructor.__module__.startswith("torch."):
            found.update(_stored_by(constructor))
    return found


@functools.lru_cache(maxsize=None)
def _stored_by_setup(owner: type) -> Dict[str, Any]:
    """What a method that a program calls behind the constructor stores."""
    found: Dict[str, Any] = {}
    for method in [vars(each).get("setup") for each in reversed(owner.__mro__)]:
        if inspect.isfunction(method):
            found.update(_stored_by(method))
    return {name: each for name, each in found.items() if isinstance(each, Computed) and each.is_of_torch}


def _stored_by(constructor: Any) -> Dict[str, Any]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(constructor)))
    except (OSError, TypeError, SyntaxError):
        return {}
    assigned = list(_assignments(tree))
    names = [target.id for target, _ in assigned if isinstance(target, ast.Name)]
    local = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    local = {name: value for name, value in local.items() if names.count(name) == 1}
    own = [(target.attr, value) for target, value in assigned if _is_own(target)]
    first = {id(value) for target, value in _assignments(ast.Module(_plain_statements(tree), []))}
    found = {name: _literal(value, constructor, local) for name, value in own}
    # A flag is as it is set at first, not as a condition changes it.
    set_first = {name: value.value for name, value in own if id(value) in first and isinstance(value, ast.Constant)}
    return {**found, **{name: value for name, value in set_first.items() if isinstance(value, bool)}}


def _is_own(target: Any) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == SELF


def _plain_statements(tree: ast.Module) -> List[ast.stmt]:
    """The assignments of the constructor that are under no condition."""
    constructor: Any = tree.body[0]
    return [each for each in constructor.body if isinstance(each, (ast.Assign, ast.AnnAssign))]


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


def _literal(node: Any, constructor: Any, local: Dict[str, ast.expr]) -> Any:
    if isinstance(node, ast.Name) and node.id not in local:
        argument = inspect.signature(constructor).parameters.get(node.id)
        value = None if argument is None else argument.default
        return value if type(value) in (bool, int, float, str) else Computed(node, constructor, local)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return Computed(node, constructor, local)
