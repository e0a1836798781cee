"""What lives longer than a call of a target: its module, its class, its own attributes; put back, a call is the first.

A collector that keeps its first answer there looks as if it ignored gradients from the second call on.
"""

import functools
import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

_CONTAINERS = (dict, list, set)
_MISSING = object()
_CACHED_FUNCTION = type(functools.lru_cache(maxsize=None)(len))


class ModuleState:
    """What the module of `function`, its class `owner` and it itself hold now."""

    def __init__(self, function: Callable, owner: Optional[type]) -> None:
        # A method carries the function that holds its attributes; a cached function wraps it.
        plain: Any = inspect.unwrap(getattr(function, "__func__", function))
        spaces = (getattr(plain, "__globals__", {}), getattr(plain, "__dict__", {}), owner)
        self._held: List[Tuple[Any, Dict[str, Any]]] = [
            (space, {name: (value, _content(value)) for name, value in _named(space)})
            for space in spaces
            if space is not None
        ]
        values = [value for _, held in self._held for value, _ in held.values()]
        self._caches: List[Any] = [value for value in (function, *values) if type(value) is _CACHED_FUNCTION]

    def put_back(self) -> None:
        """Every name and every container as it was, and the caches of functions empty."""
        for space, held in self._held:
            now = dict(_named(space))
            for name in now.keys() - held.keys():
                _remove(space, name)
            for name, (value, content) in held.items():
                if now.get(name, _MISSING) is not value:
                    _set(space, name, value)
                if isinstance(value, list):
                    value[:] = content
                elif content is not None:
                    value.clear()
                    value.update(content)
        for cached in self._caches:
            cached.cache_clear()


def _named(space: Any) -> Iterator[Tuple[str, Any]]:
    names = vars(space) if isinstance(space, type) else space
    return ((name, value) for name, value in names.items() if not name.startswith("__"))


def _set(space: Any, name: str, value: Any) -> None:
    if isinstance(space, type):
        setattr(space, name, value)
    else:
        space[name] = value


def _remove(space: Any, name: str) -> None:
    if isinstance(space, type):
        delattr(space, name)
    else:
        del space[name]


def _content(value: Any) -> Any:
    return type(value)(value) if type(value) in _CONTAINERS else None
