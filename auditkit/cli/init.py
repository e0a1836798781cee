"""`auditkit init`: find the collectors of a checkout and write an auditkit.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import option, run_or_exit
from auditkit.cli.options import PythonOption
from auditkit.cli.output import complain, say

EXAMPLE = "Example: auditkit init ../trainer --output auditkit.yaml"


@run_or_exit
def init(
    checkout: Annotated[str, typer.Argument(metavar="[CHECKOUT[@REV]]", help="The code to read.")] = ".",
    python: PythonOption = None,
    output: Annotated[Path | None, option("--output", "Where to write; default: in the checkout.", "FILE")] = None,
) -> None:
    """Find the collectors of a checkout, try each, write auditkit.yaml."""
    from auditkit.audit.init import init as run_init
    from auditkit.cli.runs.progress import progress
    from auditkit.model.text import counted
    from auditkit.probing.run.found_candidates import left_out_lines, not_asked_lines

    with progress() as told:
        done = run_init(checkout, python, output, told.trying)
    trials = done.found.trials
    for trial in trials:
        if trial.works and trial.target.contract and trial.target.takes:
            called, promised = trial.target.takes.value, trial.target.contract.value
            say(f"{trial.target.call}  called with {called}, checked as {promised}")
    found = done.found.candidates
    for note in (*done.found.notes, *map(str.strip, (*not_asked_lines(found), *left_out_lines(found)))):
        complain(f"note: {note}")
    if done.adapter is not None:
        say(f"wrote {done.adapter}: training steps that auditkit could not call, for you to complete")
    say(f"wrote {done.path}: {counted(done.target_count, 'target')}. Next: auditkit audit {done.audit_words}")
