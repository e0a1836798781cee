"""Which slow parts of torch importing the files of some targets imports, read from their text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from auditkit.probing.source.modules import absolute_origin
from auditkit.probing.source.python_files import PythonFiles

_IMPORT = re.compile(rb"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.MULTILINE)
_MOST_FILES = 500
# What a file that imports them says. The first takes 1.6 s of processor time, the next 0.4.
_SLOW = {
    "torch.distributed.fsdp": re.compile(rb"torch\.distributed\.(?:fsdp|_?tensor|optim|checkpoint|_composable)\b"),
    "torch.distributed.optim": re.compile(rb"torch\.distributed\.optim\b"),
}


def dear_imports(files: PythonFiles, calls: Iterable[str]) -> list[str]:
    """The slow parts of torch that importing the files of `calls` seems to import."""
    # Of a script only the target runs.
    targets = {call.partition(":")[0]: None for call in calls}
    sources = [source for name, source in _imported_files(files, targets) if not name.endswith(".py")]
    return [module for module, pattern in _SLOW.items() if any(map(pattern.search, sources))]


def _imported_files(files: PythonFiles, targets: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The modules `targets` and those that their statements at module level import, with their source."""
    waiting, seen, count = deque(targets), set(targets), 0
    while waiting and count < _MOST_FILES:
        name = waiting.popleft()
        file = files.file_of(name)
        if file is None:
            continue
        source, count = files.source(file), count + 1
        yield name, source
        imported = dict.fromkeys(_imported(source, name, file.name == "__init__.py"))
        waiting += [other for other in imported if other not in seen]
        seen.update(imported)


def _imported(source: bytes, importer: str, is_package: bool) -> Iterator[str]:
    """The modules that the unindented imports of a file name, with the packages around them; no file is parsed.

    A name that is imported from a module may be a module, too.
    """
    for match in _IMPORT.finditer(source):
        origin, names, modules = (group.decode("utf-8", "replace") if group else "" for group in match.groups())
        listed = (names or modules).partition("#")[0].strip("() \t\n").split(",")
        module = origin.lstrip(".")
        above = absolute_origin(importer, module, len(origin) - len(module), is_package)
        for word in (item.split()[0] for item in listed if item.split()):
            parts = f"{above}.{word}".split(".") if origin else word.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
