"""Synchronizations that CUDA itself reports: in inspected steps, torch warns of each one.

The mode is global, so other threads get warnings too, which are dropped. The filter for these warnings comes first,
because a program may turn warnings into errors.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, Callable

import torch

from .places import where

MESSAGE = "called a synchronizing CUDA operation"
_OF_THE_MODE = "Synchronization debug mode is a prototype feature"
_FILTER = (r"\s*%s" % MESSAGE, UserWarning)


class Syncs:
    """Counts by line, of the thread that opened it; `is_ours` returns whether auditkit itself is running."""

    def __init__(self, is_ours: Callable[[], bool]) -> None:
        self.is_ours = is_ours
        self.counts: dict = {}
        self.thread = 0
        self.shown: Any = None

    def open(self) -> None:
        """Enable torch's warnings, unless the program uses the mode itself."""
        if self.shown is not None or not torch.cuda.is_initialized() or torch.cuda.get_sync_debug_mode():
            return
        self.listen()
        torch.cuda.set_sync_debug_mode("warn")

    def listen(self) -> None:
        """Receive torch's warnings. The filter stays, since each change of the filters repeats old warnings."""
        if not warnings.filters or getattr(warnings.filters[0][1], "pattern", "") != _FILTER[0]:
            warnings.filterwarnings("always", *_FILTER)
        self.thread = threading.get_ident()
        self.shown, warnings.showwarning = warnings.showwarning, self._show

    def close(self) -> None:
        if self.shown is not None:
            if torch.cuda.is_initialized():
                torch.cuda.set_sync_debug_mode("default")
            if warnings.showwarning == self._show:
                warnings.showwarning = self.shown
            self.shown = None

    def _show(self, message: Any, *rest: Any, **more: Any) -> None:
        if _OF_THE_MODE in str(message):
            return
        if MESSAGE not in str(message):
            self.shown(message, *rest, **more)
        elif threading.get_ident() == self.thread and not self.is_ours():
            place = where()
            self.counts[place] = self.counts.get(place, 0) + 1
