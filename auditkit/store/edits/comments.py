"""Comments in the Discussion of a ticket, in the order of their times, and those of two branches put together."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from auditkit.errors import BadInputError
from auditkit.model.tickets.comment import Comment
from auditkit.store.edits.spans import inserted, rule_of
from auditkit.store.markdown.document import Document
from auditkit.store.reading.comments import discussion, read_comments
from auditkit.store.reading.resolution import ENDED

_REVIEWS = re.compile(r"(?:earlier )?cross[ -]?reviews?\b", re.IGNORECASE)
_APPENDIX = re.compile(r"appendix\b", re.IGNORECASE)


def add_comment(document: Document, comment: Comment) -> Document:
    """The document with one more comment, whose text is Markdown that stands on its own.

    It follows the comments that are as old or older, in the section `## Discussion`, which is made behind the
    reviews, before the Resolution and the Appendix. Raises BadInputError for an author that no heading can hold, and
    as `inserted` does for a text that would hide what is below it.
    """
    return _placed(document, comment, lambda other: other.date <= comment.date)


def align_comments(base: Document, ours: Document, theirs: Document) -> tuple[Document, Document, Document]:
    """The three texts of a merge, each with every comment that either side has added: then none of them conflicts.

    Of two in the same minute ours comes first. A comment that a side has changed or taken out is left to git.
    """
    known = {_name(comment) for comment in _comments(base)}
    added = [[one for one in _comments(side) if _name(one) not in known] for side in (ours, theirs)]
    theirs_alone = [one for one in added[1] if one not in added[0]]
    new = sorted([*added[0], *theirs_alone], key=lambda comment: comment.date)
    for comment in new:
        base = add_comment(base, comment)
    for comment in theirs_alone:
        ours = add_comment(ours, comment)
    for comment in added[0]:
        if comment not in added[1]:
            theirs = _placed(theirs, comment, functools.partial(_precedes, comment, theirs_alone))
    return base, ours, theirs


def _precedes(new: Comment, theirs: Iterable[Comment], other: Comment) -> bool:
    return other.date < new.date or (other.date == new.date and other not in theirs)


def _placed(document: Document, comment: Comment, follows: Callable[[Comment], bool]) -> Document:
    """The document with the comment behind the last one that it `follows`."""
    text = f"### {comment.date}, {comment.author}\n\n{comment.text}"
    section, known = discussion(document), read_comments(document)
    older = [one for one in known if follows(_bare(one.comment))]
    if section is None:
        changed = inserted(document, _end_of_reviews(document), f"\n\n{rule_of(document)}## Discussion\n\n{text}")
    elif older:
        changed = inserted(document, document.content_end(older[-1].heading.section_end), f"\n\n{text}")
    elif known:
        changed = inserted(document, known[0].heading.line.start, f"{text}\n\n")
    else:
        changed = inserted(document, document.content_end(section.section_end), f"\n\n{text}")
    said = _comments(changed)
    if len(said) != len(known) + 1 or _bare(comment) not in said:
        raise BadInputError("this text would be read as something else than one comment", "leave out its headings")
    return changed


def _comments(document: Document) -> list[Comment]:
    """What was said, wherever it stands."""
    return [_bare(one.comment) for one in read_comments(document)]


def _bare(comment: Comment) -> Comment:
    return replace(comment, line=0)


def _name(comment: Comment) -> tuple[str, str]:
    return comment.date, comment.author


def _end_of_reviews(document: Document) -> int:
    """Where the Discussion begins: behind the last review, before what tells how the ticket ended."""
    sections = [heading for heading in document.scan.headings if heading.level == 2]
    reviews = [heading for heading in sections if _REVIEWS.match(heading.text)]
    if reviews:
        return document.content_end(reviews[-1].section_end)
    ends = [one.line.start for one in sections if ENDED.match(one.text) or _APPENDIX.match(one.text)]
    return document.content_end(next(iter(ends), len(document.data)))
