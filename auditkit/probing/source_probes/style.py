"""Checks of the source for upkeep: exports, unused and untested names, private names, defaults, missing producers.

Each check is a generator of findings for one probe; it ends with the counts of what it examined.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditkit.probing.find.answers import consumed_keys
from auditkit.probing.find.candidates import collects_by_itself
from auditkit.probing.find.collector_calls import CollectorCalls
from auditkit.probing.find.gradient_flow import trains
from auditkit.probing.source.index import words_of
from auditkit.probing.source.modules import (
    Class,
    Function,
    Module,
    dotted_name,
    last_name,
    targets_of,
    text_in,
)
from auditkit.probing.source.statements import first_line, last_line, nodes_around, unit_at
from auditkit.probing.source.walking import top_level, walk

if TYPE_CHECKING:
    from auditkit.probing.source_probes.context import SourceContext


@dataclass(frozen=True)
class Finding:
    """A finding of a check about one subject, at a line of a module: rows of name, value, unit and case."""

    subject: str
    module: Module
    line: int
    function: str = ""
    rows: list[tuple[str, Any, str, dict[str, Any]]] = field(default_factory=list)


Found = Iterator[Finding | Mapping[str, int]]

# Decorators that change how a function runs, and do not register it anywhere.
_PLAIN_DECORATORS = frozenset({
    "no_grad", "enable_grad", "inference_mode", "compile", "disable", "autocast", "script", "lru_cache", "cache",
    "cached_property", "property", "staticmethod", "classmethod", "contextmanager", "wraps", "dataclass", "setter",
})  # fmt: skip


def unused_functions(context: SourceContext) -> Found:
    """Yield the public functions and methods that no code, test, export, setting or prose of the checkout names."""
    from vulture import Vulture

    index, code = context.index, Vulture()
    for module in index.all_modules:
        code.scan(index.source_of(module).decode("utf-8", "replace"), module.file)
    # A word of a file that does not parse counts as a use, and so does one of settings and prose.
    texts = [index.source(index.path / problem.path) for problem in index.problems]
    texts += [index.text_of(each) for each in index.files if each.kind != "python"]
    named = set(code.used_names) | words_of(texts)
    starred = set[str]()
    for module in index.all_modules:
        named |= {item.name for item in module.imports} | module.strings
        starred |= {item.module for item in module.imports if item.name == "*"}
    functions = 0
    for module in context.modules:
        # A framework may call pytest's hooks and the methods of a class with a base.
        asked = [
            item
            for item in module.public()
            if isinstance(item, Function)
            and not item.name.startswith(("pytest_", "test_"))
            and not (item.owner is not None and item.owner.node.bases)
        ]
        functions += len(asked)
        unused = [
            item
            for item in asked
            if item.name not in named and module.name not in starred and item.decorators <= _PLAIN_DECORATORS
        ]
        if unused:
            cases = [{"function": item.qualified_name, "line": item.line} for item in unused]
            rows = [("named_by", "nothing", "text", case) for case in cases]
            yield Finding(module.name, module, unused[0].line, unused[0].qualified_name, rows)
    yield {"functions": functions}


_COLLECTOR_WORDS = ("grad", "norm", "stat", "health", "collect")


def untested_collectors(context: SourceContext) -> Found:
    """Yield the public collectors, and similarly named code in the same module, that no test file names."""
    if not context.index.tests:
        raise context.NotApplicable("the checkout has no test file (test_*.py, *_test.py, tests/)")
    texts = map(context.index.source, context.index.tests)
    words = {word.lower().replace("test", "_test_") for word in words_of(texts)}
    in_tests = " ".join(f"_{word}_" for word in words)
    definitions = 0
    for module in context.modules:
        if module.is_side:
            continue
        called = context.followed(module, lambda tree: (f for f in tree.defined() if collects_by_itself(f)))
        collectors = {function.qualified_name.partition(".")[0] for function in called}
        untested = []
        for item in module.public():
            if isinstance(item, Function) and item.owner is not None:
                continue
            # Beside collectors, also what is named like one: `materialize_grad_stats`, `DualGradientStats`.
            methods = [one for one in item.methods.values() if one.is_public] if isinstance(item, Class) else []
            is_like_one = any(word in item.name.lower() for word in _COLLECTOR_WORDS)
            is_code = isinstance(item, Function) or bool(methods)
            if item.qualified_name in collectors or (collectors and is_like_one and is_code):
                definitions += 1
                if not any(f"_{one.name.lower()}_" in in_tests for one in (item, *methods)):
                    untested.append(item)
        if untested:
            cases = [
                {"name": one.qualified_name, "kind": type(one).__name__.lower(), "line": one.line} for one in untested
            ]
            rows: list[Any] = [("test_count", 0, "count", case) for case in cases]
            yield Finding(module.name, module, untested[0].line, untested[0].qualified_name, rows)
    yield {"definitions": definitions}


def partial_exports(context: SourceContext) -> Found:
    """Yield modules whose package exports some of their names, but not others that outside code imports."""
    importers: dict[tuple[str, str], list[Module]] = defaultdict(list)
    for user in context.index.all_modules:
        for item in user.imports:
            key = context.links.target(item)
            if key is not None and key[1] and key[0] != user.name:
                importers[key].append(user)
    for module in context.modules:
        parts = module.name.split(".")
        if module.is_package or any(part.startswith("_") for part in parts):
            continue
        around = (context.index.by_name.get(".".join(parts[:end])) for end in range(len(parts) - 1, 0, -1))
        packages = [package for package in around if package is not None and package.is_package]
        found = [
            (package, item)
            for package in packages
            for item in package.imports
            if item.name
            and not item.local.startswith("_")
            and (context.links.target(item) or ("", ""))[0] == module.name
        ]
        exported = {item.name for _, item in found}
        is_open = any("__getattr__" in package.own_names for package in packages)
        # A package that exports nothing of a module expects its users to import the module itself.
        if not found or "*" in exported or is_open:
            continue
        package, first = min(found, key=lambda pair: (-len(pair[0].name), pair[1].line))
        shown = sorted(exported)[:5]
        more = f" and {len(exported) - 5} more" if len(exported) > 5 else ""
        case = {"package": package.name, "exported": ", ".join(shown) + more}
        rows = []
        for name in sorted(module.own_names - exported.union(*map(_listed, packages))):
            users = importers[module.name, name]
            outside = [user for user in users if not f"{user.name}.".startswith(f"{package.name}.")]
            by = {
                "code": sorted({user.file for user in outside if not user.is_test}),
                "tests": sorted({user.file for user in users if user.is_test}),
            }
            for kind, files in by.items():
                if files and not name.startswith("_") and name not in ("log", "logger"):
                    of = {"name": name, "by": kind, "first": files[0], **case}
                    rows.append(("importer_count", len(files), "count", of))
        if rows:
            yield Finding(module.name, package, first.line, rows=rows)
    yield {}


def _listed(package: Module) -> set[str]:
    """Return the texts of the statements that name `__all__`."""
    written = ([*walk([statement])] for statement in top_level(package.tree.body))
    lists = (nodes for nodes in written if any(isinstance(each, ast.Name) and each.id == "__all__" for each in nodes))
    return {text_in(node) for nodes in lists for node in nodes} - {""}


_PLAIN_NUMBERS = frozenset((-1.0, 0.0, 1.0, 2.0))
# Tuning parameters (lr, gamma, batch_size, dropout) differ between places on purpose.
_THRESHOLD = re.compile(
    r"(\w+_)?(thresh(old)?|tol(erance)?|[ar]tol|limit|bound|cutoff|floor|ceiling|eps(ilon)?|clip(ping)?|clamp)s?(_\w+)?"
    r"|(\w+_)?norm|m(ax|in)_(grad\w*|value|ratio)"
)
_DECIDING = re.compile(r"(clamp|clip|isclose|allclose|minimum|maximum|min|max|threshold)\w*")


def repeated_defaults(context: SourceContext) -> Found:
    """Yield the thresholds that several signatures of one module repeat, if nearby code compares with them."""
    found: dict[str, Finding] = {}
    signatures = 0
    for module in context.modules:
        groups: dict[tuple[str, float], list[tuple[int, Function]]] = defaultdict(list)
        for item in module.defined():
            numbers = {name: (node.lineno, _number(node)) for name, node in item.defaults.items()}
            signatures += any(number is not None for _, number in numbers.values())
            for parameter, (line, value) in numbers.items():
                if value is not None and value not in _PLAIN_NUMBERS and _THRESHOLD.fullmatch(parameter):
                    groups[parameter, value].append((line, item))
        for (parameter, value), places in groups.items():
            # A method of several classes is an interface.
            names = {one.qualified_name if one.name == "__init__" else one.name for _, one in places}
            nodes = walk([module.tree]) if len(names) > 1 else ()
            if any(_decides(node, parameter) for node in nodes):
                subject = f"{module.name.partition('.')[0]}:{parameter}={value:.12g}"
                places.sort(key=lambda place: place[0])
                line, one = places[0]
                rows = found.setdefault(subject, Finding(subject, module, line, one.qualified_name)).rows
                for line, one in places:
                    rows.append(("default", line, "line", {"file": module.file, "signature": one.qualified_name}))
    yield from found.values()
    yield {"signatures": signatures}


def _number(node: ast.expr) -> float | None:
    """Return the literal number of an expression, with its sign; None for anything else, including truth values."""
    try:
        value = ast.literal_eval(node) if isinstance(node, ast.Constant | ast.UnaryOp) else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except (ValueError, OverflowError, RecursionError):
        return None


def _decides(node: ast.AST, parameter: str) -> bool:
    """Return whether code compares or clamps with a value of that name, except to check its range."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        others = [side for side in sides if not _names(side, parameter)]
        orders = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
        return orders and len(others) < len(sides) and any(not isinstance(side, ast.Constant) for side in others)
    if isinstance(node, ast.Call) and _DECIDING.fullmatch(last_name(node.func)):
        return any(_names(given, parameter) for given in [*node.args, *(word.value for word in node.keywords)])
    return False


def _names(node: ast.expr, parameter: str) -> bool:
    parts = (part for part in walk([node]) if isinstance(part, ast.Name | ast.Attribute))
    return any(last_name(part).lstrip("_") == parameter for part in parts)


_VERSION = re.compile(
    r"torch.*version|version.*torch|TORCH_(GE|GT|GREATER|LE|LESS|LT|VERSION|AT_LEAST|\d)", re.IGNORECASE
)
_PRESENCE = frozenset(("hasattr", "getattr", "find_spec"))
_ABSENCE = frozenset((
    "ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "RuntimeError",
    "NotImplementedError",
))  # fmt: skip
_ONE_RELEASE = re.compile(r"===?\s*\d|~=\s*\d+\.\d+\.\d|<=?\s*\d+\.[1-9]")
_REQUIRES = re.compile(r"(?<![\w.-])torch(?![\w.-])(?:\[[^\]]*\])?\s*\(?([<>=!~][^;\"'\n#]*)")
# Only at the top: requirements of an example or an archived version do not concern the checkout.
_DECLARES = re.compile(
    r"^(pyproject\.toml|setup\.(cfg|py)|([^/]*requirements|requirements/)[^/]*\.(txt|in)|environment\.ya?ml)$"
)


def private_uses(context: SourceContext) -> Found:
    """Yield the unguarded uses of torch's private names, and how the checkout pins torch."""
    declared = (context.index.text_of(file) for file in context.index.files if _DECLARES.search(file.name))
    required = (found[1] for text in declared for found in _REQUIRES.finditer(text.decode("utf-8", "replace")))
    pin = next((f"torch{one}".strip(" ),") for one in required if _ONE_RELEASE.search(one)), "none")
    for module in context.modules:
        if b"torch" not in context.index.source_of(module):
            continue
        uses = context.followed(module, lambda tree: sorted(set(_unguarded(tree))))
        if uses:
            rows: list[tuple[str, Any, str, dict[str, Any]]] = []
            for line, name in uses:
                function = _function_at(module, line)
                rows.append(
                    ("private_use", line, "line", {"name": name, **({"function": function} if function else {})})
                )
            rows.append(("pin", pin, "text", {}))
            yield Finding(module.name, module, uses[0][0], _function_at(module, uses[0][0]), rows)
    yield {}


def _function_at(module: Module, line: int) -> str:
    return unit_at(module, line).function.replace(".<locals>", "")


def _unguarded(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each private name of torch without a guard: `torch._x`, `torch.x._y`, imports of them.

    A guard is a test of the version, of the name's presence, or of a flag made from one, above it in the same function
    or statement; or a `try` around it that catches the error. Annotations are not used.
    """
    nodes = list(walk([module.tree]))
    assigned = (node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None)
    flags = {dotted_name(to) for node in assigned if any(map(_is_guard, walk([node.value]))) for to in targets_of(node)}
    flags.discard("")
    guards = [node.lineno for node in nodes if _is_guard(node) or _written(node) in flags]  # type: ignore[attr-defined]
    tried = [node for node in nodes if isinstance(node, ast.Try) and any(map(_catches_absence, node.handlers))]
    types = {part for node in nodes for name in ("annotation", "returns") for part in walk([getattr(node, name, None)])}
    for node in nodes:
        for name in filter(None, map(_private_part, _full_names(module, node))):
            line: int = node.lineno  # type: ignore[attr-defined]
            around = nodes_around(module.tree, line)
            first = first_line(next((each for each in around if not isinstance(each, ast.ClassDef)), around[0]))
            is_tried = any(each.lineno <= line <= last_line(each) for each in tried)
            if not (is_tried or node in types or any(first <= guard <= line for guard in guards)):
                yield line, name


def _full_names(module: Module, node: ast.AST) -> list[str]:
    """Return `torch.nn.utils._x` for an attribute of torch under any imported name, and for imports of it."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(names=names, level=0, module=str(origin)):
            return [f"{origin}.{alias.name}" for alias in names]
        case ast.Attribute():
            return [module.full_name(dotted_name(node))]
    return []


def _is_guard(node: ast.AST) -> bool:
    """Return whether an expression tests torch's version, the presence of a name, or TYPE_CHECKING."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in _PRESENCE
    return _VERSION.search(_written(node)) is not None or _written(node).endswith("TYPE_CHECKING")


def _written(node: ast.AST) -> str:
    return dotted_name(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _private_part(name: str) -> str:
    """Return `torch.nn.utils._x` up to its first private part, or ""; `__version__` and the like are public.

    Attributes of a class of torch are not torch's names.
    """
    found = re.match(r"torch\.(?:[a-z]\w*\.)*_(?!_)\w*", name)
    return found[0] if found else ""


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the error of a missing name."""
    types = walk([handler.type]) if handler.type is not None else ()
    caught = {last_name(node) for node in types if isinstance(node, ast.expr)}
    return handler.type is None or not _ABSENCE.isdisjoint(caught)


_FINISHING = re.compile(r"(materiali[sz]e|finish|finali[sz]e|wait)(_\w+)?")
_MAY_FINISH = re.compile(rb"\bdef (materiali[sz]e|finish|finali[sz]e|wait)")
_READS = frozenset(("item", "tolist", "cpu", "numpy"))


def missing_collections(context: SourceContext) -> Found:
    """Yield the public functions that read back the keys of a mapping which no public function returns.

    `materialize_stats(pending)` is such a function.
    """
    examined, index = 0, context.index
    calls = CollectorCalls(index)
    for module in context.modules:
        if not _MAY_FINISH.search(index.source_of(module)):
            continue
        for finisher, keys in context.followed(module, _finishers):
            examined += 1
            word = min(keys).encode()
            trees = [one for one in index.all_modules if not one.is_test and word in index.source_of(one)]
            functions = (one for tree in trees for one in tree.defined() if one is not finisher)
            # Of other files only public functions count.
            known = (one for one in functions if one.module is module or not re.search(r"(^|\.)_", one.qualified_name))
            if any(_produces(calls, one, keys) for one in known):
                continue
            rows: list[Any] = [("producer_count", 0, "count", {"input": "the keys " + ", ".join(sorted(keys))})]
            for tree in trees:
                for line in _mappings(tree, keys):
                    function = _function_at(tree, line)
                    if (tree, function) != (module, finisher.qualified_name):
                        rows.append(("written_by_hand", line, "line", {"file": tree.file, "function": function}))
            yield Finding(finisher.call, module, finisher.line, finisher.qualified_name, rows)
    yield {"finishers": examined}


def _finishers(tree: Module) -> Iterator[tuple[Function, frozenset[str]]]:
    """Yield the functions that read back their argument, with the text keys that they need."""
    for function in tree.defined():
        reads_back = any(
            (isinstance(node, ast.Attribute) and node.attr in _READS)
            or (isinstance(node, ast.Call) and dotted_name(node.func) in ("float", "int"))
            for node in function.nodes
        )
        if reads_back and _FINISHING.fullmatch(function.name):
            found = (frozenset(consumed_keys(function, item.arg)) for item in function.required)
            yield from ((function, keys) for keys in list(filter(None, found))[:1])


def _produces(calls: CollectorCalls, one: Function, keys: frozenset[str]) -> bool:
    """Return whether a function returns a mapping with these keys, itself or through helpers, and does not train."""
    return keys.issubset(calls.produced_keys(one)) and not trains(one.node)


def _mappings(tree: Module, keys: frozenset[str]) -> Iterable[int]:
    """Return the lines of mappings with at least three quarters of the keys: `{"a": ...}` and `dict(a=...)`."""
    found = set[int]()
    for node in walk([tree.tree]):
        held: set[str | None] = set()
        if isinstance(node, ast.Dict):
            held = {text_in(key) for key in node.keys}
        elif isinstance(node, ast.Call) and dotted_name(node.func) == "dict":
            held = {item.arg for item in node.keywords}
        if 4 * len(keys & held) >= 3 * len(keys):
            found.add(node.lineno)  # type: ignore[attr-defined]
    return sorted(found)
