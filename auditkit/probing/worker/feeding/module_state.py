"""What the module of a target holds before the target is called: put back, a call is the first one again.

A collector that keeps its first answer in its module looks as if it ignored gradients from the second call on.
"""

import functools
import inspect
from typing import Any, Callable, Dict, List, Tuple

_CONTAINERS = (dict, list, set)
_CACHED_FUNCTION = type(functools.lru_cache(maxsize=None)(len))


class ModuleState:
    """The globals of `function`'s module as they are now."""

    def __init__(self, function: Callable) -> None:
        self._globals: Dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
        held = {name: value for name, value in self._globals.items() if not name.startswith("__")}
        self._held: Dict[str, Tuple[Any, Any]] = {name: (value, _content(value)) for name, value in held.items()}
        self._caches: List[Any] = [value for value in (function, *held.values()) if type(value) is _CACHED_FUNCTION]

    def put_back(self) -> None:
        """Every name and every container as it was, and the caches of functions empty."""
        for name in [name for name in self._globals if not name.startswith("__") and name not in self._held]:
            del self._globals[name]
        for name, (value, content) in self._held.items():
            self._globals[name] = value
            if isinstance(value, list):
                value[:] = content
            elif content is not None:
                value.clear()
                value.update(content)
        for cached in self._caches:
            cached.cache_clear()


def _content(value: Any) -> Any:
    return type(value)(value) if type(value) in _CONTAINERS else None
