"""From a document to the ticket it says: metadata, location, summary, categories, fingerprints."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import NoReturn

from auditkit.model.enums import Severity
from auditkit.model.text import CODE_SPAN
from auditkit.model.tickets.ids import TicketId, agent_name, id_parts, is_ticket_id, parse_ticket_id
from auditkit.model.tickets.ticket import BrokenTicket, LineRange, MetadataRow, Ticket, read_status
from auditkit.store.markdown.document import BrokenFileError, Document, broken_at
from auditkit.store.markdown.tables import Field
from auditkit.store.reading.comments import read_comments
from auditkit.store.reading.evidence_blocks import read_evidence
from auditkit.store.reading.relations import may_block, read_relations
from auditkit.store.reading.resolution import read_reopened, read_reports, read_resolution, read_verification
from auditkit.store.reading.reviews import read_reviews

_TITLE_PREFIX = re.compile(r"finding ticket:\s*", re.IGNORECASE)
# A line end first is found several times as fast as `^`; the text of a section begins with one.
_SUMMARY = re.compile(r"\n\*\*One-line summary:?\*\*:?[ \t]*(.*?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_TICKED = re.compile(r"\n[ \t]*[-*+] \[[xX]\][ \t]+(.*?)[ \t]*\r?$", re.MULTILINE)
_PATH_LIKE = re.compile(r"[^\s,`]+(?:/[^\s,`]+|\.[A-Za-z]\w*)")
_LINES = re.compile(
    r"(?P<file>[\w./-]*\.[A-Za-z]\w*)`?\s*:|(?<!\d)(?P<first>\d{1,9})(?!\d)(?:\s*[-–]\s*(?P<last>\d{1,9})(?!\d))?"
)
_SEVERITY = re.compile(r"P[0-4]\b")
_PIECE_BYTES = 1_000_000
_KNOWN_ROWS = (
    "ticket id", "severity", "status", "batch", "agent", "domain", "assignee", "labels", "due", "created", "updated",
    "resolution",
)  # fmt: skip


def read_ticket(data: bytes, path: PurePath) -> Ticket:
    """The ticket in `data`; `path` is its place in the tickets folder.

    Raises BrokenFileError where the bytes are no ticket: not text, no metadata table, no id.
    """
    return ticket_of(Document.parse(data, path))


def ticket_of(document: Document) -> Ticket:
    """The ticket that `document` says; raises BrokenFileError where it has no metadata table or no id."""
    brief = brief_of(document)
    return replace(
        brief,
        lines=line_ranges(brief.lines_written),
        verification=read_verification(document),
        reports=read_reports(document),
        description=_prose(document, "Detailed Description"),
        recommended_fix=_prose(document, "Recommended Fix"),
        evidence=read_evidence(document),
        resolution=read_resolution(document),
        reopened=read_reopened(document),
        comments=tuple(found.comment for found in read_comments(document)),
        related=tuple(found.relation for found in read_relations(document)),
    )


def brief_of(document: Document) -> Ticket:
    """The ticket as far as lists go by it: without prose, evidence, verification and resolution.

    Without relations, too, where none of them can be one that blocks.
    Raises as `ticket_of` does.
    """
    ticket_id = _ticket_id(document)
    batch, code, _ = id_parts(ticket_id)
    location = {row.label.casefold(): row for row in reversed(document.fields("Location"))}
    files, lines, function = (location.get(label) for label in ("file(s)", "line(s)", "function/class"))
    severity, status = _text(document, "Severity"), _text(document, "Status")
    told = _section_text(document, "Summary")
    summary = _SUMMARY.search(told)
    written_batch = _text(document, "Batch")
    domain = document.field("Domain")
    return Ticket(
        id=ticket_id,
        title=_title(document),
        severity=_severity(severity),
        severity_written=severity,
        status=read_status(status),
        status_written=status,
        batch=int(written_batch) if re.fullmatch(r"[0-9]{1,9}", written_batch) else batch,
        agent=_text(document, "Agent") or agent_name(code),
        domains=_values(domain),
        assignee=_text(document, "Assignee"),
        created=_text(document, "Created"),
        updated=_text(document, "Updated"),
        files=_paths(files),
        lines_written=lines.written if lines else "",
        lines=(),
        function=function.written if function else "",
        summary=summary[1] if summary else "",
        categories=tuple(_TICKED.findall(told)),
        fingerprints=tuple(block.fingerprint for block in document.evidence if block.fingerprint),
        disposition=_text(document, "Resolution"),
        path=document.path,
        reviews=tuple(found.review for found in read_reviews(document)),
        related=tuple(found.relation for found in read_relations(document)) if may_block(document) else (),
        resolution=None,
        labels=_values(document.field("Labels")),
        due=_text(document, "Due"),
        further=tuple(
            MetadataRow(row.label, row.text) for row in document.metadata if row.label.casefold() not in _KNOWN_ROWS
        ),
    )


def is_other_page(document: Document) -> bool:
    """Whether a Markdown file of a tickets folder is no ticket: a process, a report, a template.

    Such a file has a title of its own, and no metadata table or one whose id is a placeholder in
    braces. A file that is named as a ticket is one, whatever it says.
    """
    if is_ticket_id(document.path.stem):
        return False
    title = next((heading.text for heading in document.scan.headings if heading.level == 1), "")
    if not title or _TITLE_PREFIX.match(title):
        return False
    row = document.field("Ticket ID")
    return not document.metadata or (row is not None and "{" in row.text)


def read_file(
    file: str, path: PurePath, ticket_of: Callable[[Document], Ticket] = ticket_of
) -> tuple[Document, Ticket] | BrokenTicket | None:
    """The file as a ticket, as a broken one, or None for another page; `path` is its place in the tickets folder."""
    try:
        data = _content(file)
        if data is None:
            mode = os.stat(file).st_mode
            if not stat.S_ISREG(mode):
                what = "a folder that cannot be listed" if stat.S_ISDIR(mode) else "not a regular file"
                return BrokenTicket(path, 1, 1, what)
            if os.path.islink(file) and not _is_inside(file, path):
                return BrokenTicket(path, 1, 1, "a link to a file outside of the tickets folder, which is not read")
            with open(file, "rb", buffering=0) as opened:
                data = opened.readall()
        document = Document.parse(data, path)
        return None if is_other_page(document) else (document, ticket_of(document))
    except BrokenFileError as error:
        return error.broken
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(file):
            return None  # Moved away since the folder was listed.
        return BrokenTicket(path, 1, 1, f"cannot be read: {error.strerror}")


def _content(file: str) -> bytes | None:
    """What a regular file holds, in half the calls of the system that `open` makes; None for a link, and all else."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        data = os.read(handle, status.st_size + 1)
        while len(data) != status.st_size and (more := os.read(handle, _PIECE_BYTES)):
            data += more
        return data
    finally:
        os.close(handle)


def _is_inside(file: str, path: PurePath) -> bool:
    """Whether what `file` links to lies in the tickets folder too; `path` is its place there."""
    folder = os.path.realpath(file.removesuffix(str(path)) or ".")
    return os.path.realpath(file).startswith(folder + os.sep)


def _ticket_id(document: Document) -> TicketId:
    """The id in the metadata table; where that is no id, the one in the file's name."""
    if not document.metadata:
        heading = document.section("Ticket Metadata")
        if heading is None:
            _fail(document, 0, "no '## Ticket Metadata' section")
        else:
            _fail(document, heading.line.start, "no table below '## Ticket Metadata'")
    row = document.field("Ticket ID")
    if row is not None and is_ticket_id(row.text):
        return parse_ticket_id(row.text)
    if not is_ticket_id(document.path.stem):
        offset = document.metadata[0].line.start if row is None else row.value.start
        _fail(document, offset, "no ticket id, neither in the table nor in the file's name")
    return parse_ticket_id(document.path.stem)


def _fail(document: Document, offset: int, message: str) -> NoReturn:
    raise BrokenFileError(broken_at(document.data, document.path, offset, message))


def _text(document: Document, label: str) -> str:
    row = document.field(label)
    return row.text if row else ""


def _title(document: Document) -> str:
    title = next((heading.text for heading in document.scan.headings if heading.level == 1), "")
    return _TITLE_PREFIX.sub("", title, count=1) if _TITLE_PREFIX.match(title) else title


def _severity(text: str) -> Severity | None:
    match = _SEVERITY.match(text.strip().upper())
    return Severity(match[0]) if match else None


def _values(row: Field | None) -> tuple[str, ...]:
    """The values of a cell: each code span one, else what commas or ` / ` separate."""
    if row is None or not row.written:
        return ()
    spans = [match[2].strip() for match in CODE_SPAN.finditer(row.written)]
    return tuple(spans or [part.strip() for part in re.split(r",| / ", row.written) if part.strip()])


def _paths(row: Field | None) -> tuple[str, ...]:
    """The paths of a File(s) cell, as written; words are none."""
    if row is None:
        return ()
    spans = [_unpadded(match[2]) for match in CODE_SPAN.finditer(row.written)]
    return tuple(spans or _PATH_LIKE.findall(row.written))


def _unpadded(code: str) -> str:
    is_padded = code.startswith(" ") and code.endswith(" ") and code.strip()
    return code[1:-1] if is_padded else code


def line_ranges(written: str) -> tuple[LineRange, ...]:
    """`320-325`, `12`, lists of them, and a file's name before a colon that holds until the next one."""
    ranges: list[LineRange] = []
    file = ""
    for match in _LINES.finditer(written):
        if match["file"]:
            file = match["file"]
        else:
            first = int(match["first"])
            ranges.append(LineRange(file, first, int(match["last"] or first)))
    return tuple(ranges)


def _section_text(document: Document, title: str) -> str:
    heading = document.section(title)
    if heading is None:
        return ""
    return document.data[heading.line.end : heading.section_end].decode("utf-8", "replace")


def _prose(document: Document, title: str) -> str:
    """What people wrote below a heading: up to a machine-written block, without the rule that ends it."""
    heading = document.section(title)
    if heading is None:
        return ""
    body = document.body(heading)
    blocks = (block.span.start for block in document.evidence if body.start <= block.span.start < body.end)
    end = max(document.content_end(min(blocks, default=body.end)), body.start)
    return document.data[body.start : end].decode("utf-8", "replace").replace("\r\n", "\n").strip()
