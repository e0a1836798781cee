"""The row of a ticket in the usual form, about a hundred times as fast as reading the ticket in full.

Everything here either is sure to agree with the full reader or gives up, and then the full reader reads the
file. What is usual: UTF-8 with `\\n` ends, no heading but at the left margin, fences of three backticks at the
left margin, and the metadata, location, summary, relations and reviews as the templates have them.
"""

from __future__ import annotations

import os
import re
from functools import cache

from auditkit.store.rows import broken_row, mark_of, row_of, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from auditkit.model.enums import Severity
    from auditkit.model.review import Review
    from auditkit.model.ticket import Status, Ticket
    from auditkit.store.rows import Row

    # What stands in the title, the verdict's cell and the reviewer's, and the evaluation where it matters.
    _Said = tuple[str, str, str, str]
    _Vote = tuple[str, str, str, str]
    _Agreed = tuple[tuple[tuple[str, str], ...], str, str, str]

_TITLE = "# Finding Ticket: "
_START, _END = "\n<!-- auditkit:evidence -->\n", "\n<!-- /auditkit:evidence -->\n"

# A value in backticks, without blanks at its ends, or a bare one of letters, digits and a few marks.
_CODE = r"`([^`|\\\s](?:[^`|\\\n]*[^`|\\\s])?)`"
_CELL = rf"(?:{_CODE}|([A-Za-z0-9](?:[A-Za-z0-9.@/+ -]*[A-Za-z0-9])?))"
_ID = r"`?(B[0-9]{1,4}-[A-Z][A-Z0-9]{0,15}-[0-9]{2,6})`?"
_HEAD = r"\n\n\| Field \| Value \|\n\|-+\|-+\|\n"
_REST = r"\n*(?:---\n*)?"
_METADATA = re.compile(
    rf" Ticket Metadata{_HEAD}"
    rf"\| \*\*Ticket ID\*\* \| {_ID} \|\n"
    r"\| \*\*Severity\*\* \| `?(P[0-4])`? \|\n"
    rf"\| \*\*Status\*\* \| {_CELL} \|\n"
    r"\| \*\*Batch\*\* \| ([0-9]{1,9}) \|\n"
    rf"\| \*\*Agent\*\* \| {_CELL} \|\n"
    rf"\| \*\*Domain\*\* \| {_CODE} \|\n"
    rf"\| \*\*Assignee\*\* \| (?:{_CELL} )?\|\n"
    r"\| \*\*Created\*\* \| ([0-9-]+) \|\n"
    rf"\| \*\*Updated\*\* \| ([0-9-]+) \|\n{_REST}",
    re.ASCII,
)
_LOCATION = re.compile(
    rf" Location{_HEAD}"
    r"\| \*\*File\(s\)\*\* \| (`[^|\\\n]*`) \|\n"
    r"\| \*\*Line\(s\)\*\* \|[^\n]*\n"
    rf"\| \*\*Function/Class\*\* \|[^\n]*\n{_REST}"
)
_PATH = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_SUMMARY = re.compile(
    rf" Summary\n\n\*\*One-line summary:\*\* ([^\n]*)\n\n\*\*Category:\*\*\n((?:- \[[ x]\] [^\n]*\n)*){_REST}"
)
_REVIEW = re.compile(
    rf" Cross-Review \(([\w ]+)\){_HEAD}"
    r"\| \*\*Verdict\*\* \| ([`*]*[A-Z]+[`*]*) \|\n"
    r"\| \*\*Reviewer\*\* \| ([A-Za-z](?:[A-Za-z ]*[A-Za-z])?) \|\n"
    r"(?:\| \*\*Date\*\* \| [0-9-]+ \|\n)?",
    re.ASCII,
)
_EVALUATION = "\n**Evaluation:** "
_ENDINGS = frozenset({"", "\n", "---", "---\n", "---\n\n", "\n---", "\n---\n", "\n---\n\n"})
_NO_REVIEW = re.compile(
    rf" Cross-Review \([\w ]+\){_HEAD}\| \*\*Verdict\*\* \| \|\n\| \*\*Reviewer\*\* \| \|\n\n\*\*Evaluation:\*\*{_REST}"
)
_RELATIONS = re.compile(
    r" Related Findings\n\n\| Ticket(?: ID)? \| Relationship \| Notes \|\n\|-+\|-+\|-+\|\n"
    rf"((?:\| `?[A-Z0-9-]+`? \| `?[a-z-]+`? \| [^|\\`\n]*\|\n)*){_REST}"
)
_RELATION = re.compile(rf"\| {_ID} \| `?(blocks|blocked-by)`? \|")
_BULLET = re.compile(r"- [`*]{0,4}B[0-9]{1,4}-[A-Z][A-Z0-9]{0,15}-[0-9]{2,6}(?![\w-])")
_LEVEL = re.compile(r"P[0-4]", re.IGNORECASE)
_REVIEWS = "cross"
_STRICT = frozenset({"ticket metadata", "location", "summary", "related findings"})
_ENDED = ("resolution", "closure", "closing notes", "status", "correction")


class _UnusualError(Exception):
    """The file has something that only the full reader can judge."""


def read_row(folder: str, path: str, size: int) -> tuple[Row | None, Row | None]:
    """The row of a regular file of `size` bytes, or its broken row; neither for another page or none."""
    try:
        handle = os.open(f"{folder}/{path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return read_row_in_full(folder, path)
    try:
        data = _everything(handle, size)
    except OSError:
        return read_row_in_full(folder, path)
    finally:
        os.close(handle)
    row = quick_row(data, path)
    return (row, None) if row is not None else read_row_in_full(folder, path)


def _everything(handle: int, size: int) -> bytes:
    data = os.read(handle, size + 1)
    while len(data) > size and (more := os.read(handle, size + 1)):
        data += more
    return data


def read_row_in_full(folder: str, path: str) -> tuple[Row | None, Row | None]:
    """The same by the full reader."""
    from pathlib import Path

    from auditkit.store.repository import Entry, Repository

    read = Repository(Path(folder)).read(Path(folder, path))
    if isinstance(read, Entry):
        return row_of(read.ticket, read.document), None
    return None, broken_row(read) if read is not None else None


def quick_row(data: bytes, path: str) -> Row | None:
    """The row of a ticket in the usual form, None for any other file."""
    try:
        return _row(_text(data), path)
    except _UnusualError:
        return None


def _text(data: bytes) -> str:
    """The file's text, once nothing in it can mislead a look at lines alone."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _UnusualError from None
    if (
        not text.startswith(_TITLE)
        or "\r" in text
        or ("~" in text and "~~~" in text)
        or " ##" in text
        or ("<" in text and not _has_only_whole_evidence(text))
        or not _has_only_whole_fences(text)
    ):
        raise _UnusualError
    return text


def _has_only_whole_evidence(text: str) -> bool:
    """Whether no conflict stands here, and each comment at the left is a marker of evidence, in turn and no code."""
    if "\n<<<<<<<" in text or any(f"\n{blanks}<!--" in text for blanks in (" ", "  ", "   ")):
        return False
    comments = text.count("\n<!--")
    if not comments:
        return True
    first, *blocks = text.split(_START)
    pieces = [piece for block in blocks for piece in block.split(_END)]
    return (
        comments == len(pieces)
        and len(pieces) == 2 * len(blocks)
        and _END not in first
        and all(block.count(_END) == 1 for block in blocks)
        and all(piece.count("\n```") % 2 == 0 for piece in (first, *pieces))
    )


def _has_only_whole_fences(text: str) -> bool:
    """Whether every fence has three backticks at the left margin, is closed, and holds no line that starts with ##."""
    *pieces, last = text.split("```")
    if len(pieces) % 2:
        return False
    is_code = False
    for piece in pieces:
        # Behind a closing fence the line ends; behind an opening one no fourth backtick stands.
        is_start = piece[:1] == "\n" if not is_code and piece is not pieces[0] else piece[:1] != "`"
        if not is_start or piece[-1:] != "\n" or (is_code and "\n##" in piece):
            return False
        is_code = not is_code
    return not pieces or last[:1] in ("", "\n")


def _row(text: str, path: str) -> Row:
    head, *parts = text.split("\n##")
    sections: dict[str, str] = {}
    reviews: list[_Said] = []
    is_strict = is_end = False
    for part in parts:
        if part[:1] == " ":
            title, is_strict, is_review, is_end = _section(part[: part.find("\n")])
            if is_review:
                reviews += _review(part)
            else:
                sections.setdefault(title, part)
        elif is_strict or part[:1] in ("", "\t", "\n"):
            raise _UnusualError
        if is_end and "answer" in part.casefold():
            raise _UnusualError
    title = head.partition("\n")[0][len(_TITLE) :].strip()
    return _put_together(path, title, sections, tuple(reviews))


@cache
def _section(heading: str) -> tuple[str, bool, bool, bool]:
    """A section's title without case, and whether subsections make it unusual, it is a review, it tells of the end."""
    title = heading.strip().casefold()
    is_review = title.startswith(_REVIEWS)
    return title, title in _STRICT or is_review, is_review, title.startswith(_ENDED)


def _match(pattern: re.Pattern[str], part: str | None) -> tuple[str, ...]:
    found = pattern.fullmatch(part) if part is not None else None
    if found is None:
        raise _UnusualError
    return found.groups("")


def _put_together(path: str, title: str, sections: dict[str, str], reviews: tuple[_Said, ...]) -> Row:
    ticket_id, severity, *cells, created, updated = _match(_METADATA, sections.get("ticket metadata"))
    status, bare_status, batch, agent, bare_agent, domain, assignee, bare_assignee = cells
    status, agent, assignee = status or bare_status, agent or bare_agent, assignee or bare_assignee
    known, is_finished, shown_status = _status(status)
    summary, boxes = _match(_SUMMARY, sections.get("summary"))
    pairs, agreement, verdict, answer = _agreed(severity, known, is_finished, reviews)
    return (
        path,
        ticket_id,
        _order(ticket_id),
        title,
        severity,
        severity,
        known,
        status,
        is_finished,
        int(batch),
        agent,
        _agent_code(agent),
        _one(domain.strip()),
        assignee,
        created,
        updated,
        _files(sections.get("location")),
        summary.strip(" \t"),
        _ticked(boxes),
        pairs,
        _blocks(sections.get("related findings", "")),
        agreement,
        verdict,
        answer,
        (ticket_id, severity, shown_status, *_shown_agent(agent), mark_of(answer), *shown(title)),
        # A review that says what it judged is not in the usual form.
        False,
    )


def _files(part: str | None) -> tuple[str, ...]:
    """The paths of a File(s) cell, each in backticks of its own."""
    (written,) = _match(_LOCATION, part)
    paths = (written[1:-1],) if written.count("`") == 2 else tuple(found[2] for found in _PATH.finditer(written))
    if "``" in written or any(path.startswith(" ") or path.endswith(" ") for path in paths):
        raise _UnusualError
    return paths


@cache
def _ticked(boxes: str) -> tuple[str, ...]:
    return tuple(line[6:].strip(" \t") for line in boxes.split("\n") if line.startswith("- [x] "))


@cache
def _one(text: str) -> tuple[str, ...]:
    return (text,)


def _review(part: str) -> tuple[_Said, ...]:
    """Who says what, with the words behind it where they may ask for another severity."""
    head, mark, tail = part.partition(_EVALUATION)
    evaluation, _, rest = tail.partition("\n")
    if not mark or rest not in _ENDINGS:
        if _NO_REVIEW.fullmatch(part) is None:
            raise _UnusualError
        return ()
    said = _review_head(head)
    if said is None:
        raise _UnusualError
    is_bare = not ("0" in tail or "1" in tail or "2" in tail or "3" in tail or "4" in tail)
    if is_bare or not _LEVEL.search(evaluation):
        return (said,)
    return ((*said[:3], _with_level(evaluation.strip())),)


@cache
def _review_head(head: str) -> _Said | None:
    found = _REVIEW.fullmatch(head)
    return (found[1], found[2], found[3], "") if found else None


def _with_level(evaluation: str) -> str:
    """The sentences that name a severity: each is judged alone, unless a quotation may span several."""
    if any(mark in evaluation for mark in '"“”`'):
        return evaluation
    sentences = re.split(r"(?<=[.!?]) ", evaluation)
    return " ".join(sentence for sentence in sentences if _LEVEL.search(sentence))


def _blocks(part: str) -> tuple[tuple[str, str], ...]:
    """Which tickets this one blocks or waits for; other relations are nobody's concern here."""
    if "block" not in part.casefold():
        return ()
    found = _RELATIONS.fullmatch(part)
    if found is not None:
        return tuple((kind, ticket_id) for ticket_id, kind in _RELATION.findall(found[1]))
    # A bullet that starts with an id says no kind, whatever its note tells.
    lines = [line for line in part.split("\n") if "block" in line.casefold()]
    if "```" in part or "|" in part or not all(map(_BULLET.match, lines)):
        raise _UnusualError
    return ()


# What repeats from ticket to ticket, worked out once by those who know.


@cache
def _status(written: str) -> tuple[str, bool, str]:
    from auditkit.model.ticket import read_status

    status = read_status(written)
    (words,) = shown(status.value if status else written or "-")
    return (status.value, status.is_finished, words) if status else ("", False, words)


@cache
def _shown_agent(agent: str) -> tuple[str, ...]:
    return shown(agent)


@cache
def _agent_code(agent: str) -> str:
    from auditkit.model.ids import agent_code

    return agent_code(agent)


def _order(ticket_id: str) -> tuple[int, str, int]:
    batch, code, number = ticket_id.split("-")
    return int(batch[1:]), code, int(number)


def _agreed(severity: str, status: str, is_finished: bool, reviews: tuple[_Said, ...]) -> _Agreed:
    """What the reviews come to; words that make no difference are left out, so that most tickets share one answer."""
    votes = tuple([_vote(said) for said in reviews])
    if not any(wanted for *_, wanted in votes):
        severity = "P4"
    return _consensus(severity, "fixed" if is_finished else status if status == "open" else "in-review", votes)


@cache
def _consensus(severity: str, status: str, votes: tuple[_Vote, ...]) -> _Agreed:
    """The pairs, the agreement, the verdict and the open question of a ticket with these reviews."""
    from auditkit.model.enums import Severity
    from auditkit.model.ticket import Status
    from auditkit.rules.consensus import consensus_of

    reviews = tuple(_review_of(*vote, line) for line, vote in enumerate(votes, start=1))
    consensus = consensus_of(_plain_ticket(Severity(severity), Status(status), reviews))
    pairs = tuple((reviewer or who, verdict) for reviewer, who, verdict, _ in votes)
    verdict = consensus.verdict.value if consensus.verdict else ""
    return pairs, consensus.kind.value, verdict, consensus.needs_answer


@cache
def _vote(said: _Said) -> _Vote:
    """Reviewer, the name as written, verdict, and the evaluation where it asks for a severity."""
    from auditkit.model.review import read_verdict, reviewer_of
    from auditkit.rules.severity_wanted import severity_wanted

    title, written, who, evaluation = said
    known = read_verdict(written)[0]
    vote = (reviewer_of(who, title), who, known.value if known else "")
    asks = evaluation and severity_wanted(_review_of(*vote, evaluation, 1))
    return (*vote, evaluation if asks else "")


def _review_of(reviewer: str, written: str, verdict: str, evaluation: str, line: int) -> Review:
    """A review of which the consensus sees all it goes by."""
    from auditkit.model.review import Review, ReviewForm, Verdict

    return Review(
        reviewer=reviewer,
        reviewer_written=written,
        verdict=Verdict(verdict) if verdict else None,
        verdict_written="",
        extra="",
        form=ReviewForm.FIELD_VALUE,
        columns=(),
        section="",
        evaluation=evaluation,
        date="",
        severity=None,
        judged="",
        line=line,
    )


def _plain_ticket(severity: Severity, status: Status, reviews: tuple[Review, ...]) -> Ticket:
    from auditkit.model.ids import parse_ticket_id
    from auditkit.model.ticket import Ticket

    return Ticket(
        id=parse_ticket_id("B1-PT-01"),
        title="",
        severity=severity,
        severity_written=severity.value,
        status=status,
        status_written="",
        batch=1,
        agent="",
        domains=(),
        assignee="",
        created="",
        updated="",
        files=(),
        lines_written="",
        lines=(),
        function="",
        summary="",
        categories=(),
        reviews=reviews,
    )
