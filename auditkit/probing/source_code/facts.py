"""What one file says, in a form that outlives its syntax tree: definitions, imports, exports, references."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditkit.probing.checkouts.reading import MAX_FILE_BYTES, read_file
from auditkit.probing.source_code.files import SourceFile
from auditkit.probing.source_code.modules import (
    Class,
    Function,
    FunctionNode,
    Import,
    Module,
    SourceProblem,
    changed_by,
    dotted_name,
    module_name,
    parse_module,
    targets_of,
    top_level,
)
from auditkit.probing.source_code.walking import FIELDS


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method or class that other code can name.

    `kind` is `function`, `method` or `class`; `owner` the class of a method. `decorators` and `bases` are
    dotted names as written. `is_stub` marks overloads, protocol members and abstract methods, whose body
    is not the code that runs; `has_example` a docstring with a `>>>` example.
    """

    module: str
    name: str
    qualified_name: str
    kind: str
    line: int
    owner: str = ""
    decorators: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    is_stub: bool = False
    has_example: bool = False

    @property
    def subject(self) -> str:
        """`package.module:Qualified.name`."""
        return f"{self.module}:{self.qualified_name}"

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in f"{self.module}.{self.qualified_name}".split("."))


@dataclass(frozen=True, slots=True)
class References:
    """The names that a file's code uses, docstrings and `__all__` left out.

    A definition's use of its own name (recursion, `self.name` inside `name`) does not count. `names` are
    bare names that are read, `dotted` attributes of imported names as written (`module.function`),
    `own` attributes of `self` and `cls`, `attributes` those of anything else, `strings` the words of
    short strings that look like a name or a path to one.
    """

    names: frozenset[str]
    attributes: frozenset[str]
    own: frozenset[str]
    dotted: frozenset[str]
    strings: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forward:
    """A call that hands a parameter on: `callee(keyword=parameter)`, or at the 0-based `position`."""

    parameter: str
    callee: str
    keyword: str
    position: int


@dataclass(frozen=True, slots=True)
class Signature:
    """A function, or a dataclass with its fields, that gives parameters literal numbers as defaults.

    `defaults` holds (parameter, number, line) for each; `forwards` the calls that hand such parameters on.
    """

    qualified_name: str
    name: str
    owner: str
    line: int
    defaults: tuple[tuple[str, float, int], ...]
    forwards: tuple[Forward, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One parsed file. `name` is what an import statement calls it, else its path without the suffix.

    `exports` are the names of a literal `__all__`, None without one; `is_open` says that names are made at
    run time (a module's `__getattr__`, a computed `__all__`), so that what it lacks cannot be told.
    """

    source: SourceFile
    name: str
    is_package: bool
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    exports: frozenset[str] | None
    is_open: bool
    references: References
    bound: frozenset[str] = frozenset()
    """Names that the module binds at its top level by assignment: constants, aliases."""
    signatures: tuple[Signature, ...] = ()

    @property
    def file(self) -> str:
        return self.source.name

    @property
    def is_test(self) -> bool:
        return self.source.is_test

    @property
    def is_side(self) -> bool:
        return self.source.is_side

    @property
    def own_names(self) -> frozenset[str]:
        """What others can import of it, submodules left out."""
        return frozenset(item.name for item in self.definitions if not item.owner) | self.bound

    def count(self, *kinds: str) -> int:
        """How many definitions of these kinds it has."""
        return sum(item.kind in kinds for item in self.definitions)

    def has_public_methods(self, owner: Definition) -> bool:
        """Whether a class does something of its own: a public method or property, not only fields."""
        return any(item.owner == owner.qualified_name and item.is_public for item in self.definitions)

    def public(self, *kinds: str) -> Iterator[Definition]:
        """Its public definitions of these kinds, in the order of lines; stubs left out."""
        for item in self.definitions:
            if item.kind in kinds and item.is_public and not item.is_stub:
                yield item


_NAME_IN_TEXT = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*")
_LONGEST_NAME = 200
# A key of a mapping is data: `stats["grad_norm"]` names no function `grad_norm`.
_KEY_METHODS = frozenset(("get", "pop", "setdefault"))

Calls = dict[FunctionNode, list[ast.Call]]
"""The calls in the body of each function and method that others can name."""


class _Collected:
    def __init__(self, imported: frozenset[str]) -> None:
        self.imported = imported
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.own: set[str] = set()
        self.dotted: set[str] = set()
        self.strings: set[str] = set()
        self.calls: list[ast.Call] = []
        self.calls_of: Calls = {}

    def add(self, other: _Collected, own_name: str) -> None:
        """Take over what a definition uses, its own name left out."""
        self.names |= other.names - {own_name}
        self.own |= other.own - {own_name}
        self.attributes |= other.attributes
        self.dotted |= other.dotted
        self.strings |= other.strings
        self.calls_of |= other.calls_of


def collect_references(tree: ast.Module, imported: frozenset[str]) -> tuple[References, Calls]:
    """Everything that `tree` refers to, and its calls; `imported` are the local names that its imports bind."""
    found = _Collected(imported)
    _collect_body(tree.body, found)
    references = References(
        frozenset(found.names),
        frozenset(found.attributes),
        frozenset(found.own),
        frozenset(found.dotted),
        frozenset(found.strings),
    )
    return references, found.calls_of


def _collect_body(body: Iterable[ast.stmt], found: _Collected) -> None:
    """The statements of a module or class: each definition apart, so that recursion is not a use."""
    rest: list[ast.AST] = []
    for statement in body:
        if isinstance(statement, FunctionNode):
            inner = _Collected(found.imported)
            _walk(_header(statement), inner)
            inner.calls.clear()
            _walk(statement.body, inner)
            inner.calls_of[statement] = inner.calls
            found.add(inner, statement.name)
        elif isinstance(statement, ast.ClassDef):
            inner = _Collected(found.imported)
            _collect_body(statement.body, inner)
            _walk([*statement.bases, *statement.keywords, *statement.decorator_list], inner)
            found.add(inner, statement.name)
        elif isinstance(statement, ast.If | ast.Try):
            rest += _conditions(statement)
            _collect_body(_inner(statement), found)
        elif not _sets_exports(statement):
            rest.append(statement)
    _walk(rest, found)


def _header(function: FunctionNode) -> list[ast.AST]:
    """What stands before a function's body."""
    returns = [] if function.returns is None else [function.returns]
    return [*function.decorator_list, function.args, *returns, *getattr(function, "type_params", ())]


def _inner(statement: ast.If | ast.Try) -> list[ast.stmt]:
    """The statements directly inside, of every branch."""
    inner = [*statement.body, *statement.orelse]
    if isinstance(statement, ast.Try):
        inner += statement.finalbody
        inner += [item for handler in statement.handlers for item in handler.body]
    return inner


def _conditions(statement: ast.If | ast.Try) -> list[ast.AST]:
    if isinstance(statement, ast.If):
        return [statement.test]
    return [handler.type for handler in statement.handlers if handler.type is not None]


def _sets_exports(statement: ast.stmt) -> bool:
    targets = changed_by(statement)
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _walk(roots: Iterable[ast.AST], found: _Collected) -> None:
    waiting: list[ast.AST] = list(roots)
    names, strings = found.names, found.strings
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            if type(node.ctx) is not ast.Store:  # type: ignore[attr-defined]
                names.add(node.id)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            waiting.append(_attribute(node, found))  # type: ignore[arg-type]
        elif kind is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if type(value) is str and len(value) <= _LONGEST_NAME and _NAME_IN_TEXT.fullmatch(value):
                strings.update(re.split("[.:]", value))
        elif kind is ast.Expr and type(node.value) is ast.Constant:  # type: ignore[attr-defined]
            continue  # a docstring
        else:
            before = len(waiting)
            for name in FIELDS.get(kind, ()):
                child = getattr(node, name)
                if type(child) is list:
                    waiting += child
                elif child is not None:
                    waiting.append(child)
            keys = _KEYS_OF.get(kind)
            if keys is not None:
                texts = {id(key) for key in keys(node) if type(key) is ast.Constant}
                if texts:
                    waiting[before:] = [child for child in waiting[before:] if id(child) not in texts]
            if kind is ast.Call:
                found.calls.append(node)  # type: ignore[arg-type]


def _attribute(node: ast.Attribute, found: _Collected) -> ast.AST:
    """Note one attribute; what is left to walk is the expression that it is read of."""
    value = node.value
    if isinstance(value, ast.Name):
        if value.id in found.imported:
            found.dotted.add(f"{value.id}.{node.attr}")
        elif value.id in ("self", "cls"):
            found.own.add(node.attr)
        else:
            found.attributes.add(node.attr)
    elif (path := _imported_path(node, found.imported)) is not None:
        found.dotted.add(path)
    else:
        found.attributes.add(node.attr)
    return value


def _imported_path(node: ast.Attribute, imported: frozenset[str]) -> str | None:
    """`package.module.name` where `package` is imported, None for attributes of anything else."""
    parts = [node.attr]
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    if isinstance(value, ast.Name) and value.id in imported:
        return ".".join([value.id, *reversed(parts)])
    return None


def _keys_of_call(node: ast.Call) -> list[ast.expr]:
    is_lookup = type(node.func) is ast.Attribute and node.func.attr in _KEY_METHODS
    return node.args[:1] if is_lookup else []


_KEYS_OF: dict[type[ast.AST], Callable[[Any], Iterable[ast.AST | None]]] = {
    ast.Dict: lambda node: node.keys,
    ast.Subscript: lambda node: (node.slice,),
    ast.Compare: lambda node: (node.left, *node.comparators),
    ast.Call: _keys_of_call,
}
"""For each kind of node what of it may be a text key of a mapping."""


def signatures_of(module: Module, calls: Calls) -> Iterator[Signature]:
    """The functions, methods and dataclasses of a module with a literal number as a default."""
    for owner in module.classes.values():
        signature = _of_dataclass(owner)
        if signature is not None:
            yield signature
    for function in module.defined():
        signature = _signature_of(function, calls.get(function.node, ()))
        if signature is not None:
            yield signature


def _signature_of(function: Function, calls: Iterable[ast.Call]) -> Signature | None:
    if function.decorators & {"overload", "abstractmethod"}:
        return None
    defaults = tuple(
        (name, value, default.lineno)
        for name, default in function.defaults.items()
        if (value := literal_number(default)) is not None
    )
    if not defaults:
        return None
    owner = function.owner.qualified_name if function.owner is not None else ""
    forwards = tuple(_forwards(calls, {name for name, _, _ in defaults}))
    return Signature(function.qualified_name, function.name, owner, function.node.lineno, defaults, forwards)


def _of_dataclass(owner: Class) -> Signature | None:
    """A dataclass's fields are the parameters of the `__init__` that is made for it."""
    made = (item.func if isinstance(item, ast.Call) else item for item in owner.node.decorator_list)
    if not any(dotted_name(item).rpartition(".")[2] in ("dataclass", "define", "frozen") for item in made):
        return None
    defaults = tuple(
        (item.target.id, value, item.lineno)
        for item in owner.fields
        if isinstance(item.target, ast.Name) and item.value is not None
        if (value := literal_number(item.value)) is not None
    )
    name = owner.qualified_name
    return Signature(name, "__init__", name, owner.node.lineno, defaults) if defaults else None


def literal_number(node: ast.expr) -> float | None:
    """The number that an expression writes out, with its sign; None for anything else, truth values included."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        try:
            return float(node.value)
        except OverflowError:
            return None
    return None


def _forwards(calls: Iterable[ast.Call], parameters: set[str]) -> Iterator[Forward]:
    for node in calls:
        callee = dotted_name(node.func)
        if not callee:
            continue
        for position, given in enumerate(node.args):
            if isinstance(given, ast.Name) and given.id in parameters:
                yield Forward(given.id, callee, "", position)
        for keyword in node.keywords:
            if keyword.arg and isinstance(keyword.value, ast.Name) and keyword.value.id in parameters:
                yield Forward(keyword.value.id, callee, keyword.arg, -1)


_STUBS = frozenset(("overload", "abstractmethod"))


def load(source: SourceFile) -> bytes | SourceProblem:
    """The file's bytes, or why they are not read."""
    try:
        data = read_file(source.path)
        if data is None:
            size = source.path.stat().st_size
            return SourceProblem(source.name, 1, f"{size:,} bytes: files above {MAX_FILE_BYTES:,} are not read")
        return data
    except OSError as error:
        return SourceProblem(source.name, 1, f"cannot be read: {error.strerror}")


def parse(source: SourceFile, data: bytes, root: Path, import_roots: Sequence[Path]) -> Module | SourceProblem:
    """The syntax tree with its functions and classes, or where and why the file does not parse."""
    name = module_name(source.path, import_roots) or source.name.removesuffix(".py").replace(":", "_")
    return parse_module(source.path, data, root, name)


def facts_of(source: SourceFile, module: Module) -> ModuleFacts | SourceProblem:
    """What the file defines, imports, exports and refers to."""
    try:
        exports, is_open = _exports(module)
        references, calls = collect_references(module.tree, frozenset(item.local for item in module.imports))
        return ModuleFacts(
            source=source,
            name=module.name,
            is_package=source.path.name == "__init__.py",
            definitions=tuple(_definitions(module)),
            imports=module.imports,
            exports=exports,
            is_open=is_open,
            references=references,
            bound=frozenset(_bound(module.tree)),
            signatures=tuple(signatures_of(module, calls)),
        )
    except RecursionError:
        return SourceProblem(source.name, 1, "nested too deeply to be followed")


def _definitions(module: Module) -> Iterator[Definition]:
    found = [_of_function(function) for function in module.functions.values()]
    for owner in module.classes.values():
        found.append(_of_class(owner))
        found += [_of_function(method) for method in owner.methods.values()]
    yield from sorted(found, key=lambda item: item.line)


def _of_function(function: Function) -> Definition:
    decorators = _decorators(function.node)
    stub = not _STUBS.isdisjoint(name.rpartition(".")[2] for name in decorators)
    if function.owner is not None:
        stub = stub or _is_protocol(function.owner)
    return Definition(
        module=function.module.name,
        name=function.name,
        qualified_name=function.qualified_name,
        kind="method" if function.owner is not None else "function",
        line=function.node.lineno,
        owner=function.owner.qualified_name if function.owner is not None else "",
        decorators=decorators,
        is_stub=stub,
        has_example=">>>" in (ast.get_docstring(function.node, clean=False) or ""),
    )


def _of_class(owner: Class) -> Definition:
    return Definition(
        module=owner.module.name,
        name=owner.node.name,
        qualified_name=owner.qualified_name,
        kind="class",
        line=owner.node.lineno,
        decorators=_decorators(owner.node),
        bases=tuple(_bases(owner.node)),
        is_stub=_is_protocol(owner),
        has_example=">>>" in (ast.get_docstring(owner.node, clean=False) or ""),
    )


def _is_protocol(owner: Class) -> bool:
    return any(name.rpartition(".")[2] == "Protocol" for name in _bases(owner.node))


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> tuple[str, ...]:
    called = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return tuple(dotted_name(item) or ast.unparse(item) for item in called)


def _bases(node: ast.ClassDef) -> list[str]:
    """Its bases as written, without their type arguments: `Protocol` of `Protocol[T]`."""
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return [dotted_name(base) or ast.unparse(base) for base in plain]


def _bound(tree: ast.Module) -> Iterator[str]:
    for statement in top_level(tree.body):
        for target in targets_of(statement):
            for item in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(item, ast.Name):
                    yield item.id


def _exports(module: Module) -> tuple[frozenset[str] | None, bool]:
    """The names of `__all__`, and whether the module makes names that cannot be read from its source."""
    is_open = "__getattr__" in module.functions or "__getattr__" in set(_bound(module.tree))
    names: set[str] | None = None
    for statement in top_level(module.tree.body):
        value = _added_exports(statement)
        if value is not None:
            listed, complete = _texts(value)
            names = (names or set()) | listed
            is_open = is_open or not complete
    return (None if names is None else frozenset(names)), is_open


def _added_exports(statement: ast.stmt) -> ast.expr | None:
    """What a statement puts into `__all__`: assigned, added, appended."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
            return value
        case (
            ast.AnnAssign(target=ast.Name(id="__all__"), value=value)
            | ast.AugAssign(target=ast.Name(id="__all__"), value=value)
        ):
            return value
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")), args=[value])):
            return value
        case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value) if any(
            isinstance(part, ast.Name) and part.id == "__all__" for part in parts
        ):
            return value
    return None


def _texts(value: ast.expr) -> tuple[set[str], bool]:
    """The literal texts in an expression, and whether it holds nothing else."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            inner = [_texts(part) for part in parts]
            return {text for texts, _ in inner for text in texts}, all(complete for _, complete in inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            (first, first_complete), (second, second_complete) = _texts(left), _texts(right)
            return first | second, first_complete and second_complete
        case ast.Constant(value=str(text)):
            return {text}, True
    return set(), False
