"""Import tickets in the free Markdown form that people wrote by hand, without losing a line of theirs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from auditkit.errors import AuditkitError, BadInputError, nearest_names
from auditkit.files import write_below
from auditkit.model.enums import Severity
from auditkit.model.text import CODE_SPAN, inert_line
from auditkit.model.ticket import (
    AGENT_NAMES,
    FIELDS,
    LINK_KINDS,
    UNDATED,
    UNKNOWN,
    Resolution,
    Review,
    Status,
    Ticket,
    Verdict,
    agent_code,
    id_parts,
    parse_id,
    parse_place,
)  # fmt: skip
from auditkit.tickets.document import CROSS_REVIEW, Document, TicketFileError, decoded, new_document
from auditkit.tickets.spellings import (
    CATEGORY_OF,
    ENDED,
    HOMES,
    LOCATION,
    METADATA,
    NOTES,
    RELATED,
    RESOLUTION_FIELDS,
    REVIEW_FIELDS,
    ROLE_WORDS,
    ROLES,
    STATUSES,
    SUMMARY,
    VERDICTS,
)  # fmt: skip

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_DELIMITER = re.compile(r"[\s|:-]*-[\s|:-]*")
_BOX = re.compile(r"\s*[-*+] \[([ xX])\]\s+(.*?)\s*")
_BOLD_LABEL = re.compile(r"\*\*([^*]{1,60}?):?\*\*:?\s*(.*)")
_BOLD_VERDICT = re.compile(r"\*\*(?:\w+ )*verdict:?\*\*:?\s*(\S.*)|\*\*verdict:\s*([^*]+)\*\*(.*)", re.IGNORECASE)
_CROSS_REVIEW = re.compile(r"cross[ -]?reviews?\b\W*(.*?)\W*", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SEVERITY = re.compile(r"P[0-4]\b")
_ASIDE = re.compile(r"\([^)]*\)|\s[-–—/|].*|[,;:].*")
_ID = re.compile(r"(?<![\w-])B\d{1,4}-[A-Z][A-Z0-9]{0,15}-\d{2,6}(?![\w-])", re.ASCII)
_HASH = re.compile(
    r"`([0-9a-f]{7,40})`|\b(?:commits?|revision|in)\b[*:\s|]*\b((?=[0-9a-f]*\d)[0-9a-f]{7,40})\b", re.IGNORECASE
)
_LINES = re.compile(
    r"(?P<file>[\w./-]*\.[A-Za-z]\w*)`?\s*:|(?<!\d)(?P<first>\d{1,9})(?!\d)(?:\s*[-–]\s*(?P<last>\d{1,9})(?!\d))?"
)
_PATH = re.compile(r"[^\s,`]+(?:/[^\s,`]+|\.[A-Za-z]\w*)")
_LINK = re.compile(r"[*_`]*(blocked[ -]by|blocks|duplicate|related)(?: of| to| with)?[*_`:\s]*$", re.IGNORECASE)


@dataclass
class Imported:
    """What auditkit read in one file. `document` is None for a file that is no ticket and for one with a `problem`.

    Each non-blank line of the source (from 1) is in one of three places: `extracted` has the field that holds it,
    `text` the sections into which it was copied, and `dropped` the lines that say nothing (rules, heads of tables,
    boxes without a tick).
    """

    source: Path
    document: Document | None = None
    skipped: str = ""
    problem: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    extracted: dict[int, str] = field(default_factory=dict)
    text: dict[str, list[int]] = field(default_factory=dict)
    dropped: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return what `ticket import --json` prints for a file."""
        ticket = self.document.ticket if self.document else None
        return {
            "source": str(self.source),
            "path": str(self.document.path) if self.document else None,
            "not_a_ticket": self.skipped or None,
            "error": self.problem or None,
            "fields": self.fields,
            "reviews": msgspec.to_builtins(ticket.reviews) if ticket else [],
            "resolutions": msgspec.to_builtins(ticket.resolutions) if ticket else [],
            "text": self.text,
            "extracted": self.extracted,
            "dropped": self.dropped,
            "notes": self.notes,
        }


@dataclass
class _Section:
    """A section of level 2: its title, the line of its heading, and its lines as numbers (from 0)."""

    title: str
    heading: int
    lines: list[int]


@dataclass
class _Draft:
    """A review while its section is read."""

    verdict: str
    form: str
    line: int
    title: str
    who: str = ""
    date: str = ""
    severity: str = ""
    note: list[str] = field(default_factory=list)

    @property
    def role(self) -> str:
        return reviewer_role(self.who, self.title)

    def take(self, name: str, text: str) -> None:
        """Keep the text of a cell under the name of its row or column."""
        kind = REVIEW_FIELDS.get(name, "")
        if kind == "note":
            self.note.append(text)
        elif kind in ("who", "date", "severity") and not getattr(self, kind):
            setattr(self, kind, text)
        elif text and name != "field" and text != self.verdict:
            self.note.append(f"{name}: {text}")


def import_tickets(paths: Sequence[Path], folder: Path, root: Path | None = None) -> list[Imported]:
    """Write each ticket below `paths` into `folder` in the new form, and return what was read in each file.

    `root` is the checkout that the tickets are about. A file that cannot become a ticket has a `problem`, and auditkit
    writes nothing for it.
    """
    files = dict.fromkeys(source for path in paths for source in _files(path))
    found = [read_file(source, folder, root) for source in files]
    sources: dict[str, list[Path]] = {}
    for one in found:
        if one.document:
            sources.setdefault(one.document.ticket.id, []).append(one.source)
    for one in found:
        if one.document is None:
            continue
        others = [str(path) for path in sources[one.document.ticket.id] if path != one.source]
        if others:
            one.problem = (
                f"{one.source}: {one.document.ticket.id} is also the id of {', '.join(others)}: change one of the ids"
            )
        elif os.path.lexists(one.document.path):
            one.problem = f"{one.source}: {one.document.path} exists: choose another folder with --to, or change the id"
        else:
            try:
                write_below(folder, one.document.path.name, one.document.data)
            except AuditkitError as error:
                one.problem = str(error)
        if one.problem:
            one.document = None
    return found


def _files(path: Path) -> Iterator[Path]:
    """Return the file, or the files below the folder; hidden ones and links are not followed."""
    if not path.is_dir():
        if not path.is_file():
            raise BadInputError(f"{path} is not there" if not path.exists() else f"{path} is not a file or a folder")
        yield path
        return
    for place, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def read_file(source: Path, folder: Path, root: Path | None = None) -> Imported:
    """Read one file; the ticket's path is in `folder`."""
    result = Imported(source)
    if source.is_symlink():
        result.skipped = "a symbolic link"
        return result
    try:
        data = re.sub(rb"\r\n?", b"\n", source.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        text = decoded(data, source)
    except OSError as error:
        result.problem = f"{source} cannot be read: {error.strerror}"
    except TicketFileError as error:
        if source.suffix in (".md", ".markdown", ".txt"):
            result.problem = error.message
        else:
            result.skipped = "not a text"
    else:
        _Reader(result, text.split("\n"), folder, root).read()
    if result.problem:
        result.document = None
    return result


class _Reader:
    """Reads the lines of one file into an `Imported`: each `_read_` method takes the lines that a field holds."""

    def __init__(self, result: Imported, lines: list[str], folder: Path, root: Path | None) -> None:
        self.result, self.lines, self.folder, self.root = result, lines, folder, root
        self.hidden: set[int] = set()
        self.is_open = ""
        self.title_line = -1
        self.sections: list[_Section] = [_Section("", -1, [])]
        self._scan()

    def _scan(self) -> None:
        """Find the sections; code fences and comments have no headings."""
        fence = ""
        for number, line in enumerate(self.lines):
            mark = _FENCE.match(line)
            heading = _HEADING.fullmatch(line)
            if fence:
                self.hidden.add(number)
                is_end = fence == "-->" and fence in line
                is_end = is_end or bool(mark and mark[1].startswith(fence) and not line.strip(" `~"))
                fence = "" if is_end else fence
            elif mark or line.lstrip().startswith("<!--"):
                self.hidden.add(number)
                fence = mark[1] if mark else "" if "-->" in line else "-->"
            elif heading and len(heading[1]) == 2:
                self.sections.append(_Section(heading[2], number, []))
                continue
            elif heading and len(heading[1]) == 1 and self.title_line < 0:
                self.title_line = number
                continue
            self.sections[-1].lines.append(number)
        self.is_open = "" if fence == "-->" else fence

    def _take(self, number: int, name: str) -> None:
        self.result.extracted[number + 1] = name

    def _drop(self, number: int) -> None:
        if self.lines[number].strip():
            self.result.dropped[number + 1] = self.lines[number]

    def _named(self, titles: Sequence[str]) -> list[_Section]:
        return [section for section in self.sections if section.title.casefold() in titles]

    def read(self) -> None:
        """Fill the result with the ticket, or with the reason why there is none."""
        result = self.result
        rows = self._rows(METADATA)
        stem_id, row_id = (
            _id_in(result.source.stem),
            _id_in(_value(rows["ticket id"][1])) if "ticket id" in rows else "",
        )
        heading = _HEADING.fullmatch(self.lines[self.title_line]) if self.title_line >= 0 else None
        title = inert_line(heading[2]) if heading else ""
        is_named = title.casefold().startswith("finding ticket:")
        if self.lines[0] == "---" and any(line.startswith("id: ") for line in self.lines[:20]):
            result.skipped = "a ticket in the new form"
        elif "ticket id" in rows and "{" in rows["ticket id"][1]:
            result.skipped = "a template"
        elif not (rows or stem_id or is_named):
            result.skipped = "no ticket: it has no table below '## Ticket Metadata'"
        elif not (row_id or stem_id):
            result.problem = f"{result.source}: the row Ticket ID has no id such as B7-PT-01"
        else:
            self._read_ticket(rows, row_id or stem_id, re.sub(r"(?i)^finding ticket:\s*", "", title))

    def _read_ticket(self, rows: dict[str, tuple[int, str]], ticket_id: str, title: str) -> None:
        result = self.result
        fields: dict[str, Any] = {"id": ticket_id, "title": title, "batch": id_parts(ticket_id)[0]}
        fields |= self._read_metadata(rows, fields)
        fields |= self._read_location()
        fields["categories"] = self._read_categories()
        fields["links"] = self._read_links()
        for name in ("title", "severity", "status"):
            if not fields.get(name):
                told = _value(rows[name][1]) if name in rows else ""
                near = nearest_names(told.casefold(), list(Status), 1) if name == "status" else ()
                hint = f"; did you mean {near[0]}?" if near else ""
                result.problem = f"{result.source}: {name} is {told!r}{hint}" if told else f"{result.source}: no {name}"
                return
        if self.title_line >= 0:
            self._take(self.title_line, "title")
        reviews = [review for section in self.sections for review in self._read_reviews(section)]
        resolutions = self._read_resolution(fields["status"])
        updated = fields.pop("updated", "")
        ticket = Ticket(**fields, reviews=tuple(reviews), resolutions=resolutions)
        result.fields |= {**fields, "updated": updated}
        sections = list(self._sections_left())
        path = self.folder / f"{ticket_id}.md"
        try:
            document = new_document(ticket, sections, path)
        except TicketFileError as error:
            told = "; ".join(problem.message for problem in error.problems)
            result.problem = f"{result.source}: cannot be written in the new form: {told}"
            return
        if _form_of(document.ticket) == _form_of(ticket):
            result.document = document
        else:
            result.problem = f"{result.source}: cannot be written in the new form: it would be read as another ticket"

    def _rows(self, titles: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return line and cell of each labelled row in the tables of these sections; the first of a label counts."""
        rows: dict[str, tuple[int, str]] = {}
        for section in self._named(titles):
            for number in section.lines:
                cells = self._cells(number)
                if len(cells) > 1 and not any(cells[2:]) and plain(cells[0]) not in ("", "field"):
                    rows.setdefault(plain(cells[0]), (number, cells[1]))
        return rows

    def _cells(self, number: int) -> list[str]:
        """Return the cells of a table's row, [] for another line and for a delimiter."""
        line = self.lines[number].strip()
        if number in self.hidden or not line.startswith("|") or _DELIMITER.fullmatch(line):
            return []
        masked = CODE_SPAN.sub(lambda match: match[0].replace("|", "\0"), line)
        cells = re.split(r"(?<!\\)\|", masked[1:])
        if not cells[-1].strip():
            cells.pop()
        return [cell.replace("\0", "|").replace("\\|", "|").strip() for cell in cells]

    def _read_metadata(self, rows: dict[str, tuple[int, str]], known: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {"agent": AGENT_NAMES.get(id_parts(known["id"])[1], id_parts(known["id"])[1].lower())}
        for label, (number, cell) in rows.items():
            value, name = _value(cell), label
            read: Any = None
            values: tuple[str, ...] = (value,)
            if label == "ticket id":
                name, read = "id", known["id"] if _id_in(value) == known["id"] else None
            elif label == "severity" and (found := _SEVERITY.match(value.upper())):
                read, values = Severity(found[0]), (value[: found.end()],)
            elif label == "status":
                read = read_status(value)
                values = (value,) if _letters(value) in STATUSES else ()
            elif label == "batch" and re.fullmatch(r"\d{1,4}", value, re.ASCII):
                read = int(value)
            elif label == "agent" and value:
                read = AGENT_NAMES.get(agent_code(value), value)
            elif label in ("domain", "labels"):
                values = _values(cell)
                read = values if label == "labels" else ", ".join(values)
            elif label == "assignee" or (label in ("created", "updated") and (_DATE.fullmatch(value) or not value)):
                read = value
            if read is None:
                continue
            fields[name] = read
            is_new = name == "updated" and value not in ("", _value(rows.get("created", (0, ""))[1]))
            if not is_new and not _without(cell, values).strip("`*_,/ "):
                self._take(number, name)
        fields.pop("id", None)
        return {name: inert_line(one) if type(one) is str else one for name, one in fields.items()}

    def _read_location(self) -> dict[str, str]:
        rows = self._rows(LOCATION)
        fields = {}
        if "function/class" in rows or "function" in rows:
            number, cell = rows.get("function/class") or rows["function"]
            fields["function"] = inert_line(cell.replace("`", "").replace("()", ""))
            self._take(number, "function")
        _, written = file_row = rows.get("file(s)") or rows.get("files") or rows.get("file") or (-1, "")
        _, lines = line_row = rows.get("line(s)") or rows.get("lines") or rows.get("line") or (-1, "")
        files = [match[2].strip() for match in CODE_SPAN.finditer(written)] or _PATH.findall(written)
        short = [self._relative(path) for path in files]
        places: dict[str, list[str]] = {path: [] for path in short}
        is_whole, named = True, ""
        for match in _LINES.finditer(lines):
            if match["file"]:
                named = match["file"]
                continue
            owners = [path for path in short if path.endswith(named)] if named else short
            is_whole = is_whole and len(owners) == 1
            if len(owners) == 1:
                places[owners[0]].append(match["first"] + (f"-{match['last']}" if match["last"] else ""))
        texts = [text for path, spans in places.items() for text in ([f"{path}:{span}" for span in spans] or [path])]
        good = [text for text in texts if parse_place(text) and ", " not in text]
        is_whole = is_whole and len(good) == len(texts)
        if is_whole and not _LINES.sub("", lines).strip("`,; ") and line_row[0] >= 0:
            self._take(line_row[0], "location")
        if len(good) == len(texts) and not _without(written, files).strip("`,; ") and file_row[0] >= 0:
            self._take(file_row[0], "location")
        return {**fields, "location": ", ".join(inert_line(text) for text in good)}

    def _relative(self, path: str) -> str:
        """Return an absolute path as one of the checkout: the longest end of it that is there, or below a home."""
        parts = PurePosixPath(path).parts
        if parts[:1] != ("/",):
            return path
        ends = ("/".join(parts[first:]) for first in range(1, len(parts))) if self.root else ()
        found = next((end for end in ends if (Path(str(self.root)) / end).exists()), HOMES.sub("", path, count=1))
        if found != path:
            self.result.notes.append(f"location: {path} is {found} of the checkout")
        return found

    def _read_categories(self) -> tuple[str, ...]:
        found: list[str] = []
        for section in self._named(SUMMARY):
            boxes = [(number, match) for number in section.lines if (match := _BOX.fullmatch(self.lines[number]))]
            for number, match in boxes:
                category = CATEGORY_OF.get(match[2].casefold())
                if category and match[1] != " ":
                    found.append(category)
                    self._take(number, "categories")
                elif category:
                    self._drop(number)
            if boxes and all(CATEGORY_OF.get(match[2].casefold()) for _, match in boxes):
                labels = ("category", "categories")
                heads = [number for number in section.lines if plain(self.lines[number]).rstrip(":") in labels]
                for number in heads:
                    self._drop(number)
        return tuple(dict.fromkeys(found))

    def _read_links(self) -> tuple[str, ...]:
        """Return the tickets that Related Findings names; a row has their kind, and the section stays as text."""
        links: list[str] = []
        for section in self._named(RELATED):
            for number in section.lines:
                cells, line = self._cells(number), self.lines[number]
                text = cells[0] if cells else line
                ids = _ID.findall(text) if number not in self.hidden else []
                if not ids:
                    continue
                before = _LINK.search(text[: text.find(ids[0])].strip("-*+ "))
                told = cells[1] if len(cells) > 1 else before[1] if before else ""
                kind = re.sub(r"[\s_-]+", "-", told.strip("*` ").casefold())
                is_item = bool(cells) or re.match(r"\s*[-*+] ", line) is not None
                kind = kind if kind in LINK_KINDS else "related"
                links += [f"{kind} {one}" for one in (ids[:1] if is_item else ids)]
        return tuple(dict.fromkeys(links))

    def _read_resolution(self, status: Status) -> tuple[Resolution, ...]:
        """Return the resolution of a finished ticket; its sections stay as text."""
        if not status.is_finished:
            return ()
        told, commit = {"person": "", "date": ""}, ""
        for section in self.sections:
            for number in section.lines if ENDED.match(section.title) else ():
                cells, bold = self._cells(number), _BOLD_LABEL.match(self.lines[number].strip())
                label, value = cells[:2] if len(cells) > 1 else bold.groups() if bold else ("", "")
                name = RESOLUTION_FIELDS.get(plain(label), "")
                date = _DATE.search(value)
                if name and not told[name]:
                    told[name] = value.strip("*` ") if name == "person" else date[0] if date else ""
                found = _HASH.search(self.lines[number])
                commit = commit or (found[1] or found[2] if found else "")
        return (Resolution(status, told["person"] or UNKNOWN, told["date"] or UNDATED, commit.lower(), ("imported",)),)

    # Reviews.

    def _read_reviews(self, section: _Section) -> list[Review]:
        """Return the reviews of a section; all its lines go into them, or none if it has no known verdict."""
        match = _CROSS_REVIEW.fullmatch(section.title)
        if match is None:
            return []
        drafts, used = _ReviewSection(self, match[1]).read(section.lines)
        verdicts = [read_verdict(draft.verdict) for draft in drafts]
        unknown = [draft.verdict for draft, (verdict, _) in zip(drafts, verdicts, strict=True) if verdict is None]
        if unknown:
            self.result.notes.append(f"{section.title}: {unknown[0]!r} is not a verdict, so the section stays text")
        if unknown or not drafts:
            return []
        self._take(section.heading, "reviews")
        for number in section.lines:
            if number in used:
                self._drop(number)
            elif self.lines[number].strip():
                self._take(number, "reviews")
        reviews = [
            _finished(draft, verdict, extra)
            for draft, (verdict, extra) in zip(drafts, verdicts, strict=True)
            if verdict is not None
        ]
        forms = [{"line": draft.line + 1, "form": draft.form, "section": section.title} for draft in drafts]
        self.result.fields.setdefault("reviews", []).extend(forms)
        return reviews

    def _sections_left(self) -> Iterator[tuple[str, str]]:
        """Return headings and texts without the lines that a field holds, and note where each line went."""
        result = self.result
        for section in self.sections:
            done = {number - 1 for number in (*result.extracted, *result.dropped)}
            for table in _tables(section.lines, self.lines, self.hidden):
                heads = [number for number in table[:2] if plain(_first_cell(self.lines[number])) in ("field", "")]
                if done.intersection(table) and done.issuperset(set(table) - set(heads)):
                    done.update(heads)
                    for number in heads:
                        self._drop(number)
            left = [number for number in section.lines if number not in done]
            while left and (not self.lines[left[-1]].strip() or self._is_rule(left[-1])):
                self._drop(left.pop())
            while left and (not self.lines[left[0]].strip() or self._is_rule(left[0])):
                self._drop(left.pop(0))
            heading = section.heading
            if not left:
                if heading >= 0 and heading + 1 not in result.extracted:
                    self._drop(heading)
                continue
            title = f"{section.title} (text)" if section.title == CROSS_REVIEW else section.title
            kept = [number + 1 for number in ([heading] if heading >= 0 else []) + left if self.lines[number].strip()]
            result.text.setdefault(title, []).extend(kept)
            lines = [self.lines[number] for number in left]
            yield title, "\n".join([*lines, self.is_open] if self.is_open and section is self.sections[-1] else lines)

    def _is_rule(self, number: int) -> bool:
        return number not in self.hidden and _RULE.fullmatch(self.lines[number]) is not None


class _ReviewSection:
    """Reads one section of reviews; `title` is what its heading, or a heading inside, says of the reviewer."""

    def __init__(self, reader: _Reader, title: str) -> None:
        self.reader, self.title = reader, title
        self.drafts: list[_Draft] = []
        self.loose: list[tuple[str, str, int]] = []
        self.label = ""
        self.used: set[int] = set()

    def read(self, numbers: Sequence[int]) -> tuple[list[_Draft], set[int]]:
        """Return the reviews, and the lines that say nothing."""
        lines, hidden = self.reader.lines, self.reader.hidden
        tables = {table[0]: table for table in _tables(numbers, lines, hidden)}
        covered = {number for table in tables.values() for number in table}
        for number in numbers:
            if number in tables:
                self._read_table(tables[number])
            elif number not in covered:
                self._read_line(number, lines[number])
        for label, text, above in self.loose if self.drafts else ():
            role = _role_in(label)
            owner = next((one for one in reversed(self.drafts) if role and one.role == role), None)
            draft = owner or self.drafts[max(above - 1, 0)]
            kind = REVIEW_FIELDS.get(label, "")
            if kind in ("who", "date") and not getattr(draft, kind):
                setattr(draft, kind, text)
            else:
                draft.note.append(text)
        return self.drafts, self.used

    def _read_table(self, table: Sequence[int]) -> None:
        self.label = ""
        rows = [(number, cells) for number in table if (cells := self.reader._cells(number))]
        has_head = len(table) > 1 and not self.reader._cells(table[1]) and bool(rows)
        names = [plain(cell) for cell in rows[0][1]] if rows else []
        count, loose = len(self.drafts), len(self.loose)
        pairs = [number for number, cells in rows if plain(cells[0]) == "verdict" and len(cells) == 2 and cells[1]]
        if pairs and (len(names) == 2 and (pairs[0] != rows[0][0] or read_verdict(rows[0][1][1])[0])):
            form = "verdict-in-header" if has_head and pairs[0] == rows[0][0] else "field-value"
            cells = next(cells for number, cells in rows if number == pairs[0])
            draft = _Draft(cells[1], form, pairs[0], self.title)
            for _, cells in rows:
                if len(cells) > 1 and plain(cells[0]) != "field":
                    draft.take(plain(cells[0]), " | ".join(cells[1:]))
            self.drafts.append(draft)
        elif has_head and "verdict" in names:
            for number, cells in rows[1:]:
                self._read_row(number, names, cells, "table:" + "|".join(rows[0][1]))
        else:
            for number, cells in rows:
                column = next((at for at, cell in enumerate(cells) if read_verdict(cell)[0]), 0)
                before = ["reviewer"] * column
                after = ["date" if _DATE.fullmatch(cell) else "note" for cell in cells[column + 1 :]]
                if column:
                    self._read_row(number, [*before, "verdict", *after], cells, "stray-row")
                else:
                    self.loose.append(("", self.reader.lines[number], len(self.drafts)))
        if len(self.drafts) == count:
            self.loose[loose:] = [("", self.reader.lines[number], count) for number in table]
            return
        heads = [number for number in table if not self.reader._cells(number)]
        is_label_row = has_head and (names[0] == "field" or "verdict" in names) and len(self.drafts) > count
        if is_label_row and not (len(names) == 2 and names[0] == "verdict" and pairs and pairs[0] == rows[0][0]):
            heads.append(rows[0][0])
        self.used.update(heads)

    def _read_row(self, number: int, names: Sequence[str], cells: Sequence[str], form: str) -> None:
        column = names.index("verdict")
        if column >= len(cells) or not cells[column].strip("*` "):
            self.loose.append(("", self.reader.lines[number], len(self.drafts)))
            return
        draft = _Draft(cells[column], form, number, self.title)
        for at, cell in enumerate(cells):
            draft.take(names[at] if at < len(names) else "note", cell)
        self.drafts.append(draft)

    def _read_line(self, number: int, line: str) -> None:
        text = line.strip()
        is_hidden = number in self.reader.hidden
        heading = None if is_hidden else _HEADING.fullmatch(line)
        verdict = None if is_hidden else _BOLD_VERDICT.match(text)
        label = None if is_hidden else _BOLD_LABEL.match(text)
        name = plain(label[1]) if label else ""
        kind = REVIEW_FIELDS.get(name, "") or ("note" if name.endswith(NOTES) else "")
        if heading and _role_of(heading[2]):
            self.title = self.label = heading[2]
            if not ROLE_WORDS.issuperset(_words(heading[2])):
                self.loose.append((self.label, text, len(self.drafts)))
        elif heading and REVIEW_FIELDS.get(heading[2].casefold()) == "note":
            self.label = "evaluation"
            self.used.add(number)
        elif verdict:
            written = (verdict[1] or f"{verdict[2]}{verdict[3]}").strip()
            self.drafts.append(_Draft(written, "bold-paragraph", number, self.title))
            self.label = "evaluation"
        elif label and kind in ("note", "who", "date"):
            self.label = name if kind == "note" else ""
            # A longer label, such as **DRL Evaluation:**, stays in the note.
            whole = kind == "note" and name not in REVIEW_FIELDS
            self.loose.append((name, text if whole else label[2], len(self.drafts)))
        elif not is_hidden and _RULE.fullmatch(line):
            self.used.add(number)
        else:
            self.loose.append((self.label, line.rstrip(), len(self.drafts)))


def _finished(draft: _Draft, verdict: Verdict, extra: str) -> Review:
    severity, date = _SEVERITY.search(draft.severity.upper()), _DATE.search(draft.date)
    # What a field cannot hold goes into the note.
    known = {draft.date: date, draft.severity: severity}
    rest = [extra, *(text for text, match in known.items() if text.strip("*` ") != (match[0] if match else ""))]
    if draft.who and draft.title != draft.who and not ROLE_WORDS.issuperset(_words(draft.title)):
        rest.append(draft.title)
    note = "\n".join([*filter(None, rest), *draft.note]).strip("\n")
    if re.match(r"\s*(?:[`~]{3}|[-*+>|#]\s|\|)", note):
        note = f"Evaluation:\n{note}"
    who = re.sub(r"[·()]+", " ", inert_line(draft.who.strip("*` ") or draft.title.strip("*` ")))
    return Review(
        verdict=verdict,
        reviewer=who.strip() or UNKNOWN,
        severity=Severity(severity[0]) if severity else None,
        role=re.sub(r"[·()]+", " ", draft.role).strip(),
        date=date[0] if date else UNDATED,
        note=re.sub(r"\n{3,}", "\n\n", note),
    )


def _form_of(ticket: Ticket) -> list[Any]:
    """Return what must be the same after the new file was read."""
    reviews = [(one.verdict, one.severity, one.reviewer, one.role, one.date) for one in ticket.reviews]
    return [reviews, len(ticket.resolutions), *(getattr(ticket, key) for key in FIELDS)]


def read_status(text: str) -> Status | None:
    """Return the status that a text means; `wontfix`, `Won't fix` and `wont-fix (by design)` are all `wont-fix`."""
    head = re.split(r"[\s(:;,]", text.strip(), maxsplit=1)[0]
    return STATUSES.get(_letters(text)) or STATUSES.get(_letters(head))


def _letters(text: str) -> str:
    return re.sub("[^a-z]", "", text.casefold())


def _without(text: str, parts: Iterable[str]) -> str:
    for part in parts:
        text = text.replace(part, "", 1)
    return text


def read_verdict(text: str) -> tuple[Verdict | None, str]:
    """Return the verdict with which a cell starts and the text behind it: `**NEUTRAL** (with caveat)`."""
    match = re.match(r"[*_`~\s]*([A-Za-z]+)[*_`~]*", text)
    word = match[1].upper() if match else ""
    for known in (word, re.sub(r"(?:E?D|S)$", "", word), word.removesuffix("D")):
        if match and known in VERDICTS:
            return VERDICTS[known], text[match.end() :].strip("*_`~ \t")
    return None, text


def reviewer_role(who: str, title: str) -> str:
    """Return the role of a reviewer: by the name, or by the section's title if the name has none."""
    code = re.fullmatch(r"`(?!cross-review)([A-Za-z][\w.-]*)`", who.strip("* \t"), re.IGNORECASE)
    alone = re.fullmatch(r"(?!cross-review)[a-z][a-z0-9_.-]*", who.strip("* \t"))
    return _role_of(who) or (code[1] if code else "") or _role_of(title) or (alone[0] if alone else "")


def _role_of(name: str) -> str:
    said = _ASIDE.sub("", name) if _role_in(_ASIDE.sub("", name)) else name
    return _role_in(said) if ROLE_WORDS.issuperset(_words(said)) else ""


def _role_in(text: str) -> str:
    """Return the role that a text names first, "" if none."""
    bare = re.sub(r"[*`]", "", text).strip("_ \t").replace("_", "-")
    bare = re.sub(r"^cross-review\b(?!.*\()", "", bare, flags=re.IGNORECASE)
    return next((role for role, pattern in ROLES if pattern.search(bare)), "")


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def plain(text: str) -> str:
    """Return a label without its decoration, in small letters."""
    return text.strip("*_`: ").casefold()


def _value(cell: str) -> str:
    """Return the bold text or the code span with which a cell starts, else the cell."""
    bold = re.match(r"(\*\*|__)(.+?)\1", cell)
    inner = bold[2] if bold else cell
    code = CODE_SPAN.match(inner)
    return (code[2] if code else inner).strip()


def _values(cell: str) -> tuple[str, ...]:
    """Return the values of a cell: each code span, else what commas or ` / ` separate."""
    spans = [match[2].strip() for match in CODE_SPAN.finditer(cell)]
    return tuple(inert_line(one) for one in spans or re.split(r",| / ", cell) if one.strip())


def _id_in(text: str) -> str:
    try:
        return parse_id(text)
    except ValueError:
        return ""


def _first_cell(line: str) -> str:
    return "" if _DELIMITER.fullmatch(line.strip()) else line.strip().strip("|").partition("|")[0]


def _tables(numbers: Iterable[int], lines: Sequence[str], hidden: set[int]) -> list[list[int]]:
    """Return the runs of lines that start with a pipe."""
    tables: list[list[int]] = []
    for number in numbers:
        if number in hidden or not lines[number].lstrip().startswith("|"):
            continue
        if tables and tables[-1][-1] == number - 1:
            tables[-1].append(number)
        else:
            tables.append([number])
    return tables
