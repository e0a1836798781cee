"""Write docs/evidence/field.md: what each new ticket of a repository recommends, and whether that stands in a clone.

    python -m benchmarks.fixes --clones FOLDER --python PYTHON --only NAME ... [--fix-time SECONDS]
    python -m benchmarks.fixes --page        # only the page, from the stored results

FOLDER holds the clones, NAME is one of them or `specimen`, and PYTHON imports what they do. Each is audited in a fresh
clone, with fixes searched. Every diff of a ticket must pass `git apply --check`; it is committed and verified there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath
from statistics import median

from auditkit.audit.audit import specimen_dir
from auditkit.tickets.document import FIX, parse_document
from auditkit.tickets.markdown import visible
from benchmarks.evidence import ROOT, RUN, Document, Place, plain, results_of, rows, store_results, write_blocks

NAME = "fixes"
SPECIMEN = "specimen"
REVISIONS = {"esper-lite": "6de1b57"}
"""Of a clone that is not asked about as it stands: the commit that its seed tickets are about."""
_SECONDS = re.compile(r"fixes that were run: .*? (\d+) s\b")
_AUTHOR = ("-c", "user.name=auditkit", "-c", "user.email=auditkit@example.invalid")


def git(folder: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(folder), *words], input=text, capture_output=True, text=True, check=False)


def fresh_clone(name: str, source: Path, folder: Path) -> Path:
    """The repository at its revision in `folder`, without a link to what it was made from. Raises SystemExit."""
    clone = folder / name
    if name == SPECIMEN:
        shutil.copytree(specimen_dir(), clone, ignore=shutil.ignore_patterns("__pycache__"))
        done = [git(clone, "init", "--quiet"), git(clone, "add", "."), git(clone, *_AUTHOR, "commit", "-qm", name)]
    else:
        done = [git(folder, "clone", "--quiet", "--no-hardlinks", str(source / name), name)]
        done += [git(clone, "checkout", "--quiet", "--detach", REVISIONS.get(name, "HEAD"))]
    if failed := next((each for each in done if each.returncode), None):
        raise SystemExit(f"{name}: {failed.stderr}")
    return clone


def measure(name: str, clone: Path, place: Place, fix_time_s: int) -> Document:
    """What an audit of one clone files, and what comes of the diffs in its tickets."""
    folder = place.folder / "tickets" / name
    words = f"audit {name} --python PYTHON --tickets tickets/{name} --fix-time {fix_time_s}"
    run = place.document(words)
    told = next((found for note in run["notes"] if (found := _SECONDS.search(note))), None)
    files = sorted(folder.rglob("B*.md"))
    return {
        "auditkit": git(ROOT, "rev-parse", "--short=12", "HEAD").stdout.strip(),
        "revision": git(clone, "rev-parse", "--short=12", "HEAD").stdout.strip(),
        **{key: run["run"][key] for key in RUN},
        "fix_time_s": fix_time_s,
        "seconds": int(told[1]) if told else 0,
        "tickets": [outcome(name, file.relative_to(folder), folder, clone, place) for file in files],
    }


def outcome(name: str, path: PurePath, folder: Path, clone: Path, place: Place) -> Document:
    """One ticket: what it is about, how long it is, and its fix applied and verified, or why there is none."""
    data = (folder / path).read_bytes()
    document, shown = parse_document(data, Path(path)), visible(data.decode())
    ticket, fix = document.ticket, document.section(FIX) or ""
    evidence = json.loads((folder / "evidence" / f"{ticket.id}.json").read_text("utf-8"))
    diffs = [each["difference"] for each in evidence["fixes"]]  # the section shows only short ones
    first = fix.strip().partition("\n")[0]
    found: Document = {
        "id": ticket.id,
        "severity": ticket.severity.value,
        "probes": [*dict.fromkeys(each.partition("/")[0] for each in ticket.findings)],
        "is_read": "\nread from the source" in document.text,
        "words": sum(len(line.split()) for line in shown),
        "visible_lines": len(shown),
        "without": "" if diffs else first,
        "applies": False,
        "verified": "",
    }
    if not diffs:
        return found
    found["applies"] = all(git(clone, "apply", "--check", "-", text=diff).returncode == 0 for diff in diffs)
    found["verified"] = verified(name, found["id"], diffs, clone, place) if found["applies"] else ""
    return found


def verified(name: str, ticket_id: str, diffs: list[str], clone: Path, place: Place) -> str:
    """What `ticket verify` says of the boxes with the diffs committed: the worst state, and of which probe."""
    before = git(clone, "rev-parse", "HEAD").stdout.strip()
    for diff in diffs:
        git(clone, "apply", "-", text=diff)
    git(clone, *_AUTHOR, "commit", "-qam", f"{ticket_id}: as recommended")
    done = place.document(f"ticket verify {ticket_id} --checkout {name} --tickets tickets/{name} --python PYTHON")
    git(clone, "reset", "--quiet", "--hard", before)
    return str(done["verdict"])


def measured(options: argparse.Namespace, folder: Path) -> Document:
    """The results of each repository that was asked for, by its name."""
    clones, work = folder / "clones", folder / "place"
    clones.mkdir()
    work.mkdir()
    made = {name: fresh_clone(name, options.clones.resolve(), clones) for name in options.only}
    place = Place(work, clones, options.python)
    results = {}
    for name, clone in made.items():
        results[name] = found = measure(name, clone, place, options.fix_time)
        print(" | ".join(map(str, total_row(name, found))), flush=True)
    return results


TOTALS = (
    "repository", "at", "tickets", "measured", "with a diff", "it applies", "verified", "trying took, s",
    "words, median and most", "visible lines, median and most",
)  # fmt: skip
TICKETS = ("repository", "ticket", "severity", "probes", "diff", "verified", "why none", "words", "visible lines")


def total_row(name: str, found: Document) -> list[object]:
    """A row of counts for one repository."""
    tickets = found["tickets"]
    with_diff = [each for each in tickets if not each["without"]]
    counts = (
        len(tickets),
        sum(not each["is_read"] for each in tickets),
        len(with_diff),
        sum(each["applies"] for each in with_diff),
        sum(each["verified"] == "proven" for each in with_diff),
    )
    spreads = ([each[what] for each in tickets] or [0] for what in ("words", "visible_lines"))
    lengths = (f"{median(each):.0f}, {max(each)}" for each in spreads)
    return [name, found["revision"], *counts, f"{found['seconds']} of {found['fix_time_s']}", *lengths]


def ticket_rows(name: str, found: Document) -> Iterator[list[object]]:
    for each in found["tickets"]:
        diff = "" if each["without"] else "applies" if each["applies"] else "does not apply"
        probes = ", ".join(f"`{probe}`" for probe in each["probes"])
        yield [name, each["id"], each["severity"], probes, diff, each["verified"], plain(each["without"]),
               each["words"], each["visible_lines"]]  # fmt: skip


def blocks(stored: Document) -> dict[str, str]:
    """The marked blocks of the page, from the stored results."""
    found = stored["repositories"]
    where = (
        f"- {name}: auditkit at {one['auditkit']}, torch {one['torch']}, Python {one['python']}, {one['device_name']}"
        for name, one in found.items()
    )
    return {
        "environment": f"By `python -m benchmarks.{NAME}`:\n\n" + "\n".join(where),
        "totals": rows(TOTALS, (total_row(name, each) for name, each in found.items())),
        "tickets": rows(TICKETS, (row for name, each in found.items() for row in ticket_rows(name, each))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, default=Path(), help="the folder that holds the clones")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", nargs="+", default=[SPECIMEN], help="these; the others stay as stored")
    parser.add_argument("--fix-time", type=int, default=120, metavar="SECONDS", help="as of `auditkit audit`")
    parser.add_argument("--page", action="store_true", dest="stored", help="only write the page")
    options = parser.parse_args()
    stored = {"repositories": {}, **results_of(NAME)}
    if not options.stored:
        with tempfile.TemporaryDirectory() as folder:
            stored["repositories"] |= measured(options, Path(folder))
        store_results(NAME, stored)
    write_blocks(NAME, blocks(stored))


if __name__ == "__main__":
    main()
