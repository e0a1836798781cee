"""Values read back together: taking some of them out of `a, b = torch.stack([x, y]).tolist()`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.program import Item

_READS = frozenset({"tolist", "cpu", "detach", "numpy"})
_STACKS = frozenset({"stack", "tensor", "cat"})


def drop_slots(unpacking: Item, gone: frozenset[str], items: Sequence[Item]) -> bool:
    """Take the names `gone` out of an unpacking, and their values out of the list that was stacked for it.

    Across the names in between (`stats = torch.stack([...])`, `values = stats.tolist()`), where nothing else
    reads them. False, with nothing changed, where it is not of that form.
    """
    node = unpacking.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
        return False
    source = _stacked(node.value, items, unpacking)
    targets = node.targets[0].elts
    if source is None or len(source[1].elts) != len(targets):
        return False
    kept = [place for place, target in enumerate(targets) if not (isinstance(target, ast.Name) and target.id in gone)]
    if not kept:
        return False
    owner, values = source
    changed = copy.deepcopy(owner.node)
    _set_elements(changed, values, [values.elts[place] for place in kept])
    owner.node, owner.rewritten = changed, True
    # Where everything is one statement, its copy has the new list already.
    unpacked = copy.deepcopy(unpacking.node)
    assert isinstance(unpacked, ast.Assign)
    unpacked.targets = [ast.Tuple([targets[place] for place in kept], ast.Store())]
    unpacking.node, unpacking.rewritten = unpacked, True
    return True


def _stacked(value: ast.expr, items: Sequence[Item], reader: Item) -> tuple[Item, ast.List] | None:
    """The list behind a value, and the statement that holds it."""
    while True:
        if isinstance(value, ast.Name):
            found = _only_source(value.id, items, reader)
            if found is None:
                return None
            reader, value = found
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr in _STACKS and len(value.args) == 1 and isinstance(value.args[0], ast.List):
                return reader, value.args[0]
            if value.func.attr not in _READS or value.args:
                return None
            value = value.func.value
        else:
            return None


def _only_source(name: str, items: Sequence[Item], reader: Item) -> tuple[Item, ast.expr] | None:
    """The one statement that sets `name`, where `reader` alone reads it."""
    setting = [item for item in items if name in item.names.stores]
    reading = [item for item in items if name in item.names.loads]
    if len(setting) != 1 or reading != [reader] or not isinstance(setting[0].node, ast.Assign):
        return None
    is_plain = names_of(setting[0].node.targets).stores == {name}
    return (setting[0], setting[0].node.value) if is_plain else None


def _set_elements(changed: ast.stmt, values: ast.List, kept: list[ast.expr]) -> None:
    wanted = ast.dump(values)
    for node in ast.walk(changed):
        if isinstance(node, ast.List) and ast.dump(node) == wanted:
            node.elts = kept
            return
