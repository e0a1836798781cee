"""Boxes of the Verification section: ticked and unticked, one byte each."""

from __future__ import annotations

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.text import inert_line
from auditkit.model.ticket import VerificationItem
from auditkit.store.document import Document
from auditkit.store.evidence import says_reproduced
from auditkit.store.resolution import BoxAt, boxes_of

VERIFIED, UNVERIFIED = "verified", "unverified"
ALL = "all"
_MOST_NAMED = 5


def tick(document: Document, which: str, is_done: bool = True) -> Document:
    """The document with boxes ticked, or unticked: `which` is a number from 1, a part of one item's text, or `all`.

    Raises BadInputError where no box or more than one is meant, and for a box that is bound to a probe whose
    evidence still says reproduced.
    """
    for box in _chosen(boxes_of(document), which):
        if is_done and not box.item.is_done:
            _refuse_reproduced(document, box.item)
        if box.item.is_done is not is_done:
            document = document.replace(box.mark, b"x" if is_done else b" ")
    return document


def count_text(document: Document, is_done: bool = True) -> str:
    """How many boxes are ticked, or are not: `1 of 3`."""
    boxes = boxes_of(document)
    return f"{sum(box.item.is_done is is_done for box in boxes)} of {len(boxes)}"


def _chosen(boxes: tuple[BoxAt, ...], which: str) -> tuple[BoxAt, ...]:
    if not boxes:
        raise BadInputError("the ticket has no boxes in '## Verification'", "add one by hand: - [ ] what to check")
    wanted = which.strip().casefold()
    if wanted == ALL:
        return boxes
    if wanted.isdecimal():
        number = int(wanted)
        if not 1 <= number <= len(boxes):
            raise BadInputError(f"there is no box {number}", f"they are numbered from 1 to {len(boxes)}")
        return (boxes[number - 1],)
    return (_by_text(boxes, which.strip()),)


def _by_text(boxes: tuple[BoxAt, ...], text: str) -> BoxAt:
    texts = [box.item.text for box in boxes]
    found = [number for number, known in enumerate(texts) if text and text.casefold() in known.casefold()]
    same = [number for number in found if texts[number].casefold() == text.casefold()]
    if len(same or found) == 1:
        return boxes[(same or found)[0]]
    if found:
        named = "; ".join(f"{number + 1}: {inert_line(texts[number])}" for number in found[:_MOST_NAMED])
        raise BadInputError(f"{len(found)} boxes say '{inert_line(text)}'", f"name its number: {named}")
    near = nearest_names(text, texts)
    hint = f"did you mean '{inert_line(near[0])}'?" if near else f"a number from 1 to {len(boxes)}, or {ALL}"
    raise BadInputError(f"no box says '{inert_line(text)}'", hint)


def _refuse_reproduced(document: Document, item: VerificationItem) -> None:
    for block in document.evidence:
        is_bound = bool(item.probe) and block.fingerprint.partition("/")[0] == item.probe
        if is_bound and says_reproduced(document.data[block.span.start : block.span.end]):
            raise BadInputError(
                f"'{inert_line(item.text)}' (line {item.line}) is bound to {item.probe}, "
                "and the evidence still says that it reproduces",
                "run the audit again on the fixed code: it writes what it finds into the ticket",
            )
