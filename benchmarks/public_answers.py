"""The pages of docs/evidence that are tables of answers: each row asks one probe of one piece of public code."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.evidence import RUN, Document, Place, Written, environment, rows_of, table

OUTCOMES = ("reproduced", "not_reproduced", "not_applicable", "unavailable", "error")
KEPT = ("probe", "outcome", "severity", "evidence", "device", "message", "law", "location")


def record(page: Document) -> list[dict[str, str]]:
    """The rows on record; a row of several subjects is a row for each."""
    return [{**row, "subject": subject} for row in rows_of(page) for subject in row["subject"].split()]


def ask(page: Document, place: Place) -> Document:
    """The answers of all subjects, each asked once, and the environment that they were read in."""
    answers: dict[str, Document] = {name: {} for name in page["subjects"]}
    for name in answers:
        answers[name] = place.document(command(page, name, probes_of(page, name) or catalogue(place)))
    kept = (*KEPT, "measurements") if "figures" in page else KEPT
    rows = [
        {"subject": name, "revision": answers[name]["run"]["revision"], **{key: result.get(key) for key in kept}}
        for name, result in chosen(page, answers)
    ]
    run = next(answer["run"] for answer in answers.values() if answer["run"]["torch"])
    return {"run": {key: run[key] for key in RUN}, "versions": versions(page, place), "rows": rows}


def chosen(page: Document, answers: dict[str, Document]) -> Iterator[tuple[str, Document]]:
    """The results that a page shows: one for each row on record, or all of them."""
    if "probe" in page.get("record", ()):
        yield from ((row["subject"], answer(row, answers[row["subject"]]["results"])) for row in record(page))
    else:
        yield from ((name, result) for name, given in answers.items() for result in given["results"])


def answer(row: dict[str, str], results: Sequence[Document]) -> Document:
    """The result that speaks of a row: of source results the one about its name, else that there is none."""
    about = row.get("about", "")
    named = [result for result in results if result["probe"] == row["probe"]]
    named = [result for result in named if about in json.dumps([result["target"], result["message"]])]
    nothing = {"probe": row["probe"], "outcome": "not_reproduced", "message": f"nothing about {about}"}
    return next((result for result in named if result["outcome"] == "reproduced"), (named or [nothing])[0])


def probes_of(page: Document, name: str) -> list[str]:
    """The probes that a page asks of a subject; none where it asks the whole catalogue."""
    asked = [row["probe"] for row in record(page) if row["subject"] == name and "probe" in row]
    return list(dict.fromkeys(asked or (wanted["probe"] for wanted in page.get("figures", {}).values())))


def catalogue(place: Place) -> list[str]:
    return [probe["id"] for probe in place.document("probe list")["probes"] if probe["contracts"]]


def command(page: Document, name: str, probes: Sequence[str]) -> str:
    """What a reader types to ask one subject."""
    options = page["subjects"][name]
    return f"probe run {' '.join(probes)} {options}" + (" --python PYTHON" if "--target" in options else "")


def versions(page: Document, place: Place) -> dict[str, str]:
    """The versions of the distributions that a page is about."""
    names = [row["package"] for row in record(page) if "package" in row]
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    done = subprocess.run([place.python, "-c", code, *names], capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.split(), strict=True))


# --- the page --------------------------------------------------------------------------------------------


def write(page: Document, stored: Document) -> Written:
    """The blocks of a page from its stored answers, and every answer that is not the one on record."""
    blocks = {"environment": environment(page, stored["run"])}
    others: list[str] = []
    if "figures" in page:
        blocks["answers"], others = figures(page, stored["rows"])
    elif "probe" in page["record"]:
        blocks["answers"], others = outcomes(page, stored["rows"])
    else:
        blocks["answers"] = counts(page, stored)
        blocks["collectors"] = "\n".join(line for name in page["subjects"] for line in found(name, page, stored))
    if page.get("shows_commands"):
        lines = [f"auditkit {command(page, name, probes_of(page, name))}" for name in page["subjects"]]
        blocks["commands"] = "\n".join(["```text", *lines, "```"])
    return Written(blocks, stored, others)


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


def figures(page: Document, given: Sequence[Document]) -> tuple[str, list[str]]:
    """For each subject its figures beside those that a measurement by hand gave, and those that are not alike."""
    lines, others = [], []
    for row in record(page):
        results = {each["probe"]: each for each in given if each["subject"] == row["subject"]}
        cells = {}
        for name, wanted in page["figures"].items():
            value = figure(results[wanted["probe"]], wanted)
            shown = value if isinstance(value, str) else f"{value:.3g}{wanted.get('unit', '')}"
            cells[name] = f"{shown} ({row[name]})"
            if not alike(value, row[name]):
                others.append(f"{row['subject']} {name}: {shown}, on record: {row[name]}")
        lines.append({**named(page, row["subject"]), **cells})
    return table(page["table"], lines), others


def figure(result: Document, wanted: Document) -> Any:
    """The law of a result, or its first measurement of the wanted name and case."""
    if "measurement" not in wanted:
        return result["law"]
    case = wanted.get("case", {}).items()
    values = [each for each in result["measurements"] if each["name"] == wanted["measurement"]]
    return next(each["value"] for each in values if each["evidence"] == "measured" and case <= each["case"].items())


def alike(value: Any, said: str) -> bool:
    """A law or an infinity to the letter, a ratio within 10 %; "not given" fits everything."""
    if said in ("not given", "finite"):
        return said == "not given" or not isinstance(value, str)
    if isinstance(value, str) or not said.endswith("x"):
        return str(value) == said
    return bool(abs(value - float(said[:-1])) <= 0.1 * float(said[:-1]) + 0.001)


def counts(page: Document, stored: Document) -> str:
    """How many probes ended how on each subject."""
    lines = []
    for row in record(page):
        ended = Counter(each["outcome"] for each in stored["rows"] if each["subject"] == row["subject"])
        numbers = {outcome: str(ended[outcome]) for outcome in OUTCOMES}
        lines.append({**row, "version": stored["versions"][row["package"]], **numbers})
    return table(page["table"], lines)


def found(name: str, page: Document, stored: Document) -> Iterator[str]:
    """What reproduced on one subject, and what could not be judged."""
    rows = [row for row in stored["rows"] if row["subject"] == name]
    yield from (f"## {name}", "", f"`{page['subjects'][name].removeprefix('--checkout empty ')}`", "")
    yield from [_finding(row) for row in rows if row["outcome"] == "reproduced"] or ["Nothing."]
    yield ""
    if other := [row for row in rows if row["outcome"] in OUTCOMES[2:]]:
        yield from ("Not judged:", "")
        yield from (f"- {row['probe']}: {row['outcome'].replace('_', ' ')}: {row['message']}" for row in other)
        yield ""


def _finding(row: Document) -> str:
    where = " at {file}:{line}".format(**row["location"]) if row["location"] else ""
    return f"- {row['severity']} {row['probe']}{where} ({row['evidence']}): {row['message']}"
