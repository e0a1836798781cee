"""The importer reads each spelling of the free form, keeps each line of the source, and refuses what it cannot keep."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.ticket import CATEGORY_OF, UNDATED, Status, Verdict
from auditkit.tickets.document import parse_document
from auditkit.tickets.importer import Imported, import_tickets, read_file
from tests.project_files import ROOT

HEAD = """# Finding Ticket: {title}

---

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `{id}` |
| **Severity** | `{severity}` |
| **Status** | `{status}` |
| **Batch** | 4 |
| **Agent** | `pytorch` |
| **Domain** | `loader` / `cache` |
| **Assignee** | |
| **Created** | 2026-02-03 |
| **Updated** | {updated} |

---

## Location

| Field | Value |
|-------|-------|
| **File(s)** | {files} |
| **Line(s)** | {lines} |
| **Function/Class** | {function} |

---
"""
SUMMARY = """
## Summary

**One-line summary:** The shuffle uses one seed for each epoch.

**Category:**
- [x] Correctness bug
- [ ] Memory leak / resource issue
- [x] API design / contract violation

---
"""
VERIFICATION = """
## Verification

### How to Verify the Fix

- [ ] Two epochs have different orders
- [x] The sampler's tests pass

---
"""
CODE = """
## Recommended Fix

```python
## not a heading
| **Status** | `closed` |
generator.manual_seed(seed + epoch)
```

---
"""
REVIEW = """
## Cross-Review (DRL Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | `REFINE` |
| **Reviewer** | DRL Specialist |
| **Date** | 2026-02-05 |

**Evaluation:** Only with several workers.
"""


def head(**changed: str) -> str:
    values = {
        "title": "Shuffle repeats its order",
        "id": "B4-PT-07",
        "severity": "P2",
        "status": "open",
        "updated": "2026-02-03",
        "files": "`src/loader/shuffle.py`",
        "lines": "`10-12, 40`",
        "function": "`Shuffle.order()`",
    }
    return HEAD.format(**(values | changed))


def imported(tmp_path: Path, text: str, name: str = "B4-PT-07.md") -> Imported:
    source = tmp_path / "old" / name
    source.parent.mkdir(exist_ok=True)
    source.write_text(text, encoding="utf-8")
    result = read_file(source, tmp_path / "new")
    if result.document:
        check_that_no_line_is_lost(result)
    return result


def ticket_of(tmp_path: Path, text: str) -> Any:
    result = imported(tmp_path, text)
    assert result.problem == ""
    assert result.document is not None
    return result.document.ticket


LABELS = frozenset((
    "finding", "ticket", "metadata", "id", "field", "value", "severity", "status", "batch", "agent", "domain", "file",
    "assignee", "created", "updated", "labels", "s", "line", "function", "class", "cross", "review", "reviews",
    "verdict", "reviewer", "date", "evaluation", "specialist", "code", "quality", "expert", "agent",
))  # fmt: skip


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def check_that_no_line_is_lost(result: Imported) -> None:
    """Each line of the source is extracted, copied as text or dropped; what it said is in the result."""
    assert result.document is not None
    copied = [number for numbers in result.text.values() for number in numbers]
    places = [*result.extracted, *copied, *result.dropped]
    text = re.sub(r"\r\n?", "\n", result.source.read_bytes().decode("utf-8-sig"))
    lines = dict(enumerate(text.split("\n"), 1))
    assert sorted(places) == [number for number, line in lines.items() if line.strip()]
    written = result.document.text
    body = [line.strip() for line in written.split("\n")]
    there = words(written) | words(" ".join(result.notes)) | LABELS
    for number in copied:
        line = lines[number]
        title = re.fullmatch(r" {0,3}## +(.*?)[ #]*", line)
        assert line.strip() in body or (title and any(one.startswith(f"## {title[1]}") for one in body)), line
    for number, name in result.extracted.items():
        if name not in ("status", "categories"):
            assert words(lines[number]) <= there, lines[number]
    for line in result.dropped.values():
        box = re.fullmatch(r"- \[ \] (.*)", line)
        is_template = re.fullmatch(r"## [\w -]+|[-| :]+|\| Field \| Value \||\*\*Category:\*\*", line)
        is_head = line.startswith("|") and "verdict" in line.casefold() and "**" not in line
        assert is_template or is_head or (box and box[1].casefold() in CATEGORY_OF), line


def test_every_field_of_a_ticket_is_extracted(tmp_path: Path) -> None:
    result = imported(tmp_path, head() + SUMMARY + CODE + VERIFICATION + REVIEW)
    assert result.document is not None
    ticket = result.document.ticket
    assert (ticket.id, ticket.title, ticket.severity, ticket.status) == (
        "B4-PT-07",
        "Shuffle repeats its order",
        Severity.P2,
        Status.OPEN,
    )
    assert (ticket.batch, ticket.agent, ticket.domain, ticket.created) == (4, "pytorch", "loader, cache", "2026-02-03")
    assert (ticket.location, ticket.function) == (
        "src/loader/shuffle.py:10-12, src/loader/shuffle.py:40",
        "Shuffle.order",
    )
    assert ticket.categories == ("correctness bug", "api contract")
    assert [(box.is_done, box.text) for box in ticket.boxes] == [
        (False, "Two epochs have different orders"),
        (True, "The sampler's tests pass"),
    ]
    (review,) = ticket.reviews
    assert (review.verdict, review.reviewer, review.role, review.date, review.note) == (
        Verdict.REFINE,
        "DRL Specialist",
        "drl",
        "2026-02-05",
        "Only with several workers.",
    )
    assert list(result.text) == ["Summary", "Recommended Fix", "Verification"]
    assert parse_document(result.document.data, result.document.path).ticket == ticket


LAYOUTS = {
    "rows": "| Field | Value |\n|---|---|\n| **Verdict** | NEUTRAL |\n| **Reviewer** | drl |\n\n**Evaluation:** It is.",
    "verdict in the head": "| Verdict | **NEUTRAL** |\n|---|---|\n\n**Evaluation:** It is.",
    "verdict in the head, text in a row": "| Verdict | NEUTRAL |\n|---|---|\n| **Evaluation** | It is. |",
    "a row for each reviewer": "| Reviewer | Verdict | Evaluation |\n|---|---|---|\n| **DRL** | NEUTRAL | It is. |",
    "a row for each agent": "| Agent | Verdict | Evaluation |\n|---|---|---|\n| `drl` | **NEUTRAL** | It is. |",
    "verdict first": "| Verdict | Evaluation |\n|---|---|\n| **NEUTRAL** | It is. |",
    "text below the table": "| Verdict | Reviewer | Date |\n|---|---|---|\n| **NEUTRAL** | drl-expert | |\n\nIt is.",
    "bold": "**Verdict:** NEUTRAL\n\nIt is.",
    "stray row": "| DRL Specialist | **NEUTRAL** | It is. |",
    "bold with a colon": "**Verdict: Neutral** It is.",
    "heading for the text": "| Verdict | NEUTRAL |\n|---|---|\n\n### Evaluation\n\nIt is.",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_verdict_is_read_in_each_layout(tmp_path: Path, layout: str) -> None:
    (review,) = ticket_of(tmp_path, head() + "\n## Cross-Review (DRL Specialist)\n\n" + LAYOUTS[layout]).reviews
    assert (review.verdict, review.role, review.date) == (Verdict.NEUTRAL, "drl", UNDATED)
    assert review.note == "It is."


def test_a_section_of_reviews_without_a_known_verdict_stays_text(tmp_path: Path) -> None:
    result = imported(tmp_path, head() + "\n## Cross-Review\n\n**Verdict:** PERHAPS\n")
    assert result.document is not None
    assert (result.document.ticket.reviews, list(result.text)) == ((), ["Cross-Review (text)"])
    assert result.notes == ["Cross-Review: 'PERHAPS' is not a verdict, so the section stays text"]


def test_a_finished_ticket_gets_a_resolution_and_keeps_the_section(tmp_path: Path) -> None:
    section = (
        "\n## Resolution\n\n| Field | Value |\n|---|---|\n| **Fixed By** | Kim Ö. |\n| **Fixed Date** | 2026-03-01 |\n"
    )
    result = imported(tmp_path, head(status="fixed") + section + "\n**Commits:** `8e4c59e5`\n" + REVIEW)
    assert result.document is not None
    (resolution,) = result.document.ticket.resolutions
    assert (resolution.status, resolution.person, resolution.date, resolution.commit) == (
        Status.FIXED,
        "Kim Ö.",
        "2026-03-01",
        "8e4c59e5",
    )
    assert list(result.text) == ["Resolution"]


HIDDEN = "\n<!-- hidden\n## Verification\n-->\n"
PIECES = st.lists(
    st.sampled_from(
        [
            SUMMARY,
            CODE,
            REVIEW,
            "\n## Notes\n\nA line of text\n\n---\n\nand | one more\n",
            "\n### Within\n\n1. `code`\n",
            HIDDEN,
            "\n## Cross-Review\n\n### PyTorch Specialist\n\n| Verdict | OBJECT |\n|---|---|\n| **Priority** | none |\n",
            "\n## Empty\n",
            "\n## Cross-review\n\nnobody yet\n",
            *(f"\n## Cross-Review (DRL Specialist)\n\n{layout}\n" for layout in LAYOUTS.values()),
        ]
    ),
    max_size=6,
)
TEXTS = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp", "Cf", "Cn", "Co"]), max_size=30)


@given(PIECES, TEXTS, st.booleans())
@settings(max_examples=60)
def test_no_line_is_lost(tmp_path_factory: pytest.TempPathFactory, pieces: list[str], text: str, is_open: bool) -> None:
    folder = tmp_path_factory.mktemp("lossless")
    end = "\n## Log\n\n```\nno end" if is_open else ""
    result = imported(folder, head() + f"\n{text}\n" + "".join(pieces) + VERIFICATION + end)
    # Only a second section Verification, which the comment may be, cannot be in a new ticket.
    assert not result.problem or ("a second section Verification" in result.problem and HIDDEN in pieces)
    assert (result.document is None) == bool(result.problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (head(status="opne").encode(), "status is 'opne' (did you mean open?)"),
        (head(severity="high").encode(), "severity is 'high'"),
        (head(id="PT-7").encode(), "the row Ticket ID has no id such as B7-PT-01"),
        (head().encode().replace(b"loader", b"\xff\xfe", 1), "the byte 0xff is not UTF-8"),
        (head().encode() + b"<<<<<<< HEAD\n", "a conflict mark is left"),
        ((head() + VERIFICATION + VERIFICATION).encode(), "a second section Verification"),
    ],
)
def test_a_source_that_cannot_be_kept_is_refused_in_one_line(tmp_path: Path, text: bytes, problem: str) -> None:
    source = tmp_path / "old" / "finding.md"
    source.parent.mkdir()
    source.write_bytes(text)
    (result,) = import_tickets([source], tmp_path / "new")
    assert problem in result.problem
    assert "\n" not in result.problem
    assert str(source) in result.problem
    assert not (tmp_path / "new").exists()


def test_one_id_in_two_files_and_a_taken_id_are_refused(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    (old / "a.md").write_text(head(id="B4-PT-01"))
    (old / "b.md").write_text(head(id="B4-PT-01"))
    (old / "c.md").write_text(head(id="B4-PT-02"))
    (old / "d.md").write_text(head(id="B4-PT-03"))
    (new / "B4-PT-02.md").write_text("mine")
    problems = {one.source.name: one.problem for one in import_tickets([old], new)}
    assert problems == {
        "a.md": "",
        "b.md": f"{old}/b.md: {new}/B4-PT-01.md exists: choose another folder with --to, or change the id",
        "c.md": f"{old}/c.md: {new}/B4-PT-02.md exists: choose another folder with --to, or change the id",
        "d.md": "",
    }
    assert sorted(path.name for path in new.iterdir()) == ["B4-PT-01.md", "B4-PT-02.md", "B4-PT-03.md"]
    assert (new / "B4-PT-02.md").read_text() == "mine"


def test_files_that_are_no_tickets_are_named_and_left_alone(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "report.md").write_text("# Batch 4\n\n| Severity | Count |\n|---|---|\n| P1 | 3 |\n")
    (old / "template.md").write_text(head(id="B{batch}-{agent}-{number}"))
    (old / "image.png").write_bytes(b"\x89PNG\xff\0")
    (old / "link.md").symlink_to(old / "report.md")
    (old / "B1-PT-01.md").write_text("---\nid: B1-PT-01\ntitle: t\n---\n")
    before = {path: path.read_bytes() for path in old.iterdir()}
    found = import_tickets([old], tmp_path / "new")
    assert {one.source.name: one.skipped for one in found} == {
        "B1-PT-01.md": "a ticket in the new form",
        "image.png": "not a text",
        "link.md": "a symbolic link",
        "report.md": "no ticket: it has no table below '## Ticket Metadata'",
        "template.md": "a template",
    }
    assert not (tmp_path / "new").exists()
    assert {path: path.read_bytes() for path in old.iterdir()} == before


# The tickets of a real project, which are not part of this one.

SHARED = ROOT.parent / "shared"
needs_corpus = pytest.mark.skipif(
    not (SHARED / "corpus" / "expected.json").exists(), reason="no corpus beside the tree"
)


@needs_corpus
def test_the_corpus_is_read_with_every_field_and_review(tmp_path: Path) -> None:
    corpus = SHARED / "corpus"
    wanted = json.loads((corpus / "expected.json").read_text())["tickets"]
    found = import_tickets([corpus / "tickets"], tmp_path / "new")
    tickets = {one.source.relative_to(corpus / "tickets").as_posix(): one for one in found if one.document}
    assert len(found) - len(tickets) == 21
    assert [one.problem for one in found if one.problem] == []
    wrong = {one["path"]: told for one in wanted if (told := differences(tickets[one["path"]], one))}
    assert wrong == {}
    assert set(tickets) == {one["path"] for one in wanted}
    assert len(tickets) == 152
    for one in tickets.values():
        check_that_no_line_is_lost(one)


def differences(found: Imported, wanted: dict[str, Any]) -> list[str]:
    """Return the names of the fields that differ from those of expected.json."""
    assert found.document is not None
    document, ticket = found.document, found.document.ticket
    files, reviews = list(dict.fromkeys(place.file for place in ticket.places)), found.fields.get("reviews", [])
    ranges = [[place.file, place.first, place.last] for place in ticket.places if place.first]
    wanted_ranges = [
        [next(file for file in files if file.endswith(name or files[0])), first, last]
        for name, first, last in wanted["line_refs"]
        if name or len(files) == 1
    ]
    kept = document.text
    pairs = {
        "id": (ticket.id, wanted["id"]),
        "title": (ticket.title, wanted["title"]),
        "severity": (ticket.severity, wanted["severity"]),
        "status": (ticket.status, wanted["status"]),
        "batch": (ticket.batch, int(wanted["batch"])),
        "agent": (ticket.agent, wanted["agent"]),
        "domains": (ticket.domain, ", ".join(wanted["domains"])),
        "assignee": (ticket.assignee, wanted["assignee"]),
        "created": (ticket.created, wanted["created"]),
        "updated": (found.fields["updated"], wanted["updated"]),
        "function": (ticket.function, wanted["function"].replace("`", "").replace("()", "")),
        "files_rel": (files, wanted["files_rel"]),
        "line_refs": (ranges, wanted_ranges),
        "lines_raw": (words(wanted["lines_raw"]) - words(kept), set()),
        "summary": (wanted["summary"] in (document.section("Summary") or ""), True),
        "categories": (ticket.categories, tuple(CATEGORY_OF[one.casefold()] for one in wanted["categories"])),
        "related": (ticket.links, tuple(f"{one['rel'] or 'related'} {one['id']}" for one in wanted["related"])),
        "resolution_sections": ([one for one in wanted["resolution_sections"] if one not in found.text], []),
        "res_commits": ([one.commit for one in ticket.resolutions if one.commit], wanted["res_commits"]),
        "report_refs": ([r for r in wanted["report_refs"] if r["file"] not in kept or r["section"] not in kept], []),
        "verification": (
            [[box.is_done, box.text] for box in ticket.boxes],
            [one[:2] for one in wanted["verification"]],
        ),
        "sections": ([line for _, line in wanted["sections"] if line not in lines_of(found)], []),
        "reviews": (
            [
                (one.role or None, one.reviewer, one.verdict, None if one.date == UNDATED else one.date, *form.values())
                for one, form in zip(ticket.reviews, reviews, strict=True)
            ],
            [
                (
                    one["reviewer"],
                    (one["reviewer_raw"] or one["header_reviewer"] or "unknown").strip("*` "),
                    one["verdict"],
                    one["date"],
                    one["line"],
                    one["form"],
                    one["section"],
                )
                for one in wanted["reviews"]
            ],
        ),
    }
    return [f"{name}: {has!r}, not {should!r}" for name, (has, should) in pairs.items() if has != should]


def lines_of(found: Imported) -> set[int]:
    return {*found.extracted, *found.dropped, *(number for numbers in found.text.values() for number in numbers)}
