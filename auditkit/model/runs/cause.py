"""What a finding is about: the statement of the checkout that causes it, and other places written like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.runs.measurement import Location


@dataclass(frozen=True)
class Statement(Record):
    """Lines `first` to `last` of `file`: findings of one run that share them have one cause."""

    file: str
    first: int
    last: int


@dataclass(frozen=True)
class Sibling:
    """A place of the checkout whose syntax is a finding's; `is_test` where it stands among the tests."""

    location: Location
    is_test: bool = False


@dataclass(frozen=True)
class Siblings:
    """Where else the syntax of a finding stands: candidates, unproven until probed.

    `pattern` is the syntax with wildcards for local names; `places` are candidates, `probed` those
    that are findings of the same run. `reason` says why nothing could be looked for; then there are none.
    """

    pattern: str = ""
    places: tuple[Sibling, ...] = ()
    probed: tuple[Location, ...] = ()
    reason: str = ""

    def to_json(self) -> list[dict[str, Any]]:
        """Where the candidates stand."""
        return [place.location.to_json() for place in self.places]
