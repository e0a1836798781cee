"""The words that people use in tickets in the free Markdown form, and what each means: data of the importer."""

from __future__ import annotations

import re

from auditkit.model.ticket import CATEGORIES, Status, Verdict

METADATA, LOCATION, SUMMARY = ("ticket metadata", "metadata"), ("location", "locations"), ("summary", "category")
RELATED = ("related findings", "related tickets")
ENDED = re.compile(r"(?:resolution|closure|closing notes|status|correction)\b", re.IGNORECASE)

STATUSES = {
    "reopened": Status.OPEN,
    "todo": Status.OPEN,
    "inprogress": Status.FIX_IN_PROGRESS,
    "fixing": Status.FIX_IN_PROGRESS,
    "review": Status.IN_REVIEW,
    "postponed": Status.DEFERRED,
    "resolved": Status.FIXED,
    "done": Status.CLOSED,
    "willnotfix": Status.WONT_FIX,
    "invalid": Status.NOT_A_BUG,
    "falsepositive": Status.NOT_A_BUG,
    "dup": Status.DUPLICATE,
} | {re.sub("[^a-z]", "", status.value): status for status in Status}
"""The letters of what people write for a status."""

VERDICTS = {
    "AGREE": Verdict.ENDORSE,
    "APPROVE": Verdict.ENDORSE,
    "ACCEPT": Verdict.ENDORSE,
    "ABSTAIN": Verdict.NEUTRAL,
    "DISAGREE": Verdict.OBJECT,
    "REJECT": Verdict.OBJECT,
} | Verdict.__members__

CATEGORY_OF = {
    "race condition / concurrency": "race condition",
    "memory leak / resource issue": "memory",
    "performance bottleneck": "performance",
    "torch.compile compatibility": "torch.compile",
    "dead code / unwired functionality": "dead code",
    "api design / contract violation": "api contract",
    "test coverage gap": "test coverage",
    "documentation / naming": "documentation",
    "defensive programming violation": "defensive programming",
    "legacy code policy violation": "legacy code",
} | {name: name for name in CATEGORIES}
"""The category for the text of a box below Summary."""

NOTES = ("evaluation", "comment", "comments", "notes", "note", "rationale", "reason", "assessment")
REVIEW_FIELDS = {
    **dict.fromkeys(("reviewer", "agent", "specialist", "reviewed by", "by"), "who"),
    **dict.fromkeys(NOTES, "note"),
    **dict.fromkeys(("severity", "severity wanted"), "severity"),
    "date": "date",
    "verdict": "verdict",
}
"""What a column, a row or a bold word says about a review. Other names and their texts go into its note."""

ROLES = (
    ("pytorch", re.compile(r"\bpytorch\b|\btorch\b|^pt\b", re.IGNORECASE)),
    ("drl", re.compile(r"\bdrl\b|\bdeep[ -]?rl\b|\breinforcement\b", re.IGNORECASE)),
    ("codereview", re.compile(r"\bcode[ -]?(?:review(?:er)?|quality)\b|^cr\b", re.IGNORECASE)),
)
ROLE_WORDS = frozenset((
    "pytorch", "torch", "pt", "drl", "deep", "rl", "deeprl", "reinforcement", "learning", "code", "review", "reviewer",
    "codereview", "codereviewer", "cr", "quality", "cross", "specialist", "expert", "agent", "subagent", "engineer",
    "engineering", "lead", "domain", "senior", "team", "bot", "ai", "ml", "auditor", "analyst", "the",
))  # fmt: skip
"""The words of a name that is a role, such as `DRL Specialist`; `drl-bob` is a person."""

RESOLUTION_FIELDS = {
    **dict.fromkeys(("fixed by", "resolved by", "closed by", "by"), "person"),
    **dict.fromkeys(("fixed date", "resolved", "closed", "date", "resolution date", "fixed"), "date"),
}
HOMES = re.compile(r"/(?:home|Users)/[^/]+/[^/]+/(?=.)")
"""The start of an absolute path that names a checkout of some other machine."""
