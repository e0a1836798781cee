"""Ask of every finding of five prose audits what a probe says at the revision that the audit judged.

    git clone https://github.com/tachyon-beep/esper-lite
    python benchmarks/seed_findings.py esper-lite --python PYTHON

PYTHON needs torch, and for the telemetry package also torchvision, pydantic, psutil, rich, yaml and textual.
Writes benchmarks/results/seed_findings.json and docs/evidence/seed-findings.md. A row whose outcome is not
the one on record ends the run with an error: the verdicts in the table were written for those outcomes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "seed_findings.json"
PAGE = ROOT / "docs" / "evidence" / "seed-findings.md"


@dataclass(frozen=True)
class Subject:
    """A collector at the revision that an audit judged, with the options that name it."""

    revision: str
    call: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One finding of an audit: what it said, which probe answers, and what was made of the answer.

    `subject` of None asks a source probe of the whole checkout at `revision`; `about` then picks the result.
    """

    finding: str
    claim: str
    probe: str
    subject: Subject | str
    outcome: str
    verdict: str
    about: str = ""


_BEFORE = "181a4c41~1"
_COLLECT = Subject(
    _BEFORE,
    "esper.simic.gradient_collector:collect_seed_gradients",
    ("--contract", "grad_stats", "--takes", "parameters", "--argument", "return_enhanced=true"),
)
_ASYNC = Subject(
    _BEFORE,
    "esper.simic.gradient_collector:SeedGradientCollector.collect_async",
    ("--takes", "parameters", "--finish", "esper.simic.gradient_collector:materialize_grad_stats"),
)
_DUAL = Subject(
    "181a4c41",
    "esper.simic.gradient_collector:collect_dual_gradients_async",
    ("--takes", "parameters", "--finish", "esper.simic.gradient_collector:materialize_dual_grad_stats"),
)
_BATCHED = Subject(
    "599f3895",
    "esper.simic.telemetry.gradient_collector:collect_seed_gradients",
    ("--contract", "grad_stats", "--takes", "parameters", "--argument", "return_enhanced=true"),
)
_MONITOR = "esper.kasmina.isolation:GradientIsolationMonitor.check_isolation"
_MONITOR_BEFORE = Subject("6de1b57", _MONITOR, ("--contract", "monitor", "--takes", "module"))
_MONITOR_AFTER = Subject("1bc9278", _MONITOR, ("--contract", "monitor", "--takes", "module"))
_SURROGATE = "esper.simic.telemetry.emitters:compute_grad_norm_surrogate"
_NORM_BEFORE = Subject("874190c0~1", _SURROGATE, ("--contract", "grad_norm", "--takes", "module"))
_NORM_AFTER = Subject("874190c0", _SURROGATE, ("--contract", "grad_norm", "--takes", "module"))
_ASYNC_TELEMETRY = Subject(
    "874190c0~1",
    "esper.simic.telemetry.gradient_collector:SeedGradientCollector.collect_async",
    ("--takes", "parameters", "--finish", "esper.simic.telemetry.gradient_collector:materialize_grad_stats"),
)

ROWS = (
    Row("000 1.1", "the private _foreach_norm is appropriate; add a version note", "private_torch_api_without_fallback",
        _BEFORE, "reproduced", "right that it is private; no guard and no fallback stand beside it",
        "esper.simic.gradient_collector"),
    Row("000 1.1", "no graph breaks expected", "graph_breaks_under_compile", _ASYNC, "not_reproduced", "right"),
    Row("000 2.1", "gradients on several devices could fail silently", "fails_on_gradients_of_two_devices", _ASYNC,
        "reproduced", "half right: it fails, but not silently"),
    Row("000 2.2", "the empty case returns other types", "empty_input_changes_result_type", _ASYNC, "reproduced",
        "right"),
    Row("000 3.1", "HIGH: n synchronisations", "syncs_grow_with_tensors", _COLLECT, "reproduced",
        "right in kind; the quality checks add three"),
    Row("000 3.1", "the same, read from the source", "sync_in_loop", _BEFORE, "reproduced", "right, and at that line",
        "collect_seed_gradients"),
    Row("000 3.2", "40 MB for 10M parameters (1x)", "peak_memory_grows_with_params", _COLLECT, "reproduced",
        "too small by 3.25 times: summing a mask builds int64"),
    Row("000 3.2", "(not said: view(-1))", "fails_on_noncontiguous_grads", _COLLECT, "reproduced",
        "missed: the line it quotes raises on a transposed gradient"),
    Row("000 4.1", "no leak", "memory_is_retained_after_call", _ASYNC, "not_reproduced", "right"),
    Row("000 4.2", "iterators are consumed once", "fails_on_generator_input", _COLLECT, "not_reproduced", "right"),
    Row("000 5.1", "CRITICAL: a materialize function without its collect", "materialize_without_collect", _BEFORE,
        "reproduced", "right", "materialize_dual_grad_stats"),
    Row("000 5.2", "HIGH: collect_seed_gradients_async is unused (then: it is used)", "public_function_unused",
        _BEFORE, "not_reproduced", "its correction is right", "esper.simic.gradient_collector"),
    Row("000 5.3", "HIGH: names used elsewhere are not exported", "used_name_not_exported", _BEFORE, "reproduced",
        "right", "SeedGradientCollector"),
    Row("000 5.4", "thresholds are repeated", "default_repeated", _BEFORE, "reproduced", "right",
        "vanishing_threshold"),
    Row("000 6.1", "the asynchronous pattern does not synchronise", "async_collect_synchronizes", _ASYNC,
        "not_reproduced", "right"),
    Row("000 7.2", "no test names DualGradientStats", "public_function_untested", _BEFORE, "reproduced", "right",
        "esper.simic.gradient_collector"),
    Row("000 7.2", "the ratio's edge cases are untested", "ratio_divides_by_zero", _DUAL, "not_reproduced",
        "the cases it asks for hold"),
    Row("001", "a temporary of 1x the gradients: 400 MB at 100M parameters", "peak_memory_grows_with_params", _BATCHED,
        "reproduced", "too small by 3.25 times"),
    Row("002", "before: n synchronisations", "syncs_grow_with_tensors", _MONITOR_BEFORE, "not_reproduced",
        "wrong: one for each group that has gradients, at any n"),
    Row("002", "after: one or two synchronisations", "syncs_grow_with_tensors", _MONITOR_AFTER, "not_reproduced",
        "right, and the same as before: nothing was saved"),
    Row("002", "(launches before, not counted)", "launches_grow_with_tensors", _MONITOR_BEFORE, "reproduced",
        "this is what the change saved"),
    Row("002", "(launches after, not counted)", "launches_grow_with_tensors", _MONITOR_AFTER, "not_reproduced",
        "a constant"),
    Row("002", "numerically stable", "norm_overflows_on_finite_grads", _MONITOR_AFTER, "reproduced", "wrong"),
    Row("002 minor 1", "empty gradient lists are handled", "empty_input_changes_result_type", _MONITOR_AFTER,
        "not_reproduced", "right"),
    Row("002 minor 2", "missing gradients are untested", "fails_on_missing_grads", _MONITOR_AFTER, "not_reproduced",
        "the cases it asks for hold"),
    Row("002 security", "the private API is acceptable", "private_torch_api_without_fallback", "1bc9278", "reproduced",
        "a judgement; no guard and no fallback stand beside it", "esper.kasmina.isolation"),
    Row("003", "P1: squaring overflows", "norm_overflows_on_finite_grads", _NORM_BEFORE, "reproduced",
        "right; but the limit is on the norm, not on an element"),
    Row("003", "(underflow, not said)", "norm_underflows_to_zero", _NORM_BEFORE, "reproduced", "missed"),
    Row("003 cross-review", "the loop with .item() breaks the graph", "graph_breaks_under_compile", _NORM_BEFORE,
        "not_reproduced", "wrong: only the read at the end"),
    Row("003 fix", "the applied fix holds every finite gradient", "norm_overflows_on_finite_grads", _NORM_AFTER,
        "not_reproduced", "right"),
    Row("003 fix", "mixed gradient scales are handled", "norm_loses_accuracy", _NORM_AFTER, "not_reproduced", "right"),
    Row("003 fix", "(memory, not said)", "peak_memory_grows_with_params", _NORM_AFTER, "reproduced",
        "missed: the fix copies every gradient to float64"),
    Row("003 note", "gradient_collector.py overflows as well", "norm_overflows_on_finite_grads", _ASYNC_TELEMETRY,
        "reproduced", "right"),
)  # fmt: skip


def groups() -> dict[Subject | str, list[Row]]:
    """The rows by what is asked: every target and every revision is opened once."""
    found: dict[Subject | str, list[Row]] = {}
    for row in ROWS:
        found.setdefault(row.subject, []).append(row)
    return found


def ask(subject: Subject | str, probes: list[str], repository: Path, python: str) -> dict[str, Any]:
    """The JSON document of one run. Raises SystemExit where there is none."""
    revision = subject if isinstance(subject, str) else subject.revision
    command = [sys.executable, "-m", "auditkit", "probe", "run", *dict.fromkeys(probes), "--json"]
    command += ["--checkout", f"{repository}@{revision}"]
    if isinstance(subject, Subject):
        command += ["--python", python, "--target", subject.call, *subject.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def answer(row: Row, document: dict[str, Any]) -> dict[str, Any]:
    """The result that speaks of the row: of source results the one about its name, else the one that found nothing."""
    results = [result for result in document["results"] if result["probe"] == row.probe]
    named = [result for result in results if row.about in json.dumps([result["target"], result["message"]])]
    named = [result for result in named if result["outcome"] == "reproduced"] or named
    if named:
        return dict(named[0])
    nothing = next(iter(results), {"outcome": "not_reproduced", "device": ""})
    return {**nothing, "outcome": "not_reproduced", "message": f"nothing about {row.about}", "severity": None}


def read(repository: Path, python: str) -> Iterator[dict[str, Any]]:
    """Every row with its result and the environment it was read in."""
    for subject, rows in groups().items():
        document = ask(subject, [row.probe for row in rows], repository, python)
        for row in rows:
            result = answer(row, document)
            kept = {key: result.get(key) for key in ("outcome", "severity", "message", "law", "device", "location")}
            commit = document["run"]["revision"][:8]
            yield {**asdict(row), **kept, "expected": row.outcome, "commit": commit, "run": document["run"]}


def render(found: list[dict[str, Any]]) -> str:
    """The page: the rows in the order of the audits."""
    order = {(row.finding, row.probe, row.claim): index for index, row in enumerate(ROWS)}
    found = sorted(found, key=lambda row: order[row["finding"], row["probe"], row["claim"]])
    run = next(row["run"] for row in found if row["run"]["torch"])
    lines = [
        "# Five audits in prose, asked again with probes",
        "",
        "Each finding of the audits that this project grew from, at the revision of tachyon-beep/esper-lite that the",
        "audit judged. Written by `benchmarks/seed_findings.py`: torch "
        f"{run['torch']}, Python {run['python']}, {run['device_name']},",
        "no GPU: device traffic is simulated, the rest is measured on the CPU, source probes read the syntax trees.",
        "Claims in brackets were not made; the probe asks all the same.",
        "",
        "| audit | it said | probe | commit | outcome | what was found | the audit was |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        message = str(row["message"]).replace("|", "\\|")
        lines.append(
            f"| {row['finding']} | {row['claim']} | `{row['probe']}` | {row['commit']} "
            f"| {row['outcome'].replace('_', ' ')} | {message} | {row['verdict']} |"
        )
    return "\n".join(lines) + "\n" + _REST


_REST = """
## What no row asks

- 000 1.2, 1.3, 6.2 to 6.4, 7.1, 7.3 praise or note; there is nothing to reproduce.
- 004 is about replica gradients and sharding, in another repository: [spectral-echo.md](spectral-echo.md).
- The fixes that 001 and 003 recommend, run as written, are in [try-fix-esper.md](try-fix-esper.md). 000 3.2's loop was
  asked apart (CPU, torch 2.15.0): it synchronises 3n times.
"""


def main() -> None:
    """Ask every row, write both files, and fail where an outcome is not the one on record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    found = list(read(arguments.repository.resolve(), arguments.python))
    for row in found:
        row["run"] = {key: row["run"][key] for key in ("revision", "python", "torch", "device", "device_name")}
        row["subject"] = row["subject"] if isinstance(row["subject"], str) else row["subject"]["call"]
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(render(found), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    other = [row for row in found if row["outcome"] != row["expected"]]
    for row in other:
        print(f"{row['finding']} {row['probe']}: {row['outcome']}, on record: {row['expected']}", file=sys.stderr)
    raise SystemExit(1 if other else 0)


if __name__ == "__main__":
    main()
