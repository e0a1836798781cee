"""Nested lists, tuples and dictionaries, as operators take and return them.

torch.utils._pytree does this for any registered class, but is private and three times as slow.
"""

from typing import Any, Callable, List


def list_leaves(tree: Any) -> List[Any]:
    """Return everything in `tree` that is not a container, in order."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in list_leaves(item)]
    return [tree]


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return `tree` with `function(leaf)` for each of its leaves."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if not isinstance(tree, (list, tuple)):
        return function(tree)
    mapped = [map_leaves(function, item) for item in tree]
    # A named tuple takes its fields one by one; torch.return_types and torch.Size take a sequence.
    return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
