"""Write the pages of docs/evidence that are about public code, as public_code.yaml says.

    python -m benchmarks.public_code seed-findings --clones FOLDER --python PYTHON
    python -m benchmarks.public_code seed-findings --page          # only the page, from the stored answers

FOLDER holds the clones and PYTHON imports what they do: public_code.yaml names both. A run replaces what stands between
`<!-- written: NAME -->` and `<!-- /written -->`, stores its answers, and fails if an outcome is not the one on record.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from benchmarks.evidence import RUN, Document, Place, results_of, rows, store_results, write_blocks

KEPT = ("probe", "outcome", "severity", "evidence", "device", "message", "law", "location")


def record(page: Document) -> list[dict[str, str]]:
    """The rows on record; a row of several subjects is a row for each."""
    return [{**row, "subject": subject} for row in rows_of(page) for subject in row["subject"].split()]


def ask(page: Document, place: Place) -> Document:
    """Return the answers of all subjects, each run once, and the environment that they were measured in."""
    answers = {name: place.document(command(page, name, probes_of(page, name))) for name in page["subjects"]}
    given = ((row["subject"], answer(row, answers[row["subject"]]["results"])) for row in record(page))
    rows = [
        {"subject": name, "revision": answers[name]["run"]["revision"], **{key: result.get(key) for key in KEPT}}
        for name, result in given
    ]
    run = next(answer["run"] for answer in answers.values() if answer["run"]["torch"])
    return {"run": {key: run[key] for key in RUN}, "rows": rows}


def answer(row: dict[str, str], results: Sequence[Document]) -> Document:
    """The result that speaks of a row: of source results the one about its name, else that there is none."""
    about = row.get("about", "")
    named = [result for result in results if result["probe"] == row["probe"]]
    named = [result for result in named if about in json.dumps([result["target"], result["message"]])]
    nothing = {"probe": row["probe"], "outcome": "not_reproduced", "message": f"nothing about {about}"}
    return next((result for result in named if result["outcome"] == "reproduced"), (named or [nothing])[0])


def probes_of(page: Document, name: str) -> list[str]:
    """Return the probes that a page runs on a subject."""
    return list(dict.fromkeys(row["probe"] for row in record(page) if row["subject"] == name))


def command(page: Document, name: str, probes: Sequence[str]) -> str:
    """What a reader types to ask one subject."""
    options = page["subjects"][name]
    return f"probe run {' '.join(probes)} {options}" + (" --python PYTHON" if "--target" in options else "")


def written(page: Document, stored: Document) -> tuple[dict[str, str], list[str]]:
    """Return the blocks of a page from its stored answers, and every answer that is not the one on record."""
    table_text, others = outcomes(page, stored["rows"])
    blocks = {"environment": environment(page, stored["run"]), "answers": table_text}
    if page.get("shows_commands"):
        lines = [f"auditkit {command(page, name, probes_of(page, name))}" for name in page["subjects"]]
        blocks["commands"] = "\n".join(["```text", *lines, "```"])
    return blocks, others


def outcomes(page: Document, given: Sequence[Document]) -> tuple[str, list[str]]:
    """A line for each row on record, and the rows with another outcome."""
    lines, others = [], []
    for row, answered in zip(record(page), given, strict=True):
        if answered["outcome"] != row["outcome"]:
            others.append(f"{row['subject']} {row['probe']}: {answered['outcome']}, on record: {row['outcome']}")
        cells = {
            "commit": answered["revision"][:8],
            "outcome": answered["outcome"].replace("_", " "),
            "message": answered["message"].replace("|", "\\|").replace("<", "\\<"),
        }
        lines.append({**row, **named(page, row["subject"]), **cells})
    return table(page["table"], lines), others


def named(page: Document, name: str) -> dict[str, str]:
    """What a subject's options name: its checkout, the revision, its target and the function."""
    words = shlex.split(page["subjects"][name])
    options = dict(zip(words[::2], words[1::2], strict=True))
    checkout, target = options["--checkout"], options.get("--target", "")
    revision, function = checkout.partition("@")[2], target.partition(":")[2]
    return {"checkout": checkout, "revision": revision, "target": target, "function": function}


def rows_of(page: Document) -> list[dict[str, str]]:
    """The rows of the record, their cells by the names of their columns; cells left out at the end are empty."""
    cells = [[cell.strip() for cell in row.split("|")] for row in page["rows"].splitlines()]
    return [dict(zip(page["record"], row + [""] * len(page["record"]), strict=False)) for row in cells]


def environment(page: Document, run: Mapping[str, str]) -> str:
    """How a page was written: by which command, and where."""
    where = f"torch {run['torch']}"
    if "python" in run:
        where += f", Python {run['python']}, {run['device_name']}"
    return (
        f"Written by `python -m benchmarks.public_code {page['name']}`: {where},\n"
        "no GPU: device traffic is simulated, the rest is measured on the CPU."
    )


def table(columns: Mapping[str, str], records: Iterable[Mapping[str, str]]) -> str:
    """A Markdown table: the title of each column, and what its cells are made of."""
    return rows(
        [title.strip() for title in columns],
        ([cell.format(**record) for cell in columns.values()] for record in records),
    )


def pages() -> dict[str, Document]:
    """What public_code.yaml says of each page, by its name."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {name: {**page, "name": name} for name, page in yaml.safe_load(text)["pages"].items()}


def write(page: Document, place: Place | None) -> list[str]:
    """Write one page and what it stores; return what is not as on record."""
    stored = results_of(page["name"]) if place is None else ask(page, place)
    blocks, others = written(page, stored)
    if place is not None:
        store_results(page["name"], stored)
    write_blocks(page["name"], blocks)
    return others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=pages())
    parser.add_argument("--clones", type=Path, default=Path(), help="the folder that holds the clones")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--page", action="store_true", dest="stored", help="only write the page")
    options = parser.parse_args()
    page = pages()[options.page]
    with tempfile.TemporaryDirectory() as folder:
        place = None if options.stored else Place(Path(folder), options.clones, options.python)
        others = write(page, place)
    if others:
        raise SystemExit("not as on record:\n" + "\n".join(others))


if __name__ == "__main__":
    main()
