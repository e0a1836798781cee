"""Stubs for modules that are not installed: usable while code is loaded, an error if the target uses one afterwards."""

import contextlib
import functools
import importlib
import math
from types import FunctionType, MethodType
from typing import Any, Callable, ClassVar, Dict, Iterable, Iterator, List, Sequence, Tuple, cast

# Names of the module `torch._six`, which torch had until 2.0, with their values.
_REMOVED = {"inf": math.inf, "nan": math.nan, "string_classes": (str, bytes), "int_classes": int}
_DISTRIBUTIONS: Dict[str, str] = {
    "absl": "absl-py", "amp_C": "git+https://github.com/NVIDIA/apex", "apex": "git+https://github.com/NVIDIA/apex",
    "attr": "attrs", "bs4": "beautifulsoup4",
    "clip": "git+https://github.com/openai/CLIP", "Crypto": "pycryptodome", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "docx": "python-docx", "dora": "dora-search", "dotenv": "python-dotenv",
    "faiss": "faiss-cpu", "flash_attn": "flash-attn",
    "fitz": "PyMuPDF", "git": "GitPython", "github": "PyGithub", "google": "protobuf", "hydra": "hydra-core",
    "jose": "python-jose", "jwt": "PyJWT", "magic": "python-magic", "megatron": "megatron-core",
    "mpl_toolkits": "matplotlib", "OpenGL": "PyOpenGL", "osgeo": "GDAL", "PIL": "Pillow",
    "pkg_resources": "setuptools", "ruamel": "ruamel.yaml", "serial": "pyserial", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "transformer_engine": "transformer-engine",
    "umap": "umap-learn", "wx": "wxPython", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip
"""The distribution of a module with another name."""
# A version that is new enough for every comparison.
_VERSION = "9999.0.0"


class PlaceholderTouched(BaseException):
    """The target used a stub; no `except Exception` of the target catches this."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class _State:
    """State of this process: why each absent object is absent ("" for a missing module), uses, the depth of loading."""

    given: ClassVar[Dict[str, str]] = {}
    touched: ClassVar[List[str]] = []
    depth = 0


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Allow every use of stubs inside the context."""
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1


def given() -> Tuple[str, ...]:
    """Return the names of the missing modules that have stubs."""
    return tuple(sorted(name for name, why in _State.given.items() if not why))


def forget() -> None:
    """Forget which stubs were used until now."""
    _State.touched.clear()


def raise_if_touched() -> None:
    """Raise PlaceholderTouched again if the target caught it."""
    if _State.touched:
        raise PlaceholderTouched(_State.touched[0])


def raise_if_said(errors: Iterable[str]) -> None:
    """Raise PlaceholderTouched if one of these texts, `Class: message`, is such an error of another process."""
    for kind, _, path in (error.partition(": ") for error in errors):
        if kind == PlaceholderTouched.__name__:
            raise PlaceholderTouched(path)


def distributions(modules: Iterable[str]) -> List[str]:
    """Return the distributions to install for these modules, each once."""
    return list(dict.fromkeys(_DISTRIBUTIONS.get(name, name) for name in modules))


def absent(path: str) -> Tuple[str, str]:
    """Return the absent object that `path` belongs to, and why it is absent; "" if it is not installed."""
    top = next((name for name in _State.given if (path + ".").startswith(name + ".")), path)
    return top, _State.given.get(top, "")


def in_place_of(module: str, name: str) -> Any:
    """Return a stub for a name of a module that is not installed, or for the module itself if the name is ""."""
    if module == "torch._six" and name in _REMOVED:
        return _REMOVED[name]
    with contextlib.suppress(ImportError, AttributeError):  # torch has its own copy of `packaging`
        vendored = importlib.import_module("torch._vendor." + module)
        return getattr(vendored, name) if name else vendored
    top = module.split(".")[0]
    _State.given.setdefault(top, "")
    return Placeholder("{}.{}".format(module, name) if name else module)


def failed(path: str, why: str) -> Any:
    """Return a stub for an object of the checkout; `why` says why it could not be made."""
    _State.given.setdefault(path, why)
    return Placeholder(path)


def why_failed(value: Any) -> str:
    """Return why an object that a stub replaces failed; "" for everything else."""
    return _State.given.get(vars(value)["_path"], "") if type(value) is Placeholder else ""


def _touch(path: str) -> None:
    if not _State.depth:
        _State.touched.append(path)
        raise PlaceholderTouched(path)


class Placeholder:
    """A stub for `path`. During loading it supports every use; afterwards each use is an error."""

    def __init__(self, path: str) -> None:
        module, _, name = path.rpartition(".")
        described = {"__name__": name, "__qualname__": name, "__module__": module or name, "__doc__": None}
        vars(self).update(described, _path=path, _parts={})

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
