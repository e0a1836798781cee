"""Pair collectors with the function that turns their answer into plain numbers: `materialize_*`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from auditkit.probing.discovery.answers import consumed_keys
from auditkit.probing.discovery.collector_calls import CollectorCalls
from auditkit.probing.source_code.modules import Function, dotted_name

_FINISH_NAME = re.compile(r"(materiali[sz]e|finali[sz]e|finish|resolve|reali[sz]e|to_python|to_host|to_cpu|sync)(_.*)?")
_COLLECT_WORDS = re.compile(r"^(collect|compute|get|gather|measure)_|_async$")
_READS_TO_HOST = re.compile(r"\.(item|tolist|cpu|numpy)\(")


@dataclass(frozen=True)
class Finisher:
    """A function of one argument, an answer; `keys` are the text keys that it demands of it."""

    function: Function
    keys: tuple[str, ...]
    is_named: bool
    record: str


@dataclass(frozen=True)
class Pairing:
    """Finishers that fit a collector, best first, and sentences on what fits and what does not."""

    fitting: tuple[Function, ...]
    evidence: tuple[str, ...]


def find_finishers(calls: CollectorCalls) -> list[Finisher]:
    """The functions that could finish a collection: named so, or taking tensors of a mapping to the host."""
    found = []
    for function in calls.files.functions():
        if function in calls.collectors or len(function.required) != 1 or function.name.startswith("__"):
            continue
        named = bool(_FINISH_NAME.fullmatch(function.name.lstrip("_")))
        if not named and not _READS_TO_HOST.search(function.text):
            continue
        item = function.required[0]
        keys = tuple(consumed_keys(function, item.arg))
        if named or keys:
            found.append(Finisher(function, keys, named, _record(item.annotation)))
    return found


def pair(collector: Function, finishers: list[Finisher], calls: CollectorCalls) -> Pairing:
    """The finishers of one collector: by the keys it produces and they demand, by type, by name."""
    produced = set(calls.produced_keys(collector))
    scored, evidence = [], []
    for finisher in finishers:
        function = finisher.function
        if function is collector or (function.is_bound and function.owner is not collector.owner):
            continue
        if calls.calls(collector, function):
            continue  # it finishes by itself
        missing = [key for key in finisher.keys if key not in produced]
        points, reason = _fit(collector, finisher, produced)
        if points and not missing:
            scored.append((points, function))
            evidence.append(f"{function.call} finishes it: {reason}")
        elif finisher.is_named and finisher.keys and len(missing) < len(finisher.keys):
            evidence.append(f"{function.call} does not finish it alone: it also needs {', '.join(missing)}")
    scored.sort(key=lambda entry: -entry[0])
    return Pairing(tuple(function for _, function in scored), tuple(evidence))


def _fit(collector: Function, finisher: Finisher, produced: set[str]) -> tuple[int, str]:
    """Points and the reason in words; 0 points where nothing speaks for the pair."""
    points, reasons = 0, []
    shared = [key for key in finisher.keys if key in produced]
    if shared:
        points += 3
        reasons.append(f"it reads the keys {', '.join(shared[:4])}{', ...' if len(shared) > 4 else ''}")
    if finisher.record and finisher.record == _record(collector.node.returns):
        points += 2
        reasons.append(f"it takes a {finisher.record}")
    if points == 0 and not finisher.is_named:
        return 0, ""
    if re.search(rf"\b{re.escape(finisher.function.name)}\b", ast.get_docstring(collector.node) or ""):
        points += 2
        reasons.append("the docstring names it")
    if finisher.is_named and _words(finisher.function.name) & _words(collector.name):
        same = _subject(finisher.function.name) == _subject(collector.name)
        # Shared words alone are too little: every name here has "grad" in it.
        points += 1 if points or same else 0
        reasons += ["the names match"] if same else []
    return points, " and ".join(reasons) or "the names match"


def _subject(name: str) -> str:
    """`collect_norms_async` and `materialize_norms` are both about `norms`."""
    stem = _COLLECT_WORDS.sub("", name.lstrip("_").removesuffix("_async"))
    match = _FINISH_NAME.fullmatch(stem)
    return (match.group(2) or "").strip("_") if match else stem


def _words(name: str) -> set[str]:
    return {word.removesuffix("s").replace("gradient", "grad") for word in _subject(name).split("_") if word}


def _record(annotation: ast.expr | None) -> str:
    """The class that an annotation names, where it is one of somebody's own."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        name = annotation.value
    else:
        name = dotted_name(annotation) if annotation is not None else ""
    name = name.rpartition(".")[2]
    return name if name[:1].isupper() and name not in ("Any", "Tensor", "Dict", "Mapping", "Optional") else ""
