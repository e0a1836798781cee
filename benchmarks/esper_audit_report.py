"""Write an audit report of one module of a public repository, at the revision that a report by hand judged.

    git clone https://github.com/tachyon-beep/esper-lite
    python benchmarks/esper_audit_report.py esper-lite --python PYTHON

PYTHON needs torch. Writes benchmarks/results/esper_audit_report.json (the run) and
docs/evidence/esper-audit-report.md: where each section of the report by hand stands in ours, then the report.
A section that has no counterpart, or one of another kind than recorded here, ends the run with an error.
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
CONFIG = ROOT / "benchmarks" / "esper_audit_report.yaml"
RESULTS = ROOT / "benchmarks" / "results" / "esper_audit_report.json"
PAGE = ROOT / "docs" / "evidence" / "esper-audit-report.md"
CHECKOUT = "esper-lite@f1232c3d"
TARGETS = ("enhanced-stats", "collect-async")


@dataclass(frozen=True)
class Row:
    """A section of the report by hand: what it says, its label, and what of ours speaks of the same.

    `ours` is a probe, a title's beginning, or "" where the appendix or nothing does; `expected` is our label.
    """

    section: str
    said: str
    label: str
    ours: str
    expected: str
    remark: str = ""


ROWS = (
    Row("1.1", "_foreach_norm is private", "LOW", "private_torch_api_without_fallback", "LOW"),
    Row("1.2", "stack and reduction compile", "OK", "graph_breaks_under_compile", "OK"),
    Row("1.3", "no compilation in the module", "NOTE", "No compilation in", "NOTE"),
    Row("2.1", "implicit device", "MEDIUM", "fails_on_gradients_of_two_devices", "LOW", "it raises, not silently"),
    Row("2.2", "the empty case returns other types", "MEDIUM", "empty_input_changes_result_type", "LOW"),
    Row("3.1", "one synchronisation for each gradient", "HIGH", "syncs_grow_with_tensors", "HIGH", "n+3"),
    Row("3.2", "a copy of all gradients", "MEDIUM", "peak_memory_grows_with_params", "MEDIUM", "3.25x, not 1x"),
    Row("4.1", "no leak", "LOW", "memory_is_retained_after_call", "OK"),
    Row("4.2", "the iterator is consumed once", "OK", "fails_on_generator_input", "OK"),
    Row("5.1", "materialize without collect", "CRITICAL", "materialize_without_collect", "MEDIUM"),
    Row("5.2", "an unused function (then: it is used)", "HIGH", "public_function_unused", "OK",
        "its caller is called by tests alone: see the call flow"),
    Row("5.3", "names missing from the exports", "HIGH", "used_name_not_exported", "LOW"),
    Row("5.4", "thresholds written out several times", "LOW", "default_repeated", "LOW"),
    Row("6.1", "the asynchronous pattern is documented", "POSITIVE", "Docstrings complete", "POSITIVE"),
    Row("6.1", "and does not synchronise", "POSITIVE", "async_collect_synchronizes", "OK"),
    Row("6.2", "collect wraps collect_async", "LOW", "", "", "the call flow shows it"),
    Row("6.3", "the ratio's docstring is excellent", "POSITIVE", "", "", "praise of wording: not computed"),
    Row("6.4", "type annotations complete", "POSITIVE", "Type annotations complete", "POSITIVE"),
    Row("7.1", "property-based tests exist", "POSITIVE", "Property-based tests exist", "POSITIVE"),
    Row("7.2", "no test of DualGradientStats", "MEDIUM", "public_function_untested", "LOW"),
    Row("7.3", "the enhanced metrics are tested", "OK", "Property-based tests exist", "POSITIVE"),
    Row("8", "summary of issues", "", "", "", "section 9"),
    Row("9", "priorities", "", "", "", "section 10, from severities and tickets"),
    Row("10", "importers and call flow", "", "", "", "section 11, read from the source"),
)  # fmt: skip


def auditkit(*words: object) -> str:
    """The stdout of one command. Raises SystemExit where it wrote none."""
    done = subprocess.run(
        [sys.executable, "-m", "auditkit", *map(str, words)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"auditkit {' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def audit(repository: Path, python: str, tickets: Path) -> dict[str, Any]:
    """The run's document with a label in the place of this machine's paths."""
    chosen = [word for name in TARGETS for word in ("--target", name)]
    checkout = f"{repository}@{CHECKOUT.rpartition('@')[2]}"
    printed = auditkit(
        "audit", checkout, "--config", CONFIG, *chosen, "--python", python, "--tickets", tickets, "--json"
    )
    document: dict[str, Any] = json.loads(printed)
    document["run"] |= {"checkout": CHECKOUT, "interpreter": "python"}
    return document


def counterpart(row: Row, report: dict[str, Any]) -> dict[str, Any]:
    """The item of our report that speaks of a row, of the label on record. Raises SystemExit without one."""
    items = [item for section in report["sections"] for item in section["items"] if item["label"] == row.expected]
    for item in items:
        probes = {answer["probe"] for answer in item["answers"]}
        if row.ours in probes or item["title"].startswith(row.ours):
            return dict(item)
    raise SystemExit(f"section {row.section}: no {row.expected} item about {row.ours}")


def comparison(report: dict[str, Any]) -> str:
    """The table: each section of the report by hand, and the number and label of ours."""
    lines = [
        "| By hand | Says | Label | Here | Label | Remark |",
        "|---------|------|-------|------|-------|--------|",
    ]
    for row in ROWS:
        item = counterpart(row, report) if row.ours else {"number": "", "label": ""}
        label = f"{item['label']} ({item['severity']})" if item.get("severity") else item["label"]
        lines.append(f"| {row.section} | {row.said} | {row.label} | {item['number']} | {label} | {row.remark} |")
    by_hand = {row.ours for row in ROWS}
    more = [
        f"{item['number']} {item['title']} ({item['severity']})"
        for section in report["sections"]
        for item in section["items"]
        if item["severity"] and not by_hand & {answer["probe"] for answer in item["answers"]}
    ]
    return "\n".join([*lines, "", "Found here and not by hand:", "", *(f"- {text}" for text in more)])


HEAD = f"""# An audit report beside one written by hand

On 2025-12-16 a report of `src/esper/simic/gradient_collector.py` (tachyon-beep/esper-lite, commit `f1232c3d`) was
written by hand. Below is what auditkit writes about the same file at the same commit. Nothing of it was edited, but
the lines of code are left out.
`benchmarks/esper_audit_report.py` writes this page again, with these commands:

```console
$ auditkit audit {CHECKOUT} --config benchmarks/esper_audit_report.yaml \\
    {" ".join(f"--target {name}" for name in TARGETS)} --python PYTHON --tickets tickets --json > run.json
$ auditkit report audit {CHECKOUT} --run run.json --tickets tickets
```

## Section by section

Severities are the probes' own; a project overrides them in its `auditkit.yaml`. Asked were the two functions that
compute something; `collect` and `collect_seed_gradients_async` hand their call on to `collect_async`.

"""


def main() -> None:
    """Audit, report twice (as data and as a document), and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    repository = arguments.repository.resolve()
    checkout = f"{repository}@{CHECKOUT.rpartition('@')[2]}"
    with tempfile.TemporaryDirectory() as name:
        tickets = Path(name) / "tickets"
        run = audit(repository, arguments.python, tickets)
        RESULTS.write_text(json.dumps(document_without_code(run), indent=1) + "\n", encoding="utf-8")
        whole = Path(name) / "run.json"
        whole.write_text(json.dumps(run), encoding="utf-8")
        words = ("report", "audit", checkout, "--run", whole, "--tickets", tickets)
        table = comparison(json.loads(auditkit(*words, "--json")))
        PAGE.write_text(f"{HEAD}{table}\n\n---\n\n{page_without_code(auditkit(*words))}", encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
