"""Folders of tickets as people write them, the same at every call: for the tests, and for what reading them costs."""

from __future__ import annotations

import random
import re
from pathlib import Path

AGENTS = (("DRL", "drl"), ("PT", "pytorch"), ("CR", "codereview"))
STATUSES = ("open",) * 10 + ("investigating", "fix-in-progress", "in-review", "fixed", "fixed", "wont-fix")
SEVERITIES = ("P0", "P1", "P1", "P2", "P2", "P2", "P3", "P3", "P3", "P3", "P4", "P4")
VERDICTS = ("ENDORSE",) * 7 + ("REFINE", "NEUTRAL", "OBJECT")
DOMAINS = ("loop/clipping", "loop/telemetry", "model/blocks", "policy/heads", "tools")
REVIEWERS = ("DRL Specialist", "PyTorch Specialist", "Code Review Specialist")
WORDS = (
    "gradient", "norm", "overflow", "buffer", "optimizer", "mask", "synchronises", "every", "step", "silently",
    "drops", "stale", "reads", "twice", "head", "loss", "scale", "cast", "device", "shape", "wrong", "order",
)  # fmt: skip
BOXES = (
    "Correctness bug", "Race condition / concurrency", "Memory leak / resource issue", "Performance bottleneck",
    "Numerical stability", "torch.compile compatibility", "Dead code / unwired functionality",
    "API design / contract violation", "Test coverage gap", "Documentation / naming",
    "Defensive programming violation", "Legacy code policy violation",
)  # fmt: skip


def ticket_id(number: int) -> str:
    """The id of the `number`th generated ticket: batches of 150, fifty for each agent."""
    batch, rest = divmod(number, 150)
    return f"B{batch + 1}-{AGENTS[rest % 3][0]}-{rest // 3 + 1:02d}"


def ticket_text(number: int, count: int) -> str:
    """A ticket as people write them, of 3 to 5 kB, the same for the same numbers."""
    chance = random.Random(number)
    severity, status = chance.choice(SEVERITIES), chance.choice(STATUSES)
    title = " ".join(chance.choices(WORDS, k=chance.randint(4, 9)))
    boxes = "".join(f"- [{'x' if chance.random() < 0.15 else ' '}] {box}\n" for box in BOXES)
    created = f"2025-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"
    first = chance.randint(1, 900)
    name = f"src/trainer/{chance.choice(DOMAINS)}/{chance.choice(WORDS)}.py"
    return f"""# Finding Ticket: {title.capitalize()}

---

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `{ticket_id(number)}` |
| **Severity** | `{severity}` |
| **Status** | `{status}` |
| **Batch** | {number // 150 + 1} |
| **Agent** | `{AGENTS[number % 150 % 3][1]}` |
| **Domain** | `{chance.choice(DOMAINS)}` |
| **Assignee** | |
| **Created** | {created} |
| **Updated** | {created} |

---

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `{name}` |
| **Line(s)** | `{first}-{first + 20}` |
| **Function/Class** | `{chance.choice(WORDS)}_{chance.choice(WORDS)}()` |

---

## Summary

**One-line summary:** {_sentence(chance, 12)}

**Category:**
{boxes}
---

## Detailed Description

### What's Wrong

{_sentence(chance, 60)}

```python
# Lines {first}-{first + 20}
def {chance.choice(WORDS)}(grads):
    return torch.stack([g.norm() for g in grads]).norm()
```

{_sentence(chance, 40)}

---

## Recommended Fix

{_sentence(chance, 30)}

```python
torch._foreach_norm(grads)
```

---

## Verification

### How to Verify the Fix

- [ ] {_sentence(chance, 8)}
- [ ] {_sentence(chance, 8)}

---

## Related Findings

{_relations(chance, count)}
---

{_reviews(chance)}## Appendix

### Original Report Reference

**Report file:** `docs/batch{number // 150 + 1}-{AGENTS[number % 150 % 3][1]}.md`
**Section:** "{title}"
{_resolution(status, created)}"""


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def _relations(chance: random.Random, count: int) -> str:
    if chance.random() < 0.5:
        others = {ticket_id(chance.randrange(count)) for _ in range(chance.randint(0, 2))}
        return "".join(f"- {other}: {_sentence(chance, 6)}\n" for other in sorted(others))
    kind = chance.choice(("related", "related", "duplicate", "blocks", "blocked-by"))
    return (
        "| Ticket ID | Relationship | Notes |\n|-----------|--------------|-------|\n"
        f"| `{ticket_id(chance.randrange(count))}` | `{kind}` | {_sentence(chance, 5)} |\n"
    )


def _reviews(chance: random.Random) -> str:
    return "".join(
        f"""## Cross-Review ({reviewer})

| Field | Value |
|-------|-------|
| **Verdict** | `{chance.choice(VERDICTS)}` |
| **Reviewer** | {reviewer} |

**Evaluation:** {_evaluation(chance)}

---

"""
        for reviewer in REVIEWERS[: chance.choice((0, 2, 3, 3, 3))]
    )


def _evaluation(chance: random.Random) -> str:
    """One in twenty names a severity, which has to be read word by word."""
    text = _sentence(chance, 30)
    return f"{text} Valid {chance.choice(SEVERITIES)}." if chance.random() < 0.05 else text


def _resolution(status: str, date: str) -> str:
    if status not in ("fixed", "wont-fix"):
        return ""
    return f"\n---\n\n## Resolution\n\n**Disposition:** {status}\n\nSign-off: PyTorch Specialist, {date}\n"


def write_tickets(folder: Path, count: int) -> int:
    """Write `count` tickets into batch folders; how many bytes they have together."""
    total = 0
    for number in range(count):
        path = folder / f"batch{number // 150 + 1}" / f"{ticket_id(number)}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        total += path.write_bytes(ticket_text(number, count).encode())
    return total


_ID = re.compile(rb"(?<![\w-])B(\d{1,2})(?=-(?:DRL|PT|CR)-\d\d(?!\d))")
_NAME = re.compile(r"B\d{1,2}-(?:DRL|PT|CR)-\d\d")
_BATCHES = 20


def multiply_tickets(source: Path, folder: Path, count: int) -> list[str]:
    """Write `count` copies of the tickets below `source`, every id in a copy with other batches; the ids, by copy."""
    files = [file for file in sorted(source.rglob("*.md")) if _NAME.fullmatch(file.stem)]
    ids: list[str] = []
    while len(ids) < count:
        shift = _BATCHES * (len(ids) // len(files))
        for file in files[: count - len(ids)]:
            ids.append(_shifted(file.stem.encode(), shift).decode())
            batch = re.fullmatch(r"batch(\d+)", file.parent.name)
            path = folder / (f"batch{int(batch[1]) + shift}" if batch else file.parent.name) / f"{ids[-1]}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_shifted(file.read_bytes(), shift))
    return ids


def _shifted(data: bytes, by: int) -> bytes:
    return _ID.sub(lambda found: b"B%d" % (int(found[1]) + by), data)
