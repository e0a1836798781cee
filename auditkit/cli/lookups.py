"""Words of a closed vocabulary on the command line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    _R = TypeVar("_R")


def choose(parse: Callable[[str], _R], text: str, known: Iterable[str], what: str = "") -> _R:
    """`parse(text)`, its ValueError turned into one that names the nearest of `known`.

    The message is "no such `what`", or without it the error's own. Raises BadInputError.
    """
    from auditkit.errors import BadInputError, nearest_names

    try:
        return parse(text)
    except ValueError as error:
        names = list(known)
        near = nearest_names(text, names)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(names)}"
        raise BadInputError(f"no such {what}: '{text}'" if what else str(error), hint) from None
