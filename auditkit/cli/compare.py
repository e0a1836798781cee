"""`auditkit compare`: the same probes at two revisions, and what became of each answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import run_or_exit
from auditkit.cli.comparison import CompareOptions, read_saved_run
from auditkit.cli.options import ResultOptions
from auditkit.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from auditkit.model.revisions.comparison import Comparison

EXAMPLE = "Example: auditkit compare ../trainer v1.1 v1.2 --target trainer.stats:grad_norm --takes module"


@run_or_exit
def compare(
    *,
    options: CompareOptions,
    runs: Annotated[
        bool, typer.Option("--runs", help="Compare two saved runs instead: --runs BASE.json HEAD.json.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Compare what other versions, devices or dtypes measured.")
    ] = False,
    results: ResultOptions,
) -> None:
    """Run the same probes at two revisions, and say what changed.

    Each answer is fixed, introduced, better, worse or unchanged. Both revisions are checked out apart; nothing in the
    repository changes. Without --target its collectors are found at both. Exits 1 where a finding is new or worse.
    """
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.history.compare import exit_code, in_words

    lowest = results.lowest()
    if runs:
        found = _compare_saved(options, force)
    else:
        found = options.compared(read_configuration(options.runs.config, options.checkout), force)
    if results.as_json:
        say_json(found.to_json())
    else:
        for line in in_words(found, results.verbose):
            say(line)
    for note in found.notes:
        complain(f"note: {note}")
    raise typer.Exit(int(exit_code(found, lowest)))


def _compare_saved(options: CompareOptions, force: bool) -> Comparison:
    """Two documents of `audit --json` or `probe run --json` set side by side. Raises BadInputError."""
    from auditkit.errors import BadInputError
    from auditkit.workflows.history.compare import compare_runs

    if options.head is None and (options.targets.target or options.probe):
        raise BadInputError("--runs measures nothing, so it takes no --target or --probe")
    if options.checkout is None or options.base is None or options.head is not None:
        raise BadInputError("--runs takes two files", "auditkit compare --runs base.json head.json")
    return compare_runs(read_saved_run(Path(options.checkout)), read_saved_run(Path(options.base)), force)
