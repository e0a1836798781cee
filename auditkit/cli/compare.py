"""`auditkit compare`: run the same probes at two revisions, and review what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, run_or_exit
from auditkit.cli.options import ArmOptions, ProbesOption, TargetOption, choose, with_cache
from auditkit.cli.output import say_json
from auditkit.cli.report import FormatOption, OutputOption, put, wants_html

EXAMPLE = "Example: auditkit compare ../trainer v1.1 v1.2 --target trainer.stats:grad_norm"


@run_or_exit
def compare(
    checkout: Annotated[
        str | None, typer.Argument(metavar="CHECKOUT", help="A git repository, or a folder in one.")
    ] = None,
    base: Annotated[str | None, typer.Argument(metavar="BASE", help="The revision before.")] = None,
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="The revision after.")] = None,
    *,
    targets: TargetOption,
    probe: ProbesOption = None,
    runs: ArmOptions,
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
    from auditkit.cli.runs.progress import progress
    from auditkit.errors import BadInputError, ExitCode
    from auditkit.model.enums import Severity
    from auditkit.probing.run.configuration import catalog_of, read_configuration
    from auditkit.reports.comparison_page import comparison_page
    from auditkit.reports.html.page import html_page
    from auditkit.reports.page import markdown_page
    from auditkit.reports.review import Assessment
    from auditkit.trials.compare import CompareRequest, exit_code
    from auditkit.trials.compare import compare as run_both
    from auditkit.trials.review import review

    lowest = choose(Severity, fail_on.upper(), list(Severity), "severity")
    is_html = wants_html(form, output)
    config = read_configuration(runs.config, checkout)
    named = targets.targets(config, checkout)
    if checkout is None or base is None or head is None:
        raise BadInputError("name a checkout and two revisions of it", "auditkit compare CHECKOUT BASE HEAD")
    options = with_cache(runs.with_config(config), fresh=False)
    with progress() as told:
        found = run_both(CompareRequest(checkout, base, head, options, named, tuple(probe or ())), told)
    judged = review(found, plan, tests)
    if as_json:
        say_json(found.to_json())
    else:
        page = comparison_page(judged, catalog_of(config))
        put(html_page(page) if is_html else markdown_page(page), output)
    code = exit_code(found, lowest)
    if code is ExitCode.OK and (plan or tests) and judged.assessment is not Assessment.APPROVED:
        code = ExitCode.FINDINGS
    raise typer.Exit(int(code))
