"""Call one target repeatedly with new gradients, as a training loop does.

The instance, the module and its parameters stay; only the gradients are new at every call.
"""

from typing import Any, List, Optional, Sequence

import torch

from .caller import Caller
from .effects import gradients_now
from .given import GroupInput
from .plan import MADE, SINGLE, Feed


class RepeatedCall:
    """`call(grads)` uses gradients of the shapes of `like`, always with one instance; `forget()` drops the last ones.

    Arguments that count steps increase with every call.
    """

    def __init__(self, caller: Caller, feed: Feed, like: Sequence[torch.Tensor], second: Sequence[Any]) -> None:
        if caller.starts_fresh:
            caller.module_state.put_back()
        self._caller = caller = caller.replaced(starts_fresh=False)  # The module keeps its state from now on.
        self._feed, self._second = feed, second
        self._given: List[GroupInput] = []
        self._again: Any = None
        # Gradients come in a new list or iterator each time; a module and its parameters stay the same.
        is_new = feed.takes == "gradients" or feed.container in (SINGLE, "iterator")
        self._takes_lists = is_new and feed.setup in (None, MADE)
        self._instance = caller.instance_for(feed, like) if self._takes_lists else None
        if not self._takes_lists:
            self._again = caller.prepare(feed, (like, second), True, self._given)
            self.forget()

    def call(self, grads: Sequence[torch.Tensor]) -> Any:
        """Return the target's result for `grads`, which replace the previous ones."""
        if self._takes_lists:
            self._given.clear()
            pair = (grads, self._second)
            self._again = self._caller.prepare(self._feed, pair, True, self._given, instance=self._instance)
        else:
            self._given[0].put(grads)
        answer = self._again()
        self._caller.turn += 1
        return answer

    def left(self) -> List[Optional[torch.Tensor]]:
        """Return the current gradients of the last call."""
        return gradients_now(self._given[0])

    def forget(self) -> None:
        """Drop the gradients, as `zero_grad()` does; only the target can still have them."""
        if self._takes_lists:
            self._given.clear()
            self._again = None
        else:
            self._given[0].put(None)
