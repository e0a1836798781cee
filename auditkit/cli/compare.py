"""`auditkit compare`: the same probes at two revisions, and what became of each answer."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import run_or_exit
from auditkit.cli.comparison import CompareOptions, compare_saved
from auditkit.cli.options import ResultOptions
from auditkit.cli.output import complain, say, say_json

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
    """Run the same probes on the same targets at two revisions: fixed, introduced, better, worse, unchanged.

    Both revisions are checked out apart; nothing in the repository changes. Without --target its collectors are
    found at both. Exits 1 where a finding is new or worse.
    """
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.history.compare import exit_code, in_words

    lowest = results.lowest()
    if runs:
        _refuse_more(options)
        found = compare_saved(options.checkout, options.base, force)
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


def _refuse_more(options: CompareOptions) -> None:
    from auditkit.errors import BadInputError

    if options.head is not None:
        raise BadInputError("--runs takes two files", "auditkit compare --runs base.json head.json")
    if options.targets.target or options.probe:
        raise BadInputError("--runs measures nothing, so it takes no --target or --probe")
