"""One answer of a target as probes of inputs need it: numbers, structure, and where it comes from."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .answers import flatten
from .frames import Site, SourceRoots
from .lines import returned_by
from .structures import Structure, read_structure


class Answer(NamedTuple):
    """`fields` are the numbers by path, `structure` the kinds of all parts; `broken` are properties that raise.

    `site` is the line of the checkout that returned it.
    """

    fields: Dict[str, Any]
    structure: Dict[str, str]
    broken: Dict[str, Exception]
    site: Optional[Site]


def take_answer(call: Callable[[], Any], roots: SourceRoots, none_is_declared: bool) -> Callable[[], Answer]:
    """Call the target now; what it returned is read by the function that this returns."""
    raw, site = returned_by(call, roots)

    def read() -> Answer:
        structure: Structure = read_structure(raw, none_is_declared)
        return Answer(flatten(raw), structure.kinds, structure.broken, site)

    return read


def one_pass(listed: List[Any]) -> Any:
    """A generator over the items, as `module.parameters()` is one."""
    return (item for item in listed)
