"""A code audit of a public analysis of spectra, as auditkit writes it.

    git clone https://github.com/jeffreyscheng/spectral_echo
    python benchmarks/code_audit.py spectral_echo --python PYTHON

PYTHON needs torch, NumPy and matplotlib. Writes docs/evidence/code-audit-spectral-echo.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from without_code import page_without_code

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "code-audit-spectral-echo.md"
NEWEST, FIRST = "e15cc8d", "2b25787"
PROBES = (
    "singular_values_returned_as_matrices", "svd_rejects_low_precision", "alignment_worse_than_optimal",
    "echo_estimate_is_biased", "svd_batch_is_unbounded", "shards_overlap_or_miss_keys",
    "work_runs_off_the_inputs_device", "ranks_disagree_after_gather",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    words = ["report", "code-audit", f"spectral_echo@{NEWEST}", "--since", FIRST]
    words += [word for probe in PROBES for word in ("--probe", probe)]
    config = ROOT / "benchmarks" / "code_audit.yaml"
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "spectral_echo").symlink_to(options.repository.resolve())
        command = [sys.executable, "-m", "auditkit", *words, "--config", str(config), "--python", options.python]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit {done.returncode}\n{done.stderr}")
    shown = " ".join([*words, "--config", "benchmarks/code_audit.yaml", "--python", "PYTHON"])
    head = f"<!-- Written by benchmarks/code_audit.py: auditkit {shown} -->\n\n"
    PAGE.write_text(head + page_without_code(done.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
