"""What one start of the sandbox costs: `auditkit --cage COMMAND` against `auditkit COMMAND`, in pairs.

    python -m benchmarks.sandbox_start [--pairs 30] [COMMAND ...]

Prints the medians, the median of the differences, the smallest times, and the number of mounts. The command is
`--version` unless the command line names another one. Run it on an idle machine: a wall time includes every wait for
a processor, so the load average is printed, too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from auditkit import sandbox

AUDITKIT = (sys.executable, "-P", "-m", "auditkit")


def seconds(words: list[str], folder: str) -> float:
    """Wall seconds of one command in `folder`."""
    began = time.perf_counter()
    subprocess.run([*AUDITKIT, *words], cwd=folder, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = options.command or ["--version"]
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "empty"))
        place = os.path.join(folder, "empty")
        seconds(["--cage", *words], place)
        pairs = [(seconds(words, place), seconds(["--cage", *words], place)) for _ in range(options.pairs)]
        mounts = sandbox._options(sandbox._mounts_of(words))
    plain, caged = zip(*pairs, strict=True)
    kinds = {"--ro-bind", "--ro-bind-try", "--bind", "--tmpfs", "--proc", "--dev", "--dev-bind-try", "--symlink"}
    without, inside = statistics.median(plain) * 1e3, statistics.median(caged) * 1e3
    difference = statistics.median(after - before for before, after in pairs) * 1e3
    least, least_inside = min(plain) * 1e3, min(caged) * 1e3
    print(
        f"{options.pairs} pairs of `auditkit {' '.join(words)}`, {sandbox.engine()[1]}, load {os.getloadavg()[0]:.1f}"
    )
    print(f"medians: {without:.0f} ms without, {inside:.0f} ms with --cage, ratio {inside / without:.2f}")
    print(f"median of the differences: {difference:.0f} ms")
    print(f"smallest: {least:.0f} ms without, {least_inside:.0f} ms with, difference {least_inside - least:.0f} ms")
    print(f"mounts: {sum(word in kinds for word in mounts)}")


if __name__ == "__main__":
    main()
