"""What no name explains, told by its use: iterated it holds one thing, called it gives one, asked for a method it has.

An object whose methods are read is made of the one class of the checkout that defines them. What is asked for its
value (a truth, a number, a tensor) stays unknown, and so does what nobody asks for anything.
"""

import inspect
import sys
from types import FunctionType, ModuleType
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from . import guesses
from .guesses import Guess
from .made_objects import make
from .named_objects import UnknownValueError, is_called, is_plain_read, no_value
from .stand_ins import CALLED, SELF, Surroundings

BY_USE = "what its use says"


class Uses:
    """What a target does with values that no name explains, or that a name explains wrongly.

    `told` says by path what was found: the class of an object as `module:Class`, "" for anything else. `code` is what
    is called: its module is where classes are looked for; an object of `owner`, its own class, does not hold another.
    """

    def __init__(self, around: Surroundings, told: Dict[str, str], code: Any, owner: Optional[type]) -> None:
        self.around, self.told, self.owner = around, dict(told), owner
        self.enclosing: Optional[type] = getattr(code, "enclosing", None)
        self.waiting: Dict[str, None] = {}
        self._module = str(getattr(code, "__module__", ""))
        self._objects: Dict[str, Any] = {}

    def value(self, path: str) -> Any:
        """What stands at a path until its use says more."""
        self.told.setdefault(path, "")
        self.around.read[path] = Guess(BY_USE)
        if not path.endswith(")"):  # what a call gives may be left alone
            self.waiting[path] = None
        return Used(self, path)

    def object_at(self, path: str, method: str = "") -> Any:
        """The object at a path, of the class that was told, or that has a method; None where no class is known."""
        if path not in self._objects:
            found = _class_named(self.told.get(path, ""))
            if path == SELF and self.enclosing is not None:
                found = self.enclosing
            elif found is None and method:
                found = _class_with(method, self._module, self.owner or self.enclosing)
            told = "" if found is None else "{}:{}".format(found.__module__, found.__qualname__)
            # What holds an object of its own class holds another, and that one another.
            if found is None or any(path.startswith(at + ".") and each == told for at, each in self.told.items()):
                return None
            self.waiting.pop(path, None)
            self.told[path] = told
            self.around.read[path] = Guess("{} made without __init__".format(found.__qualname__))
            self._objects[path] = make(found, self.around, path)
        return self._objects[path]


class Used:
    """A value of unknown kind: a sequence or mapping of one thing, a function that gives one, or an object."""

    def __init__(self, uses: Uses, path: str) -> None:
        self.__dict__.update(_uses=uses, _path=path, _parts={})

    def unexplained(self) -> UnknownValueError:
        """The error that names it."""
        return no_value(self._path)

    def _part(self, end: str, found: Optional[Guess] = None) -> Any:
        self._uses.waiting.pop(self._path, None)
        if end not in self._parts:
            self._parts[end] = self._uses.around.filled(self._path + end, found)
        return self._parts[end]

    def _held(self) -> List[Any]:
        """What it holds: the gradients or parameters that its name promises, else one thing."""
        kind = guesses.carrier(_last_name(self._path))
        if kind not in (guesses.GRADIENTS, guesses.PARAMETERS):
            return [self._part("[0]")]
        held: List[Any] = self._part("[:]", Guess(kind))
        return held

    def __getattr__(self, name: str) -> Any:
        frame, around = sys._getframe(1), self._uses.around
        if name.startswith("__"):
            raise AttributeError(name)
        found, is_method = guesses.of_object(name), is_called(frame)
        path = "{}.{}".format(self._path, name)
        is_method = is_method or self._uses.told.get(path) == CALLED
        if is_method and not guesses.is_callable(found):
            found = None
        gives_gradients = is_method and name[:4] == "get_" and guesses.carrier(name[4:]) == guesses.GRADIENTS
        made = self._uses.object_at(self._path, name if is_method and found is None and not gives_gradients else "")
        if made is not None:
            return getattr(made, name)
        if is_method and name == "clip_grad_norm":
            self._uses.told[path], found = CALLED, Guess(guesses.CLIPS)
        if found is None and not (around.is_preparing or is_plain_read(frame)):
            raise AttributeError(name)
        self.__dict__[name] = value = self._part("." + name, found)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        made = self._uses.object_at(self._path)
        (self.__dict__ if made is None else made.__dict__)[name] = value

    def __call__(self, *values: Any, **named: Any) -> Any:
        name = _last_name(self._path)
        return self._part("()", guesses.guess(name, "") or guesses.of_object(name))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def __len__(self) -> int:
        return len(self._held())

    def __contains__(self, key: Any) -> bool:
        return key in self.keys()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return getattr(self, key)
        held = self._held()
        return held[key] if isinstance(key, (int, slice)) and len(held) > 1 else held[0]

    def get(self, key: Any, default: Any = None) -> Any:
        """What code does without stays away."""
        return default

    def keys(self) -> Iterable[Any]:
        """The places in the order of what it holds."""
        return range(len(self._held()))

    def values(self) -> List[Any]:
        """All that it holds."""
        return self._held()

    def items(self) -> List[Tuple[int, Any]]:
        """Each thing with its place."""
        return list(enumerate(self._held()))

    def __bool__(self) -> bool:
        return self._is_asked_for_its_value(True)

    def __eq__(self, other: object) -> bool:
        return self._is_asked_for_its_value(self is other)

    __hash__ = object.__hash__

    def _is_asked_for_its_value(self, answer: bool) -> bool:
        if not self._parts and self._path not in self._uses._objects:
            self._uses.waiting[self._path] = None
        return answer


def _last_name(path: str) -> str:
    """The last name of a path, of a method that gives something the thing that it gives."""
    name = path.rpartition(".")[2].partition("[")[0].partition("(")[0]
    for verb in ("get_", "compute_"):
        name = name[len(verb) :] if name.startswith(verb) else name
    return name


def _class_named(words: str) -> Optional[type]:
    module, _, qualified = words.partition(":")
    found: Any = sys.modules.get(module)
    for name in qualified.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None


def _class_with(method: str, module: str, owner: Optional[type]) -> Optional[type]:
    """The first class with this method, of the module or else of its package; None for unrelated ones."""
    package = module.partition(".")[0] + "."
    own = [sys.modules[module]] if module in sys.modules else []
    loaded = [each for name, each in list(sys.modules.items()) if (name + ".").startswith(package)]
    for modules in (own, loaded):
        families: Dict[type, List[type]] = {}
        for each in _classes(modules):
            held = vars(each).get(method)
            if isinstance(held, FunctionType) and not each.__module__.startswith("torch."):
                first = next(base for base in reversed(each.__mro__) if method in vars(base))
                if not getattr(held, "__isabstractmethod__", False) and not (owner and issubclass(each, owner)):
                    families.setdefault(first, []).append(each)
        if families:
            (members,) = families.values() if len(families) == 1 else ([],)
            return min(members, key=lambda each: len(each.__mro__), default=None)
    return None


def _classes(modules: Iterable[ModuleType]) -> List[type]:
    """The classes that modules hold, with those that derive from them."""
    found: Dict[type, None] = {}
    waiting = [each for module in modules for each in list(vars(module).values()) if inspect.isclass(type(each))]
    waiting = [each for each in waiting if issubclass(type(each), type)]
    while waiting:
        each = waiting.pop(0)
        if each not in found and each.__module__.partition(".")[0] not in ("builtins", "torch", "typing", "abc"):
            found[each] = None
            waiting += type.__subclasses__(each)
    return list(found)
