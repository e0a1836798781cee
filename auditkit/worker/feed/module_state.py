"""State that outlives a call of a target: the names of its module and its class, its own attributes, its caches.

A collector that keeps its first result there seems to ignore gradients from the second call on.
"""

import functools
import inspect
from typing import Any, Callable, Dict, List, Optional, Tuple

_CACHED_FUNCTION = type(functools.lru_cache(maxsize=None)(len))


class ModuleState:
    """The current state of `function`, of its module and of its class `owner`."""

    def __init__(self, function: Callable, owner: Optional[type]) -> None:
        # A method's function has its attributes; a cached function wraps it.
        plain: Any = inspect.unwrap(getattr(function, "__func__", function))
        spaces = (getattr(plain, "__globals__", {}), getattr(plain, "__dict__", {}), owner)
        self._spaces: List[Any] = [space for space in spaces if space is not None]
        self._held: List[Dict[str, Tuple[Any, Any]]] = [
            {name: (value, _copy(value)) for name, value in _names(space).items() if not name.startswith("__")}
            for space in self._spaces
        ]
        values = [value for held in self._held for value, _ in held.values()]
        self._caches: List[Any] = [value for value in (function, *values) if type(value) is _CACHED_FUNCTION]

    def put_back(self) -> None:
        """Restore every name and every container, and clear the functions' caches."""
        for space, held in zip(self._spaces, self._held, strict=True):
            names = _names(space)
            put = functools.partial(setattr, space) if isinstance(space, type) else space.__setitem__
            remove = functools.partial(delattr, space) if isinstance(space, type) else space.__delitem__
            for name in [name for name in names if not name.startswith("__") and name not in held]:
                remove(name)
            for name, (value, content) in held.items():
                if names.get(name, put) is not value:
                    put(name, value)
                if isinstance(content, list):
                    value[:] = content
                elif content is not None:
                    value.clear()
                    value.update(content)
        for cached in self._caches:
            cached.cache_clear()


def _names(space: Any) -> Any:
    return vars(space) if isinstance(space, type) else space


def _copy(value: Any) -> Any:
    return type(value)(value) if type(value) in (dict, list, set) else None
