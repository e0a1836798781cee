"""Import the target's module, once, and find the callable in it."""

import difflib
import importlib
import inspect
import os
import sys
import traceback
from typing import Any, List, Optional, Tuple

_ROOTS_HINT = "name the folder to import from: import_roots in auditkit.yaml"


class LoadError(Exception):
    """The target could not be loaded: `reason` is one of the outcome's reasons."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint


def use_import_roots(roots: List[str]) -> None:
    """Put the checkout's roots before everything else, so that an installed copy does not win."""
    for root in reversed(roots):
        if root in sys.path:
            sys.path.remove(root)
        sys.path.insert(0, root)


def load(call: str, roots: List[str]) -> Any:
    """The object that `package.module:qualified.name` names. Raises LoadError."""
    module_name, qualified_name = split(call)
    module = import_module(module_name, roots)
    _refuse_other_copy(module_name, module, roots)
    found: Any = module
    for name in qualified_name.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found), 3, 0.5)
            hint = "did you mean " + ", ".join(near) + "?" if near else ""
            raise LoadError("import_error", "{} has no '{}'".format(module_name, qualified_name), hint)
        found = getattr(found, name)
    return found


def owner_class(call: str) -> Tuple[Optional[type], str]:
    """For `module:Class.method` the class and the method's name, otherwise (None, "")."""
    module_name, qualified_name = split(call)
    if "." not in qualified_name:
        return None, ""
    found: Any = sys.modules[module_name]
    *path, method = qualified_name.split(".")
    for name in path:
        found = getattr(found, name)
    return (found, method) if inspect.isclass(found) else (None, "")


def split(call: str) -> Tuple[str, str]:
    module_name, separator, qualified_name = call.partition(":")
    if not separator or not module_name or not qualified_name:
        raise LoadError("import_error", "'{}' is not of the form package.module:function".format(call))
    return module_name, qualified_name


def import_module(module_name: str, roots: List[str]) -> Any:
    """The module, imported once. Raises LoadError."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(missing + "."):
            message = "no module named '{}' under {}".format(missing, ", ".join(roots))
            raise LoadError("import_error", message, _ROOTS_HINT) from None
        message = "importing {} needs the module '{}', which {} does not have".format(
            module_name, missing, sys.executable
        )
        hint = "install it there: {} -m pip install {}".format(sys.executable, missing.split(".")[0])
        raise LoadError("import_error", message, hint) from error
    except SystemExit as error:
        raise LoadError("import_error", "importing {} exits with {!r}".format(module_name, error.code)) from error
    except BaseException as error:
        where = _raised_at(error)
        message = "importing {} raises {}: {}{}".format(module_name, type(error).__name__, _one_line(error), where)
        raise LoadError("import_error", message) from error


def _raised_at(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return " ({}:{})".format(error.filename, error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    return " ({}:{})".format(frames[-1].filename, frames[-1].lineno) if frames else ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _refuse_other_copy(module_name: str, module: Any, roots: List[str]) -> None:
    """A module that the checkout holds but that came from elsewhere is not the code under audit."""
    loaded_from = getattr(module, "__file__", None)
    if loaded_from is None:
        return
    relative = os.path.join(*module_name.split("."))
    for root in roots:
        for candidate in (os.path.join(root, relative + ".py"), os.path.join(root, relative, "__init__.py")):
            if os.path.exists(candidate) and os.path.realpath(candidate) != os.path.realpath(loaded_from):
                message = "{} was imported from {}, not from {}".format(module_name, loaded_from, candidate)
                raise LoadError("import_error", message, "an installed copy hides the checkout: uninstall it there")
