"""Write docs/evidence/field.md: which gradient collectors of public code are found and fed, against a list by hand.

    python -m benchmarks.reach --clones FOLDER --python PYTHON [--only NAME ...] [--audit]
    python -m benchmarks.reach --page        # only the page, from the stored results

FOLDER holds a clone of each repository of benchmarks/reach/NAME.yaml, under NAME and at its revision; PYTHON has torch
and nothing that the repositories import beside it. A place counts as found where a candidate names its function, or its
line; as run where a way to call it with gradients was found; with --audit, where one of PROBES has a result.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from auditkit.model.enums import Contract
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.engine.fork_servers import end_servers
from auditkit.probing.run.found_targets import find_targets
from auditkit.probing.run.run_options import RunOptions
from benchmarks.evidence import ROOT, Document, Place, results_of, rows, store_results, write_blocks
from benchmarks.reach_lists import Reach, compare, lists, reaches

NAME = "reach"
PROBES = ("norm_overflows_on_finite_grads", "clip_destroys_gradients", "fails_on_missing_grads")
ANSWERS = frozenset(("reproduced", "not_reproduced"))


def search(clone: Path, revision: str, python: str) -> Document:
    """Each candidate of one clone, tried, and what that took. Raises SystemExit at another revision."""
    found = line_of("git", "-C", str(clone), "rev-parse", "HEAD")
    if found != revision:
        raise SystemExit(f"{clone.name} is at {found}, its list is of {revision}")
    options, before = RunOptions(python=python), processor_s()
    with options.open(parse_checkout(str(clone))) as opened:
        found = find_targets(opened, options.setting(opened), libraries=True)
    end_servers()  # time is counted of what has ended
    took_s = round(processor_s() - before, 1)
    last_lines = {trial.target.call: trial.candidate.last_line for trial in found.trials}
    # The lists are of collectors: training steps are no places of them.
    known = [slim(each) for each in found.candidates if not each.excluded and each.contract is not Contract.TRAIN_STEP]
    return {"processor_s": took_s, "candidates": [{**each, "last_line": last_lines[each["call"]]} for each in known]}


def line_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def processor_s() -> float:
    """Processor time of this process and of those that it waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def slim(candidate: FoundCandidate) -> Document:
    """Return what the page shows of a candidate."""
    return {
        "call": candidate.call,
        "file": candidate.file,
        "line": candidate.line,
        "places": list(candidate.places),
        "contract": candidate.contract.value if candidate.contract else "",
        "asked": candidate.fed,
        "rung": candidate.rung,
    }


def answered(name: str, place: Place) -> set[str]:
    """The calls of which an audit answers one of PROBES at least."""
    probes = " ".join(f"--probe {probe}" for probe in PROBES)
    results = place.document(f"audit {name} --python PYTHON --no-tickets {probes}")["results"]
    return {result["target"] for result in results if result["outcome"] in ANSWERS}


def blocks(stored: Document) -> dict[str, str]:
    """The marked blocks of the page, from the stored results and the lists."""
    found = list(reaches(stored["repositories"]))
    return {
        "environment": f"Written by `python -m benchmarks.{NAME}`: auditkit at {stored['auditkit']}, "
        f"torch {stored['torch']} and numpy, nothing else.",
        "totals": rows(TOTALS, total_rows(found)),
        "summary": summary(found),
        "false": rows(FALSE, (cells for each in found for cells in false_rows(each))),
    }


TOTALS = (
    "repository", "listed", "found", "contract right", "asked", "by rung", "false", "added", "processor s",
)  # fmt: skip
FALSE = ("repository", "candidate", "place", "contract", "asked")


def total_rows(found: Iterable[Reach]) -> Iterator[list[object]]:
    """Yield a row of counts for each repository."""
    for each in found:
        counts = [each.count(what) for what in ("found", "right", "asked")]
        rungs = Counter(one.candidate["rung"] for one in each.listed if one.candidate and one.is_asked)
        by_rung = ", ".join(f"{count} {rung}" for rung, count in sorted(rungs.items()))
        added = len(each.met) - len(each.listed)
        yield [each.name, len(each.listed), *counts, by_rung, len(each.false), added, each.processor_s]


def summary(found: Sequence[Reach]) -> str:
    """Return the figures over all repositories."""
    listed, candidates = sum(len(one.listed) for one in found), sum(one.candidate_count for one in found)
    right, asked = (sum(one.count(what) for one in found) for what in ("right", "asked"))
    false, repositories = sum(len(one.false) for one in found), sum(one.count("asked") > 0 for one in found)
    return (
        f"{right} of {listed} places found with the right contract ({share(right, listed)}), {asked} asked "
        f"({share(asked, listed)}), in {repositories} of {len(found)} repositories; {false} of {candidates} "
        f"candidates are no place of the list ({share(false, candidates)})"
    )


def share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def false_rows(reach: Reach) -> Iterator[list[object]]:
    """A row for each candidate that is no place of the list."""
    for each in reach.false:
        place = f"`{each['file']}:{each['line']}`"
        yield [reach.name, f"`{each['call']}`", place, each["contract"], "yes" if each["asked"] else "no"]


def measured(options: argparse.Namespace, folder: Path) -> Document:
    """The results of every repository that was asked for, by its name."""
    place = Place(folder, options.clones, options.python) if options.audit else None
    results = {}
    for name, repository in lists().items():
        if options.only and name not in options.only:
            continue
        found = search(options.clones / name, repository["revision"], options.python)
        if place and any(each["asked"] for each in found["candidates"]):
            calls = answered(name, place)
            for each in found["candidates"]:
                each["asked"] = each["asked"] and each["call"] in calls
        results[name] = found
        one = compare(name, repository["places"], found)
        counts = ", ".join(f"{what} {one.count(what)}" for what in ("found", "right", "asked"))
        print(f"{name}: listed {len(one.listed)}, {counts}, false {len(one.false)}, {one.processor_s} s", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, default=Path(), help="the folder that holds the clones")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", action="append", help="only this repository; the others stay as stored")
    parser.add_argument("--audit", action="store_true", help="a place is asked only where a probe answers")
    parser.add_argument("--page", action="store_true", dest="stored", help="only write the page")
    options = parser.parse_args()
    stored = {"auditkit": "", "torch": "", "repositories": {}, **results_of(NAME)}
    if not options.stored:
        with tempfile.TemporaryDirectory() as folder:
            results = measured(options, Path(folder))
        stored["auditkit"] = line_of("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
        stored["torch"] = line_of(options.python, "-c", "import torch; print(torch.__version__)")
        stored["repositories"] |= results
        store_results(NAME, stored)
    written = blocks(stored)
    write_blocks(NAME, written)
    print(written["summary"])


if __name__ == "__main__":
    main()
