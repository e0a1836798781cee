"""What a module does when it is imported, beyond defining things: it trains, writes files, reads a command line."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.source_code.modules import FunctionNode, Module, dotted_name, last_name
from auditkit.probing.source_code.python_files import PythonFiles

_TRAINS = "trains"
# By the last word of what is called; the first words are whatever the file calls its objects and modules.
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
# By what a file says that imports it. The first takes 1.6 s of processor time, the next 0.4.
_DEAR = {
    "torch.distributed.fsdp": re.compile(rb"torch\.distributed\.(?:fsdp|_?tensor|optim|checkpoint|_composable)\b"),
    "torch.distributed.optim": re.compile(rb"torch\.distributed\.optim\b"),
}


@dataclass(frozen=True)
class ImportEffect:
    """One file that does more than define things when it is imported, and at which lines."""

    file: str
    effects: dict[str, int]

    @property
    def trains(self) -> bool:
        """Whether it computes gradients."""
        return _TRAINS in self.effects

    def describe(self) -> str:
        """A sentence, with what to do where it trains."""
        told = [f"{what} (line {line})" for what, line in self.effects.items()]
        listed = " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
        advice = ': put that under `if __name__ == "__main__":`, or name targets of other files' if self.trains else ""
        return f"{self.file} {listed} when it is imported{advice}"


def import_effects(files: PythonFiles, calls: Iterable[str]) -> list[ImportEffect]:
    """Of the files that are imported for `calls` (`module:function`), those that do more than define things.

    One that trains is not imported itself: what is asked about is cut out of it.
    """
    asked = _places(calls)
    found: list[ImportEffect] = []
    for name, source in _imported_files(files, asked):
        module = files.module_of(f"{name}:") if _SAYS_EFFECT.search(source) else None
        if isinstance(module, Module) and (effects := _effects(module)) and not (name in asked and _TRAINS in effects):
            found.append(ImportEffect(module.file, effects))
    return found


def dear_imports(files: PythonFiles, calls: Iterable[str]) -> list[str]:
    """The parts of torch that take long to import and that importing the files of `calls` seems to ask for."""
    # Of a script only what is asked about runs.
    sources = [source for name, source in _imported_files(files, _places(calls)) if not name.endswith(".py")]
    return [module for module, pattern in _DEAR.items() if any(map(pattern.search, sources))]


def _places(calls: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(call.partition(":")[0] for call in calls))


def _imported_files(files: PythonFiles, places: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The modules at `places` and those that their statements at module level import, with their source."""
    waiting, seen, count = deque(places), set(places), 0
    while waiting and count < _MOST_FILES:
        name = waiting.popleft()
        file = files.file_of(name)
        if file is None:
            continue
        source, count = files.source(file), count + 1
        yield name, source
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        new = [other for other in dict.fromkeys(_imported(source, package)) if other not in seen]
        seen.update(new)
        waiting += new


def _imported(source: bytes, package: str) -> Iterator[str]:
    """The modules that the unindented imports of a file name, with the packages around them; no file is parsed.

    `package` is the one that its relative imports begin at. A name that is imported from a module may be one, too.
    """
    for match in _IMPORT.finditer(source):
        origin, names, modules = (group.decode("utf-8", "replace") if group else "" for group in match.groups())
        words = [
            item.split()[0] for item in (names or modules).partition("#")[0].strip("() \t\n").split(",") if item.split()
        ]
        for word in words:
            name = f"{_absolute(origin, package)}.{word}" if origin else word
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _absolute(origin: str, package: str) -> str:
    """The module that `origin` of `from origin import name` means, where it is written with dots."""
    name = origin.lstrip(".")
    above = len(origin) - len(name) - 1
    if above < 0:
        return name
    base = package.split(".")
    return ".".join([*base[: len(base) - above], *([name] if name else [])])


def _effects(module: Module) -> dict[str, int]:
    """What the module's own statements do, each with the first line that does it."""
    found: dict[str, int] = {}
    for call in _calls(_run_on_import(module.tree.body)):
        for effect in _effects_of(module, call, frozenset()):
            found.setdefault(effect, call.lineno)
    return dict(sorted(found.items(), key=lambda item: (item[0] != _TRAINS, item[1])))


def _run_on_import(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import runs; not the bodies of functions, nor what only a script runs."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _run_on_import(statement.body)
        elif isinstance(statement, ast.If) and _is_main_guard(statement.test):
            yield from _run_on_import(statement.orelse)
        elif not isinstance(statement, FunctionNode):
            yield statement


def _is_main_guard(test: ast.expr) -> bool:
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return bool(names & {"__name__", "TYPE_CHECKING"})


def _calls(body: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls in statements, in order, without those of functions that are defined in them."""
    for node in body:
        if isinstance(node, FunctionNode | ast.Lambda):
            continue
        if isinstance(node, ast.If) and _is_main_guard(node.test):
            yield from _calls(node.orelse)
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from _calls(ast.iter_child_nodes(node))


def _effects_of(module: Module, call: ast.Call, inside: frozenset[str]) -> Iterator[str]:
    """What a call does, also by way of functions of the same file."""
    name = dotted_name(call.func)
    last = last_name(call.func)
    if last == "system" and not call.args:  # platform.system() says a name
        return
    if last in _EFFECTS:
        yield _EFFECTS[last]
    elif name.startswith("subprocess."):
        yield "starts processes"
    elif last == "open" and _opens_to_write(call):
        yield "writes files"
    elif name in module.functions and name not in inside:
        for within in _calls(module.functions[name].node.body):
            yield from _effects_of(module, within, inside | {name})


def _opens_to_write(call: ast.Call) -> bool:
    """Whether the mode of `open(path, mode)` or `path.open(mode)` is one that writes."""
    place = 1 if isinstance(call.func, ast.Name) else 0
    modes = [*call.args[place : place + 1], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes)
