"""Objects created without their class's `__init__`: attributes are filled by name or by use, and recorded.

A literal or a parameter's default that `__init__` would store is better evidence than a name.
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
from ..serve import placeholders
from . import guesses
from .guesses import Guess
from .signatures import guessed
from .stub import Recorder, Stub, UnknownValueError, is_called, is_plain_read

SELF = "self"
_COMPUTED = object()
_PLAIN = (bool, int, float, str, type(None))
_TENSORS = frozenset("torch." + name for name in ("tensor", "zeros", "ones", "full", "empty"))


def make(owner: type, around: Recorder, at: str = SELF) -> Any:
    """Return an object of `owner` at a path, whose attributes `around` fills. Raises CannotFeedError."""
    stored = _stored(owner, around.has_none)
    tried: List[str] = []

    def read(self: Any, name: str) -> Any:
        inherited = getattr(super(made_class, self), "__getattr__", None)
        # A wrapper's own method reads the wrapped object, which this fills.
        if inherited is not None and name not in tried:
            tried.append(name)
            with contextlib.suppress(AttributeError), placeholders.loading():  # an absent base class has none
                return inherited(name)
        frame = sys._getframe(1)
        if name.startswith("__") or not (around.is_preparing or name in stored or is_plain_read(frame)):
            raise AttributeError("'{}' object has no attribute '{}'".format(owner.__name__, name))
        own = stored.get(name)
        found = guesses.of_object(name) if own is None else own.guess(name)
        if is_called(frame) and not (around.has_none or guesses.is_callable(found)):
            found = None
        path = "{}.{}".format(at, name)
        is_given = path in around.given
        method = _method_of_subclass(owner, name)
        if method is not None and not is_given:
            around.read[path] = _of_subclass(method)
            self.__dict__[name] = types.MethodType(method, self)
        elif own is not None and own.literal is _COMPUTED and not is_given:
            self.__dict__[name] = own.value(self, path, found, around)
        else:
            self.__dict__[name] = around.filled(path, found)
        return self.__dict__[name]

    left_open = _left_open(owner)
    members = {name: method for name, method in left_open.items() if method is not None}
    # The class must not tear down what was never set up.
    members.update({"__getattr__": read, "__del__": lambda self: None})
    try:
        made_class: Any = types.new_class(owner.__name__, (owner,), {}, lambda names: names.update(members))
        made_class.__abstractmethods__ = frozenset()
        made_class.__module__, made_class.__qualname__ = owner.__module__, owner.__qualname__
        try:
            made = object.__new__(made_class)
        except TypeError:  # A subclass of `dict` needs its own `__new__`.
            made = made_class.__new__(made_class)
    except Exception as error:
        raise CannotFeedError("{} cannot be made without its __init__: {}".format(owner.__name__, error)) from error
    for name, method in left_open.items():
        path = "{}.{}".format(at, name)
        if method is not None:
            around.read[path] = _of_subclass(method)
        elif guesses.is_callable(guesses.of_object(name)):
            made.__dict__[name] = around.filled(path, guesses.of_object(name))
    if isinstance(made, torch.nn.Module):  # torch's own classes set up their state in constructors.
        torch.nn.Module.__init__(made)
        made._parameters.update(around.module.named_parameters())
    elif isinstance(made, torch.optim.Optimizer):
        made.__dict__.update(copy.copy(around.optimizer.__dict__))
    return made


def _of_subclass(method: Any) -> Guess:
    return Guess("{} of a class that derives from it".format(method.__qualname__))


def _method_of_subclass(owner: type, name: str) -> Any:
    """Return the method that an abstract class or a mixin leaves to its subclasses; None if no subclass has it."""
    subclasses: List[type] = owner.__subclasses__()
    for each in subclasses:
        found = vars(each).get(name) or _method_of_subclass(each, name)
        if inspect.isfunction(found):
            return found
    return None


@functools.lru_cache(maxsize=None)
def _left_open(owner: type) -> Dict[str, Any]:
    """Return the methods that only raise NotImplementedError, each as a subclass defines it, or None."""
    own: Dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        own.update(vars(base))
    return {
        name: _method_of_subclass(owner, name)
        for name, each in own.items()
        if inspect.isfunction(each)
        and each.__code__.co_names == ("NotImplementedError",)
        and not each.__module__.startswith("torch.")
    }


class _Stored:
    """What a constructor stores: a literal, or an expression of its module's names, its arguments and locals."""

    def __init__(self, node: ast.expr, constructor: Any, local: Dict[str, ast.expr]) -> None:
        self._node, self._globals, self._local = node, constructor.__globals__, local
        self._arguments = inspect.signature(constructor).parameters
        self.is_tensor = isinstance(node, ast.Call) and ast.unparse(node.func) in _TENSORS
        self.literal: Any = _COMPUTED
        argument = self._arguments.get(node.id) if isinstance(node, ast.Name) and node.id not in local else None
        if argument is not None and type(argument.default) in (bool, int, float, str):
            self.literal = argument.default
        with contextlib.suppress(ValueError, TypeError):
            self.literal = ast.literal_eval(node)

    def guess(self, name: str) -> Optional[Guess]:
        """Return the value by the literal and the name; a disabled flag counts as enabled."""
        found, literal = guesses.of_object(name), self.literal
        if literal is _COMPUTED:
            return found
        if literal is None:
            return found or Guess(None)
        if found is not None:
            is_object = isinstance(found.value, str)
            is_off = not (literal or is_object) and isinstance(literal, (bool, float)) and bool(found.value)
            if is_off or (is_object and not isinstance(literal, bool)) or guesses.is_limit(name):
                return found
        return Guess(copy.copy(literal))

    def value(self, made: Any, path: str, found: Optional[Guess], around: Recorder) -> Any:
        """Return the value as `__init__` computes it if that is better evidence than the name; else the name's."""
        if self._says_more_than(found) and not around.silences(path.rpartition(".")[2]):
            with contextlib.suppress(UnknownValueError):
                value = self._evaluated(made, around)
                # An empty container says nothing of what a target finds in it.
                if type(value) in (list, dict) and not value:
                    raise UnknownValueError(path)
                around.read[path] = Guess("{}, as __init__ stores it".format(ast.unparse(self._node)))
                return value
        if found == Guess(guesses.CONFIG) and not around.has_none and path not in around.by_use:
            around.read[path], defaults = found, self._field_defaults()
            return Stub(around, path, lambda name: guesses.in_configuration(name) or defaults.get(name))
        return around.filled(path, found)

    def _field_defaults(self) -> Dict[str, Guess]:
        """Return the plain defaults of the dataclass that annotates a stored parameter."""
        argument = self._arguments.get(self._node.id) if isinstance(self._node, ast.Name) else None
        declared: Any = None if argument is None else argument.annotation
        with contextlib.suppress(Exception):  # An annotation may name an import of type checkers.
            declared = eval(declared, self._globals) if isinstance(declared, str) else declared
        fields: Any = dataclasses.fields(declared) if dataclasses.is_dataclass(declared) else ()
        return {each.name: Guess(each.default) for each in fields if type(each.default) in _PLAIN}

    def _says_more_than(self, found: Optional[Guess]) -> bool:
        """Return whether the expression is better evidence than a name: a tensor, or an object of the checkout."""
        if found is None or not isinstance(self._node, ast.Call):
            return found is None
        if found.value == guesses.LOGGER or found.value is False:
            return self.is_tensor
        made = self._globals.get(ast.unparse(self._node.func))
        return found.value == guesses.SCALER and isinstance(made, type) and not made.__module__.startswith("torch.")

    def _evaluated(self, made: Any, around: Recorder) -> Any:
        local = dict(self._local)

        class Names(Dict[str, Any]):
            """The names that the expression reads, each evaluated when it is read."""

            def __missing__(names, name: str) -> Any:
                names[name] = value = find(name, names)
                return value

        def find(name: str, names: Dict[str, Any]) -> Any:
            if name in local:
                return run(local.pop(name), names)
            argument = self._arguments[name]
            if argument.default is not argument.empty and name not in around.given:
                return argument.default
            found = guessed(name, argument, of_class=True)
            if found is None and name not in around.given:
                raise KeyError(name)
            return around.filled(name, found)

        def run(node: ast.expr, names: Dict[str, Any]) -> Any:
            return eval(compile(ast.Expression(node), "__init__", "eval"), self._globals, names)

        try:
            return run(self._node, Names({SELF: made}))
        except Exception as error:
            raise UnknownValueError("{} = {}: {}".format(SELF, ast.unparse(self._node), error)) from error


@functools.lru_cache(maxsize=None)
def _stored(owner: type, with_setup: bool) -> Dict[str, _Stored]:
    """Return the attributes that the constructors of a class store, with their literals; of a mixin, its users'.

    `with_setup` adds the tensors that a method `setup` stores, which a program calls after the constructor.
    """
    found: Dict[str, _Stored] = {}
    for method in [vars(each).get("setup") for each in reversed(owner.__mro__) if with_setup]:
        stored = _stored_by(method) if inspect.isfunction(method) else {}
        found.update({name: each for name, each in stored.items() if each.is_tensor})
    constructors = [vars(each).get("__init__") for each in reversed(owner.__mro__)]
    if not any(map(inspect.isfunction, constructors)):
        subclasses: List[type] = owner.__subclasses__()
        constructors = [vars(each).get("__init__") for each in subclasses[:1]]
    for constructor in filter(inspect.isfunction, constructors):
        if not constructor.__module__.startswith("torch."):
            found.update(_stored_by(constructor))
    return found


def _stored_by(constructor: Any) -> Dict[str, _Stored]:
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(constructor)))
    except (OSError, TypeError, SyntaxError):
        return {}
    assigned = list(_assignments(tree))
    names = [target.id for target, _ in assigned if isinstance(target, ast.Name)]
    local = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    local = {name: value for name, value in local.items() if names.count(name) == 1}
    own = [(target.attr, value) for target, value in assigned if _is_own(target)]
    found = {name: _Stored(value, constructor, local) for name, value in own}
    # A flag has its first value, before conditions change it.
    plain: List[ast.stmt] = [each for each in tree.body[0].body if isinstance(each, (ast.Assign, ast.AnnAssign))]
    first = {id(value) for _, value in _assignments(ast.Module(plain, []))}
    for name, value in own:
        if id(value) in first and isinstance(value, ast.Constant) and isinstance(value.value, bool):
            found[name].literal = value.value
    return found


def _is_own(target: Any) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == SELF


def _assignments(tree: ast.AST) -> Iterator[Tuple[Any, Any]]:
    """Yield every target of an assignment with its value; of tuples, item by item."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=False)
                else:
                    yield target, node.value
