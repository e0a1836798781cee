"""Which of torch's own functions a target has replaced: what is measured with them is the target's word."""

import functools
import os
import sys
from types import ModuleType
from typing import Any, Dict, List

_PLACES = (
    "torch", "torch.Tensor", "torch.linalg", "torch.nn.functional", "torch.nn.utils", "torch.autograd", "torch.cuda",
)  # fmt: skip
_MOST_NAMED = 5
_SEEN: Dict[str, Dict[str, Any]] = {}


def remember() -> None:
    """See them as they are before anything of a target is imported, once in this process."""
    if not _SEEN:
        _SEEN.update({place: _functions(place) for place in _PLACES})


def describe_replaced() -> str:
    """A sentence on those that are others now; "" where none is."""
    found: List[str] = []
    for place, before in _SEEN.items():
        now = _functions(place)
        changed = [name for name, value in before.items() if now.get(name) is not value]
        found += ["{}.{}".format(place, name) for name in changed if not _is_torchs_own(now.get(name))]
    if not found:
        return ""
    more = " and {} more".format(len(found) - _MOST_NAMED) if len(found) > _MOST_NAMED else ""
    named = ", ".join(sorted(found)[:_MOST_NAMED])
    return "the target has replaced {}{}: what is measured with them is its own word".format(named, more)


def _is_torchs_own(value: Any) -> bool:
    """Its compiler puts one of its own in the place of `torch.manual_seed`."""
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith(
        os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep
    )


def _functions(place: str) -> Dict[str, Any]:
    owner = functools.reduce(getattr, place.split(".")[1:], sys.modules["torch"])
    held: Dict[str, Any] = {}
    for each in reversed(getattr(owner, "__mro__", (owner,))):  # most methods of a tensor are inherited
        held.update(vars(each))
    return {name: value for name, value in held.items() if callable(value) and not isinstance(value, ModuleType)}
