"""Ask the public repositories behind the code audit of a spectral analysis what our probes say of them.

    git clone https://github.com/jeffreyscheng/spectral_echo
    git clone https://github.com/jeffreyscheng/improve_muon
    python benchmarks/spectral_echo.py . --python PYTHON

PYTHON needs torch, NumPy and matplotlib. Writes benchmarks/results/spectral_echo.json and
docs/evidence/spectral-echo.md. `--page` only writes the page again. A row whose outcome is not the one on
record ends the run with an error: the verdicts were written, after reading the code, for those outcomes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "spectral_echo.json"
PAGE = ROOT / "docs" / "evidence" / "spectral-echo.md"

MATH = "empirical.research.analysis.core_math"
RUNNER = "empirical.research.analysis.run_gradient_analysis"
FIRST, NEWEST, PREDECESSOR = "spectral_echo@2b25787", "spectral_echo@e15cc8d", "improve_muon@053c998"
MATRICES, PRECISION = "singular_values_returned_as_matrices", "svd_rejects_low_precision"
ALIGNMENT, ECHO, BATCH = "alignment_worse_than_optimal", "echo_estimate_is_biased", "svd_batch_is_unbounded"
SHARDS, DEVICE = "shards_overlap_or_miss_keys", "work_runs_off_the_inputs_device"
GATHER = "ranks_disagree_after_gather"
YES, NO, NONE, ERROR = "reproduced", "not_reproduced", "not_applicable", "error"


@dataclass(frozen=True)
class Subject:
    """A function at a revision, what it promises, and for each probe the outcome on record with our verdict."""

    checkout: str
    call: str
    contract: str
    answers: dict[str, tuple[str, str]]


_BATCHED = "right: one torch.linalg.svd over all replicas, and a second copy of U, S and V for the aligned ones"
_HALF = "bfloat16 is promoted by safe_svd and get_aligned_svds, float16 is not"
_OLD_SVDS = {
    MATRICES: (NO, "the audit's finding 2 does not hold: aligned_S_vals is (R, D)"),
    PRECISION: (YES, "the audit's finding 8 holds for float16 alone: " + _HALF),
    ALIGNMENT: (YES, "right: a column whose best row is taken gets a free row in the order of rows"),
    BATCH: (YES, _BATCHED),
    DEVICE: (NO, "right for gradients on a device; host gradients go to CUDA and back in safe_svd"),
    GATHER: (NONE, "right: it is called after the gather"),
}
_OLD_ECHOES = {
    ECHO: (YES, "right: the numerator sums (R-1)(R-2) triples, the denominator R(R-1) pairs: sqrt((R-2)/R)"),
    PRECISION: (YES, "float16 raises in the SVD, as above"),
}
_SHARD_PLAN = {SHARDS: (NO, "right, and unequal: the last rank takes the remainder, all keys where they are few")}

_VECTORS = "the singular values are (R, D)"
_REVERB = (
    "identical replicas echo 1; Z_ap Z_pb / Z_ab divides by overlaps that are rounding, denom_safe leaves 0 as it is"
)

SUBJECTS = (
    Subject(FIRST, f"{MATH}:get_aligned_svds", "aligned_svd", _OLD_SVDS),
    Subject(FIRST, f"{MATH}:get_spectral_echoes_from_empirical_gradients", "spectral_echo", _OLD_ECHOES),
    Subject(
        FIRST,
        f"{MATH}:solve_for_spectral_echo_using_reverb",
        "spectral_echo",
        {ECHO: (YES, _REVERB)},
    ),
    Subject(FIRST, f"{RUNNER}:shard_param_keys", "shard_plan", _SHARD_PLAN),
    Subject("spectral_echo@92a457d", f"{MATH}:get_aligned_svds", "aligned_svd", {MATRICES: (NO, _VECTORS)}),
    Subject("spectral_echo@b28b9e0", f"{MATH}:get_aligned_svds", "aligned_svd", {MATRICES: (NO, _VECTORS)}),
    Subject("spectral_echo@2038120", f"{MATH}:get_aligned_svds", "aligned_svd", {MATRICES: (NO, _VECTORS)}),
    Subject(
        NEWEST,
        f"{MATH}:get_aligned_svds",
        "aligned_svd",
        {
            MATRICES: (NO, _VECTORS),
            PRECISION: (YES, "float16 alone: safe_svd promotes bfloat16 and nothing else"),
            ALIGNMENT: (YES, "the name is an alias of get_raw_svds here: nothing is aligned"),
            BATCH: (YES, "one replica at a time now; torch.stack of the list then holds every factor twice"),
            DEVICE: (NO, "safe_svd no longer moves anything"),
        },
    ),
    Subject(
        NEWEST,
        f"{MATH}:align_svds_greedy_to_mean",
        "aligned_svd",
        {ALIGNMENT: (YES, "right: column after column takes the best row that is left"), MATRICES: (NO, _VECTORS)},
    ),
    Subject(NEWEST, f"{MATH}:solve_for_spectral_echo_using_reverb", "spectral_echo", {ECHO: (YES, _REVERB)}),
    Subject(
        NEWEST,
        f"{MATH}:compute_echo_fit_diagnostics_from_aligned_svds",
        "spectral_echo",
        {ECHO: (YES, "right: the same triples over all pairs as at the first revision")},
    ),
    Subject(NEWEST, f"{RUNNER}:shard_param_keys", "shard_plan", _SHARD_PLAN),
    Subject(PREDECESSOR, f"{MATH}:get_aligned_svds", "aligned_svd", _OLD_SVDS),
    Subject(PREDECESSOR, f"{MATH}:get_spectral_echoes_from_empirical_gradients", "spectral_echo", _OLD_ECHOES),
    Subject(PREDECESSOR, f"{RUNNER}:shard_param_keys", "shard_plan", _SHARD_PLAN),
)


def command(subject: Subject, clones: str, python: str) -> list[str]:
    """What a reader types."""
    return [
        *("auditkit", "probe", "run", *subject.answers, "--checkout", f"{clones}/{subject.checkout}"),
        *("--target", subject.call, "--contract", subject.contract, "--python", python, "--json"),
    ]


def ask(subject: Subject, clones: Path, python: str) -> dict[str, Any]:
    words = command(subject, str(clones), python)
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=ROOT)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}") from None
    results = [
        {key: result[key] for key in ("probe", "outcome", "severity", "message", "law", "location", "evidence")}
        for result in document["results"]
    ]
    print(subject.checkout, subject.call, {each["probe"]: each["outcome"] for each in results}, flush=True)
    run = {key: document["run"][key] for key in ("revision", "torch", "python", "device_name")}
    return {"subject": [subject.checkout, subject.call], "run": run, "results": results}


def other_outcomes(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    for subject, row in zip(SUBJECTS, rows, strict=True):
        for result in row["results"]:
            if result["outcome"] != subject.answers[result["probe"]][0]:
                found.append(f"{subject.checkout} {subject.call} {result['probe']}: {result['outcome']}")
    return found


def diagonal_matrices(clones: Path) -> dict[str, int]:
    """In how many revisions of the repository the analysis ever made a diagonal matrix of singular values."""
    repository = clones / "spectral_echo"
    log = subprocess.run(["git", "log", "--format=%H"], cwd=repository, capture_output=True, text=True, check=True)
    revisions = log.stdout.split()
    path = "empirical/research/analysis"
    grep = ["git", "grep", "-lE", r"diag_embed|torch\.diag\("]
    found = subprocess.run([*grep, *revisions, "--", path], cwd=repository, capture_output=True, text=True, check=False)
    return {"revisions": len(revisions), "with_diagonal_matrices": len(set(found.stdout.split()))}


# --- the page ----------------------------------------------------------------------------------------


def page(stored: dict[str, Any]) -> str:
    run = stored["rows"][0]["run"]
    seen = stored["diagonal"]
    lines = [
        "# A public spectral analysis, asked with probes",
        "",
        "jeffreyscheng/spectral_echo, the repository behind the code audit of a distributed gradient analysis, at the",
        "first revision that holds `get_aligned_svds` (2b25787) and at its newest (e15cc8d), and its predecessor",
        "jeffreyscheng/improve_muon (053c998). Written by `benchmarks/spectral_echo.py`: torch "
        f"{run['torch']}, Python {run['python']},",
        f"{run['device_name']}, no GPU: transfers are simulated, the rest is measured on the CPU.",
        "Every outcome was checked against the code by hand; the last column says what the code does.",
        "",
        "| revision | target | probe | outcome | what was found | by hand |",
        "|---|---|---|---|---|---|",
    ]
    for subject, row in zip(SUBJECTS, stored["rows"], strict=True):
        for result in row["results"]:
            outcome, verdict = subject.answers[result["probe"]]
            message = result["message"].replace("|", "\\|").replace("<", "\\<")
            name = subject.call.partition(":")[2]
            lines.append(
                f"| {subject.checkout} | `{name}` | `{result['probe']}` | {outcome.replace('_', ' ')} | "
                f"{message} | {verdict} |"
            )
    lines += ["", *FINDINGS, "", "## The commands", "", "```text"]
    for subject in SUBJECTS:
        lines.append(" ".join(word for word in command(subject, "CLONES", "PYTHON") if word != "--json"))
    lines.append("```")
    text = "\n".join(lines)
    return text.format(**seen) + "\n"


FINDINGS = (
    "## What the code audit said, and what holds at a public revision",
    "",
    "The audit judged a state that is not public: improve_muon's only commit, which holds its text as CODE_AUDIT.md,",
    "and spectral_echo's first already have its fixes for the CPU offload, for diagonal matrices and for bfloat16.",
    "",
    "- Finding 1, CPU SVDs of stored gradients: `safe_svd` moves host gradients to CUDA where there is one at 2b25787.",
    "  Its chunking in R is at no revision: memory beyond the answer grows as the gradients do, as measured above.",
    "- Finding 2, diagonal matrices: at no public revision. Of {revisions} revisions {with_diagonal_matrices} hold",
    "  `diag_embed` or `torch.diag(` under empirical/research/analysis, and the probe reads (R, D) at the five that",
    "  were asked, each with another `get_aligned_svds`.",
    "- Finding 3, greedy alignment: holds at the first revision, and as `align_svds_greedy_to_mean` at the newest.",
    "- Finding 4, compute off the device: not for gradients on a device at any of them.",
    "- Finding 6, sharding: an exact partition, as the audit says. It did not say how uneven: `n // world_size` keys a",
    "  rank and the rest to the last one.",
    "- Finding 8, bfloat16: promoted at every revision that was asked. float16 raises at all of them.",
    "- Not in the audit: the echo of `get_spectral_echoes_from_empirical_gradients` is sqrt((R-2)/R) for identical",
    "  replicas, and so it is in `compute_echo_fit_diagnostics_from_aligned_svds` at the newest revision; the reverb",
    "  solver divides by zero for orthogonal ones.",
    "",
    "Without configuration, `auditkit audit CLONES/spectral_echo --python PYTHON` finds six of these functions by name",
    "and arguments (`get_aligned_svds` as `get_raw_svds`, which it is an alias of) and comes to the same outcomes.",
    "",
    "`get_accumulated_gradient_matrices`, which gathers, runs the repository's own model on CUDA and its data: it",
    "cannot be asked, and `ranks_disagree_after_gather` says of the functions after it that they call no collective.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, help="the folder that holds both clones")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--page", action="store_true", help="only write the page from the stored results")
    options = parser.parse_args()
    if not options.page:
        rows = [ask(subject, options.clones.resolve(), options.python) for subject in SUBJECTS]
        stored = {"rows": rows, "diagonal": diagonal_matrices(options.clones.resolve())}
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    stored = json.loads(RESULTS.read_text("utf-8"))
    PAGE.write_text(page(stored), encoding="utf-8")
    if others := other_outcomes(stored["rows"]):
        raise SystemExit("not as on record:\n" + "\n".join(others))


if __name__ == "__main__":
    main()
