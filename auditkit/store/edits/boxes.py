"""Boxes of the Verification section: ticked and unticked, one byte each, and bound to probes by a comment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.text import inert_line
from auditkit.model.tickets.claim import FORM, Side, parse_condition
from auditkit.model.tickets.ticket import VerificationItem
from auditkit.store.edits.spans import removed, replaced
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import says_reproduced
from auditkit.store.reading.resolution import BoxAt, boxes_of

VERIFIED, UNVERIFIED, BOUND, UNBOUND = "verified", "unverified", "bound", "unbound"
ALL = "all"
_BINDING = re.compile(r"(?P<probe>[a-z]\w*)(?:\s+(?P<condition>\S.*))?")
_LONGEST_CONDITION = 300
_EXAMPLE = "bound '2=norm_overflows_on_finite_grads'"
_MOST_NAMED = 5
_ORDINAL = re.compile(r"#\d+$")  # of several targets that call one function


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


@dataclass(frozen=True)
class Binding:
    """Which boxes are bound to which probe: `which` as `tick` takes it; `condition` is "" for the outcome."""

    which: str
    probe: str
    condition: str = ""


def parse_binding(text: str) -> Binding:
    """`WHICH=PROBE` or `WHICH=PROBE CONDITION`; raises BadInputError."""
    which, equals, rest = text.partition("=")
    found = _BINDING.fullmatch(" ".join(rest.split()))
    if not equals or not which.strip() or found is None:
        raise BadInputError(f"not of the form WHICH=PROBE [CONDITION]: '{inert_line(text)}'", _EXAMPLE)
    condition = found["condition"] or ""
    if condition:
        _check(condition)
    return Binding(which.strip(), found["probe"], condition)


def bind(document: Document, binding: Binding) -> Document:
    """The document with boxes bound to a probe, by a comment behind their text that Markdown does not show.

    Raises BadInputError as `tick` does, and for text that no comment can hold.
    """
    condition = f" {binding.condition}" if binding.condition else ""
    for box in reversed(_chosen(boxes_of(document), binding.which)):
        document = replaced(document, box.binding, f" <!-- probe: {binding.probe}{condition} -->")
    return document


def unbind(document: Document, which: str) -> Document:
    """The document with boxes bound to nothing; raises BadInputError as `tick` does."""
    for box in reversed(_chosen(boxes_of(document), which)):
        document = removed(document, box.binding)
    return document


def bound_text(document: Document, is_bound: bool = True) -> str:
    """How many boxes are bound, or are not: `1 of 3`."""
    boxes = boxes_of(document)
    return f"{sum(bool(box.item.probe) is is_bound for box in boxes)} of {len(boxes)}"


def set_done(document: Document, done: dict[int, bool]) -> Document:
    """The document with boxes ticked or unticked by their numbers from 1, whatever the evidence says."""
    for number, box in enumerate(boxes_of(document), start=1):
        if done.get(number, box.item.is_done) is not box.item.is_done:
            document = document.replace(box.mark, b"x" if done[number] else b" ")
    return document


def unticked(document: Document, fingerprint: str) -> Document:
    """The document without the ticks of the boxes that a finding, which is there, makes false.

    Those are bound to its probe without a condition, and name no other target.
    """
    probe, _, rest = fingerprint.partition("/")
    call = _ORDINAL.sub("", rest.partition("/")[2])
    items = enumerate((box.item for box in boxes_of(document)), start=1)
    false = {
        number: False
        for number, item in items
        if item.probe == probe and not item.condition and ("--target" not in item.text or call in item.text)
    }
    return set_done(document, false)


def _check(condition: str) -> None:
    try:
        parsed = parse_condition(condition)
    except ValueError as error:
        raise BadInputError(str(error), f"a condition is {FORM}") from None
    if parsed.side is not Side.BASE or parsed.text.startswith(f"{parsed.name} {Side.BASE}"):
        raise BadInputError(
            "a box's condition is asked at the base and at the fix: it names neither", "leave 'at base' or 'at fix' out"
        )
    if "--" in condition or "`" in condition or len(condition) > _LONGEST_CONDITION:
        raise BadInputError(f"not a condition: '{inert_line(condition)}'", f"a condition is {FORM}")


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
        # What a condition says of a number can hold while the probe still reproduces.
        is_bound = bool(item.probe) and not item.condition and block.fingerprint.partition("/")[0] == item.probe
        if is_bound and says_reproduced(document.data[block.span.start : block.span.end]):
            raise BadInputError(
                f"'{inert_line(item.text)}' (line {item.line}) is bound to {item.probe}, "
                "and the evidence still says that it reproduces",
                "auditkit ticket verify runs it on the fixed code, and ticks what that proves",
            )
