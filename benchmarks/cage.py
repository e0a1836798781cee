"""What the cage costs a worker, and that an audit says in it what it says without.

    python -m benchmarks.cage                                        # the cost, and the bundled specimen
    python -m benchmarks.cage --checkout ../esper-lite --python PYTHON
    python -m benchmarks.cage --page                                 # only rewrite the page from the results

Writes benchmarks/results/cage.json and docs/evidence/cage.md. Processor time is that of this process and of all that
it started and that has ended; it is compared, as other work on the machine moves the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditkit.assets import bundled_dir
from auditkit.model.enums import CageChoice, Outcome
from auditkit.model.runs.target import Target
from auditkit.probing.hosts import cage, fork_servers
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.probing.hosts.runner import run_target
from auditkit.probing.hosts.sandbox import Setting
from benchmarks.evidence import results_of, rows, store_results, write_blocks
from benchmarks.machine import environment

FREE = "none"
KINDS = (FREE, *cage.ENGINES)
WORKERS, ROUNDS, WHOLE_ROUNDS, OPENED = 15, 21, 5, 40
_OF_ONE_RUN = ("id", "duration_s", "cage")
Document = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        found = results_of("cage")
    elif options.checkout is not None:
        done = audits([str(options.checkout.resolve()), "--python", options.python])
        found = results_of("cage")
        found.setdefault("audits", {})[options.checkout.resolve().name] = done
    else:
        new = {"machine": environment("cpu"), "kernel": os.uname().release, "cost": costs()}
        done = audits([])
        found = results_of("cage") | new
        found.setdefault("audits", {})["the bundled specimen"] = done
    store_results("cage", found)
    write_blocks("cage", {"machine": machine(found), "cost": cost_table(found), "audits": audit_table(found)})


@contextmanager
def engine(kind: str) -> Iterator[None]:
    """Only this one may be used in the block."""
    before = os.environ.get(cage.FORCED)
    os.environ[cage.FORCED] = kind
    try:
        yield
    finally:
        os.environ.pop(cage.FORCED)
        os.environ |= {cage.FORCED: before} if before is not None else {}


def costs() -> Document:
    """By engine: its name, and milliseconds of processor time; each the medians of rounds taken in turn.

    What it adds to a worker with one probe is the median and the quartiles of the rounds' differences: other work on
    the machine moves neighbouring rounds alike.
    """
    folder = bundled_dir("probes") / "specimens" / "gradient_monitoring"
    target = Target("gradmon.sound:foreach_norm")
    stable = [probe for probe in load_catalog().values() if probe.lifecycle == "stable" and probe.scope == "target"]
    setting = Setting(folder, sys.executable, (folder,))
    one = [probe for probe in stable if probe.id == "norm_overflows_on_finite_grads"]
    answered = [result.outcome for result in run_target(target, one, setting).results]
    if answered != [Outcome.NOT_REPRODUCED]:
        raise SystemExit(f"{target.call} was not asked: {answered}")
    kinds: dict[str, Document] = {}
    for kind in KINDS:
        with engine(kind):
            found = cage.engine_of(CageChoice.AUTO)
            box = cage.Cage(found, cage.interpreter_files(sys.executable))
            opened = per_one(lambda box=box: box.open({}).end(), OPENED) if found.name else 0.0
            kinds[kind] = {"engine": found.describe(), "opened_ms": opened}
    short = in_turn(lambda: run_target(target, one, setting), WORKERS, ROUNDS)
    whole = in_turn(lambda: run_target(target, stable, replace(setting, time_limit_s=300.0)), 1, WHOLE_ROUNDS)
    for kind, of in kinds.items():
        more = [its - free for its, free in zip(short[kind], short[FREE], strict=True)]
        of |= {"short_worker_ms": statistics.median(short[kind]), "whole_catalogue_ms": statistics.median(whole[kind])}
        of["short_more_ms"] = [round(each, 1) for each in statistics.quantiles(more, n=4)]
    return kinds


def in_turn(work: Callable[[], object], times: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of processor time of each `work`, by engine and round."""
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in KINDS[:: -1 if number % 2 else 1]:
            with engine(kind):
                taken[kind].append(per_one(work, times))
    return taken


def per_one(work: Callable[[], object], times: int) -> float:
    """Milliseconds of processor time of each `work`, once the fork server has done it before."""
    spent = []
    for repeated in (1, 1 + times):
        fork_servers.end_servers()
        before = processor_s()
        for _ in range(repeated):
            work()
        fork_servers.end_servers()
        spent.append(processor_s() - before)
    return round((spent[1] - spent[0]) / times * 1e3, 2)


def processor_s() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def audits(words: list[str]) -> Document:
    """The same audit without a cage twice, and by each engine; what differs from the first."""
    done = {}
    for name, kind in (("first", FREE), ("again", FREE), *((kind, kind) for kind in cage.ENGINES)):
        began, clock = processor_s(), time.monotonic()
        done[name] = (audit(words, kind), round(processor_s() - began, 1), round(time.monotonic() - clock, 1))
    first = done["first"][0]
    return {
        name: {"processor_s": spent, "clock_s": took, **differences(first, document)}
        for name, (document, spent, took) in done.items()
    }


def audit(words: list[str], kind: str) -> Document:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "auditkit", "audit", *words, "--no-tickets", "--no-fixes", "--fresh"]
        variables = {**os.environ, cage.FORCED: kind, "PYTHONPATH": str(Path(cage.__file__).parents[3])}
        done = subprocess.run(
            [*command, "--save", "run.json"], cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        return dict(json.loads(Path(folder, "run.json").read_text("utf-8")))


def differences(first: Document, other: Document) -> Document:
    """How many results there are, how many differ in anything but figures, and whose figures differ."""
    pairs = list(zip(first["results"], other["results"], strict=True))
    apart = ("measurements", *_OF_ONE_RUN)
    said = [one["probe"] for one, two in pairs if _without(one, apart) != _without(two, apart)]
    figures = sorted({one["probe"] for one, two in pairs if one["measurements"] != two["measurements"]})
    return {"engine": other["run"]["cage"], "results": len(pairs), "said_otherwise": said, "other_figures": figures}


def _without(result: Document, keys: tuple[str, ...]) -> Document:
    return {key: value for key, value in result.items() if key not in keys}


def machine(found: Document) -> str:
    of = found["machine"]
    return (
        f"Written by `python -m benchmarks.cage`: {of['device']}, {of['cores']} cores, Linux {found['kernel']}, "
        f"Python {of['python']},\ntorch {of['torch']}, no GPU. Load while it ran: {of['load_average'][0]}."
    )


def cost_table(found: Document) -> str:
    base = found["cost"][FREE]
    cells = []
    for of in found["cost"].values():
        short, whole = of["short_worker_ms"], of["whole_catalogue_ms"]
        low, middle, high = of["short_more_ms"]
        of_short = f"{middle:+.1f} ms ({low:+.1f} to {high:+.1f}), {middle / base['short_worker_ms']:+.1%}"
        more = [of_short, f"{whole / base['whole_catalogue_ms'] - 1:+.1%}"] if of is not base else ["", ""]
        costs_of = [f"{of['opened_ms']:.1f} ms", f"{short:.0f} ms", more[0], f"{whole:,.0f} ms", more[1]]
        cells.append([of["engine"], *costs_of])
    titles = ("cage", "built and ended", "a worker with one probe", "more", "one with every probe", "more")
    return rows(titles, cells)


def audit_table(found: Document) -> str:
    cells = [
        [
            name,
            of["engine"] + (", again" if kind == "again" else ""),
            of["results"],
            len(of["said_otherwise"]),
            ", ".join(f"`{probe}`" for probe in of["other_figures"]) or "none",
            f"{of['processor_s']:.0f} s",
        ]
        for name, kinds in found["audits"].items()
        for kind, of in kinds.items()
        if kind != "first"
    ]
    return rows(("audited", "cage", "results", "of them other", "probes with other figures", "processor time"), cells)


if __name__ == "__main__":
    main()
