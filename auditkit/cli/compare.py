"""`auditkit compare`: the same probes at two revisions, and what became of each answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from auditkit.cli.common import run_or_exit
from auditkit.cli.comparison import CompareOptions, read_saved_run
from auditkit.cli.options import ResultOptions, choose
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.report import OutputOption, put, wants_html

if TYPE_CHECKING:
    from auditkit.config.config import Config
    from auditkit.model.revisions.comparison import Comparison

EXAMPLE = "Example: auditkit compare ../trainer v1.1 v1.2 --target trainer.stats:grad_norm --takes module"


_REVIEW = "As an implementation review"
_FORMATS = ("text", "markdown", "html")


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
    form: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="text, markdown or html: a review.", rich_help_panel=_REVIEW),
    ] = "text",
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="Judge the checkboxes of this Markdown file.", rich_help_panel=_REVIEW
        ),
    ] = None,
    tests: Annotated[
        str,
        typer.Option("--tests", metavar="COMMAND", help="Run it at both revisions.", rich_help_panel=_REVIEW),
    ] = "",
    output: OutputOption = None,
) -> None:
    """Run the same probes at two revisions, and say what changed.

    Each answer is fixed, introduced, better, worse or unchanged. Both revisions are checked out apart; nothing in the
    repository changes. Without --target its collectors are found at both. Exits 1 where a finding is new or worse.

    With --format markdown or html it writes a review: each claim of the commits and each checkbox of --plan (such as
    `- [ ] syncs_grow_with_tensors: fixed`) is met, not met or not measurable. Exits 0 only if the change is approved.
    """
    from auditkit.errors import BadInputError
    from auditkit.probing.run.configuration import read_configuration
    from auditkit.trials.compare import exit_code, in_words

    lowest = results.lowest()
    is_review = choose(_FORMATS.index, form, _FORMATS, "format") > 0 or output is not None
    if (plan or tests) and not is_review:
        raise BadInputError("--plan and --tests belong to a review", "add --format markdown")
    configuration = read_configuration(options.runs.config, None if runs else options.checkout)
    if runs:
        found = _compare_saved(options, force)
    else:
        found = options.compared(configuration, force)
    if is_review and not results.as_json:
        _write_review(found, configuration, plan, tests, wants_html(None if form == "text" else form, output), output)
    if results.as_json:
        say_json(found.to_json())
    else:
        for line in in_words(found, results.verbose):
            say(line)
    for note in found.notes:
        complain(f"note: {note}")
    raise typer.Exit(int(exit_code(found, lowest)))


def _write_review(
    found: Comparison, configuration: Config, plan: Path | None, tests: str, is_html: bool, output: Path | None
) -> NoReturn:
    from auditkit.trials.review import review, review_page

    judged = review(found, plan, tests)
    put(review_page(judged, configuration, is_html), output)
    raise typer.Exit(int(not judged.is_approved))


def _compare_saved(options: CompareOptions, force: bool) -> Comparison:
    """Two documents of `audit --json` or `probe run --json` set side by side. Raises BadInputError."""
    from auditkit.errors import BadInputError
    from auditkit.trials.compare import compare_runs

    if options.head is None and (options.targets.target or options.probe):
        raise BadInputError("--runs measures nothing, so it takes no --target or --probe")
    if options.checkout is None or options.base is None or options.head is not None:
        raise BadInputError("--runs takes two files", "auditkit compare --runs base.json head.json")
    return compare_runs(read_saved_run(Path(options.checkout)), read_saved_run(Path(options.base)), force)
