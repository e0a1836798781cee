"""Write docs/evidence/precision.md: each ticket that an audit files in code of others, with a verdict by hand.

    python -m benchmarks.precision --clones FOLDER --python PYTHON
    python -m benchmarks.precision --page        # only the page, from the stored tickets

FOLDER holds a clone of each repository of precision.yaml, under its name there and at its commit; PYTHON imports what
they do. A verdict was written after reading the code; its key is the probe and the target of a ticket's first finding.
A run fails if a repository gets more than MOST_TICKETS or fewer than LEAST_ACCEPTED of them are accepted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.evidence import ROOT, RUN, Document, Place, results_of, rows, store_results, write_blocks

NAME = "precision"
MOST_TICKETS = 12
LEAST_ACCEPTED = 0.9
NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Judged:
    """The tickets of one repository, each with its verdict, and the verdicts whose ticket is no longer filed."""

    name: str
    tickets: tuple[Document, ...]
    gone: tuple[str, ...]

    @property
    def accepted(self) -> int:
        return sum(ticket["verdict"] == "accept" for ticket in self.tickets)

    @property
    def precision(self) -> str:
        """The share of tickets that were accepted, in per cent; "" where there is none."""
        return f"{self.accepted / len(self.tickets):.0%}" if self.tickets else ""

    @property
    def missed(self) -> list[str]:
        """What the repository's tickets do not keep to, in words."""
        count = len(self.tickets)
        few = [f"{count} tickets, at most {MOST_TICKETS} are wanted"] if count > MOST_TICKETS else []
        wanted = LEAST_ACCEPTED * count
        return few + ([f"{self.accepted} of {count} tickets accepted"] if self.accepted < wanted else [])


def repositories() -> dict[str, Document]:
    """What precision.yaml says of each repository, by its name."""
    return dict(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")))


def ask(name: str, repository: Mapping[str, Any], place: Place) -> Document:
    """Audit one clone; returns what it was asked with, and its tickets. Raises SystemExit at another commit."""
    run = place.document(f"audit {name} --python PYTHON --tickets tickets-{name}")
    revision = run["run"]["revision"]
    if revision != repository["commit"]:
        raise SystemExit(f"{name} is at {revision}, its verdicts are of {repository['commit']}")
    folder = place.folder / f"tickets-{name}"
    filed = place.document(f"ticket list --tickets tickets-{name}")["tickets"] if folder.exists() else []
    return {
        "run": {key: run["run"][key] for key in RUN},
        "targets": [target["call"] for target in run["targets"]],
        "summary": run["summary"],
        "tickets": [slim(ticket) for ticket in filed],
    }


def slim(ticket: Document) -> Document:
    """Of a ticket what the page shows: the finding that it opens with, and where."""
    first = ticket["evidence"][0]
    line = ticket["lines"][0]["first"] if ticket["lines"] else ""
    return {
        "key": f"{first['probe']} {first['target']}",
        "title": ticket["title"],
        "severity": ticket["severity"],
        "place": f"{ticket['files'][0]}:{line}",
        "message": first["message"],
        "findings": len(ticket["evidence"]),
    }


def judge(name: str, verdicts: Mapping[str, Mapping[str, str]], tickets: Sequence[Document]) -> Judged:
    """Put its verdict beside each ticket; one without a verdict is not accepted."""
    judged = []
    for ticket in tickets:
        verdict, reason = next(iter(verdicts.get(ticket["key"], {NOT_JUDGED: ""}).items()))
        judged.append({**ticket, "verdict": verdict, "reason": reason})
    filed = {ticket["key"] for ticket in tickets}
    return Judged(name, tuple(judged), tuple(key for key in verdicts if key not in filed))


def blocks(stored: Document) -> dict[str, str]:
    """The marked blocks of the page, from the stored tickets and the verdicts on record."""
    judged = judged_repositories(stored)
    return {
        "environment": environment(stored),
        "totals": rows(TOTALS, (total(each, stored) for each in judged)),
        "tickets": "\n\n".join(map(section, judged)),
        "gone": "\n".join(f"- {each.name}: `{key}`" for each in judged for key in each.gone) or "None.",
    }


def judged_repositories(stored: Document) -> list[Judged]:
    asked = stored["repositories"]
    return [
        judge(name, repository.get("verdicts") or {}, asked[name]["tickets"])
        for name, repository in repositories().items()
    ]


TOTALS = ("repository", "commit", "targets", "no answer", "findings", "tickets", "accepted", "precision", "missed")


def total(judged: Judged, stored: Document) -> list[object]:
    repository = repositories()[judged.name]
    link = f"[{repository['github']}](https://github.com/{repository['github']})"
    asked = stored["repositories"][judged.name]
    counts = [len(asked["targets"]), asked["summary"]["error"], asked["summary"]["reproduced"], len(judged.tickets)]
    judgement = [judged.accepted, judged.precision, "; ".join(judged.missed)]
    return [link, repository["commit"][:12], *counts, *judgement]


def section(judged: Judged) -> str:
    """The tickets of one repository, the gravest first."""
    heading = f"### {judged.name}\n\n"
    if not judged.tickets:
        return heading + "No ticket."
    ordered = sorted(judged.tickets, key=lambda ticket: ticket["severity"])
    cells = (
        [each["severity"], each["title"], f"`{each['place']}`", plain(each["message"]), each["verdict"], each["reason"]]
        for each in ordered
    )
    return heading + rows(("severity", "ticket", "place", "what was found", "verdict", "reason"), cells)


def plain(text: str) -> str:
    """A message as a cell: a bar would end it."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def environment(stored: Document) -> str:
    run = next(each["run"] for each in stored["repositories"].values() if each["run"]["torch"])
    return (
        f"Written by `python -m benchmarks.{NAME}`: auditkit at {stored['auditkit']}, torch {run['torch']}, "
        f"Python {run['python']},\n{run['device_name']}, no GPU: device traffic is simulated, the rest is measured on "
        "the CPU or read."
    )


def measured(place: Place) -> Document:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    asked = {name: ask(name, repository, place) for name, repository in repositories().items()}
    return {"auditkit": commit, "repositories": asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, default=Path(), help="the folder that holds the clones")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--page", action="store_true", dest="stored", help="only write the page")
    options = parser.parse_args()
    if not options.stored:
        with tempfile.TemporaryDirectory() as folder:
            store_results(NAME, measured(Place(Path(folder), options.clones, options.python)))
    stored = results_of(NAME)
    write_blocks(NAME, blocks(stored))
    missed = [f"{each.name}: {words}" for each in judged_repositories(stored) for words in each.missed]
    if missed:
        raise SystemExit("missed:\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
