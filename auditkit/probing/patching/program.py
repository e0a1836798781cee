"""A function's body as a list of statements that a fix takes out, puts in and still needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.local_names import Names, is_only_assignment, names_of


@dataclass
class Item:
    """One statement: of the original where `index` is its place there, else of the fix (None).

    `node` is what will run; `removed` says why it does not, "" where it does; `rewritten` that `node` is
    no longer what the source said.
    """

    node: ast.stmt
    index: int | None
    removed: str = ""
    rewritten: bool = False

    @property
    def names(self) -> Names:
        return names_of(self.node)

    @property
    def is_original(self) -> bool:
        return self.index is not None


class Program:
    """The statements of the completed function in their order."""

    def __init__(self, original: Sequence[ast.stmt], known: frozenset[str]) -> None:
        self.items = [Item(statement, index) for index, statement in enumerate(original)]
        self._known = known
        self._read_once = names_of(original).loads

    def originals(self) -> list[Item]:
        """The original's statements, in its order, the removed ones among them."""
        return [item for item in self.items if item.is_original]

    def put(self, statements: Sequence[ast.stmt], before: int) -> None:
        """Put statements of the fix before the original's statement `before`, behind all for its number."""
        places = [place for place, item in enumerate(self.items) if item.index is not None and item.index >= before]
        place = min(places, default=len(self.items))
        self.items[place:place] = [Item(statement, None) for statement in statements]

    def running(self) -> list[Item]:
        """What is not removed."""
        return [item for item in self.items if not item.removed]

    def drop_dead(self) -> None:
        """Remove what the original only computed for statements that are gone."""
        changed = True
        while changed:
            changed = False
            running = self.running()
            for place, item in enumerate(running):
                later = running[place + 1 :]
                stores = item.names.stores
                is_read = any(_is_read(name, later) for name in stores)
                if item.is_original and not is_read and stores & self._read_once and is_only_assignment(item.node):
                    item.removed = "unused"
                    changed = True
                    break

    def missing(self) -> Iterator[tuple[Item, str]]:
        """Names that a statement reads and nothing above it sets, the original's own first."""
        defined = set(self._known)
        for item in self.running():
            names = item.names
            own = names.stores if isinstance(item.node, ast.For | ast.While | ast.With | ast.Try | ast.If) else set()
            for name in sorted(names.loads - defined - own):
                yield item, name
            defined |= names.stores

    def results(self, item: Item) -> frozenset[str]:
        """What a statement sets for others, without names that only it uses, such as a loop's."""
        others = [other for other in self.originals() if other is not item]
        return frozenset(name for name in item.names.stores if any(name in other.names.loads for other in others))

    def behind(self, names: frozenset[str]) -> list[Item]:
        """The original's statements that set `names`, and all that these are made from."""
        found: list[Item] = []
        wanted = set(names)
        for item in reversed(self.originals()):
            if not item.names.stores.isdisjoint(wanted):
                found.append(item)
                wanted |= item.names.loads
        return found

    def definition(self, name: str, removed: bool = False) -> Item | None:
        """The first original statement that sets `name`; with `removed`, one that was taken out."""
        found = (item for item in self.originals() if name in item.names.stores and (item.removed or not removed))
        return next(found, None)


def _is_read(name: str, later: Sequence[Item]) -> bool:
    """Whether a statement below reads `name` before another sets it for sure."""
    for item in later:
        if name in item.names.loads:
            return True
        if name in item.names.stores and isinstance(item.node, ast.Assign | ast.AnnAssign):
            return False
    return False
