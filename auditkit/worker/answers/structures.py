"""A result for probes of inputs: its numbers, its structure, and the line that returned it.

The structure lists the fields and their kinds, whatever their values. The same code can read two results of one
structure. An int or a float is a number; a tensor is not.
"""

import re
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch

from ..base.frames import Site, SourceRoots
from ..base.lines import returned_by
from .answers import flatten, items_of, joined
from .declarations import declares_none, field_declaration

DECLARED_NONE = "None, as declared"
_DEEPEST = 4
_MOST_PARTS = 1024
_KINDS: Tuple[Tuple[Any, str], ...] = (
    (type(None), "None"),
    (torch.Tensor, "tensor"),
    (bool, "truth value"),
    ((int, float), "number"),
    ((str, bytes), "text"),
    (Mapping, "mapping"),
    ((list, set, frozenset), "list"),
)
_PLAIN = ("None", "tensor", "truth value", "number", "text", "list")


class Answer(NamedTuple):
    """`fields` are the numbers by path, `structure` the kinds of all parts, "" for the result itself.

    `broken` are the properties that raise, and their errors; `site` is the checkout's line that returned the result.
    """

    fields: Dict[str, Any]
    structure: Dict[str, str]
    broken: Dict[str, Exception]
    site: Optional[Site]


def take_answer(call: Callable[[], Any], roots: SourceRoots, none_is_declared: bool) -> Callable[[], Answer]:
    """Call the target; the returned function reads its result.

    `none_is_declared` means that the target's annotation allows None in the result.
    """
    raw, site = returned_by(call, roots)

    def read() -> Answer:
        answer = Answer(flatten(raw), {}, {}, site)
        _read("", raw, none_is_declared, answer, _DEEPEST)
        return answer

    return read


def _read(path: str, value: Any, none_is_declared: bool, answer: Answer, depth: int) -> None:
    """Add the kind of every part, except items of lists, whose number follows the input."""
    if len(answer.structure) >= _MOST_PARTS:
        return
    kind = _kind_of(value)
    answer.structure[path] = DECLARED_NONE if value is None and none_is_declared else kind
    broken: Dict[str, Exception] = {}
    for name, item in [] if depth == 0 or kind in _PLAIN else items_of(value, broken):
        declared = none_is_declared or declares_none(field_declaration(value, name))
        _read(joined(path, name), item, declared, answer, depth - 1)
    answer.broken.update({joined(path, name): error for name, error in broken.items()})


def _kind_of(value: Any) -> str:
    """Return `number`, `tensor`, `truth value`, `text`, `None`, `mapping`, `list`, `tuple`, or the class's name."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return "truth value" if "bool" in type(value).__name__ else "number"
    return next((kind for types, kind in _KINDS if isinstance(value, types)), type(value).__name__)


def common_structure(answers: Sequence[Dict[str, str]]) -> Dict[str, str]:
    """Return the parts that all results of a target have, without those that depend on its tensors.

    `layer0_norm` depends on a tensor if another result lacks `layer2_norm`: digits in names are ignored.
    """
    common = set.intersection(*[set(kinds) for kinds in answers])
    varying = {_without_digits(path) for path in set.union(*[set(kinds) for kinds in answers]) - common}

    def is_kept(path: str, kind: str) -> bool:
        parts = _without_digits(path).split(".")
        prefixes = {".".join(parts[: end + 1]) for end in range(len(parts))}
        return all(kinds.get(path) == kind for kinds in answers) and not varying & prefixes

    return {path: kind for path, kind in answers[0].items() if is_kept(path, kind)}


def _without_digits(path: str) -> str:
    return re.sub(r"\d+", "#", path)
