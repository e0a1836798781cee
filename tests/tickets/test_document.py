"""The file of a ticket: what is read and written is the same, and every defect is named with its line."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.ticket import CATEGORIES, LINK_KINDS, Box, Resolution, Review, Status, Ticket, Verdict
from auditkit.tickets import front_matter
from auditkit.tickets.document import Document, TicketFileError, new_document, parse_document

PATH = Path("B1-PT-03.md")
TICKET = Ticket(
    id="B1-PT-03",
    title="clip_gradients consumes its generator and clips nothing",
    severity=Severity.P0,
    location="trainer/optim.py:41",
    function="clip_gradients",
    findings=("fails_on_generator_input/1/trainer.optim:clip_gradients",),
    categories=("correctness bug", "api contract"),
    domain="trainer",
    batch=1,
    agent="pytorch",
    created="2026-11-24",
    boxes=(Box("probe: fails_on_generator_input"), Box("the norm in the log is that after the clip")),
    reviews=(
        Review(
            verdict=Verdict.ENDORSE,
            severity=Severity.P0,
            reviewer="ada",
            role="pytorch",
            date="2026-11-24",
            revision="3f2a91c",
            note="the loop never runs",
        ),
    ),
)
SECTIONS = [("", "The first statement reads all."), ("Fix", "none")]
TEXT = new_document(TICKET, SECTIONS, PATH).with_evidence("| norm |").text


def document(text: str = TEXT) -> Document:
    return parse_document(text.encode(), PATH)


def without_lines(ticket: Ticket) -> Ticket:
    """The ticket without the places where its parts stand in the file."""
    parts = {
        name: tuple(msgspec.structs.replace(one, line=0) for one in getattr(ticket, name))
        for name in ("reviews", "boxes", "resolutions")
    }
    return msgspec.structs.replace(ticket, **parts)


def problems(data: bytes) -> str:
    with pytest.raises(TicketFileError) as caught:
        parse_document(data, PATH)
    return caught.value.message


def test_a_written_ticket_is_read_back() -> None:
    assert without_lines(document().ticket) == TICKET
    assert document().data == TEXT.encode()


def test_auditkit_reads_what_it_writes_without_the_yaml_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_matter, "_from_yaml", lambda _: pytest.fail("the YAML parser was called"))
    assert without_lines(document().ticket) == TICKET


LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).map(str.strip).filter(bool)
ITEMS = st.lists(LINE, max_size=12).map(tuple)
TICKETS = st.builds(
    Ticket,
    id=st.from_regex(r"\AB[0-9]{1,4}-[A-Z][A-Z0-9]{0,5}-[0-9]{2,4}\Z"),
    title=LINE,
    severity=st.sampled_from(Severity),
    status=st.sampled_from(Status),
    location=LINE,
    function=LINE,
    findings=ITEMS,
    categories=st.lists(st.sampled_from(CATEGORIES), unique=True).map(tuple),
    domain=LINE,
    batch=st.integers(0, 9999),
    agent=LINE,
    assignee=LINE | st.just(""),
    labels=ITEMS,
    created=st.dates().map(str),
    links=st.lists(st.sampled_from(LINK_KINDS).map("{} B1-PT-01".format)).map(tuple),
)


@settings(max_examples=40)
@given(TICKETS)
def test_every_front_matter_is_read_back_by_both_readers(ticket: Ticket) -> None:
    text = front_matter.write_front_matter(ticket)
    assert front_matter.read_front_matter(text) == (ticket, [], len(text))
    assert front_matter._from_yaml(text)[0] == ticket


@settings(max_examples=40)
@given(TICKETS)
def test_an_edit_changes_the_lines_of_its_fields_alone(ticket: Ticket) -> None:
    text = TEXT.replace("severity: P0\n", "severity: P0   # to be discussed\n").replace("id: B1", "# mine\nid: B1")
    edited = document(text).edited(assignee=ticket.assignee, labels=ticket.labels)
    assert (edited.ticket.assignee, edited.ticket.labels) == (ticket.assignee, ticket.labels)
    own = re.compile(r"^(assignee|labels):.*\n(  - .*\n)*", re.MULTILINE)
    assert own.sub("", edited.text) == own.sub("", text)


def test_a_new_title_also_replaces_the_heading() -> None:
    edited = document().edited(title="It clips nothing: at all")
    assert 'title: "It clips nothing: at all"\n' in edited.text
    assert "\n# It clips nothing: at all\n" in edited.text


def test_reviews_and_resolutions_are_appended_and_read_back() -> None:
    review = Review(verdict=Verdict.OBJECT, reviewer="bo", date="2026-11-25", revision="3f2a91cd", note="long " * 40)
    proof = ("proof: red at 3f2a91c, green at 77ab310, 2 of 2 findings", "x" * 120)
    done = Resolution(Status.FIXED, "kim", "2026-11-26", "77ab310", proof)
    changed = document().with_review(review).with_resolution(done).with_resolution(done)
    read = changed.ticket.reviews[1]
    assert (read.verdict, read.reviewer, read.severity) == (Verdict.OBJECT, "bo", None)
    assert read.note.split() == review.note.split()
    assert without_lines(changed.ticket).resolutions == (done, done)
    assert {line for line in changed.lines if len(line) > 100} == {"  " + "x" * 120}
    assert set(TEXT.split("\n")) <= set(changed.lines)


def test_ticks_and_evidence_replace_their_own_bytes() -> None:
    ticked = document().with_ticks({box.line: True for box in document().ticket.boxes[:1]})
    assert ticked.text == TEXT.replace("- [ ] probe:", "- [x] probe:")
    assert document().with_evidence("| new |").text == TEXT.replace("| norm |", "| new |")
    assert document().with_evidence("| norm |").text == TEXT


BAD = {
    "unknown key": (("domain:", "domian:"), "10: unknown key 'domian' (did you mean domain?)"),
    "key twice": (
        ("batch: 1", "batch: 1\nbatch: 2"),
        "12: batch is there twice: '1' in line 11 and '2' in line 12 (keep one of the two lines)",
    ),
    "severity": (("severity: P0", "severity: P7"), "4: severity is 'P7' (one of P0, P1, P2, P3, P4)"),
    "status": (("status: open", "status: opne"), "5: status is 'opne' (did you mean open?"),
    "list": (("labels: []", "labels: slow"), "14: labels is 'slow' (write a list: labels: [...])"),
    "category": (("[correctness bug,", "[corectness bug,"), "(did you mean correctness bug?)"),
    "link": (("links: []", "links: [blocked B1-PT-4]"), "and an id: blocked-by B1-PT-01)"),
    "missing": (("title: ", "tittle: "), "1: the front matter has no title (add a line `title: ...`)"),
    "alias": (("labels: []", "labels: &a []\nlinks2: *a"), "15: *a is a YAML alias"),
    "deep": (("labels: []", "labels: " + "[" * 99_999), "14: a value is nested too deeply"),
    "syntax": (("domain: trainer", 'domain: "trainer'), "the front matter is not YAML"),
    "no end": (("links: []\n---\n", "links: []\n"), "1: the front matter has no end (close it with a line ---)"),
    "no end mark": (("<!-- /evidence -->", ""), "the evidence block has no end (add a line <!-- /evidence -->"),
    "no reviews": (("## Cross-review", "## Reviews"), "the section Cross-review is missing"),
    "review": (
        ("- **ENDORSE** P0 · ada", "- endorsed, P0 · ada"),
        "a valid line is: - **ENDORSE** P0 · ada (pytorch) · 2026-11-24 · at 3f2a91c: the loop never runs",
    ),
    "marks": (
        ("title: ", "<<<<<<< HEAD\ntitle: a\n=======\n"),
        "3: a conflict mark is left: <<<<<<< HEAD (git left both sides",
    ),
}


@pytest.mark.parametrize(("change", "expected"), BAD.values(), ids=BAD)
def test_a_defect_is_named_with_its_line_and_what_is_correct(change: tuple[str, str], expected: str) -> None:
    assert change[0] in TEXT, "the test changes nothing"
    message = problems(TEXT.replace(*change).encode())
    assert message.count(f"{PATH}:") == (2 if change[1] == "tittle: " else 1), "one error for one defect"
    assert expected in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbf" + TEXT.encode(), "1: the first line is "),
        (TEXT.replace("\n", "\r\n").encode(), "1: the line ends in CRLF"),
        (TEXT.encode() + b"\0", "the file has a NUL byte: it is binary"),
        (TEXT.encode() + b"\xff", "the byte 0xff is not UTF-8"),
        (TEXT.encode() + b" " * 1_000_000, "a ticket has at most 1,000,000"),
    ],
)
def test_another_encoding_is_refused(data: bytes, expected: str) -> None:
    assert expected in problems(data)
