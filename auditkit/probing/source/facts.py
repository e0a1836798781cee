"""What one file says, in a form that outlives its syntax tree: definitions, imports, exports, references."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.probing.checkout.reading import MAX_FILE_BYTES, read_file
from auditkit.probing.source.files import SourceFile
from auditkit.probing.source.modules import (
    Class,
    Function,
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
from auditkit.probing.source.walking import walk


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
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in f"{self.module}.{self.qualified_name}".split("."))


@dataclass(frozen=True, slots=True)
class Signature:
    """A function, or a dataclass with its fields, that gives parameters literal numbers as defaults.

    `defaults` holds (parameter, number, line) for each; `owner` is the class of a method, and a dataclass itself.
    """

    qualified_name: str
    name: str
    owner: str
    defaults: tuple[tuple[str, float, int], ...]


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One parsed file. `name` is what an import statement calls it, else its path without the suffix.

    `exports` are the names of a literal `__all__`, None without one; `is_open` says that names are made at
    run time (a module's `__getattr__`, a computed `__all__`), so that reading cannot know what it lacks. `strings` are
    the words of short strings that look like a name or a path to one, keys of mappings and docstrings left out.
    """

    source: SourceFile
    name: str
    is_package: bool
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    exports: frozenset[str] | None
    is_open: bool
    strings: frozenset[str]
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
_STUBS = frozenset(("overload", "abstractmethod"))


def _strings(tree: ast.Module) -> Iterator[str]:
    data = {id(key) for node in walk([tree]) for key in _keys(node)}
    for node in walk([tree]):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in data and len(text) <= _LONGEST_NAME:
                if _NAME_IN_TEXT.fullmatch(text):
                    yield from re.split("[.:]", text)


def _keys(node: ast.AST) -> Iterable[ast.AST | None]:
    """Docstrings, and text keys of a mapping, which are data: `stats["grad_norm"]` names no function `grad_norm`."""
    match node:
        case ast.Expr(value=value):
            return (value,)
        case ast.Dict(keys=keys):
            return keys
        case ast.Subscript(slice=key):
            return (key,)
        case ast.Compare(left=left, comparators=others):
            return (left, *others)
        case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[key, *_]):
            return (key,)
    return ()


def _sets_exports(statement: ast.AST) -> bool:
    """Whether a statement gives `__all__` a value, or adds to it."""
    targets = [part for target in changed_by(statement) for part in (*getattr(target, "elts", ()), target)]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


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
        defined: list[Function | Class] = [*module.classes.values(), *module.defined()]
        return ModuleFacts(
            source=source,
            name=module.name,
            is_package=source.path.name == "__init__.py",
            definitions=tuple(sorted(map(_definition, defined), key=lambda item: item.line)),
            imports=module.imports,
            exports=exports,
            is_open=is_open,
            strings=frozenset(_strings(module.tree)),
            bound=frozenset(_bound(module.tree)),
            signatures=tuple(filter(None, map(_signature, defined))),
        )
    except RecursionError:
        return SourceProblem(source.name, 1, "nested too deeply to be followed")


def _definition(item: Function | Class) -> Definition:
    owner = item.owner if isinstance(item, Function) else item
    called = (each.func if isinstance(each, ast.Call) else each for each in item.node.decorator_list)
    decorators = tuple(dotted_name(each) or ast.unparse(each) for each in called)
    # Bases as they are written, without their type arguments: `Protocol` of `Protocol[T]`.
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in (owner.node.bases if owner else ()))
    bases = [dotted_name(base) or ast.unparse(base) for base in plain]
    is_stub = isinstance(item, Function) and not _STUBS.isdisjoint(name.rpartition(".")[2] for name in decorators)
    is_class = isinstance(item, Class)
    return Definition(
        module=item.module.name,
        name=item.node.name,
        qualified_name=item.qualified_name,
        kind="class" if is_class else "method" if owner is not None else "function",
        line=item.node.lineno,
        owner=owner.qualified_name if owner is not None and not is_class else "",
        decorators=decorators,
        bases=tuple(bases) if is_class else (),
        is_stub=is_stub or any(name.rpartition(".")[2] == "Protocol" for name in bases),
        has_example=">>>" in (ast.get_docstring(item.node, clean=False) or ""),
    )


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
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")), args=[value])):
                added: ast.expr | None = value
            case _:
                added = getattr(statement, "value", None) if _sets_exports(statement) else None
        if added is not None:
            listed, complete = _texts(added)
            names = (names or set()) | listed
            is_open = is_open or not complete
    return (None if names is None else frozenset(names)), is_open


def _texts(value: ast.expr) -> tuple[set[str], bool]:
    """The literal texts in an expression, and whether it holds nothing else."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            pass
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [left, right]
        case ast.Constant(value=str(text)):
            return {text}, True
        case _:
            return set(), False
    inner = [_texts(part) for part in parts]
    return {text for texts, _ in inner for text in texts}, all(complete for _, complete in inner)


def _signature(item: Function | Class) -> Signature | None:
    """The literal numbers that a function, or a dataclass with its fields, has as defaults; None without any."""
    if isinstance(item, Function):
        given: list[tuple[str, ast.expr | None]] = [*item.defaults.items()]
        is_called = not item.decorators & _STUBS
    else:
        # A dataclass's fields are the parameters of the `__init__` that is made for it.
        given = [(each.target.id, each.value) for each in item.fields if isinstance(each.target, ast.Name)]
        is_called = not item.decorators.isdisjoint(("dataclass", "define", "frozen"))
    numbers = [(name, number, node) for name, node in given if node and (number := literal_number(node)) is not None]
    if not is_called or not numbers:
        return None
    defaults = tuple((name, number, node.lineno) for name, number, node in numbers)
    if isinstance(item, Class):
        return Signature(item.qualified_name, "__init__", item.qualified_name, defaults)
    owner = item.owner.qualified_name if item.owner is not None else ""
    return Signature(item.qualified_name, item.name, owner, defaults)


def literal_number(node: ast.expr) -> float | None:
    """The number that an expression writes out, with its sign; None for anything else, truth values included."""
    try:
        value = ast.literal_eval(node) if isinstance(node, ast.Constant | ast.UnaryOp) else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
