"""Import tickets in the free Markdown form that people wrote by hand, without losing a line of theirs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from auditkit.errors import AuditkitError, BadInputError, meant
from auditkit.files import write_below
from auditkit.model.enums import Severity
from auditkit.model.text import CODE_SPAN, inert_line
from auditkit.model.ticket import (
    AGENT_NAMES,
    CATEGORY_OF,
    FIELDS,
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
from auditkit.tickets.front_matter import check_field

_METADATA, _LOCATION, _SUMMARY = ("ticket metadata", "metadata"), ("location",), ("summary", "category")
_ENDED = re.compile(r"(?:resolution|closure|closing notes|status|correction)\b", re.IGNORECASE)

_STATUSES = {"inprogress": Status.FIX_IN_PROGRESS} | {re.sub("[^a-z]", "", one.value): one for one in Status}
"""The letters of what people write for a status."""

_REVIEW_FIELDS = {
    **dict.fromkeys(("reviewer", "agent"), "who"),
    **dict.fromkeys(("evaluation", "notes"), "note"),
    "severity": "severity",
    "date": "date",
    "verdict": "verdict",
}
"""What a column or a row says about a review. Other names and their texts go into its note."""

_ROLES = (
    ("pytorch", re.compile(r"\bpytorch\b", re.IGNORECASE)),
    ("drl", re.compile(r"\bdrl\b|\bdeep rl\b", re.IGNORECASE)),
    ("codereview", re.compile(r"\bcode[ -]?(?:review(?:er)?|quality)\b", re.IGNORECASE)),
)

_HOMES = re.compile(r"/(?:home|Users)/[^/]+/[^/]+/(?=.)")
"""The start of an absolute path that names a checkout of some other machine."""
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_DELIMITER = re.compile(r"[\s|:-]*-[\s|:-]*")
_BOX = re.compile(r"\s*[-*+] \[([ xX])\]\s+(.*?)\s*")
_BOLD_LABEL = re.compile(r"\*\*([^*]{1,60}?):?\*\*:?\s*(.*)")
_CROSS_REVIEW = re.compile(r"cross[ -]?reviews?\b\W*(.*?)\W*", re.IGNORECASE)
_EVALUATION = re.compile(r"\A(?:#+ Evaluation\s*\n|\*\*Evaluation:?\*\*:?)\s*", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SEVERITY = re.compile(r"P[0-4]\b", re.IGNORECASE)
_ID = re.compile(r"(?<![\w-])B\d{1,4}-[A-Z][A-Z0-9]{0,15}-\d{2,6}(?![\w-])", re.ASCII)
_HASH = re.compile(r"`([0-9a-f]{7,40})`|\b(?:commits?|in)\b[*:\s|]*\b((?=[0-9a-f]*\d)[0-9a-f]{7,40})\b", re.IGNORECASE)
_PERSON = re.compile(r"\b(?:fixed|resolved|closed) by\b[*:\s|]*([^|\n]*)", re.IGNORECASE)
_ENDED_ON = re.compile(r"\b(?:date|fixed|resolved|closed)\b[*:\s|]*(\d{4}-\d{2}-\d{2})", re.IGNORECASE)
_LINES = re.compile(r"(?P<file>[\w./-]*\.[A-Za-z]\w*)`?\s*:|(?<!\d)(?P<lines>\d{1,9}(?:-\d{1,9})?)(?!\d)")
_PATH = re.compile(r"[^\s,`]+(?:/[^\s,`]+|\.[A-Za-z]\w*)")
_TITLES = {"agent", "code", "expert", "quality", "review", "reviewer", "specialist"}
"""What a title of a section may say beside the role of its reviewer."""
_LINK = re.compile(r"blocked[ -]by|blocks|duplicate", re.IGNORECASE)


@dataclass
class Imported:
    """What auditkit read in one file. `document` is None for a file that is not a ticket and for one with a `problem`.

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
    """A review as it is written: pairs of a name and its text, and the title of the section or heading above."""

    line: int
    form: str
    title: str
    pairs: list[tuple[str, str]]


def import_tickets(paths: Sequence[Path], folder: Path) -> list[Imported]:
    """Write each ticket below `paths` into `folder` in the new form, and return what was read in each file.

    A file that cannot become a ticket has a `problem`, and auditkit writes nothing for it.
    """
    files = dict.fromkeys(source for path in paths for source in _files(path))
    found = [read_file(source, folder) for source in files]
    for one in found:
        if one.document is None:
            continue
        path = one.document.path
        try:
            if os.path.lexists(path):
                hint = "choose another folder with --to, or change the id"
                raise BadInputError(f"{one.source}: {path} exists: {hint}")
            write_below(folder, path.name, one.document.data)
        except AuditkitError as error:
            one.problem, one.document = str(error), None
    return found


def _files(path: Path) -> Iterator[Path]:
    """Return the file, or the files below the folder; hidden ones and links are not followed."""
    if path.is_file():
        yield path
    elif not path.is_dir():
        raise BadInputError(f"there is no file or folder {path}")
    found = (one for one in path.rglob("*") if not one.is_dir())
    yield from sorted(one for one in found if not any(part[0] == "." for part in one.relative_to(path).parts))


def read_file(source: Path, folder: Path) -> Imported:
    """Read one file; the ticket's path is in `folder`."""
    result = Imported(source)
    if source.is_symlink():
        result.skipped = "a symbolic link"
        return result
    try:
        data = re.sub(rb"\r\n?", b"\n", source.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        _Reader(result, decoded(data, source).split("\n"), folder).read()
    except OSError as error:
        result.problem = f"{source} cannot be read: {error.strerror}"
    except TicketFileError as error:
        if source.suffix in (".md", ".markdown", ".txt"):
            result.problem = "; ".join(f"{source}: {problem.message}" for problem in error.problems)
        else:
            result.skipped = "not a text"
    return result


class _Reader:
    """Reads the lines of one file into an `Imported`: each `_read_` method takes the lines that a field holds."""

    def __init__(self, result: Imported, lines: list[str], folder: Path) -> None:
        self.result, self.lines, self.folder = result, lines, folder
        self.hidden: set[int] = set()
        self.open_fence = ""
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
                is_fence = mark and mark[1].startswith(fence) and not line.strip(" `~")
                fence = "" if is_fence or (fence == "-->" and fence in line) else fence
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
        self.open_fence = "" if fence == "-->" else fence

    def _take(self, number: int, name: str, kept: str | None = None) -> None:
        """Note that the field `name` holds a line; with `kept` only if that has every word of the row's value."""
        if kept is None or _words("|".join(self._cells(number)[1:])) <= _words(kept):
            self.result.extracted[number + 1] = name

    def _drop(self, number: int) -> None:
        if self.lines[number].strip():
            self.result.dropped[number + 1] = self.lines[number]

    def _named(self, titles: Sequence[str]) -> list[_Section]:
        return [section for section in self.sections if section.title.casefold() in titles]

    def read(self) -> None:
        """Fill the result with the ticket, or with the reason why there is none. Raises TicketFileError."""
        result, rows = self.result, self._rows(_METADATA)
        stem_id = _id_in(result.source.stem)
        written = rows.get("ticket id", (0, ""))[1]
        row_id = _id_in(written.strip("*_` "))
        heading = _HEADING.fullmatch(self.lines[self.title_line]) if self.title_line >= 0 else None
        title = inert_line(heading[2]) if heading else ""
        if self.lines[0] == "---" and any(line.startswith("id: ") for line in self.lines[:20]):
            result.skipped = "a ticket in the new form"
        elif "{" in written:
            result.skipped = "a template"
        elif not (rows or stem_id or title.casefold().startswith("finding ticket:")):
            result.skipped = "no ticket: it has no table below '## Ticket Metadata'"
        elif not (row_id or stem_id):
            result.problem = f"{result.source}: the row Ticket ID has no id such as B7-PT-01"
        else:
            self._read_ticket(rows, row_id or stem_id, re.sub(r"(?i)^finding ticket:\s*", "", title))

    def _read_ticket(self, rows: dict[str, tuple[int, str]], ticket_id: str, title: str) -> None:
        result = self.result
        fields: dict[str, Any] = {"title": title, **self._read_metadata(rows, ticket_id), **self._read_location()}
        fields |= {"categories": self._read_categories(), "links": self._read_links()}
        for name in ("title", "severity", "status"):
            if not fields.get(name):
                written = rows[name][1].strip("*_` ") if name in rows else ""
                hint = meant(written.casefold(), list(Status)) if name == "status" else ""
                told = f"{name} is {written!r}" if written else f"no {name}"
                result.problem = f"{result.source}: {told}" + (f" ({hint})" if hint else "")
                return
        if self.title_line >= 0:
            self._take(self.title_line, "title")
        reviews = tuple(review for section in self.sections for review in self._read_reviews(section))
        updated = fields.pop("updated", "")
        ticket = Ticket(**fields, reviews=reviews, resolutions=self._read_resolution(fields["status"]))
        result.fields |= {**fields, "updated": updated}
        document = new_document(ticket, list(self._sections_left()), self.folder / f"{ticket_id}.md")
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

    def _read_metadata(self, rows: dict[str, tuple[int, str]], ticket_id: str) -> dict[str, Any]:
        batch, code, _ = id_parts(ticket_id)
        fields: dict[str, Any] = {"id": ticket_id, "batch": batch, "agent": AGENT_NAMES.get(code, code.lower())}
        for label, (number, cell) in rows.items():
            value, name = inert_line(cell.strip("*_` ")), label
            read: Any = None
            if label == "ticket id":
                name, read = "id", ticket_id
            elif label == "severity" and (found := _SEVERITY.match(value)):
                read = Severity(found[0].upper())
            elif label == "status":
                read = read_status(value)
            elif label == "agent" and value:
                read = AGENT_NAMES.get(agent_code(value), value)
            elif label in ("domain", "labels"):
                read = _values(cell) if label == "labels" else ", ".join(_values(cell))
            elif label == "assignee" or (label in ("created", "updated") and (_DATE.fullmatch(value) or not value)):
                read = value
            elif label == "batch":
                read = check_field("batch", value)[0]
            if read is not None:
                fields[name] = read
                # The new form has no date of the last change: git has it.
                self._take(number, name, str(fields.get("created", "") if label == "updated" else read))
        return fields

    def _read_location(self) -> dict[str, str]:
        rows = self._rows(_LOCATION)
        nothing = (-1, "")
        number, cell = rows.get("function/class", nothing)
        function = inert_line(cell.replace("`", "").replace("()", ""))
        (at_files, written), (at_lines, lines) = rows.get("file(s)", nothing), rows.get("line(s)", nothing)
        files = [match[2].strip() for match in CODE_SPAN.finditer(written)] or _PATH.findall(written)
        places: dict[str, list[str]] = {_HOMES.sub("", path, count=1): [] for path in files}
        self.result.notes += [f"location: {path} is another machine's" for path in files if _HOMES.match(path)]
        named = ""
        for match in _LINES.finditer(lines):
            named = match["file"] or named
            owners = [path for path in places if path.endswith(named)]
            if len(owners) == 1 and match["lines"]:
                places[owners[0]].append(match["lines"])
        texts = [text for path, spans in places.items() for text in ([f"{path}:{span}" for span in spans] or [path])]
        location = ", ".join(inert_line(text) for text in texts if parse_place(text) and ", " not in text)
        named_files = " ".join([location, *self.result.notes])
        kept = ((number, "function", function), (at_files, "location", named_files), (at_lines, "location", location))
        for at, name, text in kept:
            if at >= 0:
                self._take(at, name, text)
        return {"function": function, "location": location}

    def _read_categories(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for section in self._named(_SUMMARY):
            for number in section.lines:
                box = _BOX.fullmatch(self.lines[number])
                category = CATEGORY_OF.get(box[2].casefold()) if box else None
                if box and category and box[1] != " ":
                    found[category] = None
                    self._take(number, "categories")
                elif category or plain(self.lines[number]) == "category":
                    self._drop(number)
        return tuple(found)

    def _read_links(self) -> tuple[str, ...]:
        """Return the ticket that each line of Related Findings names first; the section stays as text."""
        links: dict[str, None] = {}
        for section in self._named(("related findings",)):
            for number in section.lines:
                line = self.lines[number]
                found = _ID.search(line) if number not in self.hidden else None
                if found is not None:
                    cells = self._cells(number)
                    kind = _LINK.search(cells[1] if len(cells) > 1 else line[: found.start()])
                    links[f"{kind[0].lower().replace(' ', '-') if kind else 'related'} {found[0]}"] = None
        return tuple(links)

    def _read_resolution(self, status: Status) -> tuple[Resolution, ...]:
        """Return the resolution of a finished ticket; its sections stay as text."""
        if not status.is_finished:
            return ()
        ended = (section.lines for section in self.sections if _ENDED.match(section.title))
        text = "\n".join(self.lines[number] for numbers in ended for number in numbers)
        person, date, commit = _PERSON.search(text), _ENDED_ON.search(text), _HASH.search(text)
        name = person[1].strip("*` ") if person else ""
        revision = (commit[1] or commit[2]).lower() if commit else ""
        return (Resolution(status, name or UNKNOWN, date[1] if date else UNDATED, revision, ("imported",)),)

    # Reviews.

    def _read_reviews(self, section: _Section) -> list[Review]:
        """Return the reviews of a section, none if one has no known verdict.

        What is beside a single review is its note; beside several reviews it stays text of the section.
        """
        match = _CROSS_REVIEW.fullmatch(section.title)
        if match is None:
            return []
        drafts, used, heads = self._drafts(section, match[1])
        reviews = []
        for draft in drafts:
            review, verdict = _review(draft)
            if review is None:
                self.result.notes.append(f"{section.title}: {verdict!r} is not a verdict, so the section stays text")
                return []
            reviews.append(review)
        left = [number for number in section.lines if number not in used | heads]
        if len(reviews) == 1:
            text = "\n".join(self.lines[number] for number in self._stripped(left))
            note = "\n".join(filter(None, [reviews[0].note, _EVALUATION.sub("", text.rstrip())]))
            if re.match(r"\s*(?:[`~]{3}|[-*+>|#]\s|\|)", note):
                note = f"Evaluation:\n{note}"
            reviews = [msgspec.structs.replace(reviews[0], note=re.sub(r"\n{3,}", "\n\n", note))]
            used.update(number for number in left if self.lines[number].strip() and not self._is_rule(number))
        if reviews and all(not self.lines[number].strip() or self._is_rule(number) for number in set(left) - used):
            used.add(section.heading)
        for number in used if reviews else ():
            self._take(number, "reviews")
        for number in heads if reviews else ():
            self._drop(number)
        forms = [{"line": draft.line + 1, "form": draft.form, "section": section.title} for draft in drafts]
        self.result.fields.setdefault("reviews", []).extend(forms)
        return reviews

    def _drafts(self, section: _Section, title: str) -> tuple[list[_Draft], set[int], set[int]]:
        """Return the reviews of a section, the lines that they hold, and the heads of their tables."""
        drafts: list[_Draft] = []
        used, heads, title_at = set[int](), set[int](), section.heading
        tables = {table[0]: table for table in self._tables(section.lines)}
        for number in section.lines:
            heading = None if number in self.hidden else _HEADING.fullmatch(self.lines[number])
            bold = None if number in self.hidden else _BOLD_LABEL.match(self.lines[number].strip())
            if heading and _role_in(heading[2]):
                title, title_at = heading[2], number
                continue
            found: list[_Draft] = []
            if bold and bold[1].casefold().startswith("verdict"):
                verdict = f"{bold[1].partition(':')[2]} {bold[2]}".strip()
                found = [_Draft(number, "bold-paragraph", title, [("verdict", verdict)])]
                used.add(number)
            elif number in tables and (found := self._drafts_of(tables[number], title)):
                is_by_row = found[0].form.startswith(("table", "stray"))
                used.update((draft.line for draft in found) if is_by_row else tables[number])
                heads.update(at for at in tables[number] if self._is_head(tables[number], at))
            used.update([title_at] if found and title_at != section.heading else ())
            drafts += found
        return drafts, used - heads, heads

    def _is_head(self, table: Sequence[int], number: int) -> bool:
        """Return whether a line of a table has names only."""
        names = [plain(cell) for cell in self._cells(number)]
        is_first = len(table) > 1 and number == table[0] and not self._cells(table[1])
        return not names or (is_first and (names[0] == "field" or ("verdict" in names and not read_verdict(names[1]))))

    def _drafts_of(self, table: Sequence[int], title: str) -> list[_Draft]:
        """Return the reviews of a table: one of names and values, or one for each row below names or without any."""
        rows = {number: cells for number in table if (cells := self._cells(number))}
        first, head = next(iter(rows.items()), (-1, [""]))
        names = [plain(cell) for cell in head]
        verdict = next((number for number, cells in rows.items() if plain(cells[0]) == "verdict"), -1)
        if verdict >= 0 and len(names) == 2 and (verdict != first or read_verdict(head[1])):
            pairs = [(plain(cells[0]), " | ".join(filter(None, cells[1:]))) for cells in rows.values()]
            form = "verdict-in-header" if verdict == first else "field-value"
            return [_Draft(verdict, form, title, [pair for pair in pairs if pair[0] != "field"])]
        is_named, found = "verdict" in names, []
        form = "table:" + "|".join(head) if is_named else "stray-row"
        for number, cells in rows.items():
            first_verdict = next((n for n, cell in enumerate(cells) if read_verdict(cell)), 0)
            at = names.index("verdict") if is_named else first_verdict
            after = ["date" if _DATE.fullmatch(cell) else "notes" for cell in cells[at + 1 :]]
            kinds = names if is_named else [*["reviewer"] * at, "verdict", *after]
            if at < len(cells) and cells[at] and (number != first if is_named else at):
                found.append(_Draft(number, form, title, list(zip_longest(kinds, cells, fillvalue=""))))
        return found

    # What is left.

    def _tables(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the runs of lines that start with a pipe."""
        tables: list[list[int]] = []
        for number in numbers:
            if number in self.hidden or not self.lines[number].lstrip().startswith("|"):
                continue
            if tables and tables[-1][-1] == number - 1:
                tables[-1].append(number)
            else:
                tables.append([number])
        return tables

    def _stripped(self, numbers: Sequence[int]) -> list[int]:
        """Return the lines without blank lines and rules at both ends; those are dropped."""
        left = list(numbers)
        for end in (-1, 0):
            while left and (not self.lines[left[end]].strip() or self._is_rule(left[end])):
                self._drop(left.pop(end))
        return left

    def _is_rule(self, number: int) -> bool:
        return number not in self.hidden and _RULE.fullmatch(self.lines[number]) is not None

    def _sections_left(self) -> Iterator[tuple[str, str]]:
        """Return headings and texts without the lines that a field holds, and note where each line went."""
        result = self.result
        for section in self.sections:
            done = {number - 1 for number in (*result.extracted, *result.dropped)}
            for table in self._tables(section.lines):
                heads = [number for number in table[:2] if not self._cells(number) or self._is_head(table, number)]
                if done.intersection(table) and done.issuperset(set(table) - set(heads)):
                    for number in heads:
                        self._drop(number)
                    done.update(heads)
            left = self._stripped([number for number in section.lines if number not in done])
            if not left:
                if section.heading >= 0 and section.heading + 1 not in result.extracted:
                    self._drop(section.heading)
                continue
            title = f"{section.title} (text)" if section.title.casefold() == CROSS_REVIEW.casefold() else section.title
            kept = [number + 1 for number in (section.heading, *left) if number >= 0 and self.lines[number].strip()]
            result.text.setdefault(title, []).extend(kept)
            lines = [self.lines[number] for number in left]
            yield title, "\n".join(lines + [self.open_fence] * (section is self.sections[-1]))


def _review(draft: _Draft) -> tuple[Review | None, str]:
    """Return the review, None if its verdict is not known, and the verdict as it is written."""
    told: dict[str, str] = {}
    note, forms = [], {"date": _DATE, "severity": _SEVERITY}
    for name, text in draft.pairs:
        kind, value = _REVIEW_FIELDS.get(name, ""), text.strip("*` ")
        is_whole = value and (kind not in forms or forms[kind].fullmatch(value))
        if kind not in ("", "note") and kind not in told and is_whole:
            told[kind] = text if kind == "verdict" else value
        elif value:
            note.append(text if kind == "note" or not name else f"{name}: {text}")
    written = told.get("verdict", "")
    verdict = read_verdict(written)
    if verdict is None:
        return None, written
    rest = re.sub(r"^\W*[A-Za-z]+[*_`~]*\s*", "", written)
    title = draft.title.strip("*` ")
    who = told.get("who") or title
    above = [title] if _words(title) - _words(who) - _TITLES else []
    review = Review(
        verdict=verdict,
        reviewer=re.sub(r"[·()]+", " ", inert_line(who)).strip() or UNKNOWN,
        severity=Severity(told["severity"].upper()) if "severity" in told else None,
        role=_role_in(who) or _role_in(title),
        date=told.get("date", UNDATED),
        note="\n".join(filter(None, [rest, *above, *note])),
    )
    return review, written


def _form_of(ticket: Ticket) -> list[Any]:
    """Return what must be the same after the new file was read."""
    reviews = [(one.verdict, one.severity, one.reviewer, one.role, one.date) for one in ticket.reviews]
    return [reviews, len(ticket.resolutions), *(getattr(ticket, key) for key in FIELDS)]


def read_status(text: str) -> Status | None:
    """Return the status that a text means; `wontfix`, `Won't fix` and `wont-fix (by design)` are all `wont-fix`."""
    heads = (text, re.split(r"[\s(:;,]", text.strip(), maxsplit=1)[0])
    letters = [re.sub("[^a-z]", "", one.lower()) for one in heads]
    return _STATUSES.get(letters[0]) or _STATUSES.get(letters[1])


def read_verdict(text: str) -> Verdict | None:
    """Return the verdict with which a text starts: `**NEUTRAL** (with caveat)`."""
    match = re.match(r"[*_`~\s]*([A-Za-z]+)", text)
    return Verdict.__members__.get(match[1].upper()) if match else None


def _role_in(text: str) -> str:
    """Return the role that a text names first, "" if none."""
    return next((role for role, pattern in _ROLES if pattern.search(text)), "")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def plain(text: str) -> str:
    """Return a label without its decoration, in small letters."""
    return text.strip("*_`: ").casefold()


def _values(cell: str) -> tuple[str, ...]:
    """Return the values of a cell: each code span, else what commas or ` / ` separate."""
    spans = [match[2].strip() for match in CODE_SPAN.finditer(cell)]
    return tuple(inert_line(one) for one in spans or re.split(r",| / ", cell) if one.strip())


def _id_in(text: str) -> str:
    try:
        return parse_id(text)
    except ValueError:
        return ""
