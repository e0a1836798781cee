"""Record calls: the structure of arguments of functions that an audit would call, without tensor values.

Functions are wrapped as attributes of their modules and classes and unwrapped after some calls. Statements in loops,
and functions that already run when the watcher finds them, are read from the stack: at a backward, a clip, a step, and
when a tensor is read. Of a library's functions, only the callers and the kinds of tensors are kept.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import types
from typing import Any, Callable

import torch

from .places import frames_of_stack
from .readings import plain_number, statistics_of
from .structure import Encoder, Literals, batches, open_loaders, real_path

_MOST_CALLS, _WATCHED_STEPS = 3, 5
_MOST_TRIES = 50
_LARGEST = 200_000
"""The most characters of one call's structure."""


class Recorder:
    """The candidates of one process; the file at `path` has the checkout's root and each candidate's place."""

    def __init__(self, path: str, watcher: Any) -> None:
        self.path, self.watcher = path, watcher
        self.root = os.sep
        self.places: dict = {}  # candidates by the path of their file, or the name of their library's module
        self.seen: set = set()
        self.codes: dict = {}

    def _read(self) -> None:
        """Read the candidates once the host has found them."""
        try:
            with open(self.path, encoding="utf-8") as file:
                config = json.load(file)
        except OSError:
            return
        self.path, self.root = "", os.path.realpath(config["root"]) + os.sep
        self.literals = Literals(self.root)
        for each in config["candidates"]:
            known = {**each, "calls": 0, "callers": {}, "record": None, "more": [], "undo": [], "returned": []}
            library = each.get("is_library") and each["call"].partition(":")[0]
            self.places.setdefault(library or real_path(self.root + each["file"]), []).append(known)

    def find(self) -> None:
        """Wrap the candidates of all newly imported modules."""
        if self.path:
            self._read()
        for module in list(sys.modules.values()) if self.places else ():
            file = getattr(module, "__file__", None)
            if id(module) in self.seen or not isinstance(file, str):
                continue
            found = [known for key in (str(module.__name__), real_path(file)) for known in self.places.get(key, ())]
            if found and getattr(getattr(module, "__spec__", None), "_initializing", False):
                continue
            self.seen.add(id(module))
            for known in found:
                if "#" not in known["call"]:
                    self._wrap(module, known)

    def _wrap(self, module: Any, known: dict) -> None:
        names = known["call"].partition(":")[2].split(".")
        owner = module
        for name in names[:-1]:
            owner = vars(owner).get(name)
            if owner is None:
                return
        held = vars(owner).get(names[-1])
        plain = held.__func__ if isinstance(held, (staticmethod, classmethod)) else held
        if not isinstance(plain, types.FunctionType):
            return
        wrapped: Any = self._wrapper(plain, known)
        wrapped = type(held)(wrapped) if plain is not held else wrapped
        known["undo"].append(put(owner, names[-1], wrapped))
        if owner is module:  # Other modules have imported it by name.
            for other in list(sys.modules.values()):
                file = getattr(other, "__file__", None)
                if isinstance(file, str) and real_path(file).startswith(self.root):
                    same = [name for name, value in vars(other).items() if value is held]
                    known["undo"] += [put(other, name, wrapped) for name in same]

    def _wrapper(self, original: Any, known: dict) -> Any:
        instrument = functools.partial(self.watcher.instrument, "recorded calls")

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.watcher.reading or torch.compiler.is_compiling() or not self._wants(known):
                return original(*args, **kwargs)
            arguments = _bound(original, args, kwargs)
            begun = instrument(lambda: self.record(known, sys._getframe(), arguments))
            gradients = instrument(lambda: self._statistics(arguments)) if known.get("measures") else None
            backwards = self.watcher.backwards
            result = original(*args, **kwargs)
            if begun and known["trains"] and self.watcher.backwards == backwards and known["calls"] < _MOST_TRIES:
                known["record"] = None  # Only a later call trains.
            if gradients is not None:
                instrument(lambda: self.returned(known, result, gradients))
            return result

        return call

    def _wants(self, known: dict) -> bool:
        """Count a call; return whether to record its structure. After the first steps, unwrap the function."""
        step = self.watcher.count
        known["calls"] += 1
        known["last"] = [step, self.watcher.turn]
        known["first"] = known["last"] if known["calls"] == 1 else known["first"]
        if known["calls"] <= _MOST_CALLS or (known["record"] is None and known["calls"] <= _MOST_TRIES):
            return True
        if step >= _WATCHED_STEPS:
            _put_back(known)
        return False

    def record(self, known: dict, frame: Any, arguments: dict) -> bool:
        """Record a call; return whether it is the first whose structure is kept."""
        caller = self.caller(frame)
        if caller:
            known["callers"][caller] = None
        encoder = Encoder(self.literals)
        structure = encoder.arguments(arguments)
        summary = encoder.summary()
        if known["record"] is None:
            size = 0 if known.get("is_library") else len(json.dumps(structure))
            known["record"], known["summary"] = structure if 0 < size <= _LARGEST else {}, summary
            return True
        if summary != known["summary"]:
            known["more"].append(summary)
        return False

    def _statistics(self, arguments: dict) -> Any:
        """The statistics of what a collector was given; `had_gradient` if a step before gave it one."""
        gradients, parameters = carried(arguments)
        found = statistics_of(gradients, len(parameters))
        seen = [self.watcher.program.by_id.get(id(each)) for each in parameters]
        return found and {**found, "had_gradient": any(each is not None and each.with_gradient for each in seen)}

    def returned(self, known: dict, result: Any, gradients: dict) -> None:
        """Record the number that a collector returned beside the statistics of the gradients that it was given."""
        value = plain_number(result)
        if value is not None and known["callers"]:
            called = [next(reversed(known["callers"])), self.watcher.count, self.watcher.turn]
            known["returned"].append({"called": called, "value": value, **gradients})

    def caller(self, frame: Any) -> str:
        """Return the innermost line of the checkout on the stack."""
        while frame is not None:
            path = real_path(frame.f_code.co_filename)
            if path.startswith(self.root) and "site-packages" not in path[len(self.root) :]:
                return "%s:%d" % (path[len(self.root) :].replace(os.sep, "/"), frame.f_lineno)
            frame = frame.f_back
        return ""

    def look(self, is_step: bool = False) -> None:
        """Record statements in loops, and functions that were called before they could be wrapped.

        At a step, earlier statements have run if their results exist.
        """
        for frame in frames_of_stack() if self.places else ():
            code = frame.f_code
            held = self.codes.get(id(code))
            if held is None:
                known = self.places.get(real_path(code.co_filename), ())
                held = self.codes[id(code)] = (code, [each for each in known if _is_of(each, code)])
            for each in held[1]:
                is_inside = each["first_line"] <= frame.f_lineno <= each["last_line"]
                if is_inside or (is_step and each.get("sets") and each["last_line"] < frame.f_lineno):
                    self._look_at(each, frame, is_inside)

    def _look_at(self, known: dict, frame: Any, is_inside: bool) -> None:
        """Record a frame; a later line of the same frame and turn belongs to the same call."""
        was, known["look"] = known.get("look"), (id(frame), self.watcher.turn, frame.f_lineno)
        if was is not None and was[0] == id(frame) and (was[1] == self.watcher.turn or was[2] < frame.f_lineno):
            return
        is_block = "#" in known["call"]
        if known["calls"] >= (_WATCHED_STEPS if is_block else 1):
            return
        if not is_inside and not all(name in frame.f_locals for name in known["sets"]):
            return
        space = {**frame.f_globals, **frame.f_locals} if is_block else frame.f_locals
        if self._wants(known):
            values = {name: space[name] for name in known["names"] if name in space}
            self.record(known, frame if is_block else frame.f_back, values)
        if not is_block:
            known["late"] = True

    def batch(self, iterator: Any, batch: Any) -> None:
        """Record the first batch of each DataLoader, by its dataset."""
        key = id(iterator._dataset)
        if self.places and key not in batches:
            batches[key] = Encoder(self.literals, 500, first=1_000_000 * (1 + len(batches))).encode(batch)

    def remove(self) -> None:
        """Unwrap every function."""
        for each in self._all():
            _put_back(each)

    def _all(self) -> list:
        return [each for known in self.places.values() for each in known]

    def to_json(self) -> list:
        names = ("call", "calls", "first", "last", "callers", "record", "summary", "more", "returned", "late")
        for node, key in open_loaders:
            if key in batches:
                node["batch"] = batches[key]
        found = [each for each in self._all() if each["calls"]]
        return [{name: each[name] for name in names if each.get(name) not in (None, [])} for each in found]


def put(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Replace an attribute; return what restores the old one, unless the program has replaced it too."""
    had, old = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, old) if had else delattr(owner, name)

    return undo


def _put_back(known: dict) -> None:
    for undo in known["undo"]:
        undo()
    known["undo"] = []


def _is_of(known: dict, code: Any) -> bool:
    names = known["call"].partition(":")[2].partition("#")[0]
    name = names.rpartition(".")[2] or "<module>"
    if "#" in known["call"]:
        lines = [line for *_, line in code.co_lines() if line]
        return code.co_name == name and min(lines) <= known["first_line"] and known["last_line"] <= max(lines) + 1
    return code.co_name == name and code.co_firstlineno <= known["first_line"] <= code.co_firstlineno + 50


def carried(arguments: dict) -> tuple:
    """The gradients that a collector was given, and their parameters.

    They are those of modules, optimizers, lists and its own object; plain tensors count where there is no parameter.
    """
    parameters: dict = {}
    plain: dict = {}
    waiting = list(arguments.values())
    waiting += list(vars(arguments["self"]).values()) if hasattr(arguments.get("self"), "__dict__") else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, torch.Tensor):
            (parameters if each.is_leaf and each.requires_grad else plain)[id(each)] = each
        elif isinstance(each, torch.nn.Module):
            waiting += each.parameters()
        elif isinstance(each, torch.optim.Optimizer):
            waiting += [tensor for group in each.param_groups for tensor in group["params"]]
        elif type(each) in (list, tuple, dict):
            waiting += each.values() if type(each) is dict else each
    found = [each.grad for each in parameters.values() if each.grad is not None] if parameters else plain.values()
    return list(found), list(parameters.values())


def _bound(function: Any, args: tuple, kwargs: dict) -> dict:
    try:
        bound: Any = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return {}
    return dict(bound.arguments)
