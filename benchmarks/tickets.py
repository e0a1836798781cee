"""Write docs/evidence/tickets-speed.md: what list, next, show and lint cost at 1, 200, 2,000 and 10,000 tickets.

    python -m benchmarks.tickets

Each figure is the least processor time (user and system) of a whole process; the commands take turns with
`python -c pass`, so the ratios belong to one run.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from auditkit.model.enums import Severity
from auditkit.model.ticket import Box, Ticket
from auditkit.tickets.document import new_document
from auditkit.tickets.store import TicketFolder

PAGE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "tickets-speed.md"
COUNTS, TURNS = (1, 200, 2_000, 10_000), 5
AUDITKIT = (sys.executable, "-P", "-m", "auditkit", "ticket")
COMMANDS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "list": (*AUDITKIT, "list"),
    "next": (*AUDITKIT, "next"),
    "show ID": (*AUDITKIT, "show", "B1-PT-01"),
    "lint ID": (*AUDITKIT, "lint", "B1-PT-01"),
    "lint": (*AUDITKIT, "lint"),
}
LIMITS_MS = {"list": 600, "next": 600, "show ID": 200, "lint ID": 200}


def write_tickets(folder: TicketFolder, count: int) -> None:
    """Write `count` tickets as an audit files them: three findings and forty lines each."""
    for number in range(count):
        ticket_id = f"B{number // 500 + 1}-PT-{number % 500 + 1:02d}"
        target = f"package.module_{number % 40}:function_{number}"
        probes = ("syncs_grow_with_tensors", "sync_in_loop", "graph_breaks_under_compile")
        ticket = Ticket(
            id=ticket_id,
            title=f"function_{number}: Synchronisations grow with the number of tensors",
            severity=list(Severity)[number % 5],
            location=f"package/module_{number % 40}.py:{number % 900 + 1}",
            function=f"function_{number}",
            findings=tuple(f"{probe}/1/{target}" for probe in probes),
            categories=("performance", "torch.compile"),
            domain="package",
            batch=number // 500 + 1,
            agent="pytorch",
            created="2026-11-24",
            boxes=tuple(Box(f"probe: {probe}") for probe in probes),
        )
        text = "\n".join(f"Line {line} of what is wrong, as long as a line of prose usually is." for line in range(30))
        document = new_document(ticket, [("", text)], folder.path(ticket_id))
        document.path.write_bytes(document.data)


def processor_ms(words: tuple[str, ...], place: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(count: int) -> list[str]:
    """Return the rows of the table for a folder of `count` tickets."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "tickets").mkdir()
        subprocess.run(["git", "init", "-q", name], check=True)
        write_tickets(TicketFolder(place / "tickets"), count)
        times: dict[str, list[float]] = {command: [] for command in COMMANDS}
        for _ in range(TURNS):
            for command, words in COMMANDS.items():
                times[command].append(processor_ms(words, place))
    unit = min(times["python -c pass"])
    return [
        f"| {count:,} | `{command}` | {min(found):.0f} | {min(found) / unit:.1f} | {LIMITS_MS.get(command, '')} |"
        for command, found in times.items()
    ]


def main() -> None:
    """Measure and write the page."""
    rows = [row for count in COUNTS for row in measure(count)]
    python = sys.version.split()[0]
    head = f"""# What reading tickets costs

Written by `python -m benchmarks.tickets` with Python {python} on {os.cpu_count()} cores: the least processor time (user
and system) of a whole process in {TURNS} turns, and its ratio to `python -c pass` in the same turns. No index is kept.

| tickets | command | ms | ratio | limit ms |
|---|---|---|---|---|
"""
    PAGE.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
