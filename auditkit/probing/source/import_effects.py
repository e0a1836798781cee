"""What a module does when it is imported besides defining things: it trains, writes files, reads a command line."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import FunctionNode, Module, absolute_origin, dotted_name, last_name
from auditkit.probing.source.python_files import PythonFiles

_TRAINS = "trains"
# By the last word of what is called.
_EFFECTS = {
    "backward": _TRAINS,
    "parse_args": "reads the command line", "parse_known_args": "reads the command line",
    "init_process_group": "joins a process group",
    "save": "writes files", "makedirs": "writes files", "mkdir": "writes files", "savefig": "writes files",
    "to_csv": "writes files", "write_text": "writes files", "write_bytes": "writes files",
    "check_output": "starts processes", "check_call": "starts processes", "Popen": "starts processes",
    "system": "starts processes", "spawn": "starts processes",
    "from_pretrained": "loads what may have to be downloaded", "load_dataset": "loads what may have to be downloaded",
    "hf_hub_download": "loads what may have to be downloaded", "urlretrieve": "loads what may have to be downloaded",
}  # fmt: skip
_SAYS_EFFECT = re.compile(rb"\b(?:" + "|".join([*_EFFECTS, "subprocess", "open"]).encode() + rb")\b")
_IMPORT = re.compile(rb"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.MULTILINE)
_MOST_FILES = 500
# What a file that imports them says. The first takes 1.6 s of processor time, the next 0.4.
_SLOW = {
    "torch.distributed.fsdp": re.compile(rb"torch\.distributed\.(?:fsdp|_?tensor|optim|checkpoint|_composable)\b"),
    "torch.distributed.optim": re.compile(rb"torch\.distributed\.optim\b"),
}


@dataclass(frozen=True)
class ImportEffect:
    """One file with effects when it is imported, and the line of each."""

    file: str
    effects: dict[str, int]

    @property
    def trains(self) -> bool:
        """Whether it computes gradients."""
        return _TRAINS in self.effects

    def describe(self) -> str:
        """A sentence, with what to do where it trains."""
        parts = [f"{what} (line {line})" for what, line in self.effects.items()]
        listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
        advice = ': put that under `if __name__ == "__main__":`, or name targets of other files' if self.trains else ""
        return f"{self.file} {listed} when it is imported{advice}"


def import_effects(files: PythonFiles, calls: Iterable[str]) -> list[ImportEffect]:
    """Of the files that are imported for `calls` (`module:function`), those that do more than define things.

    The file of a target that trains is not imported: auditkit cuts the target out of it.
    """
    targets = {call.partition(":")[0]: None for call in calls}
    found: list[ImportEffect] = []
    for name, source in _imported_files(files, targets):
        module = files.module_of(f"{name}:") if _SAYS_EFFECT.search(source) else None
        effects = _effects(module) if isinstance(module, Module) else {}
        if isinstance(module, Module) and effects and not (name in targets and _TRAINS in effects):
            found.append(ImportEffect(module.file, effects))
    return found


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


def _effects(module: Module) -> dict[str, int]:
    """What the module's own statements do, each with the first line that does it."""
    found: dict[str, int] = {}
    for call in _calls(module.tree.body):
        for effect in _effects_of(module, call, frozenset()):
            found.setdefault(effect, call.lineno)
    return dict(sorted(found.items(), key=lambda item: (item[0] != _TRAINS, item[1])))


def _calls(body: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls that running statements makes, in order; not those of functions defined in them, nor of a script."""
    for node in body:
        if isinstance(node, FunctionNode | ast.Lambda):
            continue
        if isinstance(node, ast.If) and {"__name__", "TYPE_CHECKING"} & names_of(node.test).loads:
            yield from _calls(node.orelse)
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from _calls(ast.iter_child_nodes(node))


def _effects_of(module: Module, call: ast.Call, inside: frozenset[str]) -> Iterator[str]:
    """What a call does, also by way of functions of the same file."""
    name, last = dotted_name(call.func), last_name(call.func)
    if last == "system" and not call.args:  # platform.system() says a name
        return
    if last in _EFFECTS:
        yield _EFFECTS[last]
    elif name.startswith("subprocess."):
        yield "starts processes"
    elif last == "open":
        # `open(path, mode)` or `path.open(mode)`.
        modes = call.args[1:2] if isinstance(call.func, ast.Name) else call.args[:1]
        modes += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
        if any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes):
            yield "writes files"
    elif name in module.functions and name not in inside:
        for within in _calls(module.functions[name].node.body):
            yield from _effects_of(module, within, inside | {name})
