"""What commands cost on 1,000 and 10,000 tickets, generated ones and people's: processor time, and against what floor.

    python -m benchmarks.tickets
    python -m benchmarks.tickets --human      # only people's tickets (AUDITKIT_CORPUS, or shared/corpus beside this)
    python -m benchmarks.tickets --page       # only rewrite the page from the results

Writes benchmarks/results/tickets.json and docs/evidence/tickets-speed.md. Every figure is the processor time
(user and system) of one whole process, the least and the median of several runs that take turns, so that a
machine whose speed varies slows them all alike.
"""

from __future__ import annotations

import compileall
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

from benchmarks.evidence import ROOT, results_of, rows, store_results, write_blocks
from tests.filing_helpers import corpus_folder
from tests.written_tickets import multiply_tickets, ticket_id, write_tickets

RUNS = 5
COUNTS = (1_000, 10_000)
LIMITS_MS = {1_000: {"warm": 80, "first": 700}, 10_000: {"warm": 150, "first": 3_000}}
SEARCH_LIMIT_MS = 200
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
    """Processor milliseconds of one child, and what it wrote to a pipe; `lint` exits 1 where it finds something."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches)}
    done = subprocess.run([sys.executable, *words], capture_output=True, cwd=ROOT, env=environment)
    if done.returncode > ("lint" in words):
        raise SystemExit(f"{' '.join(words)} exits {done.returncode}: {done.stderr.decode()}")
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
        "list --all": [*listed, "--all"],
        "list --status open --severity P1": [*listed, "--status", "open", "--severity", "P1"],
        "list --text overflow --sort age": [*listed, "--text", "overflow", "--sort", "age"],
        "show ID": [*ticket, "show", ticket_id(count // 2), "--tickets", str(folder)],
        "next": [*ticket, "next", "--tickets", str(folder)],
        "board": [*ticket, "board", "--tickets", str(folder)],
        "search overflow, first": [*ticket, "search", "overflow", "--tickets", str(folder)],
        "search overflow": [*ticket, "search", "overflow", "--tickets", str(folder)],
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
            if name == "list --all" and len(output.splitlines()) != count:
                raise SystemExit(f"{name}: {len(output.splitlines())} of {count} lines")
    return {
        "tickets": count,
        "bytes": size,
        "index_bytes": sum(path.stat().st_size for path in caches.rglob("*") if path.is_file()),
        "cpu_ms": {name: _summary(taken, figures["python -c pass"]) for name, taken in figures.items()},
    }


HUMAN_COUNTS = (152, 10_000)
HUMAN_RUNS = 3


def measured_human(corpus: Path, count: int, folder: Path) -> dict[str, Any]:
    """Every figure for people's tickets, copied with new ids until there are `count`; what writes comes last."""
    ids = multiply_tickets(corpus / "tickets", folder, count)
    time.sleep(SETTLED_S)
    caches = folder.parent / "caches"
    figures: dict[str, list[float]] = {}
    for turn in range(HUMAN_RUNS):
        shutil.rmtree(caches, ignore_errors=True)
        new = ("new", "--title", "overflow", "--severity", "P2", "--agent", "pytorch", "--batch", "7")
        one, another, third = ids[3 * turn : 3 * turn + 3]
        elsewhere = _elsewhere(folder, ids[-1], f"B9{turn}-PT-01")
        commands = {
            "list, first": ("list",), "list": ("list",), "next": ("next",), "show ID": ("show", ids[count // 2]),
            "search the code, first": ("search", "the", "code"), "search the code": ("search", "the", "code"),
            "stats": ("stats",), "new": new, "renumber ID": ("renumber", one), "assign ID": ("assign", another, "Kim"),
            "review ID": ("review", third, "--reviewer", "kim", "--verdict", "endorse"),
            "lint ID": ("lint", ids[count // 2]), "import of one": ("import", str(elsewhere), "--copy"),
            "assign of 100": ("assign", *ids[-100:], f"Kim {turn}", "--yes"),
            "list, many files changed": ("list",),
        }  # fmt: skip
        taken, _ = cpu_ms(["-c", "pass"], caches)
        figures.setdefault("python -c pass", []).append(taken)
        for name, words in commands.items():
            taken, _ = cpu_ms(["-m", "auditkit", "ticket", *words, "--tickets", str(folder)], caches)
            figures.setdefault(name, []).append(taken)
    return {
        "tickets": count,
        "bytes": sum(path.stat().st_size for path in folder.rglob("*.md")),
        "cpu_ms": {name: _summary(taken, figures["python -c pass"]) for name, taken in figures.items()},
    }


def _elsewhere(folder: Path, ticket_id: str, new_id: str) -> Path:
    """Another folder, with one ticket that `folder` has not."""
    place = folder.parent / new_id
    place.mkdir()
    text = next(folder.rglob(f"{ticket_id}.md")).read_text(encoding="utf-8")
    (place / f"{new_id}.md").write_text(text.replace(ticket_id, new_id), encoding="utf-8")
    return place


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


def blocks(document: dict[str, Any]) -> dict[str, str]:
    """The marked blocks of docs/evidence/tickets-speed.md."""
    machine = document["machine"]
    return {
        "environment": f"{machine['cpus']} cores, Python {machine['python']}, load average {machine['load_before']} "
        f"before and {machine['load_after']} after.",
        **{f"tickets-{result['tickets']}": _folder_block(result) for result in document["results"]},
        **{f"human-{result['tickets']}": _human_block(result) for result in document.get("human", ())},
        "imports": rows(("imported", "ms"), document["imports_ms"].items()),
    }


def _folder_block(result: dict[str, Any]) -> str:
    columns = ("what", "least ms", "median ms", "to `python -c pass`", "limit ms")
    limits = LIMITS_MS[result["tickets"]]
    cells = [_command_row(name, figure, limits) for name, figure in result["cpu_ms"].items()]
    cached = f"their index and the texts for `search` {result['index_bytes'] / 1e6:.1f} MB"
    sizes = f"The tickets have {result['bytes'] / 1e6:.1f} MB, {cached}."
    return f"{rows(columns, cells)}\n\n{sizes}"


def _human_block(result: dict[str, Any]) -> str:
    cells = [(name, one["least"], one["median"], one["to_python"]) for name, one in result["cpu_ms"].items()]
    table = rows(("what", "least ms", "median ms", "to `python -c pass`"), cells)
    return f"{table}\n\nThe tickets have {result['bytes'] / 1e6:.1f} MB."


def _command_row(name: str, figure: dict[str, float], limits: dict[str, int]) -> tuple[object, ...]:
    is_ours = name.startswith(("list", "show", "next", "board", "search"))
    others = {"list, first": limits["first"], "search overflow": SEARCH_LIMIT_MS}
    limit = others.get(name, None if ", " in name else limits["warm"])
    shown_limit = str(limit) if is_ours and limit else ""
    if shown_limit and figure["median"] > limit:
        shown_limit += ", missed" if figure["least"] > limit else ", the median missed it"
    shown_name = f"`{name}`" if is_ours and ", " not in name else name
    return shown_name, figure["least"], figure["median"], figure["to_python"], shown_limit


def measure() -> dict[str, Any]:
    """Every figure of the page, for both folders."""
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
    return {"machine": machine, "runs": RUNS, "results": results, "imports_ms": imports_ms()}


def measure_human() -> list[dict[str, Any]]:
    """Every figure for people's tickets; none where they are not on this machine."""
    corpus = corpus_folder()
    results = []
    for count in HUMAN_COUNTS if corpus is not None else ():
        with tempfile.TemporaryDirectory() as folder:
            results.append(measured_human(corpus, count, Path(folder) / "tickets"))
    return results


def main() -> None:
    """Measure, unless only the page is asked for, and write it."""
    if "--page" not in sys.argv:
        known = results_of("tickets") if "--human" in sys.argv else measure()
        store_results("tickets", {**known, "human": measure_human()})
    print(write_blocks("tickets-speed", blocks(results_of("tickets"))))


if __name__ == "__main__":
    main()
