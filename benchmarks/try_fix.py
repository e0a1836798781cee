"""Try what two tickets of a public repository recommend, as they recommend it, and write what came of it.

    git clone https://github.com/tachyon-beep/esper-lite
    python benchmarks/try_fix.py esper-lite --python PYTHON

PYTHON needs torch, torchvision, pydantic, psutil, rich, yaml and textual. The tickets are read from the
repository's own history. Writes benchmarks/results/try_fix.json and docs/evidence/try-fix-esper.md; ends with
an error where a verdict is not the one on record.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from without_code import document_without_code, page_without_code

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "try_fix.json"
PAGE = ROOT / "docs" / "evidence" / "try-fix-esper.md"


@dataclass(frozen=True)
class Case:
    """A ticket as it stood at `revision`, the options to try it with, and the verdict on record of each arm."""

    ticket: str
    revision: str
    path: str
    options: tuple[str, ...]
    verdicts: tuple[str, ...]
    about: str


CASES = (
    Case(
        "B7-PT-01",
        "874190c0",
        "docs/bugs/fixed/B7-PT-01.md",
        ("--base", "874190c0~1", "--fix", "874190c0"),
        ("insufficient", "insufficient", "trades overflow for memory"),
        "A gradient norm that overflows. The first block is a whole function; the second is two lines that need "
        "what only the first one sets. The commit promotes every gradient to float64.",
    ),
    Case(
        "B7-PT-03",
        "5a05fc82",
        "docs/bugs/batch7/B7-PT-03.md",
        ("--base", "599f3895"),
        ("trades memory for syncs, graph breaks and launches",),
        "A flat copy of all gradients. The block leaves its signature and its head out, returns nothing, and "
        "forgets one of the three counts that were taken from the copy.",
    ),
)


def read(repository: Path, python: str) -> list[dict[str, Any]]:
    """Each case's whole document with the block that stands in its ticket afterwards."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        for case in CASES:
            ticket = Path(name) / f"{case.ticket}.md"
            git = ["git", "--no-optional-locks", "-C", repository, "show", f"{case.revision}:{case.path}"]
            ticket.write_bytes(subprocess.run(git, check=True, capture_output=True).stdout)
            words = ["ticket", "try-fix", case.ticket, "--checkout", str(repository), *case.options]
            words += ["--python", python, "--tickets", name, "--json"]
            done = subprocess.run([sys.executable, "-m", "auditkit", *words], cwd=ROOT, capture_output=True, text=True)
            if done.returncode not in (0, 1):
                raise SystemExit(done.stderr)
            text = ticket.read_text(encoding="utf-8")
            block = text[text.index("### Evidence: ") : text.index("<!-- /auditkit:evidence -->")]
            found.append({"case": case.ticket, "document": json.loads(done.stdout), "block": block})
    return found


def slim(document: dict[str, Any]) -> dict[str, Any]:
    """Without what only this machine says (paths, times), and numbers only of probes that a fix changed."""
    changes = [change for arm in document["arms"] for change in arm["judgement"]["changes"]]
    told = {change["probe"] for change in changes if change["change"] != "same"}
    runs = [document["base"], *(arm["run"] for arm in document["arms"] if arm["run"])]
    for run in runs:
        run["run"] = {key: run["run"][key] for key in ("revision", "dirty", "python", "torch", "device", "device_name")}
        for result in run["results"]:
            result.pop("duration_s", None)
            if result["probe"] not in told:
                result.pop("measurements", None)
    return {key: part for key, part in document.items() if key not in ("path", "written")}


def render(found: list[dict[str, Any]]) -> str:
    """The page: for each ticket the command, and its block as it was written."""
    run = found[0]["document"]["base"]["run"]
    lines = [
        "# What two tickets recommend, tried",
        "",
        "Tickets of tachyon-beep/esper-lite, their recommended code run as it stands there. Written by",
        f"`benchmarks/try_fix.py`: torch {run['torch']}, Python {run['python']}, {run['device_name']}, no GPU:",
        "device traffic is simulated, the rest is measured on the CPU. The whole documents are in",
        "`benchmarks/results/try_fix.json`.",
    ]
    for case, one in zip(CASES, found, strict=True):
        options = " ".join(case.options)
        lines += [
            "",
            f"## {case.ticket}: {one['document']['verdict']}",
            "",
            case.about,
            "",
            "```console",
            f"$ git -C esper-lite show {case.revision}:{case.path} > tickets/{case.ticket}.md",
            f"$ auditkit ticket try-fix {case.ticket} --checkout esper-lite {options} --python PYTHON",
            "```",
            "",
            "What the command writes into the ticket:",
            "",
            one["block"].strip(),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Try both, write both files, and fail where a verdict is not the one on record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    found = read(arguments.repository.resolve(), arguments.python)
    for one in found:
        one["document"] = slim(one["document"])
    documents = {one["case"]: one["document"] for one in found}
    RESULTS.write_text(json.dumps(document_without_code(documents), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page_without_code(render(found)), encoding="utf-8")
    wrong = False
    for case in CASES:
        verdicts = tuple(arm["judgement"]["verdict"] for arm in documents[case.ticket]["arms"])
        print(f"{case.ticket}: {', '.join(verdicts)}")
        wrong |= verdicts != case.verdicts
    raise SystemExit("a verdict is not the one on record" if wrong else 0)


if __name__ == "__main__":
    main()
