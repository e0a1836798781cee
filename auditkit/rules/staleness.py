"""Whether a review still judges what is there: by the digests of the ticket's case and of its code."""

from __future__ import annotations

import re

from auditkit.model.review import Review

_JUDGED = re.compile(r"([0-9a-f]{12})(?: code:([0-9a-f]{12}))?")


def judged_text(digest: str, code: str = "") -> str:
    """What a review's Judged row says: the ticket's digest, and that of the code where it was looked at."""
    return f"{digest} code:{code}" if code else digest


def is_stale(review: Review, digest: str, code: str = "") -> bool:
    """Whether the ticket's digest, or that of the code where both are known, is not the one reviewed.

    A review that does not say what it judged is not stale: nobody can tell.
    """
    judged = _JUDGED.fullmatch(review.judged)
    if judged is None:
        return False
    return judged[1] != digest or bool(code and judged[2] and judged[2] != code)
