"""The life of a ticket: status, fields, reviews with their consensus, staleness, and what `fixed` requires."""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError, meant
from auditkit.git_process import run_git
from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.ticket import FIELDS, LISTS, UNKNOWN, Evidence, Resolution, Review, Status, Ticket, Verdict
from auditkit.tickets.document import Document
from auditkit.tickets.front_matter import check_field, check_items

_FIXED_FIELDS = ("id", "findings", "created")
_NOTE_REQUIRED = (Status.WONT_FIX, Status.NOT_A_BUG, Status.CLOSED)
_SHORT = 12


@dataclass(frozen=True)
class Place:
    """The files that tickets are about: the top of a repository, or a folder outside git."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> Place:
        """Return the top of the repository in which a folder lies; the folder itself outside git."""
        if not folder.is_dir():
            raise BadInputError(f"{folder} is not a folder", "--checkout DIR names the checkout")
        top = cls(folder).git("rev-parse", "--show-toplevel")
        return cls(Path(top) if top else folder)

    def git(self, *arguments: str) -> str | None:
        """Return what git prints, None if it fails."""
        done = run_git(self.folder, *arguments)
        return done.stdout.strip() if done.returncode == 0 else None

    def commit(self, revision: str) -> str | None:
        """Return the full hash of a revision, None if the repository lacks it."""
        return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def head(self) -> str:
        """Return the abbreviated hash of HEAD, or `unknown` outside git."""
        return self.git("rev-parse", f"--short={_SHORT}", "HEAD") or UNKNOWN

    def contains(self, revision: str, commit: str) -> bool:
        """Return whether `revision` is `commit` or comes after it."""
        return self.git("merge-base", "--is-ancestor", commit, revision) is not None

    def authors(self, commit: str) -> list[str]:
        """Return the names of the author and the co-authors of a commit."""
        form = "--format=%an%n%(trailers:key=Co-authored-by,valueonly)"
        lines = (self.git("log", "-1", form, commit, "--") or "").split("\n")
        return [re.sub(r"\s*<.*", "", line).strip() for line in lines if line.strip()]

    def source(self, revision: str, file: str) -> str | None:
        """Return a file at a revision; at "" as it is on the disk. None if there is no such file."""
        if revision:
            return self.git("show", f"{revision}:./{file}")
        try:
            return (self.folder / file).read_text("utf-8", "replace")
        except OSError:
            return None


def person(folder: Path, other: str | None = None) -> str:
    """Return the user's name in git; with `other` (--as) both names. Raises BadInputError if git has none."""
    done = run_git(folder, "config", "user.name")
    name = inert_line(done.stdout)
    if not name:
        raise BadInputError("git does not know your name", 'git config user.name "NAME"')
    return f"{inert_line(other)} via {name}" if other and inert_line(other) != name else name


def today() -> str:
    return datetime.date.today().isoformat()


# Fields.


def with_status(document: Document, text: str) -> Document:
    """Return the document with an unfinished status. Raises BadInputError for others; `resolve` sets those."""
    status = parse_status(text)
    if status.is_finished:
        hint = f"auditkit ticket resolve {document.ticket.id} {status.value}"
        raise BadInputError(f"{status.value} finishes the ticket, which needs a resolution", hint)
    return document.edited(status=status)


def parse_status(text: str) -> Status:
    """Return the status with this name. Raises BadInputError with the nearest one."""
    value, problem = check_field("status", text.strip().lower().replace("_", "-").replace(" ", "-"))
    if problem:
        raise BadInputError(f"{text!r} is not a status", problem)
    assert isinstance(value, Status)
    return value


def with_edits(document: Document, edits: Sequence[str]) -> Document:
    """Return the document with edits such as `severity=P1`, `labels+=slow`, `labels-=slow` and `assignee=`."""
    ticket = document.ticket
    changes: dict[str, Any] = {}
    for edit in edits:
        match = re.fullmatch(r"([a-z]+)\s*([+-]?=)\s*(.*)", edit, re.DOTALL)
        if match is None:
            raise BadInputError(f"{edit!r} is not an edit", "write FIELD=VALUE, FIELD+=VALUE, FIELD-=VALUE or FIELD=")
        key, sign, text = match.groups()
        if key not in FIELDS or key in _FIXED_FIELDS:
            known = [field for field in FIELDS if field not in _FIXED_FIELDS]
            told = meant("" if key in FIELDS else key, known, f"the fields are {', '.join(known)}")
            raise BadInputError(f"{key!r} is not a field that can be edited", told)
        old = changes.get(key, getattr(ticket, key))
        changes[key] = _edited_list(key, old, sign, text) if key in LISTS else _edited_field(key, sign, text)
    status = changes.get("status")
    if status is not None and status.is_finished and status is not ticket.status:
        raise BadInputError(f"{status.value} needs a resolution", f"auditkit ticket resolve {ticket.id} {status.value}")
    return document.edited(**changes)


def _edited_list(key: str, old: tuple[str, ...], sign: str, text: str) -> tuple[str, ...]:
    items = tuple(item.strip() for item in text.split(",") if item.strip())
    left = tuple(item for item in old if item not in items)
    new = {"=": items, "-=": left, "+=": (*old, *(item for item in items if item not in old))}[sign]
    problem = check_items(key, new)
    if problem:
        raise BadInputError(f"{key} cannot be {text!r}", problem)
    return new


def _edited_field(key: str, sign: str, text: str) -> Any:
    if sign != "=":
        raise BadInputError(f"{key} has one value", f"write {key}=VALUE; the lists are {', '.join(sorted(LISTS))}")
    value, problem = check_field(key, text.strip().upper() if key == "severity" else inert_line(text))
    if problem:
        raise BadInputError(f"{key} cannot be {text!r}", problem)
    return value


# Reviews.


@dataclass(frozen=True)
class Consensus:
    """The last review of each reviewer: `kind` is `none`, `incomplete`, `endorsed`, `refined` or `disputed`."""

    kind: str
    text: str


def consensus(ticket: Ticket, roles: Sequence[str] = (), required: int = 1, stale: Sequence[Review] = ()) -> Consensus:
    """Return what the reviews amount to; those in `stale` do not count. `roles` must each have a review."""
    last = {review.reviewer: review for review in ticket.reviews if review not in stale}
    count = len(last)
    if not count:
        return Consensus("none", f"no review{f', {len(stale)} stale' if stale else ''}")
    objections = [review.reviewer for review in last.values() if review.verdict is Verdict.OBJECT]
    if objections:
        return Consensus("disputed", f"{', '.join(objections)} of {count} object{'s' * (len(objections) == 1)}")
    missing = [role for role in roles if role not in {review.role for review in last.values()}]
    if missing or count < required:
        told = f"missing: {', '.join(missing)}" if missing else f"{count} of {required} reviews"
        return Consensus("incomplete", told)
    wanted = sorted({review.severity.value for review in last.values() if review.severity} - {ticket.severity.value})
    if wanted or any(review.verdict is Verdict.REFINE for review in last.values()):
        return Consensus("refined", f"{count} agree{f', some propose {chr(44).join(wanted)}' if wanted else ''}")
    return Consensus("endorsed", f"{count} of {count} agree")


def new_review(
    document: Document,
    verdict: str,
    who: str,
    place: Place,
    role: str = "",
    severity: str | None = None,
    note: str = "",
) -> Review:
    """Return a review of the checkout's HEAD. Raises BadInputError for an unknown verdict or severity."""
    word = verdict.strip().upper()
    if word not in Verdict.__members__:
        known = list(Verdict.__members__)
        raise BadInputError(f"{verdict!r} is not a verdict", meant(word, known, f"one of {', '.join(known)}"))
    wanted = _edited_field("severity", "=", severity) if severity else document.ticket.severity
    assert isinstance(wanted, Severity)
    return Review(Verdict(word), who, wanted, inert_line(role), today(), place.head(), note)


def stale_reviews(ticket: Ticket, place: Place) -> list[Review]:
    """Return the reviews whose function has changed between the reviewed revision and the files on the disk."""
    if not ticket.places or not ticket.function or not ticket.reviews:
        return []
    revisions = {review.revision for review in ticket.reviews} - {UNKNOWN}
    sources = {revision: place.source(revision, ticket.places[0].file) for revision in ("", *revisions)}
    digests = {revision: function_digest(source, ticket.function) for revision, source in sources.items()}
    return [review for review in ticket.reviews if digests.get(review.revision, "") not in ("", digests[""])]


def function_digest(source: str | None, function: str) -> str:
    """Return the code of a function without comments, blanks and line numbers; "" if the source lacks it."""
    name = re.search(r"[A-Za-z_][\w.]*", function)
    try:
        defined = _definitions(ast.parse(source or "")) if name else ()
    except (SyntaxError, ValueError):
        return ""
    found = (node.body for path, node in defined if name and f".{path}".endswith(f".{name[0]}"))
    return "\n".join(map(ast.dump, next(found, ())))


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(parent: ast.AST, above: str = "") -> Iterator[tuple[str, _Definition]]:
    for node in ast.iter_child_nodes(parent):
        path = above
        if isinstance(node, _Definition):
            path = f"{above}.{node.name}" if above else node.name
            yield path, node
        yield from _definitions(node, path)


# The end.


def still_reproducing(ticket: Ticket, evidence: Evidence | None) -> list[str]:
    """Return the findings that the last run or verification reproduced."""
    if evidence is None:
        return []
    red = {one["fingerprint"]: "reproduced" for one in evidence.results if one.get("outcome") == "reproduced"}
    red |= dict.fromkeys(evidence.gone, "not_reproduced")
    verified = {name: one.get("after") for name, one in (evidence.proof or {}).get("findings", {}).items()}
    red |= {name: after for name, after in verified.items() if after in ("reproduced", "not_reproduced")}
    return [name for name in ticket.findings if red.get(name) == "reproduced"]


def missing_for_fixed(ticket: Ticket, evidence: Evidence | None, commit: str, place: Place) -> list[tuple[str, str]]:
    """Return what `fixed` in `commit` lacks, and the command that provides it.

    It needs the commit, red-then-green at it or later, and another person's review.
    """
    verify = f"auditkit ticket verify {ticket.id} --checkout {place.folder} --at {commit or 'COMMIT'}"
    if not commit:
        return [("no commit", f"auditkit ticket resolve {ticket.id} fixed --commit COMMIT")]
    full = place.commit(commit)
    if full is None:
        return [(f"{place.folder} has no commit {commit}", "--checkout DIR names another repository")]
    missing = [(why, verify) for why in _unproven(ticket, evidence, full, place)]
    authors = place.authors(full)
    own = {name.casefold() for name in authors}
    agreeing = (review.reviewer.casefold() for review in ticket.reviews if review.verdict is not Verdict.OBJECT)
    if not any(own.isdisjoint(reviewer.split(" via ")) for reviewer in agreeing):
        told = f"no review by someone other than the author of the commit ({', '.join(authors)})"
        missing.append((told, f"auditkit ticket review {ticket.id} ENDORSE --note TEXT"))
    return missing


def _unproven(ticket: Ticket, evidence: Evidence | None, commit: str, place: Place) -> list[str]:
    if not ticket.findings:
        return ["no red-then-green verification: the ticket has no finding that a probe could check"]
    proof = evidence.proof if evidence is not None else None
    if proof is None:
        return ["no red-then-green verification"]
    revision = str(proof.get("fix", ""))
    if proof.get("dirty") or place.commit(revision) is None or not place.contains(revision, commit):
        return [f"the last verification was at {revision or 'no commit'}, which does not contain {commit[:_SHORT]}"]
    states = proof.get("findings", {})
    return [
        f"not red then green: {fingerprint} ({states.get(fingerprint, {}).get('state', 'not run')})"
        for fingerprint in (evidence.judging(ticket.findings) if evidence is not None else ticket.findings)
        if states.get(fingerprint, {}).get("state") != "proven"
    ]


def resolved(
    document: Document,
    status: Status,
    who: str,
    place: Place,
    evidence: Evidence | None,
    commit: str = "",
    note: str = "",
    is_forced: bool = False,
) -> Document:
    """Return the document with a finished status and its line of the Resolution.

    Raises BadInputError with everything that is missing and the commands that provide it, unless `is_forced`: then the
    line says what was missing.
    """
    ticket = document.ticket
    if not status.is_finished:
        hint = f"auditkit ticket status {ticket.id} {status.value}"
        raise BadInputError(f"{status.value} does not finish a ticket", hint)
    missing = missing_for_fixed(ticket, evidence, commit, place) if status is Status.FIXED else []
    if status is Status.DUPLICATE and not ticket.linked("duplicate"):
        missing = [("no duplicate link", f'auditkit ticket edit {ticket.id} links+="duplicate ID"')]
    if status in _NOTE_REQUIRED and not note.strip():
        missing = [("no reason", f"auditkit ticket resolve {ticket.id} {status.value} --note TEXT")]
    if missing and not is_forced:
        lines = "\n".join(f"- {problem}: {command}" for problem, command in missing)
        raise BadInputError(f"{ticket.id} cannot be {status.value}:\n{lines}", "--force writes what is missing instead")
    forced = ["forced: " + "; ".join(problem for problem, _ in missing)] if missing else []
    proof = [proof_text(evidence)] if status is Status.FIXED and not missing else []
    full = (place.commit(commit) or commit)[:_SHORT] if commit else ""
    details = (*proof, *filter(None, [inert_line(note)]), *forced)
    line = Resolution(status, who, today(), full, details)
    return document.edited(status=status).with_resolution(line)


def proof_text(evidence: Evidence | None) -> str:
    """Return the proof of a verification in one phrase."""
    proof: Mapping[str, Any] = (evidence.proof if evidence is not None else None) or {}
    states = [one.get("state") for one in proof.get("findings", {}).values()]
    base, fix = str(proof.get("base", ""))[:_SHORT], str(proof.get("fix", ""))[:_SHORT]
    return f"proof: red at {base}, green at {fix}, {states.count('proven')} of {len(states)} findings"


def reopened(document: Document, revision: str) -> Document:
    """Return the document with status `open` because a finding returned; the boxes of its probes are unticked."""
    told = f"a finding returned at {revision[:_SHORT] or UNKNOWN}"
    line = Resolution(Status.OPEN, "auditkit", today(), details=(told,))
    ticks = {box.line: False for box in document.ticket.boxes if box.is_done and box.probe}
    return document.with_ticks(ticks).edited(status=Status.OPEN).with_resolution(line)
