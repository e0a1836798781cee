"""The structure of a value as JSON: classes, names, shapes, dtypes and numbers; no tensor's values, no secret.

A string is written only if it is a literal in the checkout's source, or in the file of the installed class that holds
it; else its length. Numbers are written.
"""

from __future__ import annotations

import collections
import enum
import functools
import math
import os
import re
import sys
import types
from typing import Any, Optional

import torch

_DEEPEST, _MOST_NODES, _MOST_ITEMS, _LONG = 24, 12_000, 2000, 16
_LONGEST_STRING = 200
_BASE = frozenset(vars(torch.nn.Module()))
_HIDDEN = frozenset(("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_patch_step_function"))
_FEW_FILES = 400
_STRING = re.compile(r"'([^'\\\n]{0,200})'|\"([^\"\\\n]{0,200})\"")
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
_NAME = re.compile(r"[^\W\d]\w*")


class Literals:
    """The string literals and names in the source of the checkout's modules and of installed classes' files.

    They are found by a pattern: parsing nanoGPT's two files takes 20 times as long, and delays the first step.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.strings: set = set()
        self.names: set = set()
        self.files: set = set()

    def refresh(self) -> None:
        """Read the files of newly imported modules."""
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or file in self.files or len(self.files) > _FEW_FILES:
                continue
            if real_path(file).startswith(self.root):
                self.files.add(file)
                strings, names = _words_of(file)
                self.strings |= strings
                self.names |= names

    def has(self, text: str, holder: Any = None) -> bool:
        """Return whether a string may be written: it is a literal."""
        return len(text) <= _LONGEST_STRING and (text in self.strings or text in _of_class(holder)[0])

    def has_name(self, text: str, holder: Any = None) -> bool:
        """Return whether a key or the name of an attribute may be written: it is a literal or a name."""
        return text in self.names or text in _of_class(holder)[1] or self.has(text, holder)


@functools.lru_cache(maxsize=5000)
def real_path(path: str) -> str:
    return os.path.realpath(path)


@functools.lru_cache(maxsize=2000)
def _words_of(file: str) -> tuple:
    """Return the string literals and the names in a source file."""
    try:
        with open(file if file.endswith(".py") else os.devnull, encoding="utf-8", errors="replace") as source:
            text = source.read(1_000_000)
    except OSError:
        text = ""
    return {one or other for one, other in _STRING.findall(text)}, set(_NAME.findall(text))


@functools.lru_cache(maxsize=2000)
def _of_class(kind: Any) -> tuple:
    """Return the string literals and names in the files of an installed class and its bases."""
    files = [str(getattr(sys.modules.get(base.__module__), "__file__", "")) for base in getattr(kind, "__mro__", ())]
    words = [_words_of(file) for file in files] if files and "site-packages" in files[0] else []
    return tuple(set().union(*(each[n] for each in words)) for n in (0, 1))


class Encoder:
    """Encodes the values of one call; a repeated object is written as `{"ref": its number}`."""

    def __init__(self, literals: Literals, most_nodes: int = _MOST_NODES, first: int = 0) -> None:
        self.literals, self.left = literals, most_nodes
        self.numbers: dict = {}
        self.kept: list = []
        self.next = first
        self.tensors: list = []
        literals.refresh()

    def arguments(self, values: dict) -> dict:
        return self._names(values, 0, None, True)

    def summary(self) -> dict:
        """Count the tensors (parameters with gradients, if any), and their commonest dtypes, devices and layouts."""
        parameters = [each for each in self.tensors if isinstance(each, torch.nn.Parameter) and each.requires_grad]
        with_gradient = [each for each in parameters if each.grad is not None]
        chosen = with_gradient or parameters or self.tensors
        grads = [each.grad if each.grad is not None else each for each in chosen]
        found: dict = {"tensors": len(grads)}
        for name in ("dtype", "device", "layout"):
            counts = collections.Counter(str(getattr(each, name)).replace("torch.", "") for each in grads)
            found[name + "s"] = [value for value, _ in counts.most_common(4)]
        return found

    def encode(self, value: Any, depth: int = 0, holder: Any = None) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return {"k": "enum", "c": _class(type(value)), "name": value.name}
        if type(value) is int:
            return value if abs(value) < 2**53 else {"k": "int", "v": str(value)[:40]}
        if type(value) is float:
            return value if math.isfinite(value) else {"k": "float", "v": str(value)}
        if isinstance(value, str) and type(value) is str:
            return value if self.literals.has(value, holder) else {"k": "str", "n": len(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"k": "bytes", "n": len(value)}
        if isinstance(value, torch.dtype):
            return {"k": "dtype", "v": str(value)[6:]}
        if isinstance(value, torch.device):
            return {"k": "device", "v": str(value)}
        if isinstance(value, torch.Size):
            return {"k": "size", "v": list(value)}
        if isinstance(value, type):
            return {"k": "class", "c": _class(value)}
        if isinstance(value, types.ModuleType):
            return {"k": "py", "v": value.__name__}
        if id(value) in self.numbers:
            return {"ref": self.numbers[id(value)]}
        if depth > _DEEPEST or self.left <= 0:
            return {"k": "cut", "c": _class(type(value))}
        self.left -= 1
        number = self.numbers[id(value)] = self.next
        self.next += 1
        self.kept.append(value)
        try:
            found = self._object(value, depth + 1, holder)
        except Exception:
            # Its contents are not written, so later references to them would be invalid.
            self.numbers = {key: each for key, each in self.numbers.items() if each <= number}
            self.next = max(self.next, number + 1)
            found = {"k": "cut", "c": _class(type(value))}
        found["id"] = number  # in place: a loader's batch is added later
        return found

    def _object(self, value: Any, depth: int, holder: Any) -> dict:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.nn.Module):
            return self._module(value, depth)
        if isinstance(value, torch.optim.Optimizer):
            groups = [self.encode(group, depth, type(value)) for group in value.param_groups]
            rest = {
                k: v
                for k, v in vars(value).items()
                if k not in ("param_groups", "state", "defaults") and not k.startswith("_")
            }
            return {"k": "optimizer", "c": _class(type(value)), "groups": groups,
                    "defaults": self._names(value.defaults, depth, type(value)),
                    "attrs": self._names(rest, depth, type(value))}  # fmt: skip
        if isinstance(value, dict):
            items = list(value.items())
            few = items if len(items) <= _MOST_ITEMS else items[:_LONG]
            kind = type(value) if type(value) is not dict else holder
            found: dict = {
                "k": "dict",
                "v": [[self._key(k, depth, kind), self.encode(v, depth, kind)] for k, v in few],
            }
            if type(value) is not dict:
                found["c"] = _class(kind)
                found["factory"] = self.encode(getattr(value, "default_factory", None), depth)
                if getattr(value, "__dict__", None) is value:
                    found["is_own_dict"] = True
                elif getattr(value, "__dict__", None):
                    found["attrs"] = self._names(vars(value), depth, kind)
            return {**found, "n": len(items)} if few is not items else found
        if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            return self._items(value, depth)
        if isinstance(value, functools.partial):
            args = [self.encode(each, depth) for each in value.args]
            kw = self._names(value.keywords, depth)
            return {"k": "partial", "f": self.encode(value.func, depth), "a": args, "kw": kw}
        if isinstance(value, types.MethodType):
            return {"k": "method", "self": self.encode(value.__self__, depth), "name": value.__func__.__name__}
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__module__, str):
            return {"k": "function", "c": "%s:%s" % (value.__module__, value.__name__)}
        if isinstance(value, types.GeneratorType) and value.gi_frame is not None:
            frame = value.gi_frame
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
            values = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
            module = frame.f_globals.get("__name__", "")
            return {
                "k": "generator",
                "c": "%s:%s" % (module, _qualified(frame.f_code)),
                "args": self._names(values, depth),
            }
        if isinstance(value, torch.utils.data.DataLoader):
            found = {"k": "loader", "c": _class(type(value)), "n": _length(value)}
            open_loaders.append((found, id(value.dataset)))
            return found
        return self._other(value, depth)

    def _tensor(self, value: Any) -> dict:
        self.tensors.append(value)
        found: dict = {
            "k": "tensor",
            "shape": list(value.shape),
            "dtype": str(value.dtype)[6:],
            "device": str(value.device),
        }
        if value.layout != torch.strided:
            found["layout"] = str(value.layout)[6:]
        elif not value.is_contiguous() and value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last):
            found["layout"] = "channels_last"
        if isinstance(value, torch.nn.Parameter):
            found["p"] = True
        if value.requires_grad:
            found["grad"] = str(value.grad.dtype)[6:] if value.is_leaf and value.grad is not None else True
            if not value.is_leaf:
                found["graph"] = True
        return found

    def _module(self, value: Any, depth: int) -> dict:
        names = vars(value)
        hooks = names["_forward_pre_hooks"]  # such as that of a weight norm
        rest = {k: v for k, v in names.items() if k not in _BASE or k == "training" or (v and v is hooks)}
        found = {
            "k": "module", "c": _class(type(value)), "params": self._names(value._parameters, depth, None, True),
            "buffers": self._names(value._buffers, depth, None, True),
            "children": self._names(value._modules, depth, None, True), "attrs": self._names(rest, depth, type(value)),
        }  # fmt: skip
        return {name: each for name, each in found.items() if each != {}}

    def _items(self, value: Any, depth: int) -> dict:
        items, kind = list(value), type(value)
        is_long = len(items) > _MOST_ITEMS or (
            len(items) > _LONG
            and not any(isinstance(each, (torch.Tensor, tuple, torch.nn.Module)) for each in items[:3])
        )
        name = next(
            each.__name__ for each in (list, tuple, set, frozenset, collections.deque) if isinstance(value, each)
        )
        found: dict = {"k": name, "v": [self.encode(each, depth) for each in (items[:_LONG] if is_long else items)]}
        if kind.__name__ != name or kind.__module__ not in ("builtins", "collections"):
            found["c"] = _class(kind)
        return {**found, "n": len(items)} if is_long else found

    def _function(self, value: Any, depth: int) -> dict:
        found: dict = {"k": "function", "c": _class(value)}
        if "<locals>" in value.__qualname__ or "<lambda>" in value.__qualname__:
            found["line"] = value.__code__.co_firstlineno
            cells = zip(value.__code__.co_freevars, value.__closure__ or ())
            found["cells"] = self._names({name: _content(cell) for name, cell in cells}, depth)
            if value.__defaults__:
                found["defaults"] = [self.encode(each, depth) for each in value.__defaults__]
        return found

    def _other(self, value: Any, depth: int) -> dict:
        kind = type(value)
        if hasattr(value, "dtype") and hasattr(value, "shape") and kind.__module__.startswith("numpy"):
            return {"k": "array", "shape": list(value.shape), "dtype": str(value.dtype)}
        if kind.__module__ in ("os", "io", "_io", "weakref", "logging", "threading", "_thread", "socket"):
            return {"k": "cut", "c": _class(kind)}
        names = dict(getattr(value, "__dict__", None) or {})
        for base in kind.__mro__:
            slots = vars(base).get("__slots__", ())
            for name in [slots] if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    names[name] = getattr(value, name)
        if not names and kind.__module__ in ("builtins", "itertools", "random", "_random"):
            return {"k": "cut", "c": _class(kind)}
        found: dict[str, Any] = {"k": "object", "c": _class(kind), "attrs": self._names(names, depth, kind)}
        if isinstance(value, torch.utils.data.Dataset):
            found["n"] = _length(value)
            open_loaders.append((found, id(value)))
        return found

    def _key(self, key: Any, depth: int, holder: Any) -> Any:
        return key if type(key) is str and self.literals.has_name(key, holder) else self.encode(key, depth, holder)

    def _names(self, values: Any, depth: int, holder: Any = None, all_names: bool = False) -> dict:
        """Encode values by name, without names that are not in the source."""
        found: dict = {}
        for name, value in values.items():
            if isinstance(name, str) and name not in _HIDDEN and (all_names or self.literals.has_name(name, holder)):
                is_device = isinstance(value, str) and name.endswith("device") and _DEVICE.fullmatch(value)
                found[name] = {"k": "device_name"} if is_device else self.encode(value, depth, holder)
        return found


open_loaders: list = []
"""Nodes of DataLoaders and datasets with the identity of the dataset: its first batch may come later."""
batches: dict = {}
"""The structure of the first batch of each DataLoader, by the identity of its dataset."""


def _class(kind: Any) -> str:
    """Return `module:name` of a class or function; the file name instead of `__main__`."""
    module = kind.__module__
    if module == "__main__":
        module = os.path.basename(getattr(sys.modules["__main__"], "__file__", None) or module)
    return "%s:%s" % (module, kind.__qualname__)


def _qualified(code: Any) -> str:
    return getattr(code, "co_qualname", code.co_name)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _length(value: Any) -> Optional[int]:
    try:
        return len(value)
    except Exception:
        return None
