"""Why the ways to feed a target failed: all are kept, and the one that says most is told."""

import traceback
from typing import Any, List, Optional, Tuple

from ..answers.answers import flatten, kind_of
from ..base.refusals import CannotFeedError, CannotReadError
from ..process.placeholders import PlaceholderTouched
from .named_objects import UnknownValueError

SAME = "its answer is the same for other gradients"


def _last_line(error: BaseException) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].lineno or 0 if frames else 0


class Obstacles:
    """Why the ways to feed a target failed; the reason that is told is the one that says most."""

    def __init__(self) -> None:
        self._said: List[Tuple[int, str]] = []
        self._unread = ""
        self._touched: Optional[PlaceholderTouched] = None

    def add(self, error: BaseException, how: str = "") -> None:
        """What was raised by the target fed in this way, by its constructor, or by us."""
        if isinstance(error, PlaceholderTouched):
            self._touched = error if how or self._touched is None else self._touched
            return
        if isinstance(error, CannotFeedError):
            self._said.append((0 if isinstance(error, UnknownValueError) else 2, str(error)))
            return
        text = " ".join(str(error).split())[:160] or "at line {}".format(_last_line(error))
        where = "called with {} it".format(how) if how else "its constructor"
        self._said.append((1 if how else 3, "{} raises {}: {}".format(where, type(error).__name__, text)))

    def add_silence(self, answer: Any, how: str) -> None:
        """An answer that is none."""
        self._said.append((1, "called with {} {}".format(how, "it returns None" if answer is None else SAME)))
        self._unread = self._unread or ("" if answer is None or flatten(answer) else kind_of(answer))

    def reason(self) -> BaseException:
        """One line; an absent module's stand-in that was used, where no value could be given instead."""
        if self._touched is not None and all(rank > 0 for rank, _ in self._said):
            return self._touched
        if self._unread:
            return CannotReadError("its answer ({}) holds no single number".format(self._unread))
        best = min(self._said, key=lambda said: said[0], default=(0, "there is no way to feed it"))
        return CannotFeedError(best[1], tuple(text for _, text in self._said))
