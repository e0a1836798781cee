"""Evidence from a GPU in one command: three parts of at most eight minutes, each of which can be run alone.

    python -m benchmarks.gpu_evidence                        # truth, memory and speed, one after the other
    python -m benchmarks.gpu_evidence truth --out FOLDER     # one part; FOLDER/gpu_truth.json grows row by row
    python -m benchmarks.gpu_evidence --preflight            # every line of it on the CPU: no evidence
    python -m benchmarks.gpu_page                            # the pages, from the results

Needs the checkout's files, torch for CUDA, Triton, NumPy, typer, jinja2, PyYAML, rich and pytest; no network, and
nothing is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu_rows import WHOLE, Child, Clock, Row, StillClock, run_part

PARTS = ("truth", "memory", "speed")
RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Measure the parts that are asked for. 0: whole; 2: nothing can be measured here; 3: something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS, help="default: all three")
    parser.add_argument("--preflight", action="store_true", help="on the CPU, tiny, into a temporary folder")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="of preflight: one of N collectors")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: benchmarks/results")
    parser.add_argument("--limit-s", type=float, default=480.0, help="of each part; default: 480")
    parser.add_argument("--revision", default="", help="the commit, where the files come without git")
    options = parser.parse_args(arguments)
    if options.preflight and options.out and options.out.resolve() == RESULTS:
        parser.error("preflight is no evidence: it does not write into benchmarks/results")
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # whoever asks for a device here does not initialise CUDA
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own start and stop lines
    if options.preflight:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is first imported

    import torch

    torch.set_num_threads(1)  # as every probe runs: sums and temporaries do not depend on the cores
    return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    from benchmarks.gpu_machine import Machine

    machine = Machine(options.preflight, options.share)
    clock = StillClock() if options.preflight else Clock()
    described = Row("machine", lambda: machine.describe(options.revision), 60)
    with contextlib.closing(Child([described], clock)) as child:
        head = child.measure(described, described.limit_s)
    if "error" in head:
        print(f"{head['error']}; --preflight runs every line of this on the CPU", file=sys.stderr)
        return 2
    out = options.out or (Path(tempfile.mkdtemp(prefix="gpu-preflight-")) if options.preflight else RESULTS)
    whole = True
    for part in [options.part] if options.part else PARTS:
        rows = importlib.import_module(f"benchmarks.gpu_{part}").rows(machine)
        path = out / f"gpu_{part}.json"
        document = run_part(rows, path, {"part": part, **head}, options.limit_s, clock)
        errors = sum("error" in row for row in document["rows"].values())
        print(f"{path}: {len(document['rows'])} of {len(rows)} rows, {errors} with an error, {document['ended']}")
        whole = whole and document["ended"] == WHOLE
    return 0 if whole else 3


if __name__ == "__main__":
    raise SystemExit(main())
