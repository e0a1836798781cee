"""The words that people use in tickets in the free Markdown form, and what each means: data of the importer."""

from __future__ import annotations

import re

from auditkit.model.ticket import CATEGORIES, Status

METADATA, LOCATION, SUMMARY = ("ticket metadata", "metadata"), ("location",), ("summary", "category")
ENDED = re.compile(r"(?:resolution|closure|closing notes|status|correction)\b", re.IGNORECASE)

STATUSES = {"inprogress": Status.FIX_IN_PROGRESS} | {re.sub("[^a-z]", "", one.value): one for one in Status}
"""The letters of what people write for a status."""

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

REVIEW_FIELDS = {
    **dict.fromkeys(("reviewer", "agent"), "who"),
    **dict.fromkeys(("evaluation", "notes"), "note"),
    "severity": "severity",
    "date": "date",
    "verdict": "verdict",
}
"""What a column or a row says about a review. Other names and their texts go into its note."""

ROLES = (
    ("pytorch", re.compile(r"\bpytorch\b", re.IGNORECASE)),
    ("drl", re.compile(r"\bdrl\b|\bdeep rl\b", re.IGNORECASE)),
    ("codereview", re.compile(r"\bcode[ -]?(?:review(?:er)?|quality)\b", re.IGNORECASE)),
)

HOMES = re.compile(r"/(?:home|Users)/[^/]+/[^/]+/(?=.)")
"""The start of an absolute path that names a checkout of some other machine."""
