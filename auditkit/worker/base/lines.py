"""Find the line of the checkout that returned a result, raised an error, or read an iterator after its end."""

import contextlib
import dis
import sys
from types import FrameType
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

from .frames import Site, SourceRoots, name_of


def returned_by(call: Callable[[], Any], roots: SourceRoots) -> Tuple[Any, Optional[Site]]:
    """Return the result of `call` and the checkout's line that returned it first: callers may only pass it on."""
    returned: List[Tuple[Any, Site]] = []

    def watch(frame: FrameType, event: str, value: Any) -> None:
        if event == "return":
            relative = roots.relative(frame.f_code.co_filename)
            if relative is not None:
                returned.append((value, Site(relative, frame.f_lineno, name_of(frame))))

    with profiled(watch):
        answer = call()
    site = None
    for value, line in reversed(returned):
        if value is not answer:
            break
        site = line
    return answer, site


@contextlib.contextmanager
def profiled(watch: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Call `watch(frame, event, value)` for every call and return of this thread inside the context."""
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def is_deliberate(error: BaseException, roots: SourceRoots) -> bool:
    """Return whether a `raise` in the checkout raised `error`, and not Python, torch or another library."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None or roots.relative(innermost.tb_frame.f_code.co_filename) is None:
        return False
    return dis.opname[innermost.tb_frame.f_code.co_code[innermost.tb_lasti]] == "RAISE_VARARGS"


class WatchedIterator:
    """One pass over `items`; `read_again` is the checkout's line that read on after the end."""

    def __init__(self, items: Iterable[Any], roots: SourceRoots) -> None:
        self._items = iter(items)
        self._roots = roots
        self._ended = False
        self.read_again: Optional[Site] = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._items)
        except StopIteration:
            if self._ended and self.read_again is None:
                self.read_again = self._roots.innermost(sys._getframe(1))
            self._ended = True
            raise
