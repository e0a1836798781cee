"""`auditkit compare`: run the same probes at two revisions, and review what changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, run_or_exit
from auditkit.cli.comparison import CompareOptions, read_saved_run
from auditkit.cli.options import choose
from auditkit.cli.output import say_json
from auditkit.cli.report import FormatOption, OutputOption, put, wants_html

if TYPE_CHECKING:
    from auditkit.model.revisions.comparison import Comparison

EXAMPLE = "Example: auditkit compare ../trainer v1.1 v1.2 --target trainer.stats:grad_norm"


@run_or_exit
def compare(
    *,
    options: CompareOptions,
    runs: Annotated[
        bool, typer.Option("--runs", help="Compare two saved runs instead: --runs BASE.json HEAD.json.")
    ] = False,
    fail_on: Annotated[str, typer.Option("--fail-on", metavar="P0..P4", help="Exit 1 from this severity on.")] = "P4",
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Judge the checkboxes of this Markdown file.")
    ] = None,
    tests: Annotated[str, typer.Option("--tests", metavar="COMMAND", help="Run this at both revisions.")] = "",
    form: FormatOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the same probes at two revisions, and review what changed.

    Each result is fixed, new, better, worse or unchanged. auditkit works on copies: nothing in the
    repository changes. Without --target it finds the collectors of both. With --plan each checkbox, such as
    `- [ ] syncs_grow_with_tensors: fixed`, is met, not met or not measurable.

    Exits 1 if a finding is new or worse; with --plan or --tests also if the change is not approved.
    """
    from auditkit.errors import ExitCode
    from auditkit.model.enums import Severity
    from auditkit.probing.run.configuration import read_configuration
    from auditkit.reports.review import Assessment
    from auditkit.trials.compare import exit_code
    from auditkit.trials.review import review, review_page

    lowest = choose(Severity, fail_on.upper(), list(Severity), "severity")
    is_html = wants_html(form, output)
    configuration = read_configuration(options.runs.config, None if runs else options.checkout)
    found = _compare_saved(options) if runs else options.compared(configuration)
    judged = review(found, plan, tests)
    if as_json:
        say_json(found.to_json())
    else:
        put(review_page(judged, configuration, is_html), output)
    code = exit_code(found, lowest)
    if code is ExitCode.OK and (plan or tests) and judged.assessment is not Assessment.APPROVED:
        code = ExitCode.FINDINGS
    raise typer.Exit(int(code))


def _compare_saved(options: CompareOptions) -> Comparison:
    """Return the comparison of two documents of `audit --json` or `probe run --json`. Raises BadInputError."""
    from auditkit.errors import BadInputError
    from auditkit.trials.compare import compare_runs

    if options.head is None and (options.targets.target or options.probe):
        raise BadInputError("--runs measures nothing, so it takes no --target or --probe")
    if options.checkout is None or options.base is None or options.head is not None:
        raise BadInputError("--runs takes two files", "auditkit compare --runs base.json head.json")
    return compare_runs(read_saved_run(Path(options.checkout)), read_saved_run(Path(options.base)))
