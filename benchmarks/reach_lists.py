"""The lists by hand of what there is to find in public code, and which candidates of a run meet them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from auditkit.model.runs.target import split_call
from benchmarks.evidence import Document

NEAR_LINES = 3
"""By so much a person may begin the same statements earlier or later: with the loop, or with the sum before it."""
FOLDER = Path(__file__).parent / "reach"


def lists() -> dict[str, Document]:
    """The list by hand of each repository, by the name of its clone."""
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}


@dataclass(frozen=True)
class Met:
    """A place of the list and the candidate that meets it, None where it was not found."""

    place: Document
    candidate: Document | None

    @property
    def is_right(self) -> bool:
        return self.candidate is not None and self.candidate["contract"] == self.place["contract"]

    @property
    def is_asked(self) -> bool:
        return self.candidate is not None and bool(self.candidate["asked"])


@dataclass(frozen=True)
class Reach:
    """What was found of one repository: each place of its list, and the candidates that are no place of it."""

    name: str
    met: tuple[Met, ...]
    false: tuple[Document, ...]
    candidate_count: int
    processor_s: float

    @property
    def listed(self) -> list[Met]:
        """The places that were written down before anything was tried."""
        return [each for each in self.met if not each.place.get("added")]

    def count(self, what: str) -> int:
        """How many listed places are `found`, `right` (found, with the contract on record) or `asked`."""
        if what == "found":
            return sum(each.candidate is not None for each in self.listed)
        return sum(getattr(each, f"is_{what}") for each in self.listed)


def meets(place: Mapping[str, Any], candidate: Mapping[str, Any]) -> bool:
    """Whether a candidate is the place: its function, the statements around its line, or the call at its line."""
    site = f"{place['file']}:{place['line']}"
    if candidate["places"]:
        return any(each.partition(" ")[0] == site for each in candidate["places"])
    if candidate["file"] != place["file"]:
        return False
    _, function, statement = split_call(candidate["call"])
    if not statement:
        is_same = function == place["function"] or candidate["line"] == place["line"]
        is_monitor = place["contract"] == "monitor" and _owner(function) == _owner(place["function"])
        return place["form"] != "library_call" and (is_same or is_monitor)
    first, last = candidate["line"] - NEAR_LINES, (candidate["last_line"] or place["line"]) + NEAR_LINES
    return function == place["function"] and (place["form"] == "function" or first <= place["line"] <= last)


def _owner(function: str) -> str:
    return function.partition(".")[0]


def compare(name: str, places: Iterable[Document], found: Mapping[str, Any]) -> Reach:
    """Put the best candidate beside each place: of several the one with the right contract, then one that is fed."""
    candidates = list(_one_per_call_site(found["candidates"]))
    met, right = [], set()
    for place in places:
        fitting = [each for each in candidates if meets(place, each)]
        fitting.sort(key=lambda each: (each["contract"] != place["contract"], not each["asked"]))
        right |= set(map(_identity, fitting))
        met.append(Met(place, fitting[0] if fitting else None))
    every = {_identity(each): each for each in candidates}
    false = tuple(each for identity, each in every.items() if identity not in right)
    return Reach(name, tuple(met), false, len(every), found["processor_s"])


def _one_per_call_site(candidates: Iterable[Document]) -> Iterator[Document]:
    """The candidates; a function of a library once for each place that calls it."""
    for each in candidates:
        for site in each["places"] or [""]:
            file, _, line = site.partition(" ")[0].rpartition(":")
            yield {**each, "file": file, "line": line, "places": [site]} if site else each


def _identity(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    """What a candidate is, however it is called: with a flag it is the same function."""
    return (candidate["call"], *candidate["places"])


def reaches(results: Mapping[str, Any]) -> list[Reach]:
    """Every repository that the results hold, beside its list."""
    return [compare(name, each["places"], results[name]) for name, each in lists().items() if name in results]
