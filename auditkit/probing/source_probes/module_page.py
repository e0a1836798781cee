"""Read one module under audit: what it holds, which files import it for what, and how its calls flow."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from auditkit.model.module_page import Importer, ImporterKind, ModulePage, NameUse, Share
from auditkit.probing.source_code.facts import ModuleFacts
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_code.links import Links
from auditkit.probing.source_code.modules import Function, Module, dotted_name
from auditkit.probing.source_code.python_files import garbage_collection_paused
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.call_flows import flows_of
from auditkit.probing.source_probes.context import SourceContext
from auditkit.probing.source_probes.mentions import Found, mentions_in, resolver
from auditkit.probing.source_probes.style import collections_of

_UNNAMED_PARAMETERS = frozenset(("self", "cls"))


def module_pages(index: SourceIndex, names: Iterable[str]) -> list[ModulePage]:
    """A page for each of the modules called `names` that the checkout has, in the order given."""
    modules = [module for name in dict.fromkeys(names) if (module := index.by_name.get(name)) is not None]
    with garbage_collection_paused():
        links = Links(reversed(index.modules))
        return [_page(index, links, module) for module in modules]


def _page(index: SourceIndex, links: Links, module: ModuleFacts) -> ModulePage:
    importers = {other.file: _read_importer(index, links, module, other) for other in _importers(index, links, module)}
    found = {file: mentions for file, (_, mentions) in importers.items()}
    tree = index.tree_of(module)
    collections = collections_of(SourceContext(index, lambda item: item is module))
    by_hand = [place for one in collections for place in one.by_hand]
    purpose = (ast.get_docstring(tree.tree) or "").partition("\n\n")[0]
    functions, kinds = list(tree.defined()), list(ImporterKind)
    return ModulePage(
        file=module.file,
        name=module.name,
        purpose=" ".join(purpose.split()),
        lines=len(tree.lines),
        functions=len(functions),
        classes=len(tree.classes),
        annotated=Share(len(functions), tuple(item.qualified_name for item in functions if not _is_annotated(item))),
        documented=_documented(tree, module),
        compiles=tuple(sorted(_compiles(tree))),
        importers=tuple(
            sorted((one for one, _ in importers.values()), key=lambda one: (kinds.index(one.kind), one.file))
        ),
        flows=flows_of(index, links, module, found, by_hand),
    )


def _importers(index: SourceIndex, links: Links, module: ModuleFacts) -> Iterator[ModuleFacts]:
    for other in index.modules:
        if other is not module and any(
            origin == module.name for item in other.imports for origin, _ in links.targets(item)
        ):
            yield other


def _read_importer(
    index: SourceIndex, links: Links, module: ModuleFacts, other: ModuleFacts
) -> tuple[Importer, list[Found]]:
    """What `other` does with the names of `module` that it imports, one by one and in the order of lines."""
    imported = [
        (name, item.line)
        for item in other.imports
        for origin, name in links.targets(item)
        if origin == module.name
    ]  # fmt: skip
    found = index.read_tree(other, lambda tree: mentions_in(tree, resolver(links, module, other)))
    by_name: dict[str, list[Found]] = {name: [] for name, _ in imported if name != "*"}
    for one in found:
        by_name.setdefault(one.name.partition(".")[0], []).append(one)
    if any(by_name) and "" in by_name:
        del by_name[""]  # the module itself, of which the names are listed
    uses = tuple(NameUse(name, tuple(one.mention for one in places)) for name, places in by_name.items())
    tests = {one.mention.function for one in found if one.mention.function.rpartition(".")[2].startswith("test")}
    is_property_based = any(item.module.partition(".")[0] == "hypothesis" for item in other.imports)
    return Importer(other.file, _kind(other), uses, len(tests), is_property_based), found


def _kind(module: ModuleFacts) -> ImporterKind:
    if module.is_test:
        return ImporterKind.TEST
    if module.is_side:
        return ImporterKind.SIDE
    return ImporterKind.PACKAGE if module.is_package else ImporterKind.CODE


def _is_annotated(function: Function) -> bool:
    arguments = function.node.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    given += [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    has_answer = function.node.returns is not None or function.name == "__init__"
    return has_answer and all(item.annotation is not None or item.arg in _UNNAMED_PARAMETERS for item in given)


def _documented(tree: Module, module: ModuleFacts) -> Share:
    """Which public functions, methods and classes have a docstring."""
    nodes = {function.qualified_name: function.node for function in tree.defined()}
    classes = {owner.qualified_name: owner.node for owner in tree.classes.values()}
    public = [item.qualified_name for item in module.public("function", "method", "class")]
    known = {**nodes, **classes}
    return Share(len(public), tuple(name for name in public if ast.get_docstring(known[name], clean=False) is None))


def _compiles(tree: Module) -> Iterator[int]:
    """The lines that name torch.compile."""
    for node in walk([tree.tree]):
        if isinstance(node, ast.Attribute | ast.Name) and tree.full_name(dotted_name(node)) == "torch.compile":
            yield node.lineno
