"""Where one file uses the names of another module: calls, annotations, and other mentions, with their functions."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from auditkit.model.module_page import Mention, Way
from auditkit.probing.source_code.facts import ModuleFacts
from auditkit.probing.source_code.links import Links
from auditkit.probing.source_code.modules import Function, FunctionNode, Module, dotted_name
from auditkit.probing.source_code.walking import FIELDS

Resolve = Callable[[str], str]
"""What a dotted name of a file is called in the module in question, "" for anything else."""

_ANNOTATIONS = frozenset(("annotation", "returns"))


@dataclass(frozen=True)
class Found:
    """A name of the module (`Class.method` for a method) and how one place uses it."""

    name: str
    mention: Mention


def mentions_in(tree: Module, resolve: Resolve) -> list[Found]:
    """Every use of the module's names in a file, in the order of lines; import statements are none."""
    reader = _Mentions(resolve, _instances(tree, resolve))
    found = list(reader.read(tree.tree, "", ""))
    return sorted(found, key=lambda one: one.mention.line)


def own_names(tree: Module, function: Function | None, names: frozenset[str]) -> Resolve:
    """How a module's own code reaches its names: by themselves, and by `self` inside a class."""
    owner = function.owner.qualified_name if function is not None and function.owner is not None else ""

    def resolve(written: str) -> str:
        head, _, rest = written.partition(".")
        if head in ("self", "cls") and owner:
            return f"{owner}.{rest}" if f"{owner}.{rest}" in names else ""
        return written if written in names or head in tree.classes else ""

    return resolve


def resolver(links: Links, module: ModuleFacts, other: ModuleFacts) -> Resolve:
    """What a dotted name in `other` is called in `module`."""
    return functools.cache(lambda written: next(links.names_in(module.name, other, written), ""))


def _instances(tree: Module, resolve: Resolve) -> dict[tuple[str, str], str]:
    """(function, local name) of what holds an instance of a class of the module, with the class.

    `self.x` that one method sets is known in all of its class.
    """
    found = {}
    for function in tree.defined():
        for node in function.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = resolve(dotted_name(node.value.func))
                if made and made.rpartition(".")[2][:1].isupper():
                    for target in filter(None, map(dotted_name, node.targets)):
                        of_class = target.startswith("self.")
                        scope = function.qualified_name.rpartition(".")[0] if of_class else function.qualified_name
                        found[scope, target] = made
    return found


@dataclass(frozen=True)
class _Mentions:
    resolve: Resolve
    instances: Mapping[tuple[str, str], str]

    def read(self, node: ast.AST, function: str, scope: str) -> Iterator[Found]:
        """The uses below `node`; `function` is the innermost one around it, `scope` the one others can name."""
        for name in FIELDS.get(type(node), ()):
            value = getattr(node, name, None)  # a node that this package made has no type_params in Python 3.12
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    way = Way.ANNOTATION if name in _ANNOTATIONS else Way.NAMED
                    yield from self._read_one(child, function, scope, way)

    def _read_one(self, node: ast.AST, function: str, scope: str, way: Way) -> Iterator[Found]:
        if isinstance(node, FunctionNode | ast.ClassDef):
            inner = f"{function}.{node.name}" if function else node.name
            yield from self.read(node, inner, scope if _is_nested(node, scope) else inner)
        elif isinstance(node, ast.Call):
            yield from self._read_call(node, function, scope)
        elif isinstance(node, ast.Name | ast.Attribute) and (name := self._name_of(node, scope)):
            if isinstance(node.ctx, ast.Load):
                yield Found(name, Mention(way, function, node.lineno))
        elif way is Way.ANNOTATION:
            for child in ast.iter_child_nodes(node):
                yield from self._read_one(child, function, scope, way)
        else:
            yield from self.read(node, function, scope)

    def _read_call(self, node: ast.Call, function: str, scope: str) -> Iterator[Found]:
        """A call behind its arguments, which run before it."""
        called = self._name_of(node.func, scope)
        if not called:
            yield from self._read_one(node.func, function, scope, Way.NAMED)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            yield from self._read_one(node.func.value, function, scope, Way.NAMED)
        for given in [*node.args, *(keyword.value for keyword in node.keywords)]:
            yield from self._read_one(given, function, scope, Way.NAMED)
        if called:
            yield Found(called, Mention(Way.CALLED, function, node.lineno))

    def _name_of(self, node: ast.expr, scope: str) -> str:
        """The name of the module that an expression stands for: by import, or as a method of an instance."""
        written = dotted_name(node)
        if not written:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
                made = self.resolve(dotted_name(node.value.func))  # Collector().collect
                return f"{made}.{node.attr}" if made and made.rpartition(".")[2][:1].isupper() else ""
            return ""
        head, _, last = written.rpartition(".")
        for place in (scope, scope.rpartition(".")[0]):
            if head and (place, head) in self.instances:
                return f"{self.instances[place, head]}.{last}"
        return self.resolve(written)


def _is_nested(node: FunctionNode | ast.ClassDef, scope: str) -> bool:
    """Whether a definition lies in a function, so that nobody else can name it."""
    return bool(scope) and not isinstance(node, ast.ClassDef) and scope.rpartition(".")[2][:1].islower()
