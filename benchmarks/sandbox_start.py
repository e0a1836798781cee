"""What one start of the sandbox costs: pairs of a cheap command with and without `--cage`, in one run.

python benchmarks/sandbox_start.py [PAIRS]
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time

from auditkit import sandbox

COMMAND = [sys.executable, "-P", "-m", "auditkit"]


def milliseconds(*words: str) -> float:
    """Elapsed time of one command."""
    with tempfile.TemporaryDirectory() as folder:
        begun_s = time.perf_counter()
        subprocess.run([*COMMAND, *words], cwd=folder, check=True, capture_output=True)
        return (time.perf_counter() - begun_s) * 1000


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    milliseconds("--cage", "probe", "list")  # the first start reads everything from the disk
    timed = [(milliseconds("probe", "list"), milliseconds("--cage", "probe", "list")) for _ in range(pairs)]
    print(
        json.dumps(
            {
                "command": "probe list",
                "pairs": pairs,
                "plain_ms": round(statistics.median(plain for plain, _ in timed)),
                "sandboxed_ms": round(statistics.median(caged for _, caged in timed)),
                "start_ms": round(statistics.median(caged - plain for plain, caged in timed)),
                "sandbox": sandbox.engine()[1],
                "machine": f"{platform.machine()}, Linux {platform.release()}",
            }
        )
    )


if __name__ == "__main__":
    main()
