"""Stubs for modules that are not installed: importable during loading, an error if the target uses one afterwards.

Only an `import` statement whose failure would end the import of its file gets a stub. Code that handles the absence
(`try: import x`, `importlib.util.find_spec`) sees that the module is missing.
"""

import builtins
import contextlib
import functools
import math
import sys
from types import FunctionType, MethodType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple, cast

from .missing_modules import is_forgiven, is_own

# Modules that torch had until 2.0, with their values.
_REMOVED = {
    "torch._six": {"inf": math.inf, "nan": math.nan, "string_classes": (str, bytes), "int_classes": int},
}  # type: Dict[str, Dict[str, Any]]
# A version that is new enough for every comparison.
_VERSION = "9999.0.0"


class PlaceholderTouched(BaseException):
    """The target used a stub; no `except Exception` of the target catches this."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class _State:
    """State of this process: the modules with stubs, the stubs that were used, and the depth of loading."""

    def __init__(self) -> None:
        self.given: Dict[str, None] = {}
        self.why: Dict[str, str] = {}
        self.touched: List[str] = []
        self.depth = 0


_state = _State()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Allow every use of stubs inside the context."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1


def given() -> Tuple[str, ...]:
    """Return the names of the missing modules that have stubs."""
    return tuple(sorted(name for name in _state.given if not _state.why[name]))


def forget() -> None:
    """Forget which stubs were used until now."""
    _state.touched.clear()


def raise_if_touched() -> None:
    """Raise PlaceholderTouched again if the target caught it."""
    if _state.touched:
        raise PlaceholderTouched(_state.touched[0])


def raise_if_said(errors: Iterable[str]) -> None:
    """Raise PlaceholderTouched if one of these texts, `Class: message`, is such an error of another process."""
    for kind, _, path in (error.partition(": ") for error in errors):
        if kind == PlaceholderTouched.__name__:
            raise PlaceholderTouched(path)


def absent(path: str) -> Tuple[str, str]:
    """Return the absent object that `path` belongs to, and why it is absent; "" if it is not installed."""
    top = next((name for name in _state.given if (path + ".").startswith(name + ".")), path)
    return top, _state.why.get(top, "")


def stand_in(path: str, why: str = "", **real: Any) -> Any:
    """Create a stub for `path`, with the values in `real`; `why` says why the real object failed, if there is one."""
    _state.given.setdefault(path)
    _state.why.setdefault(path, why)
    return Placeholder(path, **real)


def why_failed(value: Any) -> str:
    """Return why an object that a stub replaces failed; "" for everything else."""
    return _state.why.get(vars(value)["_path"], "") if type(value) is Placeholder else ""


def _touch(path: str) -> None:
    if not _state.depth:
        _state.touched.append(path)
        raise PlaceholderTouched(path)


class Placeholder:
    """A stub for `path`. During loading it supports every use; afterwards each use is an error."""

    def __init__(self, path: str, **real: Any) -> None:
        module, _, name = path.rpartition(".")
        described = {"__name__": name, "__qualname__": name, "__module__": module or name, "__doc__": None}
        vars(self).update(described, _path=path, _parts={}, **real)

    def __repr__(self) -> str:
        return "<stub of {}>".format(self._path)

    def __getattr__(self, name: str) -> Any:
        if name in ("__all__", "__path__"):
            return []
        if name.startswith("__") and name != "__version__":
            raise AttributeError("{!r} has no {}".format(self, name))
        path = "{}.{}".format(vars(self)["_path"], name)
        _touch(path)
        return _VERSION if name == "__version__" else vars(self)["_parts"].setdefault(name, Placeholder(path))

    def __setattr__(self, name: str, value: Any) -> None:
        _touch("{}.{}".format(self._path, name))
        vars(self)[name] = value

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        _touch(self._path)
        if len(args) == 1 and not keywords and isinstance(args[0], (type, FunctionType, MethodType)):
            return args[0]  # a decorator returns the decorated function
        if len(args) == 3 and isinstance(args[2], dict) and "__qualname__" in args[2]:
            return type(args[0], args[1], args[2])  # the metaclass of a class
        return Placeholder(self._path)

    def __mro_entries__(self, bases: Tuple[Any, ...]) -> Tuple[type, ...]:
        return (_base_class(self._path),)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, _base_class(self._path))  # Only instances of classes derived from the stub.

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, _base_class(self._path))

    def __hash__(self) -> int:
        return id(self)


def _no_number(self: Placeholder) -> Any:
    """Raise TypeError: the target could compute with a number, which would hide that it came from a stub."""
    raise TypeError("{} is absent: it has no value".format(self._path))


_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
_RESULTS: List[Tuple[Sequence[str], Callable[..., Any]]] = [
    (["getitem", "enter", "neg", "pos", "abs", "invert", *_ARITHMETIC], lambda self, *_: self),
    (["r" + name for name in _ARITHMETIC], lambda self, *_: self),
    (["setitem", "exit"], lambda *_: None),
    (["bool", "contains"], lambda *_: False),
    (["len"], lambda *_: 0),
    (["iter"], lambda *_: iter(())),
    (["eq"], lambda self, other: self is other),
    (["ne"], lambda self, other: self is not other),
    (["str", "format"], lambda self, *_: repr(self)),
    (["gt", "ge"], lambda *_: True),  # An absent version is new enough.
    (["lt", "le"], lambda *_: False),
    (["int", "float", "index", "complex"], _no_number),
]
"""The results of a stub's special methods during loading."""


def _method(result: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Placeholder, *args: Any) -> Any:
        _touch(self._path)
        return result(self, *args)

    return method


for _names, _result in _RESULTS:
    for _name in _names:
        setattr(Placeholder, "__{}__".format(_name), _method(_result))


@functools.lru_cache(maxsize=None)
def _base_class(path: str) -> type:
    """Return the empty class that replaces a stub as a base class."""

    def init(self: Any, *args: Any, **keywords: Any) -> None:
        _touch(path)

    def attribute(self: Any, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return super(made, self).__getattr__(name)  # of a real class beside it
        if not name.startswith("__"):
            _touch("{}.{}".format(path, name))
        raise AttributeError("'{}' object has no attribute '{}'".format(type(self).__name__, name))

    def anything(cls: type, *args: Any, **keywords: Any) -> type:
        return cls

    module, _, name = path.rpartition(".")
    answers = {"__init__": init, "__getattr__": attribute, "__module__": module or name}
    made: Any = type(name, (), answers)
    made.__class_getitem__ = made.__init_subclass__ = classmethod(anything)
    return cast("type", made)


def install(roots: List[str]) -> None:
    """Make every `import` of an absent module return a stub, unless the code handles its absence."""
    real_import = builtins.__import__

    def import_or_stand_in(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        try:
            with loading():
                return real_import(name, globals, locals, fromlist, level)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            is_asked_for = not level and (name + ".").startswith(missing + ".")
            if not missing or not is_asked_for or not _may_be_absent(missing, roots) or is_forgiven(sys._getframe(1)):
                raise
        found = _module(missing, name if fromlist else name.partition(".")[0])
        with loading():  # To import a name is not to use it.
            vars(found).update({each: getattr(found, each) for each in fromlist or () if each != "*"})
        return found

    builtins.__import__ = import_or_stand_in


def _module(missing: str, wanted: str) -> Any:
    found = stand_in(missing, **_REMOVED.get(missing, {}))
    for name in wanted[len(missing) :].split(".")[1:]:
        with loading():
            found = getattr(found, name)
    return found


def _may_be_absent(name: str, roots: List[str]) -> bool:
    """Return whether a module belongs neither to the checkout nor to torch nor to Python."""
    if name in _REMOVED:
        return True
    return "." not in name and not is_own(name, roots) and name != "torch" and name not in sys.stdlib_module_names
