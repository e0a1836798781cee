"""Write the pages of docs/evidence that are about public code, as public_code.yaml says.

    python -m benchmarks.public_code seed-findings --clones FOLDER --python PYTHON
    python -m benchmarks.public_code seed-findings --page          # only the page, from the stored answers

FOLDER holds the clones that a page asks about, and PYTHON imports what they do: public_code.yaml names both. People
write the pages; a run replaces what stands between `<!-- written: NAME -->` and `<!-- /written -->`, stores its
answers in benchmarks/results, and ends with an error where an outcome is not the one on record: the verdicts were
written, after reading the code, for those outcomes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import public_answers as answers
from benchmarks.evidence import (
    EVIDENCE,
    RUN,
    Document,
    Place,
    Written,
    document_without_code,
    environment,
    results_of,
    rows_of,
    store_results,
    table,
    without_code,
    write_blocks,
)

_KNOWN = re.compile(r"^(  \w{12}  )(.*?) \(known\) *", re.MULTILINE)


def bisect(page: Document, place: Place) -> Written:
    """Each search: what it prints once everything is known, and how many commits it asked."""
    place.run(page["before"])
    blocks, documents, others = {}, [], []
    for name, (words, first) in page["commands"].items():
        document = place.document(f"{words} --python PYTHON --fresh")
        text = _KNOWN.sub(lambda row: f"{row[1]}{row[2]:<14}  ", place.run(f"{words} --python PYTHON"))
        lines = [line for line in text.splitlines() if not line.startswith("asked ")]
        fresh = sum(not each["was_known"] for each in document["asked"])
        absent = sum(each["state"] == "absent" for each in document["asked"])
        without = f"; {absent} of them have no such function, under any name" if absent else ""
        asked = f"Asked {fresh} of {document['commit_count'] + 1} commits{without}."
        blocks[name] = "\n".join(["```console", f"$ auditkit {words}", *lines, "```", "", asked])
        others += [] if document["first"] == first else [f"{name}: {document['first']}, on record: {first}"]
        documents.append(document)
    torch = next(each["torch"] for each in documents[0]["asked"] if each["torch"])
    return Written({"environment": environment(page, {"torch": torch}), **blocks}, documents, others)


def compare(page: Document, place: Place) -> Written:
    """Each comparison's text, the figures of those that name a target, and the first one as a review."""
    from auditkit.model.revisions.comparison import Comparison
    from auditkit.workflows.history.compare import in_words

    blocks, rows = {}, []
    for name, words in page["commands"].items():
        document = place.document(f"{words} --python PYTHON")
        (place.folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        comparison = Comparison.from_json(document)
        shown = ["```sh", f"auditkit {words} --python python", "```", "", "```text", *in_words(comparison), "```"]
        blocks[name] = "\n".join(shown)
        contrasts = {each.probe: each for each in comparison.contrasts}
        for what, probe in page["figures"].items() if "--target" in words else ():
            rows.append({"change": " -> ".join(words.split()[2:4]), "what": what, **_contrast(contrasts[probe])})
    (EVIDENCE / page["review_page"]).write_text(without_code(place.run(page["review"])), encoding="utf-8")
    run = {key: getattr(comparison.head, key) for key in RUN}
    return Written({"environment": environment(page, run), "figures": table(page["table"], rows), **blocks}, None, [])


def _contrast(one: Any) -> dict[str, str]:
    """One figure before and after: its law, or its outcome where the target has none."""
    before, after = (side.law or side.outcome.value.replace("_", " ") for side in (one.base, one.head))
    return {"before": before, "after": after, "became": one.change.value.replace("_", " "), "evidence": one.evidence}


def audit_report(page: Document, place: Place) -> Written:
    """The run, its report, and where each section of a report by hand stands in ours."""
    run = place.document(f"{page['audit']} --python PYTHON")
    (place.folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    items = [item for section in place.document(page["report"])["sections"] for item in section["items"]]
    rows, others = [], []
    for row in rows_of(page):
        item = counterpart(row, items) if row["ours"] else {"number": "", "severity": ""}
        if item is None:
            others.append(f"section {row['section']}: no {row['label']} item about {row['ours']}")
            continue
        severity = f" ({item['severity']})" if item["severity"] else ""
        rows.append({**row, "number": item["number"], "found": f"{row['label']}{severity}"})
    asked = {row["ours"] for row in rows}
    more = [
        f"- {item['number']} {item['title']} ({item['severity']})"
        for item in items
        if item["severity"] and not asked & {answer["probe"] for answer in item["answers"]}
    ]
    parts = [table(page["table"], rows), "", "Found here and not by hand:", "", *more]
    blocks = {"comparison": "\n".join(parts), "report": without_code(place.run(page["report"]))}
    return Written(blocks, document_without_code(run), others)


def counterpart(row: Mapping[str, str], items: Sequence[Document]) -> Document | None:
    """The first item of our report that speaks of a row, of the label on record."""
    for item in items:
        probes = {answer["probe"] for answer in item["answers"]}
        if item["label"] == row["label"] and (row["ours"] in probes or item["title"].startswith(row["ours"])):
            return item
    return None


def code_audit(page: Document, place: Place) -> Written:
    """A page that is one document, as the command prints it."""
    return Written({"document": without_code(place.run(f"{page['command']} --python PYTHON"))}, None, [])


def try_fix(page: Document, place: Place) -> Written:
    """For each ticket, as it stood at a commit, what the command writes into it and the verdict of each arm."""
    blocks, documents, others = {}, {}, []
    (place.folder / "tickets").mkdir()
    for name, case in page["tickets"].items():
        ticket_id, (repository, _, stored) = case.get("id", name), case["ticket"].partition(" ")
        ticket = place.folder / "tickets" / f"{ticket_id}.md"
        git = ["git", "--no-optional-locks", "-C", str(place.folder / repository), "show", stored]
        ticket.write_bytes(subprocess.run(git, check=True, capture_output=True).stdout)
        words = f"ticket try-fix {ticket_id} --checkout {repository} {case['options']} --python PYTHON"
        documents[name] = document = slim(place.document(f"{words} --tickets tickets"))
        verdicts = [arm["judgement"]["verdict"] for arm in document["arms"]]
        others += [] if verdicts == case["verdicts"] else [f"{name}: {', '.join(verdicts)}"]
        console = [f"$ git -C {repository} show {stored} > tickets/{ticket_id}.md", f"$ auditkit {words}"]
        text = ticket.read_text(encoding="utf-8")
        block = text[text.index("### Evidence: ") : text.index("<!-- /auditkit:evidence -->")].strip()
        parts = [f"## {ticket_id}: {document['verdict']}", "", case["about"], "", "```console", *console, "```", ""]
        blocks[name] = without_code("\n".join([*parts, "What the command writes into the ticket:", "", block]))
    run = next(iter(documents.values()))["base"]["run"]
    return Written({"environment": environment(page, run), **blocks}, document_without_code(documents), others)


def slim(document: Document) -> Document:
    """Without what only this machine says (paths, times), and numbers only of probes that a fix changed."""
    changes = [change for arm in document["arms"] for change in arm["judgement"]["changes"]]
    told = {change["probe"] for change in changes if change["change"] != "same"}
    for run in [document["base"], *(arm["run"] for arm in document["arms"] if arm["run"])]:
        run["run"] = {key: run["run"][key] for key in ("revision", "dirty", "device", *RUN)}
        for result in run["results"]:
            result.pop("duration_s", None)
            if result["probe"] not in told:
                result.pop("measurements", None)
    return {key: part for key, part in document.items() if key not in ("path", "written")}


# --- the driver ----------------------------------------------------------------------------------------


def pages() -> dict[str, Document]:
    """What public_code.yaml says of each page, by its name."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {name: {**page, "name": name} for name, page in yaml.safe_load(text)["pages"].items()}


def write(page: Document, place: Place | None) -> list[str]:
    """Write one page and what it stores; returns what is not as on record."""
    if place is None or page["kind"] == "answers":
        written = answers.write(page, results_of(page["name"]) if place is None else answers.ask(page, place))
    else:
        kinds = {make.__name__: make for make in (bisect, compare, audit_report, code_audit, try_fix)}
        written = kinds[page["kind"]](page, place)
    if place is not None and written.stored is not None:
        store_results(page["name"], written.stored)
    write_blocks(page["name"], written.blocks)
    return written.others


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
