"""Names of a module that others import, although the package that exports the module's names leaves them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.probing.source_code.facts import ModuleFacts
from auditkit.probing.source_code.modules import Import
from auditkit.probing.source_probes.uses import Uses

_LOGGERS = frozenset(("log", "logger"))


@dataclass(frozen=True)
class MissingExport:
    """A name that lies outside its package's interface: the files outside the package that import it anyway."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class PartialExport:
    """A module of which a package exports some names, and which used ones it lacks.

    `package` is the exporting one, `line` that of its import from the module.
    """

    module: ModuleFacts
    package: ModuleFacts
    line: int
    exported: tuple[str, ...]
    missing: tuple[MissingExport, ...]


def partial_export(module: ModuleFacts, uses: Uses) -> PartialExport | None:
    """What the packages around `module` leave out; None where they export nothing of it, or all that is used.

    A package that exports nothing of a module has decided that its users import the module itself.
    """
    if module.is_package or any(part.startswith("_") for part in module.name.split(".")):
        return None
    packages = _packages_around(module, uses)
    found = [(package, item) for package in packages for item in package.imports if _is_from(item, module, uses)]
    if not found or any(item.name == "*" for _, item in found) or any(package.is_open for package in packages):
        return None
    exported = {item.name for _, item in found}
    listed = set().union(*(package.exports or () for package in packages))
    package, first = min(found, key=lambda pair: (-len(pair[0].name), pair[1].line))
    missing = tuple(_missing(module, package, exported | listed, uses))
    return PartialExport(module, package, first.line, tuple(sorted(exported)), missing) if missing else None


def _packages_around(module: ModuleFacts, uses: Uses) -> list[ModuleFacts]:
    """The packages that hold a module, the innermost first."""
    parts = module.name.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]
    known = (uses.index.by_name.get(name) for name in names)
    return [package for package in known if package is not None and package.is_package]


def _is_from(item: Import, module: ModuleFacts, uses: Uses) -> bool:
    is_public = bool(item.name) and not item.local.startswith("_")
    return is_public and any(origin == module.name for origin, _ in uses.links.targets(item))


def _missing(module: ModuleFacts, package: ModuleFacts, exported: set[str], uses: Uses) -> Iterator[MissingExport]:
    for name in sorted(module.own_names - exported):
        if name.startswith("_") or name in _LOGGERS:
            continue
        code, tests = set(), set()
        for importer, _ in uses.importers.get((module.name, name), ()):
            if importer.is_test:
                tests.add(importer.file)
            elif not f"{importer.name}.".startswith(f"{package.name}."):
                code.add(importer.file)
        if code or tests:
            yield MissingExport(name, tuple(sorted(code)), tuple(sorted(tests)))
