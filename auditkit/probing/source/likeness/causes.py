"""Causes of a run's findings: their statements, and similar code elsewhere in the checkout.

Only source is read. auditkit searches for the expression with the most tensor operations of the offending statement,
then for its parts, until one occurs elsewhere: these are candidates, unproven until probed. Two expressions are alike
if they have one key: their syntax with wildcards for operands, as `x.norm(2).item()` for `p.grad.norm(2).item()`.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from auditkit.model.enums import Outcome
from auditkit.model.runs.cause import Sibling, Siblings, Statement
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.source.files import list_files
from auditkit.probing.source.modules import Module, dotted_name, last_name, parse_module, source_bytes
from auditkit.probing.source.statements import Unit, head_of, unit_at, unit_of
from auditkit.probing.source.walking import statements, walk

MOST_PLACES = 60
"""An expression at more places than this, without tests, is an idiom and identifies no defect."""
_LEAST_OPERATIONS = 2
_OPERATIONS = frozenset({
    "abs", "all", "amax", "amin", "any", "argmax", "argmin", "bfloat16", "cat", "clamp", "clone", "contiguous",
    "count_nonzero", "cpu", "cuda", "cumsum", "diff", "dist", "div", "dot", "double", "einsum", "exp", "flatten",
    "float", "half", "histc", "isfinite", "isinf", "isnan", "item", "kthvalue", "log", "logsumexp", "max", "mean",
    "median", "min", "mul", "nansum", "nonzero", "norm", "numpy", "pow", "prod", "quantile", "reshape", "softmax",
    "sqrt", "square", "stack", "std", "sub", "sum", "svd", "to", "tolist", "topk", "unique", "var", "vector_norm",
    "view", "where",
})  # fmt: skip
"""Methods that compute or read a tensor; any function of torch itself counts as well."""
_GRADIENT = re.compile(r"(^|_)grad(s|ient|ients)?(_|$)")
_CALLED = re.compile(r"(\w+)\(")


def with_causes(results: Sequence[ProbeResult], root: Path) -> tuple[ProbeResult, ...]:
    """Return the results; reproduced ones with their statement, its siblings, and the function's name.

    Siblings are only searched for the checkout's own statements that a call reproduced: a source probe has already read
    every place. The function's name comes from the source, since names of frames depend on Python's version.
    """
    units = [_unit(result, root) for result in results]
    own = [unit for result, unit in zip(results, units, strict=True) if unit is not None and _is_called(result)]
    siblings = find_siblings(root, own)
    completed = []
    for result, unit in zip(results, units, strict=True):
        if unit is not None and result.location is not None:
            result = replace(
                result,
                location=replace(result.location, function=unit.function or result.location.function),
                statement=unit.statement,
                siblings=siblings.get(unit.statement) if unit.statement else None,
            )
        completed.append(result)
    return _with_copies(completed)


def _with_copies(results: Sequence[ProbeResult]) -> tuple[ProbeResult, ...]:
    """Return the results; a copy of a statement refers to the first one: the same function, and the same finding."""
    first: dict[tuple[str, ...], Statement] = {}
    found = []
    for result in results:
        place, siblings = result.location, result.siblings
        if place is not None and siblings is not None and siblings.probed and result.statement is not None:
            name = place.function.rpartition(".")[2]
            original = first.setdefault((result.probe, siblings.pattern, result.law, name), result.statement)
            result = replace(result, copy_of=original if original != result.statement else None)
        found.append(result)
    return tuple(found)


def _unit(result: ProbeResult, root: Path) -> Unit | None:
    if result.outcome is not Outcome.REPRODUCED or result.location is None:
        return None
    return unit_of(root, result.location)


def _is_called(result: ProbeResult) -> bool:
    """Return whether a call into the checkout's own code reproduced it."""
    return not result.is_of_source and result.location is not None and not result.location.folder


def find_siblings(root: Path, units: Iterable[Unit]) -> dict[Statement, Siblings]:
    """Return for the statement of every unit the other places below `root` with similar code.

    `units` are those of all findings of a run: places that are among them are listed separately. Files that cannot be
    read or parsed are skipped; tests are included.
    """
    wanted = {unit.statement: _telling_keys(unit) for unit in units if unit.statement is not None}
    places = _places(root, {key for keys in wanted.values() for key in keys})
    return {statement: _siblings(statement, keys, places, list(wanted)) for statement, keys in wanted.items()}


def _telling_keys(unit: Unit) -> list[str]:
    """Return the keys to search for, those with the most tensor operations first; of equal ones the shortest."""
    found: dict[str, int] = {}
    for node in _expressions(unit.parts):
        count = sum(_is_operation(part, unit.module) for part in walk([node]))
        if count >= _LEAST_OPERATIONS or (count and not found and _reads_gradient(node)):
            found.setdefault(_key(node, unit.module), count)
    return sorted(found, key=lambda key: (-found[key], len(key)))


def _expressions(parts: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the calls, powers and comprehensions in some expressions, outer ones first."""
    kinds = ast.Call | ast.BinOp | ast.ListComp | ast.SetComp | ast.GeneratorExp
    return (node for part in parts for node in ast.walk(part) if isinstance(node, kinds))


def _is_operation(node: ast.AST, module: Module) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow)
    if not isinstance(node, ast.Call):
        return False
    origin = module.full_name(dotted_name(node.func))
    return origin.startswith("torch.") or (isinstance(node.func, ast.Attribute) and node.func.attr in _OPERATIONS)


def _reads_gradient(node: ast.AST) -> bool:
    words = (getattr(part, name, None) for part in walk([node]) for name in ("attr", "id"))
    return any(isinstance(word, str) and _GRADIENT.search(word) for word in words)


def _key(node: ast.expr, module: Module) -> str:
    return ast.unparse(_Placeholders(module).visit(copy.deepcopy(node)))


class _Placeholders(ast.NodeTransformer):
    """Replaces each name, attribute or element that is an operand by a wildcard, and gives torch's full names."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[str, str] = {}

    def visit_Name(self, node: ast.Name | ast.Attribute | ast.Subscript) -> ast.AST:
        written, inner = dotted_name(node), node
        while isinstance(inner, ast.Attribute | ast.Subscript):
            inner = inner.value  # type: ignore[assignment]
        origin = self._module.full_name(written)
        if origin:
            return ast.Name(origin if origin.startswith("torch.") else origin.rpartition(".")[2])
        if not isinstance(inner, ast.Name):
            return self.generic_visit(node)
        number = len(self._known)
        return ast.Name(self._known.setdefault(ast.unparse(node), "xyzw"[number] if number < 4 else f"x{number}"))

    visit_Attribute = visit_Subscript = visit_Name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and not self._module.full_name(dotted_name(node.func)):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name) or self._module.full_name(node.func.id):
            node.func = self.visit(node.func)
        node.args, node.keywords = [self.visit(one) for one in node.args], [self.visit(one) for one in node.keywords]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("...") if isinstance(node.value, str | bytes) else node

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> ast.AST:
        anything = ast.Name("_")
        return ast.GeneratorExp(self.visit(node.elt), [ast.comprehension(anything, anything, [], 0)])

    visit_SetComp = visit_GeneratorExp = visit_ListComp


def _places(root: Path, keys: set[str]) -> dict[str, list[Sibling]]:
    """Return every place of each key, parsing only the files that contain the words of a key."""
    found: dict[str, list[Sibling]] = defaultdict(list)
    words = {key: [word.rpartition(".")[2] for word in _CALLED.findall(key)] for key in keys}
    heads = {word for called in words.values() for word in called}
    for source in list_files(root, ("python",)) if keys else ():
        data = source_bytes(source.path)
        text = data.decode("utf-8", "replace")
        is_likely = any(all(word in text for word in called) for called in words.values())
        module = parse_module(source.path, data, root, source.name) if is_likely else None
        if not isinstance(module, Module):
            continue
        matches = set()
        for statement in statements(module.tree.body):
            for node in _expressions(head_of(statement)):
                is_wanted = not isinstance(node, ast.Call) or last_name(node.func) in heads
                if is_wanted and (key := _key(node, module)) in keys:
                    matches.add((key, node.lineno))
        for key, line in sorted(matches):
            place = Location(source.name, line, unit_at(module, line).function)
            found[key].append(Sibling(place, module.is_test))
    return found


def _siblings(
    own: Statement, keys: Sequence[str], places: dict[str, list[Sibling]], probed_too: Sequence[Statement]
) -> Siblings:
    if not keys:
        return Siblings(reason="the statement holds too few tensor operations to distinguish it from other code")
    for key in keys:
        others = [place for place in places[key] if not _holds(own, place.location)]
        if not others:
            continue
        common = sum(not place.is_test for place in others)
        if common > MOST_PLACES:
            return Siblings(key, reason=f"it occurs at {common:,} other places, so it marks no defect")
        probed = [place for place in others if any(_holds(other, place.location) for other in probed_too)]
        candidates = tuple(place for place in others if place not in probed)
        return Siblings(key, candidates, tuple(place.location for place in probed))
    return Siblings(keys[0])


def _holds(statement: Statement, place: Location) -> bool:
    return statement.file == place.file and statement.first <= place.line <= statement.last
