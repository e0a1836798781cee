"""How bad a reviewer would call a finding."""

from __future__ import annotations

import re

from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Review

# `P3`, `P3/P4`, `P3 or P4`, `P2-P3`; `P4-6` is a step of some plan, and `P5` no severity.
_ANY_LEVEL = re.compile("[Pp][0-4]")
_ANY_MARKED_LEVEL = re.compile("[Pp][*_]*[0-4]")
_ONE = r"P[0-4](?![\w]|-\d)"
_LEVEL = rf"(?P<level>{_ONE}(?:\s*(?:/|-|–|\bor\b|\bto\b)\s*{_ONE}){{0,3}})"
_CHANGE = (
    r"(?:downgrad|upgrad|elevat|rais|lower|reduc|promot|demot|bump|increas|decreas|mov|chang|drop|escalat|adjust"
    r"|re-?rat|re-?classify|set)(?:e|es|ed|ing|s|ped|ping)?"
)
_OBJECT = r"(?:\s+(?:this|it|its|the|ticket|finding|issue|severity|priority|rating|level|up|down|(?:from\s+)?P[0-4]))"
_BE = r"(?:be|have\s+been)(?:\s+(?:an?|at|rated|classified|as|only|just|treated))*"
_PROPOSE = (
    r"(?:consider|suggest|recommend|propose|prefer|i(?:'d| would)\s+(?:say|rate\s+(?:this|it)|call\s+(?:this|it)))"
)
_REQUESTS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (words, re.compile(pattern, re.IGNORECASE))
    for words, pattern in (
        ((" to ", " at ", " as "), rf"\b{_CHANGE}{_OBJECT}{{0,5}}\s+(?:to|at|as)\s+(?:an?\s+)?{_LEVEL}"),
        (("should", "ought", "must"), rf"\b(?:should|ought\s+to|must)\s+(?:\w+\s+)?{_BE}\s+{_LEVEL}"),
        (
            ("consider", "suggest", "recommend", "propose", "prefer", "i'd ", "i would "),
            rf"\b{_PROPOSE}\s+(?:an?\s+|as\s+)?{_LEVEL}",
        ),
        (("deserves", "warrants", "merits"), rf"\b(?:deserves|warrants|merits)\s+(?:an?\s+)?{_LEVEL}"),
        # The level that stands against another: "P4 documentation at best, not P3".
        (
            ("not ", "rather ", "instead "),
            rf"\b{_LEVEL}[^;]{{0,60}}?\b(?:not|rather\s+than|instead\s+of)\s+(?:an?\s+|the\s+)?{_ONE}",
        ),
        (("not ",), rf"\bnot\s+(?:an?\s+)?{_ONE},?\s+but\s+(?:rather\s+)?(?:an?\s+)?{_LEVEL}"),
        (
            ("high", "low", "severe", "harsh", "stated", "inflated"),
            rf"\b{_ONE}\s+(?:(?!not\b)\w+\s+){{1,3}}(?:high|low|severe|harsh|overstated|understated|inflated)"
            rf"\s*[,:—-]+\s*(?:\w+\s+){{0,3}}?{_LEVEL}",
        ),
        ((" at ",), rf"\b{_LEVEL}(?:\s+\w+){{0,2}}\s+at\s+(?:best|most)\b"),
        (("at ",), rf"\bat\s+(?:least|most|best)\s+(?:an?\s+)?{_LEVEL}"),
        (
            (" more", " better", " closer", " fairer"),
            rf"\b{_LEVEL}\s+(?:would\s+be|is|seems|feels)\s+(?:an?\s+)?(?:more|better|closer|fairer)\b",
        ),
        # What the reviewer takes for the ticket's severity: "clear enough for this P4 issue".
        (("this p",), rf"\bthis\s+{_LEVEL}\s+(?:issue|finding|ticket|severity)\b"),
    )
)
"""Patterns on one line in single blanks, each with words of which one stands, in lower case, wherever it is found."""
_NEAR = 400
"""How far around a request its words are looked at: no sentence is longer, but a hostile text may be."""

_CLAUSE = re.compile(r"(?<=[.!?])\s+|;|\n\s*(?:\n|[-*+]\s)")
_QUOTED = re.compile(r'"[^"\n]{0,400}"|“[^”\n]{0,400}”|`[^`\n]{0,400}`')
_BLANKS = re.compile(r"\s+")
_EMPHASIS = re.compile(r"[*_]{1,3}")
_WRAPPED_LEVEL = re.compile(r"[\"“`](P[0-4])[\"”`]")
_TICKET = r"\bB\d{1,4}-[A-Z][A-Z0-9]*-\d{2,}\b"
_OTHER_TICKET = re.compile(rf"{_TICKET}(?:(?!,\s(?!which|whose)).)*$", re.IGNORECASE)
_CONDITION_BEFORE = re.compile(r"\b(?:if|unless|until)\b(?!.*\b(?:so|therefore|hence|thus)\b)", re.IGNORECASE)
_CONDITION_BEHIND = re.compile(r"^[^,:(—]*?(?<!\bbecause)\b(?:if|unless|once|until)\b", re.IGNORECASE)
_REASON = re.compile(r"\b(?:because|since|as|given|for)\b", re.IGNORECASE)
_REFUSED = re.compile(
    r"(?:(?:\b(?:not|never|no|nor|cannot|against|oppose|disagree|reject|refuse|rather\s+than|instead\s+of)|n't)"
    r"(?:\s+(?!and\b|but\b|so\b)\w+){0,3}"
    r"|\b(?:was|were|has\s+been|had\s+been|already)(?:\s+\w+)?)\s*$",
    re.IGNORECASE,
)


def severity_wanted(review: Review) -> tuple[Severity, ...]:
    """What severity the reviewer asks for: one, several ("P3/P4"), or none; in the order of the enum.

    A row of its own goes before prose. Agreement ("P1 is right"), conditions ("P1 if the planned change
    comes"), refusals ("do not lower to P3"), questions, quotations and other tickets' severities ask for
    nothing.
    """
    if review.severity is not None:
        return (review.severity,)
    if not _ANY_MARKED_LEVEL.search(review.evaluation):
        return ()
    plain = _EMPHASIS.sub("", review.evaluation)
    plain = _QUOTED.sub(" ", _WRAPPED_LEVEL.sub(r"\1", plain))
    named = {level for clause in _CLAUSE.split(plain) for level in _asked_in(clause)}
    return tuple(sorted(named))


def _asked_in(clause: str) -> set[Severity]:
    if not _ANY_LEVEL.search(clause) or clause.rstrip().endswith("?"):
        return set()
    text = _BLANKS.sub(" ", clause)
    folded = text.casefold()
    levels: set[Severity] = set()
    for words, pattern in _REQUESTS:
        for match in pattern.finditer(text) if any(word in folded for word in words) else ():
            if _is_meant(text, match):
                levels |= {Severity(found.upper()) for found in re.findall("P[0-4]", match["level"], re.IGNORECASE)}
    return levels


def _is_meant(text: str, match: re.Match[str]) -> bool:
    """Whether the words around a request leave it one: no other ticket, condition or refusal."""
    before, behind = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() : match.end() + _NEAR]
    if _OTHER_TICKET.search(before) or re.search(_TICKET, match[0], re.IGNORECASE):
        return False
    if _CONDITION_BEFORE.search(before) or _REFUSED.search(before):
        return False
    condition = _CONDITION_BEHIND.search(behind)
    return condition is None or _REASON.search(condition[0]) is not None
