"""What `ticket list`, `show` and `next` cost on 1,000 and 10,000 tickets: processor time, and against what floor.

    python -m benchmarks.tickets

Writes benchmarks/results/tickets.json and docs/evidence/tickets-speed.md. Every figure is the processor time
(user and system) of one whole process, the least and the median of several runs that take turns, so that a
machine whose speed varies slows them all alike.
"""

from __future__ import annotations

import compileall
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.written_tickets import ticket_id, write_tickets

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "tickets.json"
PAGE = ROOT / "docs" / "evidence" / "tickets-speed.md"
RUNS = 5
COUNTS = (1_000, 10_000)
LIMITS_MS = {1_000: {"warm": 80, "first": 700}, 10_000: {"warm": 150, "first": 3_000}}
SETTLED_S = 2.5
"""An index does not keep files that are younger than the tick of their file system's clock."""

PLAIN_READ = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(folder + "/" + name, "rb") as file:
            file.read()
"""
PLAIN_STAT = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        os.stat(folder + "/" + name)
"""


def cpu_ms(words: list[str], caches: Path) -> tuple[float, bytes]:
    """Processor milliseconds of one child, and what it wrote to a pipe."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches)}
    done = subprocess.run([sys.executable, *words], capture_output=True, check=True, cwd=ROOT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout


def measured(count: int, folder: Path) -> dict[str, Any]:
    """Every figure for one folder: floors and commands in turn, `RUNS` times."""
    size = write_tickets(folder, count)
    time.sleep(SETTLED_S)
    caches = folder.parent / "caches"
    ticket = ["-m", "auditkit", "ticket"]
    listed = [*ticket, "list", "--tickets", str(folder)]
    commands = {
        "python -c pass": ["-c", "pass"],
        "stat every file": ["-c", PLAIN_STAT, str(folder)],
        "open and read every file": ["-c", PLAIN_READ, str(folder)],
        "list, first": listed,
        "list": listed,
        "list --status open --severity P1": [*listed, "--status", "open", "--severity", "P1"],
        "list --text overflow --sort age": [*listed, "--text", "overflow", "--sort", "age"],
        "show ID": [*ticket, "show", ticket_id(count // 2), "--tickets", str(folder)],
        "next": [*ticket, "next", "--tickets", str(folder)],
        "list, one file changed": listed,
    }
    figures: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, words in commands.items():
            if name == "list, first":
                shutil.rmtree(caches, ignore_errors=True)
            if name == "list, one file changed":
                os.utime(folder / "batch1" / f"{ticket_id(0)}.md")
            taken, output = cpu_ms(words, caches)
            figures[name].append(taken)
            if name.startswith("list") and len(words) == 6 and len(output.splitlines()) != count:
                raise SystemExit(f"{name}: {len(output.splitlines())} of {count} lines")
    return {
        "tickets": count,
        "bytes": size,
        "index_bytes": sum(path.stat().st_size for path in caches.rglob("*") if path.is_file()),
        "cpu_ms": {name: _summary(taken, figures["python -c pass"]) for name, taken in figures.items()},
    }


def _summary(taken: list[float], floor: list[float]) -> dict[str, float]:
    ratios = [one / base for one, base in zip(taken, floor, strict=True)]
    return {
        "least": round(min(taken), 1),
        "median": round(statistics.median(taken), 1),
        "to_python": round(statistics.median(ratios), 2),
    }


def imports_ms() -> dict[str, float]:
    """What importing costs: of the quick commands all, of Typer, by `python -X importtime`."""
    quick = "import auditkit.cli.views.quick_start, auditkit.cli.views.listing, auditkit.store.listing.index"
    wanted = {"the interpreter": "pass", "list, without Typer": quick, "Typer": "import typer"}
    return {name: statistics.median(_import_ms(code) for _ in range(5)) for name, code in wanted.items()}


def _import_ms(code: str) -> float:
    words = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    return round(sum(int(line[0].removeprefix("import time:")) for line in lines[1:]) / 1000, 1)


def page_of(document: dict[str, Any]) -> str:
    """The page in docs/evidence."""
    machine = document["machine"]
    lines = [
        "# What reading tickets costs",
        "",
        "Written by `python -m benchmarks.tickets`; the figures are in `benchmarks/results/tickets.json`.",
        f"{machine['cpus']} cores, Python {machine['python']}, load average {machine['load_before']} before and "
        f"{machine['load_after']} after.",
        "Processor milliseconds (user and system) of the whole process, output through a pipe: the least and the",
        f"median of {RUNS} runs that take turns. The ratio is to `python -c pass` of the same turn. This machine's",
        "speed varies by two to three times within minutes: the ratios say more than the milliseconds.",
    ]
    for result in document["results"]:
        lines += ["", f"## {result['tickets']:,} tickets, {result['bytes'] / 1e6:.1f} MB", ""]
        lines += ["| what | least ms | median ms | to `python -c pass` | limit ms |", "|---|---|---|---|---|"]
        limits = LIMITS_MS[result["tickets"]]
        for name, figure in result["cpu_ms"].items():
            is_ours = name.startswith(("list", "show", "next"))
            limit = {"list, first": limits["first"], "list, one file changed": None}.get(name, limits["warm"])
            limit = limit if is_ours else None
            shown = f"`{name}`" if is_ours and ", " not in name else name
            row = (shown, figure["least"], figure["median"], figure["to_python"], limit or "")
            lines.append(f"| {' | '.join(map(str, row))} |")
            if limit and figure["median"] > limit:
                words = "missed" if figure["least"] > limit else "the median missed it"
                lines[-1] = lines[-1].removesuffix(" |") + f", {words} |"
        lines.append(f"\nThe index has {result['index_bytes'] / 1e6:.2f} MB.")
    lines += ["", "## The floor", "", "Imports by `python -X importtime`, milliseconds, the median of 5.", ""]
    lines += ["| imported | ms |", "|---|---|"]
    lines += [f"| {name} | {taken} |" for name, taken in document["imports_ms"].items()]
    lines += [
        "",
        "A warm `list` starts Python, takes the stamp of every file (a changed file must be seen), reads the index",
        "and prints. It cannot be cheaper than the first two lines of its table together. Typer alone would cost",
        "more than all of it, so plain `list`, `show` and `next` command lines are read without it; anything else",
        "on them (`--help`, a mistake) still goes to Typer. The index keeps each column by itself, the whole list",
        "as text, and the queue of `next`, so that a command unpacks little.",
        "",
        "A first build opens and reads every file, which is the third line, and loads what knows tickets. The rest,",
        "most of it, is the parsing, by the one reader of tickets, as far as lists go by them: without prose, evidence",
        "and verification. A second process would share the work, but not save processor time.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure both folders and write both files."""
    before = os.getloadavg()[0]
    # As an installation does: compiling one changed file costs 5 ms in every process where Python may not keep it.
    compileall.compile_dir(ROOT / "auditkit", quiet=2)
    results = []
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measured(count, Path(folder) / "tickets"))
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": round(before, 1),
        "load_after": round(os.getloadavg()[0], 1),
    }
    document = {"machine": machine, "runs": RUNS, "results": results, "imports_ms": imports_ms()}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page_of(document), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
