"""State of a target's module that outlives a call: its names, its containers, the caches of its functions.

A collector that keeps its first result there seems to ignore gradients from the second call on.
"""

import functools
import inspect
from typing import Any, Callable, Dict

_CACHED_FUNCTION = type(functools.lru_cache(maxsize=None)(len))


class ModuleState:
    """The current state of the module of `function`."""

    def __init__(self, function: Callable) -> None:
        self._names: Dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
        self._before = {name: (value, _copy(value)) for name, value in self._names.items() if name[:2] != "__"}

    def put_back(self) -> None:
        """Restore every name and every container, and clear the functions' caches."""
        for name in [name for name in self._names if name[:2] != "__" and name not in self._before]:
            del self._names[name]
        for name, (value, content) in self._before.items():
            self._names[name] = value
            if isinstance(content, list):
                value[:] = content
            elif content is not None:
                value.clear()
                value.update(content)
            elif type(value) is _CACHED_FUNCTION:
                value.cache_clear()


def _copy(value: Any) -> Any:
    return type(value)(value) if type(value) in (dict, list, set) else None
