"""Import torch and the target's module once, and find the callable in it.

A module is loaded as Python imports it, or by single statements cut out of its file.
"""

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from types import ModuleType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import placeholders
from .cut_out import CutOut, CutOutFinder, CutOutLoader, Statements, is_definition, statements_of
from .families import is_out_of_memory

OF_BLOCKS = "#"
"""Suffix of a place whose targets are all blocks: an import would run the code around them."""
RUNGS = ("package", "cut_out")
_INSTALLED = ("site-packages", "dist-packages")
OLDEST_TORCH = (2, 9)
SHARED = "forms"
"""The module that probes import."""


class LoadError(Exception):
    """The target could not be loaded: `reason` is a reason of the outcome, `missing` the modules that it lacks.

    `is_final` means that another way to load it cannot help.
    """

    def __init__(
        self, reason: str, message: str, hint: str = "", missing: Tuple[str, ...] = (), is_final: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint
        self.missing = missing
        self.is_final = is_final


def import_torch() -> None:
    """Import torch. Raises LoadError if it is missing or too old."""
    install = "{} -m pip install".format(sys.executable)
    elsewhere = "name another interpreter with --python, or install torch there: {}".format(install)
    try:
        import torch
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            message, hint = "{} has no torch".format(sys.executable), "{} torch".format(elsewhere)
            raise LoadError("no_torch", message, hint) from None
        reason = "no_memory" if is_out_of_memory(repr(error)) else "no_torch"
        raise LoadError(reason, "importing torch fails: {}".format(_one_line(error))) from error
    version = str(getattr(torch, "__version__", "without a version"))
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        message = "{} has torch {}; auditkit needs torch {} or later".format(sys.executable, version, oldest)
        raise LoadError("no_torch", message, "{} 'torch>={}'".format(elsewhere, oldest))


def use_import_roots(roots: List[str]) -> None:
    """Put the checkout's roots first on the path, so that no installed copy is imported."""
    for root in reversed(roots):
        if root in sys.path:
            sys.path.remove(root)
        sys.path.insert(0, root)


def load(call: str, roots: List[str]) -> Any:
    """Return the object that `PLACE:qualified.name` names, loaded in this process's way. Raises LoadError."""
    place, qualified_name = split(call)
    with placeholders.loading():
        module = import_module(place, roots)
        _refuse_other_copy(module.__name__, module, roots)
        found: Any = module
        for name in qualified_name.split("."):
            try:
                held = hasattr(found, name)
            except (Exception, SystemExit) as error:
                raise _import_error(place, error) from error
            if not held:
                near = difflib.get_close_matches(name, dir(found), 3, 0.5)
                hint = "did you mean {}?".format(", ".join(near)) if near else ""
                raise LoadError("import_error", "{} has no '{}'".format(place, qualified_name), hint, is_final=True)
            found = getattr(found, name)
    if placeholders.why_failed(found):
        raise LoadError("import_error", placeholders.why_failed(found))
    return found


def namespace(place: str, names: Iterable[str], roots: List[str]) -> Dict[str, Any]:
    """Return the namespace in which a block of the file at `place` is executed.

    `place` is the part of a call before the colon; `names` are the free names that the block reads. The namespace is a
    new dict with the file's imports, functions, classes and constants. It lacks what a script creates for its run (a
    model, an optimizer, parsed arguments) and what failed: a missing name is an input of the block. Raises LoadError.
    """
    with placeholders.loading():
        module = import_module(place, roots)
        statements = _statements(module)
        if isinstance(module, CutOut):
            module.__spec__.loader.define(module, names, is_definition)  # type: ignore[union-attr]
    made = {name for name in statements.binding if not statements.is_defined(name, is_definition)}
    return {
        name: value for name, value in vars(module).items() if name not in made and not placeholders.why_failed(value)
    }


def _statements(module: ModuleType) -> Statements:
    loader = module.__spec__.loader if module.__spec__ is not None else None
    return loader.statements if isinstance(loader, CutOutLoader) else statements_of(str(module.__file__))


def owner_class(call: str, roots: Sequence[str] = ()) -> Tuple[Optional[type], str]:
    """Return the class and the method's name of `PLACE:Class.method`, otherwise (None, "")."""
    place, qualified_name = split(call)
    if "." not in qualified_name:
        return None, ""
    found: Any = sys.modules[module_of(place, list(roots))[0]]
    *path, method = qualified_name.split(".")
    for name in path:
        found = getattr(found, name)
    return (found, method) if inspect.isclass(found) else (None, "")


def split(call: str) -> Tuple[str, str]:
    """Split a call into its place (a dotted module, or a file's path) and its name. Raises LoadError."""
    place, separator, qualified_name = call.partition(":")
    if not separator or not place or not qualified_name:
        raise LoadError("import_error", "'{}' is not of the form package.module:function".format(call), is_final=True)
    return place, qualified_name


def import_module(place: str, roots: List[str]) -> Any:
    """Return the module, imported once. Raises LoadError."""
    module_name, file = module_of(place, roots)
    try:
        with placeholders.loading():
            _find_own_folder(module_name, file)
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not error.name:  # raised by a package that refuses to be imported
            raise _import_error(place, error) from error
        is_itself = (module_name + ".").startswith(error.name + ".")
        text = "importing {} needs the module '{}', which {} does not have".format(place, error.name, sys.executable)
        top = error.name.split(".")[0]
        hint = _install_hint(top) + ("; or add its folder to import_roots in auditkit.yaml" if is_itself else "")
        raise LoadError("import_error", text, hint, (top,), is_final=is_itself) from error
    except BaseException as error:
        raise _import_error(place, error) from error


def _find_own_folder(module_name: str, file: str) -> None:
    """Import from a folder without `__init__` also if an installed package (`examples`, `tests`) has its name."""
    top, *rest = module_name.split(".")
    path = os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file
    folder = os.path.abspath(os.path.join(path, *[os.pardir] * len(rest)))
    if rest and file and not os.path.isfile(os.path.join(folder, "__init__.py")):
        package = importlib.import_module(top)
        if folder not in list(getattr(package, "__path__", [folder])):
            package.__path__ = [folder, *package.__path__]


def _import_error(place: str, error: BaseException) -> LoadError:
    if isinstance(error, SystemExit):
        return LoadError("import_error", "importing {} exits with {!r}".format(place, error.code))
    message = "importing {} raises {}: {}{}".format(place, type(error).__name__, _one_line(error), _raised_at(error))
    return LoadError("import_error", message)


def _install_hint(module: str) -> str:
    return "install it there: {} -m pip install {}".format(
        sys.executable, " ".join(placeholders.distributions([module]))
    )


def absence(path: str) -> Dict[str, Any]:
    """Describe what a target used of an absent module that a stub replaces: `path`."""
    absent, why = placeholders.absent(path)
    if why:
        return {"message": "it uses {}, and {}".format(path, why)}
    message = "it uses {}, and {} has no module '{}'".format(path, sys.executable, absent)
    return {"message": message, "hint": _install_hint(absent), "missing": [absent]}


def _raised_at(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return " ({}:{})".format(error.filename, error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    return " ({}:{})".format(frames[-1].filename, frames[-1].lineno) if frames else ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _refuse_other_copy(module_name: str, module: Any, roots: List[str]) -> None:
    """Raise LoadError if a module of the checkout was imported from elsewhere: it is not the code under audit."""
    loaded_from = getattr(module, "__file__", None)
    if loaded_from is None:
        return
    relative = os.path.join(*module_name.split("."))
    for root in roots:
        for candidate in (os.path.join(root, relative + ".py"), os.path.join(root, relative, "__init__.py")):
            if os.path.exists(candidate) and os.path.realpath(candidate) != os.path.realpath(loaded_from):
                message = "{} was imported from {}, not from {}".format(module_name, loaded_from, candidate)
                hint = "an installed copy hides the checkout: uninstall it there"
                raise LoadError("import_error", message, hint, is_final=True)


def load_probe(path: str, forms: str) -> ModuleType:
    """Load the probe at `path`, in which `import forms` means the file `forms`.

    A module `forms` of the target is restored after the probe is loaded.
    """
    before = sys.modules.get(SHARED)
    sys.modules[SHARED] = _load(SHARED, forms)
    try:
        return _load("_auditkit_probe", path)
    finally:
        del sys.modules[SHARED]
        if before is not None:
            sys.modules[SHARED] = before


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Prepared:
    """State of this process: the way in which it loads."""

    rung = RUNGS[0]


def current() -> str:
    """Return the way in which this process loads modules."""
    return _Prepared.rung


def prepare(rung: str, places: Sequence[str], roots: List[str]) -> None:
    """Make this process import in the way `rung`; the targets are in `places`. Call it once per process."""
    _Prepared.rung = rung
    if rung == RUNGS[0]:
        return
    for place in places:
        folder = _script_folder(module_of(place, roots)[1])
        if folder not in sys.path:
            sys.path.insert(0, folder)
    tops = [os.path.realpath(root) + os.sep for root in roots]
    CutOutFinder(lambda path: _is_own(os.path.realpath(path), tops)).install()


def module_of(place: str, roots: List[str]) -> Tuple[str, str]:
    """Return the name under which the module at `place` (dotted, or a file's path) is imported, and its file or ""."""
    if not place.endswith(".py"):
        below = [os.path.join(root, *place.split(".")) for root in roots]
        files = [path + end for path in below for end in (".py", os.sep + "__init__.py")]
        return place, next(filter(os.path.isfile, files), "")
    files = [os.path.join(root, place) for root in (os.getcwd(), *roots)]
    file = next(filter(os.path.isfile, files), os.path.abspath(place))
    inside = [root for root in roots if os.path.realpath(file).startswith(os.path.realpath(root) + os.sep)]
    root = max(inside, key=len, default=os.path.dirname(file))
    parts = os.path.relpath(os.path.realpath(file), os.path.realpath(root))[: -len(".py")].split(os.sep)
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    return ".".join(parts), file


def ways(place: str, roots: List[str]) -> Tuple[str, ...]:
    """Return the ways to try for the module at `place`, in order.

    A path with parts that are not identifiers cannot be imported; a file that trains must not be.
    """
    is_path = place.endswith(".py") and not all(map(str.isidentifier, place[: -len(".py")].split("/")))
    return RUNGS[1:] if is_path or _trains(module_of(place, roots)[1]) else RUNGS


def _trains(file: str) -> bool:
    """Return whether importing a file computes gradients; False for a file that cannot be read."""
    try:
        return statements_of(file).train
    except (OSError, ValueError, SyntaxError, RecursionError):
        return False


def _script_folder(file: str) -> str:
    """Return the folder that a file's own imports start from when it is run: its own, or its top package's parent."""
    folder = os.path.dirname(os.path.realpath(file))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _is_own(path: str, tops: List[str]) -> bool:
    return any(path.startswith(top) and not any(part in path[len(top) :] for part in _INSTALLED) for top in tops)
