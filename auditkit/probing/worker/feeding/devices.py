"""Where a target can be fed: on the host, or, where it asks for CUDA by name, on a real or the pretended device."""

import re
from typing import Any, Dict

from ..simulated.device import on_device
from .caller import Caller, file_of
from .plan import Plan
from .search import find_plan

_NAMES_A_DEVICE = re.compile(r"cuda|nvidia|device|gpu|accelerator", re.IGNORECASE)


def find_plan_anywhere(caller: Caller, request: Dict[str, Any], has_cuda: bool) -> Plan:
    """The plan on the host; where there is none and CUDA is spoken of, the plan on a device.

    Raises what the search on the host raises where neither has a plan.
    """
    try:
        return find_plan(caller, request)
    except MemoryError:
        raise
    except Exception as error:
        if not _names_a_device(caller, error):
            raise
        on_host = error
    device = "cuda" if has_cuda else "simulated"
    try:
        with on_device(device):
            return find_plan(caller.on(device), request)._replace(device=device)
    except Exception:
        raise on_host from None


def _names_a_device(caller: Caller, error: Exception) -> bool:
    """Whether the error speaks of CUDA; of a bare `assert`, whether the file that defines the target does."""
    text = " ".join((str(error), *getattr(error, "attempts", ())))
    is_bare = "AssertionError" in text and "cuda" in file_of(caller.function).lower()
    return is_bare or _NAMES_A_DEVICE.search(text) is not None
