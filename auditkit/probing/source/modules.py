"""One parsed Python file: its functions, classes and imports. It is not imported or run."""

from __future__ import annotations

import ast
import io
import re
import sys
import threading
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from auditkit.probing.checkout.reading import MAX_FILE_BYTES, read_file
from auditkit.probing.source.files import is_in_side_folder, is_test_file
from auditkit.probing.source.walking import statements, top_level, walk

PARSER = threading.Lock()
"""Held while parsing:

Python 3.11 fails with a SystemError if a garbage collection lets another thread parse during `ast.parse`
(github.com/python/cpython/issues/106905).
"""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_BASES = 8
_STUBS = frozenset(("overload", "abstractmethod"))
_NAME_IN_TEXT = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*")
_LONGEST_NAME = 200
_TOOL_FILES = frozenset(("setup.py", "noxfile.py", "tasks.py", "fabfile.py", "dodo.py", "hubconf.py", "conf.py"))


@dataclass(frozen=True)
class SourceProblem:
    """A file that could not be parsed: `path` is relative to the checkout."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `from module import name as local`; `name` is "" for `import module`, "*" for all."""

    module: str
    name: str
    local: str
    line: int


class _Definition:
    """Common base of functions and classes."""

    module: Module
    qualified_name: str
    node: FunctionNode | ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def decorators(self) -> frozenset[str]:
        """The last names of its decorators: `staticmethod`, `property`, `no_grad`."""
        called = (item.func if isinstance(item, ast.Call) else item for item in self.node.decorator_list)
        return frozenset(last_name(item) for item in called)

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in f"{self.module.name}.{self.qualified_name}".split("."))


@dataclass(eq=False)
class Function(_Definition):
    """A function of the checkout that can be called by name: at module level, or in a class."""

    module: Module
    qualified_name: str
    node: FunctionNode
    owner: Class | None = None

    @property
    def is_stub(self) -> bool:
        """Whether another body is the code that runs: an overload, an abstract method, a member of a protocol."""
        return not _STUBS.isdisjoint(self.decorators) or (self.owner is not None and self.owner.is_stub)

    @property
    def call(self) -> str:
        return f"{self.module.name}:{self.qualified_name}"

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of its body and signature, cached."""
        return list(walk([self.node]))

    @cached_property
    def text(self) -> str:
        """Its source lines, for a cheap text search."""
        return "\n".join(self.module.lines[self.node.lineno - 1 : self.node.end_lineno])

    @property
    def is_bound(self) -> bool:
        """Whether its first parameter is the instance."""
        return self.owner is not None and not self.decorators & {"staticmethod", "classmethod"}

    @property
    def parameters(self) -> list[ast.arg]:
        """The parameters that a caller passes, in order, without `self`, `*args` and `**kwargs`."""
        arguments = self.node.args
        listed = [*arguments.posonlyargs, *arguments.args]
        if self.owner is not None and "staticmethod" not in self.decorators:
            listed = listed[1:]
        return [*listed, *arguments.kwonlyargs]

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """The default of every parameter that has one."""
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        found = dict(zip(reversed([item.arg for item in positional]), reversed(arguments.defaults), strict=False))
        keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return found | {item.arg: default for item, default in keyword if default is not None}

    @property
    def required(self) -> list[ast.arg]:
        """The parameters without a default."""
        return [item for item in self.parameters if item.arg not in self.defaults]


@dataclass(eq=False)
class Class(_Definition):
    """A class of the checkout, with its methods by name."""

    module: Module
    qualified_name: str
    node: ast.ClassDef
    methods: dict[str, Function] = field(default_factory=dict)

    @property
    def is_stub(self) -> bool:
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in self.node.bases)
        return any(last_name(base) == "Protocol" for base in bases)


@dataclass(eq=False)
class Module:
    """A parsed file: `file` relative to the checkout, `name` as in an import statement."""

    file: str
    name: str
    tree: ast.Module
    lines: list[str]
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    imports: tuple[Import, ...] = ()
    """Its imports at any depth, in the order of the file."""
    known: dict[str, Any] = field(default_factory=dict, repr=False)
    """What other packages found in it, each once."""

    @property
    def is_test(self) -> bool:
        return is_test_file(self.file)

    @property
    def is_side(self) -> bool:
        """Whether it is an example, a script or an archive: it uses the rest of the checkout, and needs no tests."""
        return is_in_side_folder(self.file) or self.file.rpartition("/")[2] in _TOOL_FILES

    @property
    def is_package(self) -> bool:
        return self.file.endswith("__init__.py")

    @cached_property
    def strings(self) -> frozenset[str]:
        """The words of short strings that look like a name or a path to one."""
        texts = filter(None, map(text_in, walk([self.tree])))
        names = (text for text in texts if len(text) <= _LONGEST_NAME and _NAME_IN_TEXT.fullmatch(text))
        return frozenset(word for name in names for word in re.split("[.:]", name))

    def public(self) -> list[Function | Class]:
        """Return its public functions, methods and classes in the order of lines, without stubs."""
        found: list[Function | Class] = [*self.classes.values(), *self.defined()]
        return sorted((each for each in found if each.is_public and not each.is_stub), key=lambda each: each.line)

    @cached_property
    def origins(self) -> dict[str, str]:
        """The origin of each imported name: `package.module` or `package.module:name`."""
        return {
            item.local: f"{item.module}:{item.name}" if item.name else item.module
            for item in self.imports
            if item.local
        }

    @property
    def own_names(self) -> frozenset[str]:
        """The functions and classes that other modules can import."""
        return frozenset([*self.functions, *(name for name in self.classes if "." not in name)])

    def full_name(self, written: str) -> str:
        """Return `torch.nn.functional.norm` for `F.norm`; "" for names that are not imported."""
        head, _, rest = written.partition(".")
        origin = self.origins.get(head, "").replace(":", ".")
        return f"{origin}.{rest}" if origin and rest else origin

    def named(self, qualified_name: str) -> Function | Class | None:
        """Return its module-level function or its class of that name."""
        return self.functions.get(qualified_name) or self.classes.get(qualified_name)

    def defined(self) -> Iterator[Function]:
        """Yield its functions, then its methods, each in the order of the file."""
        yield from self.functions.values()
        for owner in self.classes.values():
            yield from owner.methods.values()


def method_of(
    owner: Class | None, name: str, resolve: Callable[[Module, str], object], depth: int = 0
) -> Function | None:
    """Return the method of a class, or of its first base that has one; `resolve` looks up a base by name."""
    if owner is None or name in owner.methods or depth >= _MOST_BASES:
        return owner.methods.get(name) if owner is not None else None
    bases = (resolve(owner.module, dotted_name(base)) for base in owner.node.bases)
    inherited = (method_of(base, name, resolve, depth + 1) for base in bases if isinstance(base, Class))
    return next((found for found in inherited if found is not None), None)


def callee(
    function: Function, call: ast.Call, resolve: Callable[[Module, str], object], instances: Mapping[str, Class]
) -> Function | None:
    """Return the function that a call inside `function` reaches; None if it cannot be resolved.

    `resolve` looks up a name of a module; `instances` are the classes of local names.
    """
    name = dotted_name(call.func)
    head, _, method = name.rpartition(".")
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        name, head, method = "", dotted_name(call.func.value.func), call.func.attr  # Collector().collect(...)
    is_own = head in ("self", "cls") and function.owner is not None
    found = resolve(function.module, name) if name and not is_own and head not in instances else None
    if isinstance(found, Function):
        return found
    owner = function.owner if is_own else instances.get(head) or (resolve(function.module, head) if head else None)
    return method_of(owner, method, resolve) if isinstance(owner, Class) else None


def instances_in(functions: Iterable[Function | None], resolve: Callable[[Module, str], object]) -> dict[str, Class]:
    """Return the names to which functions assign an instance of a class, including `self.x` in `__init__`."""
    found: dict[str, Class] = {}
    for function in filter(None, functions):
        for node in statements(function.node.body):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = resolve(function.module, dotted_name(node.value.func))
                if isinstance(made, Class):
                    found |= {name: made for target in node.targets if (name := dotted_name(target))}
    return found


def module_name(path: Path, import_roots: Sequence[Path]) -> str | None:
    """Return the name to import a file by, from the innermost import root; None if it has none."""
    holding = [root for root in import_roots if path.is_relative_to(root)]
    if not holding:
        return None
    innermost = max(holding, key=lambda root: len(root.parts))
    parts = path.relative_to(innermost).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    if not parts or parts[-1] == "__main__" or not all(part.isidentifier() for part in parts):
        return None
    return ".".join(parts)


_PARSED: WeakValueDictionary[tuple[str, str, bytes], Module] = WeakValueDictionary()


def parse_module(path: Path, source: bytes, root: Path, name: str) -> Module | SourceProblem:
    """Return the parsed and indexed file, or why it cannot be parsed; two readers of the same text share its module."""
    file = path.relative_to(root).as_posix()
    found = _PARSED.get((file, name, source)) or _parse(path, source, file, name)
    if isinstance(found, Module):
        _PARSED[file, name, source] = found
    return found


def _parse(path: Path, source: bytes, file: str, name: str) -> Module | SourceProblem:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the checkout is not a finding
            # A byte that is invalid in the declared encoding is an error on import, but ast.parse accepts it in
            # comments.
            encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
            lines = source.decode(encoding).splitlines()
            with PARSER:
                tree = ast.parse(source, filename=file)
    except SyntaxError as error:
        # Newer Python's syntax is an error here, so say which Python parsed it.
        message = f"{error.msg} (read as Python {sys.version_info.major}.{sys.version_info.minor})"
        return SourceProblem(file, error.lineno or _line_of_null(source), message)
    except UnicodeDecodeError as error:
        return SourceProblem(file, source.count(b"\n", 0, error.start) + 1, f"not {error.encoding}: {error.reason}")
    except (RecursionError, MemoryError):
        return SourceProblem(file, 1, "nested too deeply to be parsed")
    except ValueError as error:
        return SourceProblem(file, _line_of_null(source), f"cannot be parsed: {error}")
    module = Module(file, name, tree, lines)
    _index(module, path.name == "__init__.py")
    return module


def _line_of_null(source: bytes) -> int:
    """Return the line of the first null byte, which Python's error does not name; 1 without one."""
    return source.count(b"\n", 0, max(source.find(b"\0"), 0)) + 1


def _index(module: Module, is_package: bool) -> None:
    for node in top_level(module.tree.body):
        if isinstance(node, FunctionNode):
            module.functions[node.name] = Function(module, node.name, node)
        elif isinstance(node, ast.ClassDef):
            _index_class(module, node, "")
    module.imports = tuple(_imports(module, is_package))


def _imports(module: Module, is_package: bool) -> Iterator[Import]:
    for item in statements(module.tree.body):
        if isinstance(item, ast.Import):
            for alias in item.names:
                top = alias.name.partition(".")[0]
                yield Import(alias.name if alias.asname else top, "", alias.asname or top, item.lineno)
                if not alias.asname and top != alias.name:
                    # `import package.module` binds `package`, and makes `package.module` loaded.
                    yield Import(alias.name, "", "", item.lineno)
        elif isinstance(item, ast.ImportFrom):
            origin = absolute_origin(module.name, item.module or "", item.level, is_package)
            for alias in item.names:
                yield Import(origin, alias.name, alias.asname or alias.name, item.lineno)


def _index_class(module: Module, node: ast.ClassDef, prefix: str) -> None:
    owner = Class(module, prefix + node.name, node)
    module.classes[owner.qualified_name] = owner
    for item in top_level(node.body):
        if isinstance(item, FunctionNode):
            owner.methods[item.name] = Function(module, f"{owner.qualified_name}.{item.name}", item, owner)
        elif isinstance(item, ast.ClassDef):
            _index_class(module, item, owner.qualified_name + ".")


def absolute_origin(importer: str, module: str, level: int, is_package: bool) -> str:
    """Return the module that `from ..module import` in the module `importer` names; `level` counts the leading dots."""
    if not level:
        return module
    parts = importer.split(".")
    kept = parts[: len(parts) - level + (1 if is_package else 0)]
    return ".".join([*kept, module] if module else kept)


def dotted_name(node: ast.expr) -> str:
    """Return `a.b.c` for names and attributes of names, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if parts and isinstance(node, ast.Name) else ""


def last_name(node: ast.expr) -> str:
    """Return the last name of a called expression: `norm` of `torch.norm` and of `f(x).norm`."""
    return node.attr if isinstance(node, ast.Attribute) else dotted_name(node)


def targets_of(node: ast.AST) -> list[ast.expr]:
    """Return the targets of an assignment, with or without an annotation; nothing for anything else."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def changed_by(node: ast.AST) -> list[ast.expr]:
    """Return the targets of an assignment, including `x += 1`; nothing for anything else."""
    return [node.target] if isinstance(node, ast.AugAssign) else targets_of(node)


def is_constant(node: ast.AST, value: object) -> bool:
    """Return whether a node is the literal `value`, of the same type: `0` is not `False`."""
    return isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value


def text_in(node: ast.AST | None) -> str:
    """Return the text of a string literal, "" for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def source_bytes(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Return a file's bytes; none if it is too large (generated) or cannot be read."""
    try:
        return read_file(path, most) or b""
    except OSError:
        return b""
