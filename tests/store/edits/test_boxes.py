"""Ticking boxes of the Verification section: one byte each, and not against the evidence."""

from __future__ import annotations

import pytest

from auditkit.errors import BadInputError
from auditkit.store.edits.boxes import tick
from auditkit.store.edits.fields import edit_field, field_text
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import PATH, ticket_text

MORE = """- [x] grads of 1e20 give a finite norm <!-- probe: p -->
  * [ ] naïve sums are gone
- [X] grads of 0 give 0

```
- [ ] not a box
```
"""
REPRODUCED = ("| **Message** | told |", "| **Outcome** | `reproduced` |\n| **Message** | told |")


def parse(text: str) -> Document:
    return Document.parse(text.encode(), PATH)


def done(document: Document) -> list[bool]:
    return [item.is_done for item in ticket_of(document).verification]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    ("which", "after"),
    [
        ("1", [True, True, False, True]),
        ("NAÏVE", [False, True, True, True]),
        ("grads of 0", [False, True, False, True]),
        ("all", [True, True, True, True]),
    ],
)
def test_ticking_changes_one_byte_a_box(which: str, after: list[bool], newline: str) -> None:
    document = parse(ticket_text(extra=MORE).replace("\n", newline))
    changed = tick(document, which)
    assert done(document) == [False, True, False, True]
    assert done(changed) == after
    assert len(changed.data) == len(document.data)
    differing = [pair for pair in zip(document.data, changed.data, strict=True) if pair[0] != pair[1]]
    assert differing == [(ord(" "), ord("x"))] * (sum(after) - 2)


def test_unticking_brings_the_bytes_back() -> None:
    document = parse(ticket_text())
    ticked = edit_field(document, "verified", "1")
    assert ticked.data == document.data.replace(b"- [ ] a test", b"- [x] a test")
    assert (field_text(document, "verified"), field_text(ticked, "verified")) == ("0 of 1", "1 of 1")
    assert field_text(ticked, "unverified") == "0 of 1"
    assert edit_field(ticked, "unverified", "a test").data == document.data
    assert done(tick(parse(ticket_text(extra=MORE)), "all", is_done=False)) == [False] * 4


@pytest.mark.parametrize(
    ("which", "message", "hint"),
    [
        ("0", "there is no box 0", "from 1 to 4"),
        ("5", "there is no box 5", "from 1 to 4"),
        ("grads", "2 boxes say 'grads'", "2: grads of 1e20 give a finite norm; 4: grads of 0 give 0"),
        ("naive sum are gone", "no box says", "did you mean 'naïve sums are gone'?"),
        ("not a box", "no box says 'not a box'", ""),
        ("", "no box says ''", "a number from 1 to 4, or all"),
    ],
)
def test_boxes_that_cannot_be_told_are_refused(which: str, message: str, hint: str) -> None:
    with pytest.raises(BadInputError, match=message) as refused:
        tick(parse(ticket_text(extra=MORE)), which)
    assert hint in (refused.value.hint or "")


def test_a_ticket_without_boxes_says_so() -> None:
    with pytest.raises(BadInputError, match="has no boxes"):
        tick(parse(ticket_text().replace("- [ ] a test", "")), "all")


def bound(fingerprint: str, outcome: tuple[str, str] = REPRODUCED) -> Document:
    text = ticket_text(fingerprint=fingerprint).replace(*outcome)
    return parse(text.replace("- [ ] a test", "- [ ] a test <!-- probe: p -->\n- [ ] by hand"))


def test_a_box_of_a_probe_that_still_reproduces_stays() -> None:
    document = bound("p/1/t")
    for which in ("1", "a test", "all"):
        with pytest.raises(BadInputError, match="bound to p, and the evidence still says that it reproduces"):
            tick(document, which)
    assert done(tick(document, "2")) == [False, True]


def test_a_box_of_a_probe_that_does_not_reproduce_is_ticked() -> None:
    assert done(tick(bound("other/1/t"), "all")) == [True, True]
    gone = ("| **Message** | told |", "| **Outcome** | `not_reproduced` |\n| **Message** | told |")
    assert done(tick(bound("p/1/t", gone), "1")) == [True, False]
    ticked = parse(bound("p/1/t").data.decode().replace("- [ ] a test", "- [x] a test"))
    assert done(tick(ticked, "1", is_done=False)) == [False, False]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    ("value", "bindings"),
    [
        ("1=norm_overflows", [("norm_overflows", ""), ("p", ""), ("", ""), ("", "")]),
        ("2 = q", [("", ""), ("q", ""), ("", ""), ("", "")]),
        (
            "naïve=p breaking_norm  > 1e10 @ dtype=float32",
            [("", ""), ("p", ""), ("p", "breaking_norm > 1e10 @ dtype=float32"), ("", "")],
        ),
        ("all=q n = 3 or none", [("q", "n = 3 or none")] * 4),
    ],
)
def test_a_box_is_bound_by_a_comment_and_unbound_again(
    newline: str, value: str, bindings: list[tuple[str, str]]
) -> None:
    document = parse(ticket_text(extra=MORE).replace("\n", newline))
    changed = edit_field(document, "bound", value)
    items = ticket_of(changed).verification
    assert [(item.probe, item.condition) for item in items] == bindings
    before = [(item.text, item.is_done) for item in ticket_of(document).verification]
    assert [(item.text, item.is_done) for item in items] == before
    assert edit_field(changed, "bound", value).data == changed.data
    loose = edit_field(edit_field(changed, "unbound", "all"), "bound", "2=p")
    assert loose.data == document.data
    assert field_text(changed, "bound") == f"{sum(bool(probe) for probe, _ in bindings)} of 4"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1", "not of the form WHICH=PROBE"),
        ("=p", "not of the form WHICH=PROBE"),
        ("1=No Probe", "not of the form WHICH=PROBE"),
        ("1=p -->", "not a condition"),
        ("1=p n > 3 -->", "neither a number nor a word|not a condition"),
        ("1=p n > many", "is no number"),
        ("1=p n at fix > 3", "names neither"),
        ("1=p n at base > 3", "names neither"),
        ("1=p n = 3 @ a=b--c", "not a condition"),
        ("9=p", "there is no box 9"),
    ],
)
def test_what_binds_nothing_is_refused(value: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        edit_field(parse(ticket_text(extra=MORE)), "bound", value)


def test_a_condition_is_not_the_probe_s_outcome() -> None:
    """A bound number may be reached while the probe still reproduces; verify is what says so."""
    document = edit_field(bound("p/1/t"), "bound", "1=p n > 3")
    assert done(tick(document, "1")) == [True, False]
