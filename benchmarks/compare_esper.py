"""Compare two changes of a public repository that people had reviewed by hand, and write what was measured.

    git clone https://github.com/tachyon-beep/esper-lite
    python benchmarks/compare_esper.py esper-lite --python PYTHON

PYTHON needs torch, torchvision, pydantic, psutil, rich, yaml and textual. Writes docs/evidence/compare-esper.md
and docs/evidence/review-1bc9278.md. With --keep FOLDER the documents of `compare --json` are kept there, and taken
from there where they are.
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

from without_code import page_without_code

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from auditkit.model.comparison import Comparison  # noqa: E402
from auditkit.workflows.compare import in_words  # noqa: E402

PAGE = ROOT / "docs" / "evidence" / "compare-esper.md"
REVIEW = ROOT / "docs" / "evidence" / "review-1bc9278.md"
LABEL = "esper-lite"


@dataclass(frozen=True)
class Row:
    """One change: its revisions, what is compared ("" for whatever is found), and what people had said of it."""

    name: str
    base: str
    head: str
    target: str
    options: tuple[str, ...]
    said: str


_FOUR = (
    "norm_overflows_on_finite_grads",
    "launches_grow_with_tensors",
    "syncs_grow_with_tensors",
    "peak_memory_grows_with_params",
)
ROWS = (
    Row(
        "1bc9278",
        "6de1b57",
        "1bc9278",
        "esper.kasmina.isolation:GradientIsolationMonitor.check_isolation",
        ("--contract", "monitor", "--takes", "module"),
        'A review approved it with 9.5 of 10: "reducing CUDA synchronization from O(n_params) to O(1)", "50-100 CUDA '
        'syncs" before and "1-2" after, for 50 to 100 parameters.',
    ),
    Row(
        "874190c0",
        "874190c0~1",
        "874190c0",
        "esper.simic.telemetry.emitters:compute_grad_norm_surrogate",
        ("--contract", "grad_norm", "--takes", "module"),
        "The ticket of the overflow was closed as fixed by it. Nobody asked what the float64 copies cost.",
    ),
    Row(
        "874190c0-all",
        "874190c0~1",
        "874190c0",
        "",
        tuple(word for probe in _FOUR for word in ("--probe", probe)),
        "The same commit changed four more places. All collectors that are found at both revisions, four probes each:",
    ),
)
FIGURES = (
    ("synchronisations", "syncs_grow_with_tensors", "law"),
    ("launches", "launches_grow_with_tensors", "law"),
    ("peak memory", "peak_memory_grows_with_params", "law"),
    ("overflow", "norm_overflows_on_finite_grads", "outcome"),
)


def words_of(row: Row, repository: str, python: str) -> list[str]:
    """The command that compares a row, as a user types it."""
    target = ["--target", row.target] if row.target else []
    return ["compare", repository, row.base, row.head, *target, *row.options, "--python", python]


def run_row(row: Row, repository: Path, python: str) -> dict[str, Any]:
    """The whole document of one comparison, under the repository's public name."""
    command = [sys.executable, "-m", "auditkit", *words_of(row, str(repository), python), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{row.base} {row.head}: exit {done.returncode}\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    document["checkout"] = LABEL
    for side in ("base", "head"):
        document[side]["checkout"] = f"{LABEL}@{document[side]['checkout'].rpartition('@')[2]}"
        document[side]["interpreter"] = "python"
    return document


def summary_rows(comparisons: list[tuple[Row, Comparison]]) -> list[str]:
    lines = ["| change | what | before | after | became | evidence |", "|---|---|---|---|---|---|"]
    for row, comparison in comparisons:
        if not row.target:
            continue
        contrasts = {contrast.probe: contrast for contrast in comparison.contrasts}
        for name, probe, kind in FIGURES:
            one = contrasts[probe]
            assert one.base is not None
            assert one.head is not None
            sides = [
                side.law if kind == "law" else side.outcome.value.replace("_", " ") for side in (one.base, one.head)
            ]
            change = one.change.value.replace("_", " ")
            lines.append(f"| {row.base} -> {row.head} | {name} | {sides[0]} | {sides[1]} | {change} | {one.evidence} |")
    return lines


def render(comparisons: list[tuple[Row, Comparison]]) -> str:
    """The page: what was said, what came out, and the whole output of each command."""
    head = comparisons[0][1].head
    lines = [
        "# Two changes of tachyon-beep/esper-lite, compared",
        "",
        f"Written by `benchmarks/compare_esper.py`, torch {head.torch}, Python {head.python}, {head.device_name}, no",
        "GPU: syncs and launches simulated, the rest measured on the CPU. Every probe of the catalogue was asked at",
        "both revisions; n is the number of tensors, memory the peak extra bytes per gradient byte.",
        "",
        *summary_rows(comparisons),
    ]
    for row, comparison in comparisons:
        command = " ".join(["auditkit", *words_of(row, LABEL, "python")])
        about = "" if row.target else ", every collector"
        lines += ["", f"## {row.base} to {row.head}{about}", "", row.said, "", "```sh", command, "```", "", "```text"]
        lines += [*in_words(comparison), "```"]
    review = f"auditkit report review {LABEL} 6de1b57 1bc9278 --target ... --require 'answers: same'"
    lines += ["", f"The first of them as an implementation review: [{REVIEW.name}]({REVIEW.name}) (`{review}`)."]
    return "\n".join(lines) + "\n"


def write_review(document: dict[str, Any]) -> None:
    """The review of a comparison, of whose answers it is required that they are the same."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "compare.json"
        saved.write_text(json.dumps(document), encoding="utf-8")
        words = ["report", "review", "--from", str(saved), "--output", str(REVIEW), "--force"]
        words += ["--require", "answers: same", "--require", "launches_grow_with_tensors law = O(1)"]
        done = subprocess.run([sys.executable, "-m", "auditkit", *words], cwd=ROOT, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"report review: exit {done.returncode}")
    REVIEW.write_text(page_without_code(REVIEW.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    """Run both comparisons and write both pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    documents = []
    for row in ROWS:
        kept = arguments.keep / f"{row.name}.json" if arguments.keep else None
        if kept is not None and kept.is_file():
            documents.append(json.loads(kept.read_text(encoding="utf-8")))
            continue
        documents.append(run_row(row, arguments.repository.resolve(), arguments.python))
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(documents[-1], indent=1) + "\n", encoding="utf-8")
    comparisons = [(row, Comparison.from_json(document)) for row, document in zip(ROWS, documents, strict=True)]
    PAGE.write_text(render(comparisons), encoding="utf-8")
    write_review(documents[0])


if __name__ == "__main__":
    main()
