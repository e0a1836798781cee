"""State of a target that outlives a call: the names, containers and cached functions of its module, itself, its class.

A collector that keeps its first result there seems to ignore gradients from the second call on.
"""

import functools
import inspect
from typing import Any, Callable, List, Optional

_CACHED_FUNCTION = type(functools.lru_cache(maxsize=None)(len))


class ModuleState:
    """The current state of the module of `function`, of the function, and of its class `owner`."""

    def __init__(self, function: Callable, owner: Optional[type] = None) -> None:
        plain: Any = inspect.unwrap(getattr(function, "__func__", function))  # A method has its function's attributes.
        spaces: List[Any] = [getattr(plain, "__globals__", {}), getattr(plain, "__dict__", {}), owner]
        self._spaces = [(space, _copies(space)) for space in spaces if space is not None]

    def put_back(self) -> None:
        """Restore every name and every container, and clear the functions' caches."""
        for space, before in self._spaces:
            is_class = isinstance(space, type)
            put = functools.partial(setattr, space) if is_class else space.__setitem__
            remove = functools.partial(delattr, space) if is_class else space.__delitem__
            names = dict(vars(space) if is_class else space)
            for name in [name for name in names if name[:2] != "__" and name not in before]:
                remove(name)
            for name, (value, content) in before.items():
                if name not in names or names[name] is not value:
                    put(name, value)
                if isinstance(content, list):
                    value[:] = content
                elif content is not None:
                    value.clear()
                    value.update(content)
                elif type(value) is _CACHED_FUNCTION:
                    value.cache_clear()


def _copies(space: Any) -> Any:
    names = vars(space) if isinstance(space, type) else space
    return {name: (value, _copy(value)) for name, value in names.items() if name[:2] != "__"}


def _copy(value: Any) -> Any:
    return type(value)(value) if type(value) in (dict, list, set) else None
