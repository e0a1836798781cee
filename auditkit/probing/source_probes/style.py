"""Checks of the source for upkeep: exports, unused and untested names, private names, defaults, missing producers.

Each check is a generator of findings for one probe; it ends with the counts of what it examined.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditkit.probing.find.answers import consumed_keys, literal_keys, values_of
from auditkit.probing.find.candidates import collects_by_itself
from auditkit.probing.source.modules import (
    Class,
    Function,
    FunctionNode,
    Module,
    changed_by,
    dotted_name,
    last_name,
    targets_of,
    text_in,
    top_level,
)
from auditkit.probing.source.walking import children, walk

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
    "no_grad", "enable_grad", "inference_mode", "compile", "disable", "autocast", "custom_fwd", "custom_bwd",
    "script", "ignore", "unused", "lru_cache", "cache", "cached_property", "property", "staticmethod",
    "classmethod", "contextmanager", "asynccontextmanager", "wraps", "deprecated", "njit", "jit", "final",
    "override", "total_ordering", "dataclass", "singledispatch", "setter", "typechecked", "beartype", "profile",
    "record_function",
})  # fmt: skip


def unused_functions(context: SourceContext) -> Found:
    """Yield the public functions and methods that no code, test, export, setting or prose of the checkout names."""
    from vulture import Vulture

    index, code = context.index, Vulture()
    for module in index.modules:
        code.scan(index.source_of(module).decode("utf-8", "replace"), module.file)
    named = set(code.used_names) | index.unparsed_words | index.other_words
    for module in index.modules:
        named.update(item.name for item in module.imports)
        named |= module.strings
    starred = {origin for module in index.modules for item in module.imports if item.name == "*"
               for origin, _ in context.links.targets(item)}  # fmt: skip
    functions = 0
    for module in context.modules:
        asked = [item for item in module.public() if isinstance(item, Function) and not _is_hook(item)]
        functions += len(asked)
        unused = [
            item
            for item in asked
            if item.name not in named
            and not item.has_example
            and module.name not in starred
            and item.decorators <= _PLAIN_DECORATORS
        ]
        if unused:
            rows = [
                ("named_by", "nothing", "text", {"function": item.qualified_name, "line": item.line}) for item in unused
            ]
            yield Finding(module.name, module, unused[0].line, unused[0].qualified_name, rows)
    yield {"functions": functions}


def _is_hook(function: Function) -> bool:
    """Return whether pytest or a framework may call it: a method of a class with a base outside the module."""
    has_other_base = function.owner is not None and not _has_own_bases(function.owner)
    return function.name.startswith(("pytest_", "test_")) or has_other_base


def _has_own_bases(owner: Class) -> bool:
    own = owner.module.classes
    plain = ("object", "ABC", "abc.ABC", "Generic")
    return all(
        base in plain or (base in own and own[base] is not owner and _has_own_bases(own[base])) for base in owner.bases
    )


_COLLECTOR_WORDS = ("grad", "norm", "stat", "health", "collect")


def untested_collectors(context: SourceContext) -> Found:
    """Yield the public collectors, and similarly named code in the same module, that no test file names."""
    if not context.index.has_tests:
        raise context.NotApplicable("the checkout has no test file (test_*.py, *_test.py, tests/)")
    words = {word.lower().replace("test", "_test_") for word in context.index.words_of_tests}
    in_tests = " ".join(f"_{word}_" for word in words)
    definitions = 0
    for module in context.modules:
        if module.is_side:
            continue
        qualified = context.followed(module, lambda tree: (f.qualified_name for f in tree.defined() if _collects(f)))
        collectors = {name.partition(".")[0] for name in qualified}
        untested = []
        for item in module.public():
            if isinstance(item, Function) and item.owner is not None:
                continue
            if item.qualified_name in collectors or (collectors and _is_named_like_one(item)):
                definitions += 1
                tested = [item, *(_public_methods(item) if isinstance(item, Class) else ())]
                if not any(one.has_example or f"_{one.name.lower()}_" in in_tests for one in tested):
                    untested.append(item)
        if untested:
            rows = [
                ("test_count", 0, "count", {"name": one.qualified_name, "kind": kind, "line": one.line})
                for one in untested
                for kind in ["class" if isinstance(one, Class) else "function"]
            ]
            yield Finding(module.name, module, untested[0].line, untested[0].qualified_name, rows)
    yield {"definitions": definitions}


def _collects(function: Function) -> bool:
    return bool(collects_by_itself(function))


def _is_named_like_one(item: Function | Class) -> bool:
    """Return whether something beside collectors is named like one: `materialize_grad_stats`, `DualGradientStats`."""
    is_named_so = any(word in item.name.lower() for word in _COLLECTOR_WORDS)
    return is_named_so and (isinstance(item, Function) or bool(_public_methods(item)))


def _public_methods(owner: Class) -> list[Function]:
    return [method for method in owner.methods.values() if method.is_public]


def partial_exports(context: SourceContext) -> Found:
    """Yield modules whose package exports some of their names, but not others that outside code imports."""
    importers: dict[tuple[str, str], list[Module]] = defaultdict(list)
    for user in context.index.modules:
        for item in user.imports:
            for key in context.links.targets(item):
                if key[1] and key[0] != user.name:
                    importers[key].append(user)
    for module in context.modules:
        if module.is_package or any(part.startswith("_") for part in module.name.split(".")):
            continue
        parts = module.name.split(".")
        around = (context.index.by_name.get(".".join(parts[:end])) for end in range(len(parts) - 1, 0, -1))
        packages = [package for package in around if package is not None and package.is_package]
        found = [
            (package, item)
            for package in packages
            for item in package.imports
            if item.name
            and not item.local.startswith("_")
            and any(origin == module.name for origin, _ in context.links.targets(item))
        ]
        # A package that exports nothing of a module expects its users to import the module itself.
        if not found or any(item.name == "*" for _, item in found) or any(_exports(package)[1] for package in packages):
            continue
        exported = {item.name for _, item in found}
        listed = exported.union(*(_exports(package)[0] for package in packages))
        package, first = min(found, key=lambda pair: (-len(pair[0].name), pair[1].line))
        case = {"package": package.name, "exported": _joined(sorted(exported))}
        rows = []
        for name in sorted((module.own_names | module.bound) - listed):
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


def _exports(package: Module) -> tuple[set[str], bool]:
    """Return the names of `__all__`, and whether the package creates names that its source does not show."""
    names, is_open = set[str](), "__getattr__" in package.own_names | package.bound
    for statement in top_level(package.tree.body):
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")), args=[value])):
                added: ast.expr | None = value
            case _:
                targets = [part for each in changed_by(statement) for part in (*getattr(each, "elts", ()), each)]
                added = getattr(statement, "value", None) if "__all__" in map(dotted_name, targets) else None
        for part in walk([added] if added is not None else []):
            names |= {text_in(part)} - {""}
            is_open |= not isinstance(part, ast.Constant | ast.List | ast.Tuple | ast.Set | ast.BinOp)
    return names, is_open


def _joined(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


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
        groups: dict[tuple[str, float], list[tuple[Function | Class, int]]] = defaultdict(list)
        for item in module.definitions():
            defaults = _numbers(item)
            signatures += bool(defaults)
            for parameter, value, line in defaults:
                if value not in _PLAIN_NUMBERS and _THRESHOLD.fullmatch(parameter):
                    groups[parameter, value].append((item, line))
        for (parameter, value), places in groups.items():
            # A method of several classes is an interface.
            names = {
                one.name if isinstance(one, Function) and one.owner and one.name != "__init__" else one.qualified_name
                for one, _ in places
            }
            nodes = walk([module.tree]) if len(names) > 1 else ()
            if any(_decides(node, parameter) for node in nodes):
                subject = f"{module.name.partition('.')[0]}:{parameter}={value:.12g}"
                one, line = min(places, key=lambda place: place[1])
                of_subject = found.setdefault(subject, Finding(subject, module, line, one.qualified_name))
                for one, line in sorted(places, key=lambda place: place[1]):
                    case = {"file": module.file, "signature": one.qualified_name}
                    of_subject.rows.append(("default", line, "line", case))
    yield from found.values()
    yield {"signatures": signatures}


def _numbers(item: Function | Class) -> list[tuple[str, float, int]]:
    """Return the literal defaults of a function, or of a dataclass's fields: name, number and line."""
    if isinstance(item, Function):
        given: list[tuple[str, ast.expr | None]] = [*item.defaults.items()]
        is_called = item.decorators.isdisjoint(("overload", "abstractmethod"))
    else:  # a dataclass's fields are the parameters of its `__init__`
        given = [(each.target.id, each.value) for each in item.fields if isinstance(each.target, ast.Name)]
        is_called = not item.decorators.isdisjoint(("dataclass", "define", "frozen"))
    numbers = [(name, _number(node), node.lineno) for name, node in given if node is not None]
    return [(name, number, line) for name, number, line in numbers if number is not None] if is_called else []


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
    if isinstance(node, ast.Call) and _DECIDING.fullmatch(dotted_name(node.func).rpartition(".")[2]):
        return any(_names(given, parameter) for given in [*node.args, *(word.value for word in node.keywords)])
    return False


def _names(node: ast.expr, parameter: str) -> bool:
    parts = (part for part in walk([node]) if isinstance(part, ast.expr))
    return any(dotted_name(part).rpartition(".")[2].lstrip("_") == parameter for part in parts)


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
    pin = _pin(context)
    for module in context.modules:
        if b"torch" not in context.index.source_of(module):
            continue
        uses = context.followed(module, lambda tree: _PrivateUses(tree).found())
        if uses:
            rows: list[tuple[str, Any, str, dict[str, Any]]] = [
                ("private_use", line, "line", {"name": name, **({"function": function} if function else {})})
                for line, name, function in uses
            ]
            rows.append(("pin", pin, "text", {}))
            yield Finding(module.name, module, uses[0][0], uses[0][2], rows)
    yield {}


def _pin(context: SourceContext) -> str:
    """Return how the checkout's own requirements pin torch to one release, such as `torch==2.9.1`; else "none"."""
    for source in context.index.files:
        if _DECLARES.search(source.name):
            for found in _REQUIRES.finditer(context.index.text_of(source)):
                if _ONE_RELEASE.search(found[1]):
                    return f"torch{found[1]}".strip(" ),")
    return "none"


class _PrivateUses:
    """The unguarded private names of torch in one module: `torch._x`, `torch.x._y`, and imports of them.

    A guard is a test of the version or of the name's presence, around the use, in an earlier `if` that leaves, or
    stored in a name; or a `try` that catches the error.
    """

    def __init__(self, module: Module) -> None:
        self._nodes = list(walk([module.tree]))
        self._parents = {child: node for node in self._nodes for child in children(node)}
        self._imports = {}
        for local, origin in module.origins.items():
            full = origin.replace(":", ".")
            if full == "torch" or (full.startswith("torch.") and not full.rpartition(".")[2][:1].isupper()):
                self._imports[local] = full
        self._flags: set[str] = set()
        self._flags = {
            target.id
            for node in self._nodes
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and self._guards(node.value)
            for target in targets_of(node)
            if isinstance(target, ast.Name)
        }

    def found(self) -> list[tuple[int, str, str]]:
        """Return line, private name, and the function around it."""
        found = set()
        for node in self._nodes:
            for private in filter(None, map(private_part, self._names(node))):
                if not self._is_guarded(node):
                    around = [each.name for each in self._around(node) if isinstance(each, FunctionNode | ast.ClassDef)]
                    found.add((node.lineno, private, ".".join(reversed(around))))  # type: ignore[attr-defined]
        return sorted(found)

    def _names(self, node: ast.AST) -> list[str]:
        """Return `torch.nn.utils._x` for an attribute of torch under any imported name, and for imports of it."""
        match node:
            case ast.Import(names=names):
                return [alias.name for alias in names]
            case ast.ImportFrom(names=names, level=0, module=str(origin)):
                return [f"{origin}.{alias.name}" for alias in names]
            case ast.Attribute():
                head, _, rest = dotted_name(node).partition(".")
                return [f"{self._imports[head]}.{rest}"] if head in self._imports else []
        return []

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        while (node := self._parents.get(node)) is not None:  # type: ignore[assignment]
            yield node

    def _is_guarded(self, node: ast.AST) -> bool:
        for outer in self._around(node):
            match outer:
                case ast.If(test=test) | ast.IfExp(test=test):
                    guards = [test]
                case ast.BoolOp(values=values):
                    guards = values
                case ast.FunctionDef(decorator_list=guards) | ast.ClassDef(decorator_list=guards):
                    pass
                case _:
                    guards = []
            caught = [outer] if isinstance(outer, ast.ExceptHandler) else []
            if isinstance(outer, ast.Try) and node not in outer.finalbody:
                caught = outer.handlers
            is_type = node in (getattr(outer, "annotation", None), getattr(outer, "returns", None))
            if is_type or any(map(self._guards, guards)) or any(map(_catches_absence, caught)):
                return True
            suites = (getattr(outer, name, None) for name in ("body", "orelse", "finalbody"))
            suite = next((each for each in suites if isinstance(each, list) and node in each), [])
            if any(map(self._guards_the_rest, suite[: suite.index(node)] if suite else ())):
                return True
            node = outer
        return False

    def _guards_the_rest(self, statement: ast.stmt) -> bool:
        """Return whether a statement guards what follows: `if not hasattr(...): return`, `assert hasattr(...)`."""
        if isinstance(statement, ast.If):
            leaves = isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
            return leaves and self._guards(statement.test)
        return isinstance(statement, ast.Assert) and self._guards(statement.test)

    def _guards(self, test: ast.AST) -> bool:
        """Return whether an expression tests torch's version, the presence of a name, or TYPE_CHECKING."""
        for node in walk([test]):
            if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in _PRESENCE:
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                written = dotted_name(node)
                if written in self._flags or _VERSION.search(written) or written.endswith("TYPE_CHECKING"):
                    return True
        return False


def private_part(name: str) -> str:
    """Return `torch.nn.utils._x` up to its first private part, or ""; `__version__` and the like are public."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if place and parts[0] == "torch" and part.startswith("_") and not part.endswith("__"):
            return ".".join(parts[: place + 1])
    return ""


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the error of a missing name."""
    types = walk([handler.type]) if handler.type is not None else ()
    caught = {dotted_name(node).rpartition(".")[2] for node in types if isinstance(node, ast.expr)}
    return handler.type is None or not _ABSENCE.isdisjoint(caught)


_FINISHING = re.compile(r"(materiali[sz]e|finish|finali[sz]e|wait)(_\w+)?")
_MAY_FINISH = re.compile(rb"\bdef (materiali[sz]e|finish|finali[sz]e|wait)")
_READS = frozenset(("item", "tolist", "cpu", "numpy"))
_TRAINS = frozenset(("backward", "step", "zero_grad"))


@dataclass(frozen=True)
class Collection:
    """A function that reads back the `keys` of a mapping; the functions that return it, and mappings written by hand.

    `materialize_stats(pending)` is such a function. `by_hand` has the file, the line and the function of each mapping.
    """

    module: Module
    function: Function
    keys: frozenset[str]
    producers: list[Function]
    by_hand: list[tuple[str, int, str]]


def missing_collections(context: SourceContext) -> Found:
    """Yield the finishing functions whose input no public function produces."""
    examined = 0
    for found in collections_of(context):
        examined += 1
        if not found.producers:
            words = "the keys " + ", ".join(sorted(found.keys))
            rows: list[tuple[str, Any, str, dict[str, Any]]] = [("producer_count", 0, "count", {"input": words})]
            for file, line, function in found.by_hand:
                rows.append(("written_by_hand", line, "line", {"file": file, "function": function}))
            yield Finding(
                found.function.call, found.module, found.function.node.lineno, found.function.qualified_name, rows
            )
    yield {"finishers": examined}


def collections_of(context: SourceContext) -> Iterator[Collection]:
    """Yield every public finishing function, with the functions that collect its input and mappings written by hand."""
    index = context.index
    for module in context.modules:
        if not _MAY_FINISH.search(index.source_of(module)):
            continue
        for function, keys in context.followed(module, _finishers):
            word = min(keys).encode()
            trees = [one for one in index.modules if not one.is_test and word in index.source_of(one)]
            yield _collection(module, function, keys, trees)


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


def _collection(module: Module, finisher: Function, keys: frozenset[str], trees: Sequence[Module]) -> Collection:
    functions = [function for tree in trees for function in tree.defined()]
    given = {id(one): [item for value in _returned(one) for item in values_of(one, value)] for one in functions}
    calls = {
        key: {last_name(item.func) for item in items if isinstance(item, ast.Call)} for key, items in given.items()
    }
    # Keys of several returns count together: a finisher may read some only if others are missing.
    made = {id(one): {key for value in _returned(one) for key in literal_keys(one, value)} for one in functions}
    direct = [one for one in functions if keys <= made[id(one)] and not _trains(one)]
    found = {id(one): one for one in direct}
    for _ in range(3):  # a function that calls a producer is one
        names = {one.name for one in found.values()}
        found |= {id(one): one for one in functions if calls[id(one)] & names}
    producers = [one for one in found.values() if _may_be_called(one, finisher)]
    known = {(one.module.file, one.qualified_name) for one in [*producers, finisher]}
    written = (one for tree in trees for one in _mappings(tree))
    by_hand = [
        (file, line, function)
        for file, line, function, held in written
        if (file, function) not in known and 4 * len(keys & held) >= 3 * len(keys)
    ]
    return Collection(module, finisher, keys, producers, sorted(by_hand))


def _may_be_called(function: Function, finisher: Function) -> bool:
    """Return whether a producer can be called: a private one only in its file; not the finisher itself."""
    is_public = not any(part.startswith("_") for part in function.qualified_name.split("."))
    is_other = function.qualified_name != finisher.qualified_name
    return is_other and (is_public or function.module.file == finisher.module.file)


def _returned(function: Function) -> list[ast.expr]:
    values = (node.value for node in function.nodes if isinstance(node, ast.Return | ast.Yield))
    return [value for value in values if value is not None]


def _trains(function: Function) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in _TRAINS for node in function.nodes)


def _keys_of(node: ast.AST) -> frozenset[str]:
    """Return the text keys of `{"a": ...}` and `dict(a=...)`; none for anything else."""
    keys: list[str | None] = []
    if isinstance(node, ast.Dict):
        keys = [text_in(key) for key in node.keys if key is not None]
    elif isinstance(node, ast.Call) and dotted_name(node.func) == "dict":
        keys = [item.arg for item in node.keywords]
    return frozenset(key for key in keys if key)


def _mappings(tree: Module) -> Iterator[tuple[str, int, str, frozenset[str]]]:
    """Yield every mapping with text keys in a module, with the function around it."""
    waiting: list[tuple[ast.AST, str]] = [(tree.tree, "")]
    while waiting:
        node, function = waiting.pop()
        keys = _keys_of(node)
        if keys and isinstance(node, ast.expr):
            yield tree.file, node.lineno, function, keys
        if isinstance(node, FunctionNode | ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
        waiting += [(item, function) for item in children(node)]
