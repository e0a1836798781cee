"""What the rules that compare tickets with each other cost: CPU time at 2,500 and at 10,000 tickets.

    python benchmarks/lint_pairs.py

Writes benchmarks/results/lint_pairs.json. Tickets are spread over batches of 200 and files of 50, or lie all in
one batch and on one file, the worst that there is. Titles and notes have words as frequent as in real text.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from auditkit.model.ids import TicketId, format_ticket_id  # noqa: E402
from auditkit.model.page import Page  # noqa: E402
from auditkit.rules.lint.catalog import all_rules  # noqa: E402
from auditkit.rules.lint.rule import LintContext, LintSettings  # noqa: E402
from auditkit.store.document import Document  # noqa: E402
from auditkit.store.pages import page_of  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "lint_pairs.json"
RULES = ("TK073", "TK077", "TK078", "TK090", "TK091", "TK092")
COUNTS = (2500, 10_000)
PER_BATCH, PER_FILE = 200, 50
VOCABULARY = 5000
SEED = 20_251_227

_WORDS = [f"word{number}" for number in range(VOCABULARY)]
_WEIGHTS = list(itertools.accumulate(1 / (number + 1) for number in range(VOCABULARY)))  # Zipf's law

_TICKET = """# Finding Ticket: {title}

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `{id}` |
| **Severity** | `P2` |
| **Status** | `open` |

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `src/part{file}.py` |
| **Line(s)** | `{line}-{end}` |

## Related Findings

- {related}: {note}
- {related_too}: {note_too}
"""


def text_of(count: int, randomness: random.Random) -> str:
    words: set[str] = set()
    while len(words) < count:
        words.update(randomness.choices(_WORDS, cum_weights=_WEIGHTS))
    return " ".join(sorted(words))


def make_pages(count: int, is_spread: bool) -> dict[TicketId, list[Page]]:
    randomness = random.Random(SEED)
    ids = [format_ticket_id(1 + number // PER_BATCH if is_spread else 1, "PT", number) for number in range(count)]
    return {ticket_id: [make_page(ticket_id, ids, is_spread, randomness)] for ticket_id in ids}


def make_page(ticket_id: TicketId, ids: list[TicketId], is_spread: bool, randomness: random.Random) -> Page:
    line = randomness.randrange(1, 2000 if is_spread else 100 * len(ids))
    text = _TICKET.format(
        id=ticket_id,
        title=text_of(6, randomness),
        file=randomness.randrange(len(ids) // PER_FILE) if is_spread else 0,
        line=line,
        end=line + 20,
        related=randomness.choice(ids),
        note=text_of(5, randomness),
        related_too=randomness.choice(ids),
        note_too=text_of(5, randomness),
    )
    return page_of(Document.parse(text.encode(), PurePath(f"{ticket_id}.md")))


def measure(pages: Mapping[TicketId, list[Page]]) -> dict[str, dict[str, float]]:
    """CPU seconds and findings of each rule; what rules share is paid by the first that asks."""
    context = LintContext(LintSettings(), pages)
    measured = {}
    for rule_id in RULES:
        start = time.process_time()
        found = sum(len(list(all_rules()[rule_id].check(page, context))) for group in pages.values() for page in group)
        measured[rule_id] = {"cpu_s": round(time.process_time() - start, 3), "findings": found}
    return measured


def main() -> None:
    results = {}
    for is_spread, count in itertools.product((True, False), COUNTS):
        name = f"{count} tickets, {'spread' if is_spread else 'one batch and one file'}"
        results[name] = measure(make_pages(count, is_spread))
        print(name, json.dumps(results[name]))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
