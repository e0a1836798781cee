"""Make a whole function of a ticket's code block: the block's statements in the place of those that they replace."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from auditkit.probing.patching.carried_sums import carry
from auditkit.probing.patching.fragments import CannotComplete, Fragment, OtherFunctions, Segment, read_fragment
from auditkit.probing.patching.local_names import is_only_assignment, leaves, names_of, parameters
from auditkit.probing.patching.program import Item, Program
from auditkit.probing.patching.source_text import SourceText, write_function
from auditkit.probing.patching.stacked_values import drop_slots
from auditkit.probing.patching.whole_functions import (
    OBVIOUS_IMPORTS,
    Completed,
    Original,
    needed_imports,
    standing_in,
    texts_of,
    whole_function,
)
from auditkit.probing.source_code.modules import is_constant


def complete(code: str, original: Original) -> Completed:
    """The function that the block `code` means. Raises CannotComplete where that would be a guess."""
    try:
        fragment = read_fragment(code, original.node, original.owner)
        if fragment.is_whole and fragment.function is not None:
            return whole_function(fragment, fragment.function, original)
    except OtherFunctions:
        found = standing_in(code, original)
        if found is None:
            raise
        return found
    return _Completion(fragment, original).run()


@dataclass
class _Completion:
    """One block being put among the original's statements."""

    fragment: Fragment
    original: Original
    notes: list[str] = field(default_factory=list)

    def run(self) -> Completed:
        self.notes = list(self.fragment.notes)
        known = self.original.known | set(dir(builtins)) | OBVIOUS_IMPORTS.keys() | parameters(self.original.node.args)
        around = [item for item in self.original.node.body if isinstance(item, ast.With)]
        known |= names_of(item.optional_vars for node in around for item in node.items if item.optional_vars).stores
        defined = names_of(self.fragment.around).stores
        self.program = Program(copy.deepcopy(list(self.original.body)), frozenset(known | defined))
        self.originals = self.program.originals()
        self._blame()
        lower = 0
        first = len(self.originals)
        for number, segment in enumerate(self.fragment.segments, start=1):
            goes_on = self.fragment.ends_open or number < len(self.fragment.segments)
            for statements, anchor in self._between_context(segment):
                if statements:
                    place = self._place(statements, lower, anchor, goes_on)
                    first = min(first, place)
                    lower = place
                lower = anchor + 1 if anchor is not None else lower
        if all(item.is_original for item in self.program.items):
            raise CannotComplete("says nothing that the function does not say already")
        self._settle()
        return self._written(first)

    def _blame(self) -> None:
        """Take out what the ticket shows as wrong, where it leads to what the block computes.

        Lines that cover most of the function only name the function.
        """
        finished = frozenset[str]().union(*(_results(segment.statements) for segment in self.fragment.segments))
        leading = self.program.behind(finished)
        blamed = [item for item in self.originals if self._is_blamed(item)]
        by_lines = len(blamed) * 2 <= len(self.originals)
        for item in self.originals:
            is_quoted = ast.dump(item.node) in self.original.quoted
            is_leading = not leading or item in leading
            if (is_quoted or (by_lines and item in blamed)) and is_leading and is_only_assignment(item.node):
                item.removed = "blamed"

    def _is_blamed(self, item: Item) -> bool:
        span = range(item.node.lineno, (item.node.end_lineno or item.node.lineno) + 1)
        return not self.original.blamed.isdisjoint(span)

    def _between_context(self, segment: Segment) -> list[tuple[list[ast.stmt], int | None]]:
        """The segment cut at statements that the original has word for word, each cut with their place there."""
        pieces: list[tuple[list[ast.stmt], int | None]] = []
        waiting: list[ast.stmt] = []
        for statement in segment.statements:
            spelled = ast.dump(statement)
            place = next((item.index for item in self.originals if ast.dump(item.node) == spelled), None)
            if place is None or isinstance(statement, ast.Return):
                waiting.append(statement)
                continue
            self.originals[place].removed = ""
            pieces.append((waiting, place))
            waiting = []
        return [*pieces, (waiting, None)]

    def _place(self, statements: Sequence[ast.stmt], lower: int, anchor: int | None, goes_on: bool) -> int:
        """Put statements before an original one, and take out what they replace.

        `goes_on` says that the block leaves out what comes behind them.
        """
        finished = _results(statements)
        if leaves(statements[-1]):
            place = self._last_way_out()
        else:
            place = self._first_replaced(finished, lower, anchor)
        for name in sorted(_read_from_above(statements)):
            source = self.program.definition(name)
            if source is not None and source.index is not None:
                place = max(place, source.index + 1)
        self.program.put(copy.deepcopy(list(statements)), place)
        self._replace(finished, place, goes_on)
        return place

    def _last_way_out(self) -> int:
        last = self.originals[-1]
        if leaves(last.node):
            last.removed = "replaced"
            return len(self.originals) - 1
        return len(self.originals)

    def _first_replaced(self, finished: frozenset[str], lower: int, anchor: int | None) -> int:
        later = list(enumerate(self.originals))[lower:]
        places = [p for p, item in later if item.removed == "blamed" or item.names.stores & finished]
        if places:
            return places[0]
        if lower or anchor is not None:
            return lower or anchor or 0
        if not self.fragment.starts_open:
            return 0
        names = ", ".join(sorted(finished)) or "nothing"
        raise CannotComplete(f"sets {names}, which {self.original.node.name} does not use, and returns nothing")

    def _replace(self, finished: frozenset[str], place: int, goes_on: bool) -> None:
        for item in self.originals:
            shared = item.names.stores & finished
            if item.removed or not shared or self._only_converts(item, shared):
                continue
            if goes_on and shared <= item.names.loads:
                continue  # it adds to the value of the block, which says that what follows stays
            if self.program.results(item) <= finished and is_only_assignment(item.node):
                item.removed = "replaced"
            elif item.index is not None and item.index >= place and not self._without(item, shared):
                raise CannotComplete(
                    f"sets {', '.join(sorted(shared))}, which the function sets again together with other values "
                    f"(line {item.node.lineno})"
                )

    def _only_converts(self, item: Item, names: frozenset[str]) -> bool:
        """`count = int(count)` works on the fix's value as it did on the original's."""
        local = names_of(self.original.body).stores
        if _takes_root(item.node) and any(map(_takes_root, self.fragment.body)):
            return False
        return isinstance(item.node, ast.Assign) and bool(names) and item.names.loads & local == names

    def _without(self, item: Item, names: frozenset[str]) -> bool:
        if not drop_slots(item, names, self.program.running()):
            return False
        self.notes.append(
            f"line {item.node.lineno} no longer reads back {', '.join(sorted(names))}: the block computes that"
        )
        return True

    def _settle(self) -> None:
        """Take out what nothing needs any more, put back what something still needs, until both hold."""
        for _ in range(4 * len(self.program.items) + 4):
            self.program.drop_dead()
            found = next(self.program.missing(), None)
            if found is None:
                break
            self._provide(*found)
        else:
            raise CannotComplete("cannot be brought in line with the rest of the function")
        if not any(not item.is_original and self._is_used(item) for item in self.program.running()):
            raise CannotComplete("computes nothing that the rest of the function uses")

    def _is_used(self, item: Item) -> bool:
        if leaves(item.node) or not item.names.stores:
            return True
        running = self.program.running()
        later = running[running.index(item) + 1 :]
        return any(other.is_original and other.names.loads & item.names.stores for other in later) or any(
            leaves(other.node) and other.names.loads & item.names.stores for other in later
        )

    def _provide(self, item: Item, name: str) -> None:
        source = self.program.definition(name, removed=True)
        if source is None or (source.index or 0) > (item.index if item.index is not None else len(self.originals)):
            raise CannotComplete(f"needs {name}, which neither the function nor its module defines before that")
        if item.is_original and (self._carry(name, source) or self._carry_reader(item, source)):
            return
        was, source.removed = source.removed, ""
        if was != "unused":
            self.notes.append(
                f"{name}, which the rest of the function needs and the block does not give, is still computed as "
                f"before (line {source.node.lineno}: {ast.unparse(source.node).splitlines()[0]})"
            )

    def _carry(self, name: str, source: Item) -> bool:
        for read in sorted(source.names.loads):
            whole = self.program.definition(read, removed=True)
            if whole is None or whole is source:
                continue
            if self._into_a_loop(name, source.node, whole.node):
                return True
        return False

    def _carry_reader(self, item: Item, whole: Item) -> bool:
        """The same for a statement that still reads the whole, while the block goes through its pieces."""
        name = next(iter(item.names.stores), "")
        if len(item.names.stores) != 1 or not self._into_a_loop(name, item.node, whole.node):
            return False
        item.removed = "carried"
        return True

    def _into_a_loop(self, name: str, definition: ast.stmt, whole: ast.stmt) -> bool:
        readers = [item for item in self.program.running() if item.is_original and name in item.names.loads]
        above = self.program.running()[: self.program.running().index(readers[0])] if readers else []
        for item in [item for item in above if not item.is_original]:
            carried = carry(name, definition, whole, [item.node])
            if carried is None:
                continue
            carried.loop.body.append(carried.inside)
            item.rewritten = True
            ast.fix_missing_locations(item.node)
            place = self.program.items.index(item)
            self.program.items.insert(place, Item(carried.before, None, rewritten=True))
            self.notes.append(carried.note)
            return True
        return False

    def _written(self, first: int) -> Completed:
        running = self.program.running()
        taken = [item for item in self.originals if item.removed and item.removed != "unused"]
        dead = [item for item in self.originals if item.removed == "unused"]
        before = [item for item in running if item.is_original and (item.index or 0) < first]
        after = [item for item in running if item.is_original and (item.index or 0) >= first]
        told = [f"kept {_lines(before)} of the original before it and {_lines(after)} after"]
        told += [f"replaced {_places(taken)}"] if taken else []
        told += [f"left out, as nothing needs it any more: {_places(dead)}"] if dead else []
        needed = names_of([item.node for item in running]).loads
        imports, import_notes = needed_imports(needed & OBVIOUS_IMPORTS.keys(), needed, self.original.known)
        function = write_function(
            self.original.node,
            SourceText(self.original.text),
            [self._as_written(item) for item in running],
            SourceText(self.fragment.text),
            self.fragment.body,
        )
        return Completed(tuple(function), imports, texts_of(self.fragment.around), (*told, *self.notes, *import_notes))

    def _as_written(self, item: Item) -> Item:
        """With the tree that knows its lines, in the original's or the block's text, instead of its copy."""
        if item.rewritten:
            return item
        if item.index is not None:
            return Item(self.original.body[item.index], item.index)
        spelled = ast.dump(item.node)
        same = next((s for s in self.fragment.body if ast.dump(s) == spelled), None)
        return Item(same, None) if same is not None else Item(item.node, None, rewritten=True)


def _results(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """What statements compute, without names that only a loop of theirs uses from turn to turn."""
    outside = [item for item in statements if not isinstance(item, ast.For | ast.AsyncFor | ast.While)]
    inside = names_of(item for item in statements if item not in outside)
    return names_of(outside).stores | (inside.stores & names_of(outside).loads)


def _read_from_above(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """What statements read that they do not set themselves before."""
    found: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    for statement in statements:
        names = names_of(statement)
        own = names.stores if isinstance(statement, ast.For | ast.AsyncFor | ast.While | ast.With) else frozenset()
        found |= names.loads - defined - own
        defined |= names.stores
    return found


def _lines(items: Sequence[Item]) -> str:
    count = sum((item.node.end_lineno or item.node.lineno) - item.node.lineno + 1 for item in items)
    return f"{count} line{'s' if count != 1 else ''}"


def _places(items: Sequence[Item]) -> str:
    """`line 4 (a = f(x)), lines 6-8 (for g in grads:)`."""
    return ", ".join(f"{_place(item)} ({ast.unparse(item.node).splitlines()[0]})" for item in items)


def _place(item: Item) -> str:
    first, last = item.node.lineno, item.node.end_lineno or item.node.lineno
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _takes_root(statement: ast.stmt) -> bool:
    """`total**0.5`, `total.sqrt()`, or a norm: of what is a norm already nobody takes a root again."""
    for node in ast.walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and is_constant(node.right, 0.5):
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("sqrt", "vector_norm"):
            return True
    return False
