"""From one file to its facts. Nothing of it is imported or run; a file that cannot be read says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from auditkit.probing.checkouts.reading import MAX_FILE_BYTES, read_file
from auditkit.probing.source_code.facts import Definition, ModuleFacts
from auditkit.probing.source_code.files import SourceFile
from auditkit.probing.source_code.literal_defaults import signatures_of
from auditkit.probing.source_code.modules import (
    Class,
    Function,
    Module,
    SourceProblem,
    dotted_name,
    module_name,
    parse_module,
    targets_of,
    top_level,
)
from auditkit.probing.source_code.references import collect_references

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
