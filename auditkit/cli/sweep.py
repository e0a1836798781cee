"""`auditkit sweep`: plan the jobs of many checkouts and environments, run them on an engine, merge the results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import command, option
from auditkit.cli.options import Words, pairs
from auditkit.cli.output import complain, say
from auditkit.errors import ExitCode

if TYPE_CHECKING:
    from auditkit.sweep.driver import Event

app = typer.Typer(
    help="Audit many checkouts and torch versions on an engine.",
    epilog="Example: auditkit sweep plan sweep.yaml > plan.jsonl",
    no_args_is_help=True,
)


@command(app, "sweep plan sweep.yaml > plan.jsonl")
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="Checkouts, torch versions, devices.")],
) -> None:
    """Print the jobs of a plan, one line of JSON each.

    Each checkout at each of its revisions is a job for every torch, Python and device. A revision becomes the commit
    that it names now, so that the plan stays the same.
    """
    from auditkit.sweep.jobs import line_of
    from auditkit.sweep.plan import jobs_of, read_plan_file

    for job in jobs_of(read_plan_file(file)):
        say(line_of(job))


@command(app, "sweep run plan.jsonl --results swept --jobs 4")
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What `auditkit sweep plan` printed.")],
    results: Annotated[
        Path, option("--results", "Folder of the results; an interrupted sweep continues.", "FOLDER")
    ] = Path("swept"),
    engine: Annotated[str, option("--engine", "local: processes here; or ray, or slurm.", "NAME")] = "local",
    jobs: Annotated[
        int | None, option("--jobs", "At most N jobs at a time.", "N", min=1, show_default="the engine's own")
    ] = None,
    attempts: Annotated[int, option("--attempts", "How often a job may start, if its worker is lost.", "K", min=1)] = 3,
    again: Annotated[bool, option("--again", "Run failed jobs again.")] = False,
    cache: Annotated[
        Path | None, option("--cache", "Clones and environments; default: the user's cache. Nodes share it.", "DIR")
    ] = None,
    option: Annotated[Words, option("--option", "For the engine, such as partition=gpu.", "NAME=VALUE")] = None,
    no_cage: Annotated[bool, option("--no-cage", "Run repositories at URLs without a sandbox.")] = False,
) -> None:
    """Run the jobs of a plan that have no result yet.

    A job runs again if its worker was killed or its node lost; a job with a result never does. A job whose
    environment or checkout cannot be made fails with its reason. Exit 0: every job has a result; 3: a job has none; 4:
    another sweep runs in the folder, or its disk is full.
    """
    from auditkit.model.text import counted
    from auditkit.sweep.driver import Sweep
    from auditkit.sweep.jobs import read_plan
    from auditkit.sweep.preparation import cache_folder

    ended = Sweep(
        jobs=read_plan(plan),
        folder=results,
        cache=cache or cache_folder(),
        engine=engine,
        at_a_time=jobs,
        attempts=attempts,
        options=pairs(option, "--option", str),
        again=again,
        cage=False if no_cage else True if os.environ.get("AUDITKIT_CAGE") == "1" else None,
        tell=log,
    ).run()
    left = ended.planned - ended.done - ended.failed
    counts = [f"{ended.done} done", *[f"{ended.failed} without a result"] * bool(ended.failed)]
    counts += [f"{left} left"] * bool(left)
    complain(f"{counted(ended.planned, 'job')}: {', '.join(counts)}; auditkit sweep merge {results}")
    if ended.failed:
        raise typer.Exit(int(ExitCode.NOTHING_MEASURED))


_ENDS = {"again": "runs again", "answered": "done", "failed": "failed"}


def log(event: Event) -> None:
    """Print `[12/150] failed  nanoGPT-...: no Python 3.9` of a job that ended."""
    if event.event in _ENDS:
        why = f": {event.reason}" if event.reason else ""
        node = f" on {event.node}" if event.node and event.event == "again" else ""
        complain(f"[{event.done + event.failed}/{event.planned}] {_ENDS[event.event]}  {event.key}{node}{why}")
        sys.stderr.flush()


@command(app, "sweep merge swept --output merged")
def merge(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The --results of `auditkit sweep run`.")],
    output: Annotated[Path | None, option("--output", "Default: FOLDER/merged.", "DIR")] = None,
) -> None:
    """Make one matrix of the results of all jobs.

    Writes matrix.json (a run, as `audit --json` prints it), matrix.html, matrix.md and jobs.csv, and files tickets in a
    folder for each checkout. Any engine gives the same files; only jobs.csv has
    times. Exit 1: findings; 3: a job or a probe has no result.
    """
    from auditkit.sweep.jobs import ResultsFolder
    from auditkit.sweep.merge import TICKETS, exit_code, file_tickets, markdown_table, write_merged
    from auditkit.sweep.merge import merge as merge_jobs

    results = ResultsFolder(folder)
    merged = merge_jobs(results, results.plan())
    out = output or folder / "merged"
    written = write_merged(merged, out)
    filed = file_tickets(merged, out / TICKETS)
    say(markdown_table(merged))
    complain(f"wrote {', '.join(map(str, written))}")
    if filed:
        complain(f"{filed} findings have tickets in {out / TICKETS}")
    raise typer.Exit(int(exit_code(merged)))
