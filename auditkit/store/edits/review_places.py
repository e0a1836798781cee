"""Where a new review stands, so that two reviews on two branches merge.

git takes two insertions at one line for a conflict, and merges them where one line at least stands between. So
reviewers have places of their own: around the reviews that are there, and above and below the rule that ends a
section. A section that begins with another rule (`***`) than the one below it cannot be read as the other place.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.store.edits.spans import inserted, rule_of
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading
from auditkit.store.reading.reviews import reviewers_section

_BEFORE = ("resolution", "appendix")
_RANKS = ("drl", "pytorch", "codereview")
_OTHER_RULE = "***\n\n"


@dataclass(frozen=True)
class Place:
    """A position, and what stands between a section that is put there and the text above and below it."""

    position: int
    above: str = ""
    below: str = ""


def insert_section(document: Document, section: str, reviewer: str) -> Document:
    """The document with a section of reviews at its reviewer's place."""
    places = list(_places(document))
    if reviewer in _RANKS:
        number = _RANKS.index(reviewer)
    else:
        # Whoever is none of ours stands behind those who spoke before.
        places = places[1:] if review_sections(document) else places
        number = crc32(reviewer.casefold().encode())
    place = places[number % len(places)]
    return inserted(document, place.position, f"{place.above}{section}{place.below}")


def review_sections(document: Document) -> list[Heading]:
    """The headings of the sections of reviews."""
    return [h for h in document.scan.headings if h.level == 2 and reviewers_section(h.text)]


def _places(document: Document) -> Iterator[Place]:
    reviews = review_sections(document)
    if reviews:
        yield Place(reviews[0].line.start, below=f"\n\n{rule_of(document)}")
        yield from _between(document, reviews[-1].section_end)
        return
    sections = [heading for heading in document.scan.headings if heading.level == 2]
    following = [heading for heading in sections if heading.text.casefold() in _BEFORE]
    yield from _between(document, following[0].line.start if following else len(document.data))
    if following and following[0].text.casefold() == "appendix":
        yield from _between(document, following[0].section_end)


def _between(document: Document, end: int) -> Iterator[Place]:
    """The places between a section's last line and `end`, where the next one starts: two where a rule parts them."""
    content = document.content_end(end)
    gap = document.data[content:end].split()
    has_rule = end < len(document.data) and len(gap) == 1 and gap[0].startswith(b"-")
    yield Place(content, above=f"\n\n{_OTHER_RULE if has_rule else rule_of(document)}")
    if has_rule:
        yield Place(end, below=f"\n\n{rule_of(document)}")
