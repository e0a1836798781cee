"""What reviewers say of a ticket: verdicts, who gave them, and what they judged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.codec import Record
from auditkit.model.enums import Severity


class Verdict(StrEnum):
    """What a reviewer says of a finding."""

    ENDORSE = "ENDORSE"
    REFINE = "REFINE"
    NEUTRAL = "NEUTRAL"
    OBJECT = "OBJECT"


class ReviewForm(StrEnum):
    """How a verdict was written down; all but the tables are hard to read for people and programs."""

    FIELD_VALUE = "field-value"
    TABLE = "table"
    VERDICT_IN_HEADER = "verdict-in-header"
    BOLD_PARAGRAPH = "bold-paragraph"
    STRAY_ROW = "stray-row"

    @property
    def is_tabular(self) -> bool:
        return self in (ReviewForm.FIELD_VALUE, ReviewForm.TABLE)


_VERDICT_ALIASES = {
    "AGREE": Verdict.ENDORSE,
    "APPROVE": Verdict.ENDORSE,
    "ACCEPT": Verdict.ENDORSE,
    "ABSTAIN": Verdict.NEUTRAL,
    "DISAGREE": Verdict.OBJECT,
    "REJECT": Verdict.OBJECT,
}
_INFLECTION = re.compile(r"(?:E?D|S)$")
_DECORATION = "*_`~ \t"

# Words of a reviewer's name that say which field the review comes from.
_REVIEWERS = (
    (re.compile(r"\bpytorch\b|\btorch\b|^pt\b", re.IGNORECASE), "pytorch"),
    (re.compile(r"\bdrl\b|\bdeep[ -]?rl\b|\breinforcement\b", re.IGNORECASE), "drl"),
    (re.compile(r"\bcode[ -]?(?:review(?:er)?|quality)\b|^cr\b", re.IGNORECASE), "codereview"),
)
# What a name may say beside its field and still be nobody's own: `DRL Specialist`, but not `drl-bob`.
_OF_A_FIELD = frozenset((
    "pytorch", "torch", "pt", "drl", "deep", "rl", "deeprl", "reinforcement", "learning", "code", "review", "reviewer",
    "codereview", "codereviewer", "cr", "quality", "cross", "specialist", "expert", "agent", "subagent", "engineer",
    "engineering", "lead", "domain", "senior", "team", "bot", "ai", "ml", "auditor", "analyst", "the",
))  # fmt: skip
_ASIDE = re.compile(r"\([^)]*\)|\s[-–—/|].*|[,;:].*")

# Names of agents that only a project knows; those of tools that gather several reviews are none.
_NAME_IN_CODE = re.compile(r"`(?!cross-review)([A-Za-z][\w.-]*)`", re.IGNORECASE)
_NAME_ALONE = re.compile(r"(?!cross-review)[a-z][a-z0-9_.-]*")


@dataclass(frozen=True)
class Review(
    Record, keys="reviewer reviewer_written verdict verdict_written evaluation date severity judged form line"
):
    """One reviewer's verdict.

    `reviewer` is an agent's name, "" where `reviewer_written` (or the section's title) names none.
    `verdict` is None where the word is not known; `verdict_written` is the cell without decoration and
    `extra` what stands in it beside the verdict. `columns` are the headers of the table that held it.
    `severity` is the one that the review asks for in a row of its own, `judged` the evidence and code that
    it judged, `line` (1-based) where the verdict stands.
    """

    reviewer: str
    reviewer_written: str
    verdict: Verdict | None
    verdict_written: str
    extra: str
    form: ReviewForm
    columns: tuple[str, ...]
    section: str
    evaluation: str
    date: str
    severity: Severity | None
    judged: str
    line: int


def read_verdict(text: str) -> tuple[Verdict | None, str]:
    """The verdict that a cell starts with, and the text behind it: `**NEUTRAL** (with caveat)`.

    None and the whole text where it starts with no known verdict.
    """
    plain = text.strip().strip(_DECORATION)
    match = re.match(r"[*_`~]*([A-Za-z]+)[*_`~]*", plain)
    if match is None:
        return None, plain
    word = match[1].upper()
    for candidate in (word, _INFLECTION.sub("", word), word.removesuffix("D")):
        known = Verdict.__members__.get(candidate) or _VERDICT_ALIASES.get(candidate)
        if known is not None:
            return known, plain[match.end() :].strip(_DECORATION)
    return None, plain


def parse_verdict(text: str) -> Verdict:
    """The verdict that `text` is, in any known spelling and nothing beside it; raises ValueError."""
    verdict, extra = read_verdict(text)
    if verdict is None or extra:
        raise ValueError(f"no such verdict: '{text}'")
    return verdict


def read_reviewer(name: str) -> str:
    """The agent that a reviewer's name means, "" where it names none: `PyTorch Expert` is `pytorch`.

    Somebody's own name is none, whatever the field: `drl-bob`. `cross-review-specialist` names none: the section's
    title may.
    """
    said = _ASIDE.sub("", name) if find_reviewer(_ASIDE.sub("", name)) else name
    words = re.findall(r"[^\W_]+", said.casefold())
    return find_reviewer(said) if _OF_A_FIELD.issuperset(words) else ""


def find_reviewer(text: str) -> str:
    """The agent that a sentence or a heading names first by its field, "" for none."""
    plain = re.sub(r"[*`]", "", text).strip("_ \t").replace("_", "-")
    if re.match(r"cross-review\b(?!.*\()", plain, re.IGNORECASE):
        plain = re.sub(r"^cross-review", "", plain, flags=re.IGNORECASE)
    return next((name for pattern, name in _REVIEWERS if pattern.search(plain)), "")


def reviewer_of(who: str, title: str) -> str:
    """The agent that gave a review, "" where nothing names one: `who` is its Reviewer cell, `title` its section's.

    Beside the agents that `read_reviewer` knows, one is a name in backticks, or one lower-case word where the
    title names nobody either: `` `security` ``.
    """
    plain = who.strip("* \t")
    code = _NAME_IN_CODE.fullmatch(plain)
    alone = _NAME_ALONE.fullmatch(plain)
    return read_reviewer(who) or (code[1] if code else "") or read_reviewer(title) or (alone[0] if alone else "")


def is_agent_name(text: str) -> bool:
    """Whether `text` in backticks would be read as an agent's name."""
    return _NAME_IN_CODE.fullmatch(f"`{text}`") is not None
