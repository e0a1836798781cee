"""An answer as probes of inputs need it: its numbers, its structure, and the line that returned it.

The structure says which fields there are and of what kind, whatever their values.

Two answers of one structure can be read by the same code. A number is a number, be it an int or a float;
a tensor is none.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..base.frames import Site, SourceRoots
from ..base.lines import returned_by
from .answers import flatten, joined, questions, stored_items
from .declarations import declares_none, field_declaration

DECLARED_NONE = "None, as declared"
_DEEPEST = 4
_MOST_PARTS = 1024


class Structure(NamedTuple):
    """`kinds` by path, "" being the answer itself; `broken`: the properties that raise, and what."""

    kinds: Dict[str, str]
    broken: Dict[str, Exception]


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
        structure = read_structure(raw, none_is_declared)
        return Answer(flatten(raw), structure.kinds, structure.broken, site)

    return read


def read_structure(answer: Any, none_is_declared: bool = False) -> Structure:
    """The kind of every part of `answer`; `none_is_declared`: its annotation says that it may hold None.

    What a list holds is left out: its length follows the input. Private attributes are left out, keys of
    mappings that begin with an underscore are not.
    """
    structure = Structure({}, {})
    _read("", answer, none_is_declared, structure, _DEEPEST)
    return structure


def common_structure(answers: Sequence[Dict[str, str]]) -> Dict[str, str]:
    """The parts that all answers of a target have, without the ones that come and go with its tensors.

    `layer0_norm` stands for one tensor where another answer lacks `layer2_norm`: names that differ only in
    their digits share a fate.
    """
    common = set.intersection(*[set(kinds) for kinds in answers])
    varying = {_without_digits(path) for path in set.union(*[set(kinds) for kinds in answers]) - common}
    kept: Dict[str, str] = {}
    for path, kind in answers[0].items():
        same_kind = all(kinds.get(path) == kind for kinds in answers)
        parents = path.split(".")
        prefixes = {".".join(parents[: depth + 1]) for depth in range(len(parents))}
        if path in common and same_kind and not varying & {_without_digits(prefix) for prefix in prefixes}:
            kept[path] = kind
    return kept


def _without_digits(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def kind_of_part(value: Any) -> str:
    """`number`, `tensor`, `truth value`, `text`, `None`, `mapping`, `list`, `tuple`, or the class's name."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return "tensor"
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return "truth value" if "bool" in type(value).__name__ else "number"
    for types, kind in _KINDS:
        if isinstance(value, types):
            return kind
    return type(value).__name__


_KINDS: Tuple[Tuple[Any, str], ...] = (
    (bool, "truth value"),
    ((int, float), "number"),
    ((str, bytes), "text"),
    (Mapping, "mapping"),
    ((list, set, frozenset), "list"),
)


def _read(path: str, value: Any, none_is_declared: bool, structure: Structure, depth: int) -> None:
    if len(structure.kinds) >= _MOST_PARTS:
        return
    kind = "tuple" if type(value) is tuple else kind_of_part(value)
    structure.kinds[path] = DECLARED_NONE if value is None and none_is_declared else kind
    if depth == 0:
        return
    for name, item, declared in _parts(path, value, kind, structure):
        _read(joined(path, name), item, none_is_declared or declared, structure, depth - 1)


def _parts(path: str, value: Any, kind: str, structure: Structure) -> List[Tuple[str, Any, bool]]:
    """Name, value and "may be None" of what the structure of `value` consists of."""
    if isinstance(value, Mapping):
        return [(str(key), item, False) for key, item in value.items()]
    if kind == "tuple":
        return [(str(index), item, False) for index, item in enumerate(value)]
    if hasattr(value, "_asdict"):
        return [(name, item, declares_none(field_declaration(value, name))) for name, item in value._asdict().items()]
    if kind in _PLAIN or isinstance(value, type):
        return []
    found = [(name, item, declares_none(field_declaration(value, name))) for name, item in stored_items(value)]
    for name, question in questions(value):
        try:
            found.append((name, question(), declares_none(field_declaration(value, name))))
        except Exception as error:
            structure.broken[joined(path, name)] = error
    return found


_PLAIN: Set[str] = {"None", "tensor", "truth value", "number", "text", "list"}
