"""Checks of the source for upkeep: names that nothing exports, uses, tests, guards, repeats only once, or collects.

Each check is a generator of findings for one probe; it ends with the counts of what it examined.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditkit.probing.find.answers import consumed_keys
from auditkit.probing.find.candidates import collects_by_itself
from auditkit.probing.source.facts import Definition, ModuleFacts, Signature
from auditkit.probing.source.links import Links
from auditkit.probing.source.modules import (
    Function,
    FunctionNode,
    Module,
    dotted_name,
    targets_of,
    text_in,
)
from auditkit.probing.source.walking import FIELDS, children, walk

if TYPE_CHECKING:
    from auditkit.probing.source_probes.context import SourceContext


@dataclass(frozen=True)
class Finding:
    """What a check found about one subject, at a line of a module: rows of name, value, unit and case."""

    subject: str
    module: ModuleFacts
    line: int
    function: str = ""
    rows: list[tuple[str, Any, str, dict[str, Any]]] = field(default_factory=list)


Found = Iterator[Finding | Mapping[str, int]]


# --- public_function_unused --------------------------------------------------------------------------

# Decorators that change how a function runs, and do not register it anywhere.
_PLAIN_DECORATORS = frozenset({
    "no_grad", "enable_grad", "inference_mode", "compile", "disable", "autocast", "custom_fwd", "custom_bwd",
    "script", "ignore", "unused", "lru_cache", "cache", "cached_property", "property", "staticmethod",
    "classmethod", "contextmanager", "asynccontextmanager", "wraps", "deprecated", "njit", "jit", "final",
    "override", "total_ordering", "dataclass", "singledispatch", "setter", "typechecked", "beartype", "profile",
    "record_function",
})  # fmt: skip


def unused_functions(context: SourceContext) -> Found:
    """The public functions and methods that no code, test, export, setting or prose of the checkout names."""
    from vulture import Vulture

    index, code = context.index, Vulture()
    for module in index.modules:
        code.scan(index.source_of(module).decode("utf-8", "replace"), module.file)
    named = set(code.used_names) | index.unparsed_words | index.words_of_settings.keys() | index.words_of_prose.keys()
    for module in index.modules:
        named.update(item.name for item in module.imports)
        named |= module.references.strings
    starred = {origin for module in index.modules for item in module.imports if item.name == "*"
               for origin, _ in context.links.targets(item)}  # fmt: skip
    functions = 0
    for module in context.modules:
        asked = [item for item in module.public("function", "method") if not _is_hook(context, item)]
        functions += len(asked)
        unused = [
            item
            for item in asked
            if item.name not in named
            and not item.has_example
            and module.name not in starred
            and all(name.rpartition(".")[2] in _PLAIN_DECORATORS for name in item.decorators)
        ]
        if unused:
            rows = [
                ("named_by", "nothing", "text", {"function": item.qualified_name, "line": item.line}) for item in unused
            ]
            yield Finding(module.name, module, unused[0].line, unused[0].qualified_name, rows)
    yield {"functions": functions}


def _is_hook(context: SourceContext, item: Definition) -> bool:
    """Whether pytest or a framework may call it: a method of a class with a base outside the checkout."""
    if item.name.startswith(("pytest_", "test_")):
        return True
    return item.kind == "method" and not _has_own_bases(context, item.module, item.owner, set())


def _has_own_bases(context: SourceContext, module: str, owner: str, seen: set[tuple[str, str]]) -> bool:
    facts = context.index.by_name.get(module)
    found = _class_of(facts, owner) if facts is not None else None
    if facts is None or found is None or (module, owner) in seen:
        return False
    seen.add((module, owner))
    for base in found.bases:
        if base in ("object", "ABC", "abc.ABC", "Generic"):
            continue
        targets = [(origin, name) for origin, name, rest in context.links.dotted_targets(facts, base) if not rest]
        if _class_of(facts, base) is not None:
            targets = [(module, base)]
        if not any(_has_own_bases(context, origin, name, seen) for origin, name in targets):
            return False
    return True


def _class_of(facts: ModuleFacts, name: str) -> Definition | None:
    return next((item for item in facts.definitions if item.kind == "class" and item.qualified_name == name), None)


# --- public_function_untested ------------------------------------------------------------------------

_COLLECTOR_WORDS = ("grad", "norm", "stat", "health", "collect")


def untested_collectors(context: SourceContext) -> Found:
    """The public collectors, and what is named like them in the same module, that no test file names."""
    if not context.index.has_tests:
        raise context.NotApplicable("the checkout has no test file (test_*.py, *_test.py, tests/)")
    used, words = _named_by_tests(context)
    in_names = " ".join({f"_{word.lower().replace('test', '_test_')}_" for word in words})
    definitions = 0
    for module in context.modules:
        if module.is_side:
            continue
        qualified = context.followed(module, lambda tree: (f.qualified_name for f in tree.defined() if _collects(f)))
        collectors = {name.partition(".")[0] for name in qualified}
        untested = []
        for item in module.public("function", "class"):
            if item.qualified_name in collectors or (collectors and _is_named_like_one(module, item)):
                definitions += 1
                methods = [m for m in module.definitions if m.owner == item.qualified_name and m.is_public]
                tested = [item, *(methods if item.kind == "class" else ())]
                is_special = "_" in item.name or item.name != item.name.lower()
                if not (
                    any(one.has_example or one.name in used for one in tested)
                    or f"_{item.name.lower()}_" in in_names
                    # In a comment or docstring, unless the name is an everyday word.
                    or (is_special and item.name in words)
                ):
                    untested.append(item)
        if untested:
            rows = [
                ("test_count", 0, "count", {"name": item.qualified_name, "kind": item.kind, "line": item.line})
                for item in untested
            ]
            yield Finding(module.name, module, untested[0].line, untested[0].qualified_name, rows)
    yield {"definitions": definitions}


def _collects(function: Function) -> bool:
    return bool(collects_by_itself(function))


def _named_by_tests(context: SourceContext) -> tuple[set[str], frozenset[str]]:
    """The names that the code of tests uses, and every word of the test files."""
    used: set[str] = set()
    for module in context.index.modules:
        if module.is_test:
            refers = module.references
            used |= refers.names | refers.attributes | refers.own | refers.strings
            used.update(part for written in refers.dotted for part in written.split("."))
            used.update(item.name for item in module.imports)
    return used, context.index.words_of_tests


def _is_named_like_one(module: ModuleFacts, item: Definition) -> bool:
    """Whether something beside collectors is named like one: `materialize_grad_stats`, `DualGradientStats`."""
    is_named_so = any(word in item.name.lower() for word in _COLLECTOR_WORDS)
    return is_named_so and (item.kind != "class" or module.has_public_methods(item))


# --- used_name_not_exported --------------------------------------------------------------------------


def partial_exports(context: SourceContext) -> Found:
    """The modules whose package exports some of their names and lacks others that are imported from outside."""
    importers: dict[tuple[str, str], list[ModuleFacts]] = defaultdict(list)
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
        # One that exports nothing of a module has decided that its users import the module itself.
        if not found or any(item.name == "*" for _, item in found) or any(package.is_open for package in packages):
            continue
        exported = {item.name for _, item in found}
        listed = exported.union(*(package.exports or () for package in packages))
        package, first = min(found, key=lambda pair: (-len(pair[0].name), pair[1].line))
        case = {"package": package.name, "exported": _joined(sorted(exported))}
        rows = []
        for name in sorted(module.own_names - listed):
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


def _joined(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


# --- default_repeated ----------------------------------------------------------------------------------

_PLAIN_NUMBERS = frozenset((-1.0, 0.0, 1.0, 2.0))
# What a run is tuned with (lr, gamma, batch_size, dropout) differs from place to place on purpose.
_THRESHOLD = re.compile(
    r"(\w+_)?(thresh(old)?|tol(erance)?|[ar]tol|limit|bound|cutoff|floor|ceiling|eps(ilon)?|clip(ping)?|clamp)s?(_\w+)?"
    r"|(\w+_)?norm|m(ax|in)_(grad\w*|value|ratio)"
)
_DECIDING = re.compile(r"(clamp|clip|isclose|allclose|minimum|maximum|min|max|threshold)\w*")


@dataclass(frozen=True)
class _Place:
    """One signature with the default, at the line of the default."""

    module: ModuleFacts
    signature: Signature
    line: int

    @property
    def interface(self) -> tuple[str, str]:
        """What counts once: a method's name whatever its class, any other signature for itself."""
        one = self.signature
        is_method = one.owner and one.name != "__init__"
        return ("method", one.name) if is_method else (self.module.name, one.qualified_name)


def repeated_defaults(context: SourceContext) -> Found:
    """The thresholds that several signatures of one package repeat, if code beside them decides by them.

    Signatures belong together in one module, or where one passes the parameter to the other.
    """
    groups: dict[tuple[str, str, float], list[_Place]] = defaultdict(list)
    for module in context.index.modules:
        for signature in () if module.is_test else module.signatures:
            for parameter, value, line in signature.defaults:
                if value not in _PLAIN_NUMBERS and _THRESHOLD.fullmatch(parameter):
                    package = module.name.partition(".")[0]
                    groups[package, parameter, value].append(_Place(module, signature, line))
    own = {module.name for module in context.modules}
    for (package, parameter, value), places in groups.items():
        together = [place for part in _connected(places, parameter, context.links) for place in part]
        modules = {place.module.name: place.module for place in together}

        def decides(tree: Module, parameter: str = parameter) -> bool:
            return any(_decides(node, parameter) for node in walk([tree.tree]))

        if own & modules.keys() and any(context.index.read_tree(module, decides) for module in modules.values()):
            rows = []
            for place in together:
                case = {"file": place.module.file, "signature": place.signature.qualified_name}
                rows.append(("default", place.line, "line", case))
            first = together[0]
            subject = f"{package}:{parameter}={value:.12g}"
            yield Finding(subject, first.module, first.line, first.signature.qualified_name, rows)
    yield {"signatures": sum(len(module.signatures) for module in context.modules)}


def _decides(node: ast.AST, parameter: str) -> bool:
    """Whether code compares or clamps with a value of that name; checks of its own range do not count."""
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


def _connected(places: list[_Place], parameter: str, links: Links) -> Iterator[list[_Place]]:
    """The parts of at least two signatures that one module, or a call, connects."""
    part_of: dict[str, list[_Place]] = defaultdict(list)
    for place in places:
        part_of[place.module.file].append(place)
    by_call = {}
    for place in places:
        one = place.signature  # a call names a class for its `__init__`
        by_call[place.module.name, one.owner if one.name == "__init__" else one.qualified_name] = place
    for giver in places:
        for forward in giver.signature.forwards:
            if forward.parameter != parameter or forward.keyword not in ("", parameter):
                continue
            for origin, name, rest in links.dotted_targets(giver.module, forward.callee):
                taker = by_call.get((origin, f"{name}.{rest}" if rest else name), giver)
                first, second = part_of[giver.module.file], part_of[taker.module.file]
                if first is not second:
                    first += second
                    part_of.update({place.module.file: first for place in second})
    for part in {id(part): part for part in part_of.values()}.values():
        if len({place.interface for place in part}) > 1:
            yield sorted(part, key=lambda place: (place.module.file, place.line))


# --- private_torch_api_without_fallback ----------------------------------------------------------------

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
# At the top: what an example or an archived version below requires says nothing of the checkout.
_DECLARES = re.compile(
    r"^(pyproject\.toml|setup\.(cfg|py)|([^/]*requirements|requirements/)[^/]*\.(txt|in)|environment\.ya?ml)$"
)


def private_uses(context: SourceContext) -> Found:
    """The uses of torch's private names that nothing guards, and how the checkout pins torch."""
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
    """How the checkout's own requirements hold torch to one release, such as `torch==2.9.1`; else "none"."""
    for source in context.index.files:
        if _DECLARES.search(source.name):
            for found in _REQUIRES.finditer(context.index.text_of(source)):
                if _ONE_RELEASE.search(found[1]):
                    return f"torch{found[1]}".strip(" ),")
    return "none"


class _PrivateUses:
    """The unguarded private names of torch in one module: `torch._x`, `torch.x._y`, and imports of them.

    A guard is a test of the version or of the name's presence around the use, or in an earlier `if` that leaves, or
    kept in a name; or a `try` that catches what its absence raises.
    """

    def __init__(self, module: Module) -> None:
        self._tree = module.tree
        self._imports = {}
        for local, origin in module.origins.items():
            full = origin.replace(":", ".")
            if full == "torch" or (full.startswith("torch.") and not full.rpartition(".")[2][:1].isupper()):
                self._imports[local] = full
        self._flags: set[str] = set()
        self._found: set[tuple[int, str, str]] = set()

    def found(self) -> list[tuple[int, str, str]]:
        """Line, private name, and the function around it."""
        self._block(self._tree.body, False, "")
        return sorted(self._found)

    def _block(self, statements: Sequence[ast.stmt], guarded: bool, function: str) -> None:
        for statement in statements:
            self._visit(statement, guarded, function)
            if isinstance(statement, ast.If):  # `if not hasattr(...): return` guards the rest
                leaves = isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
                guarded = guarded or (leaves and self._guards(statement.test))
            guarded = guarded or (isinstance(statement, ast.Assert) and self._guards(statement.test))

    def _visit(self, node: ast.AST, guarded: bool, function: str) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self._note(alias.name, node.lineno, guarded, function)
            case ast.ImportFrom(names=names, level=0, module=str(origin)):
                for alias in names:
                    self._note(f"{origin}.{alias.name}", node.lineno, guarded, function)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                inner = f"{function}.{node.name}" if function else node.name
                heads: list[ast.AST] = [*node.decorator_list]
                if isinstance(node, ast.ClassDef):
                    heads += [*node.bases, *node.keywords]
                else:
                    heads += [*node.args.defaults, *(item for item in node.args.kw_defaults if item is not None)]
                for head in heads:
                    self._visit(head, guarded, inner)
                self._block(node.body, guarded or any(map(self._guards, node.decorator_list)), inner)
            case ast.If(test=test):
                about = guarded or self._guards(test)
                self._visit(test, about, function)
                self._block(node.body, about or "TYPE_CHECKING" in ast.unparse(test), function)
                self._block(node.orelse, about, function)
            case ast.Try() | ast.TryStar():
                caught = guarded or any(map(_catches_absence, node.handlers))
                self._block([*node.body, *node.orelse], caught, function)
                for handler in node.handlers:
                    # What runs where a name is missing is the fallback for the torch that has the other.
                    self._block(handler.body, guarded or _catches_absence(handler), function)
                self._block(node.finalbody, guarded, function)
            case ast.Attribute() if name := self._torch_name(node):
                self._note(name, node.lineno, guarded, function)
            case _:
                tests = [node.test] if isinstance(node, ast.IfExp) else []
                tests += node.values[:-1] if isinstance(node, ast.BoolOp) else []
                guarded = guarded or any(map(self._guards, tests))
                value = getattr(node, "value", None)
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and value and self._guards(value):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    self._flags |= {target.id for target in targets if isinstance(target, ast.Name)}
                for part in FIELDS.get(type(node), ()):
                    inner_nodes = getattr(node, part, None)
                    if part == "annotation":
                        continue
                    if isinstance(inner_nodes, list) and inner_nodes and isinstance(inner_nodes[0], ast.stmt):
                        self._block(inner_nodes, guarded, function)
                    else:
                        for child in inner_nodes if isinstance(inner_nodes, list) else [inner_nodes]:
                            if isinstance(child, ast.AST):
                                self._visit(child, guarded, function)

    def _torch_name(self, node: ast.Attribute) -> str:
        """`torch.nn.utils._x` for an attribute of torch however it was imported; "" for others."""
        head, _, rest = dotted_name(node).partition(".")
        return f"{self._imports[head]}.{rest}" if head in self._imports else ""

    def _note(self, name: str, line: int, guarded: bool, function: str) -> None:
        private = private_part(name)
        if private and not guarded:
            self._found.add((line, private, function))

    def _guards(self, test: ast.AST) -> bool:
        """Whether an expression tests torch's version or the presence of a name."""
        for node in walk([test]):
            if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in _PRESENCE:
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                written = dotted_name(node)
                if written in self._flags or _VERSION.search(written):
                    return True
        return False


def private_part(name: str) -> str:
    """`torch.nn.utils._x` up to its first private part, "" without one; `__version__` and the like are public."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if place and parts[0] == "torch" and part.startswith("_") and not part.endswith("__"):
            return ".".join(parts[: place + 1])
    return ""


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches what a missing name raises."""
    types = walk([handler.type]) if handler.type is not None else ()
    caught = {dotted_name(node).rpartition(".")[2] for node in types if isinstance(node, ast.expr)}
    return handler.type is None or not _ABSENCE.isdisjoint(caught)


# --- materialize_without_collect -----------------------------------------------------------------------

_FINISHING = re.compile(r"(materiali[sz]e|finish|finali[sz]e|wait)(_\w+)?")
_MAY_FINISH = re.compile(rb"\bdef (materiali[sz]e|finish|finali[sz]e|wait)")
_READS = frozenset(("item", "tolist", "cpu", "numpy"))
_TRAINS = frozenset(("backward", "step", "zero_grad"))
_RESULT_CLASS = re.compile(r"\w*(Stats|Statistics|Metrics|Health|Report|Quality)")
_DATACLASSES = frozenset(("dataclass", "define", "frozen"))
_ONLY_TYPES = frozenset(("isinstance", "issubclass", "cast", "TypeVar"))


@dataclass(frozen=True, order=True)
class WrittenMapping:
    """A mapping with text keys that some code writes out: where, and in which function."""

    file: str
    line: int
    function: str
    keys: frozenset[str]


@dataclass(frozen=True)
class Collection:
    """A function that reads back the `keys` of a mapping, or a `record`; who produces these, and who writes them out.

    `materialize_stats(pending)` is such a function, and a function that returns such a mapping its producer.
    """

    module: ModuleFacts
    function: Function
    keys: frozenset[str]
    record: str
    producers: list[Function]
    by_hand: list[WrittenMapping]


def missing_collections(context: SourceContext) -> Found:
    """The finishing functions whose input nothing public produces, and the results that nothing makes."""
    examined = 0
    for found in collections_of(context):
        examined += 1
        if not found.producers:
            words = "the keys " + ", ".join(sorted(found.keys)) if found.keys else f"a {found.record}"
            rows: list[tuple[str, Any, str, dict[str, Any]]] = [("producer_count", 0, "count", {"input": words})]
            for one in found.by_hand:
                rows.append(("written_by_hand", one.line, "line", {"file": one.file, "function": one.function}))
            function = found.function
            yield Finding(function.call, found.module, function.node.lineno, function.qualified_name, rows)
    for module, item in _results_nobody_makes(context):
        rows = [("instance_count", 0, "count", {"result": item.qualified_name})]
        yield Finding(item.subject, module, item.line, item.qualified_name, rows)
    yield {"finishers": examined}


def collections_of(context: SourceContext) -> Iterator[Collection]:
    """Every public function that finishes what others collect, with who collects it and where that is written out."""
    index = context.index
    for module in context.modules:
        if not _MAY_FINISH.search(index.source_of(module)):
            continue
        for function, keys, record in context.followed(module, _finishers):
            if not keys and _class_of(module, record) is None and not any(context.links.dotted_targets(module, record)):
                continue
            word = (min(keys) if keys else record.rpartition(".")[2]).encode()
            holding = [one for one in index.modules if not one.is_test and word in index.source_of(one)]
            trees = [index.tree_of(other) for other in holding]
            yield _collection(module, function, keys, record, trees)
            for tree in trees:
                index.let_go(tree)


def _finishers(tree: Module) -> Iterator[tuple[Function, frozenset[str], str]]:
    """The functions that read back what they are given: with the text keys that they demand, or the record's class."""
    for function in tree.defined():
        reads_back = any(
            (isinstance(node, ast.Attribute) and node.attr in _READS)
            or (isinstance(node, ast.Call) and dotted_name(node.func) in ("float", "int"))
            for node in function.nodes
        )
        for item in function.required if reads_back and _FINISHING.fullmatch(function.name) else ():
            keys, record = frozenset(consumed_keys(function, item.arg)), _record_name(item.annotation)
            if keys or record:
                yield function, keys, record
                break


def _record_name(annotation: ast.expr | None) -> str:
    """The class that a parameter is annotated with, "" for mappings and none."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value if annotation.value.isidentifier() else ""
    name = dotted_name(annotation) if annotation is not None else ""
    last = name.rpartition(".")[2]
    return name if last[:1].isupper() and last not in ("Any", "Mapping", "Dict", "Tensor", "Module") else ""


def _collection(
    module: ModuleFacts, finisher: Function, keys: frozenset[str], record: str, trees: Sequence[Module]
) -> Collection:
    functions = [function for tree in trees for function in tree.defined()]
    returned = {id(function): _returned(function) for function in functions}
    calls = {id(function): set(_called(function, returned[id(function)])) for function in functions}
    if keys:
        # Keys of several returns count together: a finisher reads some only where others are missing.
        direct = [one for one in functions if keys <= _returned_keys(one, returned[id(one)]) and not _trains(one)]
    else:
        name = record.rpartition(".")[2]
        direct = [one for one in functions if name in calls[id(one)] or _declared_return(one) == name]
    found = {id(one): one for one in direct}
    for _ in range(3):  # a function that calls a producer is one
        names = {one.name for one in found.values()}
        found |= {id(one): one for one in functions if calls[id(one)] & names}
    producers = [one for one in found.values() if _may_be_called(one, finisher)]
    known = {(one.module.file, one.qualified_name) for one in [*producers, finisher]}
    written = [one for tree in trees for one in _mappings(tree)] if keys else []
    others = (one for one in written if (one.file, one.function) not in known)
    by_hand = [one for one in others if 4 * len(keys & one.keys) >= 3 * len(keys)]
    return Collection(module, finisher, keys, record, producers, sorted(by_hand))


def _may_be_called(function: Function, finisher: Function) -> bool:
    """A private producer is one only for its neighbours; a finisher that passes its input on is none."""
    is_public = not any(part.startswith("_") for part in function.qualified_name.split("."))
    is_other = function.qualified_name != finisher.qualified_name
    return is_other and (is_public or function.module.file == finisher.module.file)


def _own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if type(node) in FIELDS and not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            yield node
            waiting += children(node)


def _returned(function: Function) -> list[ast.expr]:
    values = (node.value for node in _own_nodes(function.node) if isinstance(node, ast.Return | ast.Yield))
    return [value for value in values if value is not None]


def _trains(function: Function) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in _TRAINS for node in _own_nodes(function.node))


def _returned_keys(function: Function, returned: Iterable[ast.expr]) -> set[str]:
    """The text keys of the mappings in returned expressions: written there, or put together under their names."""
    found: set[str] = set()
    for value in returned:
        names = {node.id for node in walk([value]) if isinstance(node, ast.Name)}
        found = found.union(*map(_keys_of, walk([value])))
        for node in _own_nodes(function.node):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in targets_of(node):
                    if dotted_name(target) in names:
                        found = found.union(*map(_keys_of, walk([node.value])))
                    elif isinstance(target, ast.Subscript) and dotted_name(target.value) in names:
                        found |= _keys_of(node.value) | {text_in(target.slice)}
    return found - {""}


def _keys_of(node: ast.AST) -> frozenset[str]:
    """The text keys of `{"a": ...}` and `dict(a=...)`; none for anything else."""
    keys: list[str | None] = []
    if isinstance(node, ast.Dict):
        keys = [text_in(key) for key in node.keys if key is not None]
    elif isinstance(node, ast.Call) and dotted_name(node.func) == "dict":
        keys = [item.arg for item in node.keywords]
    return frozenset(key for key in keys if key)


def _called(function: Function, returned: list[ast.expr]) -> Iterator[str]:
    """The last words of what the returned expressions call, by one name at most."""
    names = {dotted_name(value) for value in returned} - {""}
    stored = [
        node.value
        for node in _own_nodes(function.node)
        if isinstance(node, ast.Assign) and names & set(map(dotted_name, node.targets))
    ]
    for node in walk([*returned, *stored]):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)


def _declared_return(function: Function) -> str:
    """The class that a function is annotated to return, "" for none."""
    node = function.node.returns
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return dotted_name(node).rpartition(".")[2] if node is not None else ""


def _mappings(tree: Module) -> Iterator[WrittenMapping]:
    """Every mapping with text keys in a module, with the function (of any depth) that holds it."""
    waiting: list[tuple[ast.AST, str]] = [(tree.tree, "")]
    while waiting:
        node, function = waiting.pop()
        keys = _keys_of(node)
        if keys and isinstance(node, ast.expr):
            yield WrittenMapping(tree.file, node.lineno, function, keys)
        if isinstance(node, FunctionNode | ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
        waiting += [(item, function) for item in children(node)]


def _results_nobody_makes(context: SourceContext) -> Iterator[tuple[ModuleFacts, Definition]]:
    """The dataclasses for results that no code of the checkout makes; tests do not count."""
    results = [
        (module, item)
        for module in context.modules
        for item in module.public("class")
        if _RESULT_CLASS.fullmatch(item.name)
        and _DATACLASSES.intersection(name.rpartition(".")[2] for name in item.decorators)
    ]
    holding = context.index.own_code_by_word({item.name for _, item in results})
    users = {user.file: user for found in holding.values() for user in found}
    used = {file: context.index.read_tree(user, made_names) for file, user in users.items()}
    for module, item in results:
        if not any(item.name in used[user.file] for user in holding[item.name]):
            yield module, item


def made_names(tree: Module) -> set[str]:
    """The last words of what a module's code uses for more than types: calls, factories, base classes.

    In a class `cls` is its name.
    """
    found: set[str] = set()
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(node, ()) for node in tree.tree.body]
    while waiting:
        node, classes = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.update((node.id, *(classes if node.id == "cls" else ())))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted_name(node):
            found.add(node.attr)
        if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in _ONLY_TYPES:
            continue
        if isinstance(node, ast.ClassDef):
            classes = (*classes, node.name)
        waiting += [(child, classes) for child in children(node, ("annotation", "returns"))]
    return found
