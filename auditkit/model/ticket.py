"""A ticket: the fields of its front matter, its reviews, its boxes, its resolution and its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from auditkit.model.enums import Severity
from auditkit.model.runs.probe import CATEGORIES as PROBE_CATEGORIES

CATEGORIES = tuple(PROBE_CATEGORIES.values())
"""The categories that a ticket may have."""

CATEGORY_OF = {name.casefold(): own for theirs, own in PROBE_CATEGORIES.items() for name in (theirs, own)}
"""The category for the names that probes and imported tickets use."""

LINK_KINDS = ("blocked-by", "blocks", "duplicate", "related")
"""What another ticket is to this one; a link is a kind and an id, such as `blocked-by B1-PT-01`."""

AGENT_NAMES = {"PT": "pytorch", "CR": "codereview", "DRL": "drl"}
"""The name in the `agent` field by the code in the id; auditkit.yaml may add more."""

UNKNOWN = "unknown"
"""The reviewer, person or revision that an imported ticket does not name."""

UNDATED = "undated"
"""The date that an imported ticket does not name."""

_ID = re.compile(r"B(\d{1,4})-([A-Z][A-Z0-9]{0,15})-(\d{1,6})", re.IGNORECASE | re.ASCII)
_PLACE = re.compile(r"(?P<file>[^:]+)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")


class Status(StrEnum):
    """The state of the work on a ticket."""

    OPEN = "open"
    INVESTIGATING = "investigating"
    FIX_IN_PROGRESS = "fix-in-progress"
    IN_REVIEW = "in-review"
    DEFERRED = "deferred"
    FIXED = "fixed"
    CLOSED = "closed"
    WONT_FIX = "wont-fix"
    ALREADY_FIXED = "already-fixed"
    NOT_A_BUG = "not-a-bug"
    DUPLICATE = "duplicate"

    @property
    def is_finished(self) -> bool:
        """Whether no more work is expected."""
        return self in FINISHED


FINISHED = frozenset(
    {Status.FIXED, Status.CLOSED, Status.WONT_FIX, Status.ALREADY_FIXED, Status.NOT_A_BUG, Status.DUPLICATE}
)
REOPENING = frozenset({Status.FIXED, Status.CLOSED, Status.ALREADY_FIXED})
"""The finished states that end when the finding reproduces again; the others are decisions and stay."""


class Verdict(StrEnum):
    """A reviewer's judgement of a ticket."""

    ENDORSE = "ENDORSE"
    REFINE = "REFINE"
    NEUTRAL = "NEUTRAL"
    OBJECT = "OBJECT"


class Review(msgspec.Struct, frozen=True):
    """One cross-review: `severity` is the proposed one (None: no proposal), `revision` the reviewed commit.

    `line` is the line of the file on which the review starts, 0 for a review that was not read from a file.
    """

    verdict: Verdict
    reviewer: str
    severity: Severity | None = None
    role: str = ""
    date: str = UNDATED
    revision: str = UNKNOWN
    note: str = ""
    line: int = 0


class Box(msgspec.Struct, frozen=True):
    """A check box of the Verification section; `probe` is the probe that decides it, "" for a manual check."""

    text: str
    is_done: bool = False
    line: int = 0

    @property
    def probe(self) -> str:
        return self.text.removeprefix("probe: ").strip() if self.text.startswith("probe: ") else ""


class Resolution(msgspec.Struct, frozen=True):
    """One line of the Resolution section: who set which finished status when, at which commit, and the proof.

    `details` are further statements, such as `proof: red at 3f2a91c, green at 77ab310, 2 of 2 findings`.
    """

    status: Status
    person: str
    date: str = UNDATED
    commit: str = ""
    details: tuple[str, ...] = ()
    line: int = 0


class Place(NamedTuple):
    """A file of the checkout with the lines `first` to `last`; 0 for a place without line numbers."""

    file: str
    first: int = 0
    last: int = 0


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The front matter of a ticket (`FIELDS`, in their order) and the parts of its body that have a form.

    `location` has one place such as `trainer/optim.py:41`, or several with commas between them. `links` are a kind
    and an id each. The body's parts are empty if only the head of the file was read.
    """

    id: str
    title: str
    severity: Severity
    status: Status = Status.OPEN
    location: str = ""
    function: str = ""
    findings: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    domain: str = ""
    batch: int
    agent: str = ""
    assignee: str = ""
    labels: tuple[str, ...] = ()
    created: str = ""
    links: tuple[str, ...] = ()
    reviews: tuple[Review, ...] = ()
    boxes: tuple[Box, ...] = ()
    resolutions: tuple[Resolution, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """The places that `location` names."""
        return tuple(place for text in self.location.split(", ") if (place := parse_place(text)))

    def linked(self, kind: str) -> tuple[str, ...]:
        """The ids of the tickets that have a link of this kind."""
        return tuple(link.split()[1] for link in self.links if link.split()[0] == kind)

    def to_json(self) -> dict[str, Any]:
        """Return the ticket as `--json` prints it."""
        return dict(msgspec.to_builtins(self))

    @property
    def resolution(self) -> Resolution | None:
        """The last line of the Resolution section."""
        return self.resolutions[-1] if self.resolutions else None


FIELDS = Ticket.__struct_fields__[: Ticket.__struct_fields__.index("reviews")]
"""The keys of the front matter, in the order of the file."""
LISTS = frozenset({"findings", "categories", "labels", "links"})
"""The keys whose value is a list."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The file `evidence/ID.json`: the complete results of the run for the ticket's findings.

    Each of `results` is a result as `audit --json` prints it, with the head of its run under `run`, the digest of its
    function's code under `code` and its target, as a text of JSON, under `called`. `fixes` are the changes of the code
    that were run, `no_fix` the reason for each finding without one. `proof` is what the last `ticket verify` measured;
    `gone` are the findings that a later run did not reproduce, each with the revision of that run.
    """

    ticket: str
    results: tuple[dict[str, Any], ...] = ()
    fixes: tuple[dict[str, Any], ...] = ()
    no_fix: dict[str, str] = {}
    proof: dict[str, Any] | None = None
    gone: dict[str, str] = {}
    schema_version: int = 1

    def result_of(self, fingerprint: str) -> dict[str, Any] | None:
        """The result with this fingerprint."""
        return next((one for one in self.results if one.get("fingerprint") == fingerprint), None)

    def judging(self, findings: Sequence[str]) -> tuple[str, ...]:
        """The findings that a fix is judged by: those above P4, or all if none is. Minor ones may stay."""
        minor = {one["fingerprint"] for one in self.results if one.get("severity") == Severity.P4.value}
        return tuple(one for one in findings if one not in minor) or tuple(findings)


def parse_id(text: str) -> str:
    """Return the id in its full form: `b1-pt-3` is `B1-PT-03`. Raises ValueError for other text."""
    return format_id(*id_parts(text.strip()))


def format_id(batch: int, code: str, number: int) -> str:
    """Return the id of a batch, an agent's code and a number, with at least two digits."""
    return f"B{batch}-{code}-{number:02d}"


def id_parts(ticket_id: str) -> tuple[int, str, int]:
    """Return batch, code and number: the order in which tickets are sorted. Raises ValueError for other text."""
    match = _ID.fullmatch(ticket_id)
    if match is None:
        raise ValueError(f"{ticket_id!r} is not a ticket id; an id looks like B7-PT-01")
    return int(match[1]), match[2].upper(), int(match[3])


def agent_code(name: str, agents: Mapping[str, str] = AGENT_NAMES) -> str:
    """Return the code for an agent's name or code; a name that `agents` lacks gives its letters in capitals."""
    plain = re.sub(r"[\s_-]+", "", name).upper()
    return next((code for code, known in agents.items() if plain in (code, known.upper())), plain)


def parse_place(text: str) -> Place | None:
    """Return the place in `path`, `path:line` or `path:first-last`; None for other text."""
    match = _PLACE.fullmatch(text.strip())
    if match is None:
        return None
    first = int(match["first"] or 0)
    return Place(match["file"], first, int(match["last"] or first))
