"""`auditkit compare`: run the same probes at two revisions, and review what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, option, run_or_exit
from auditkit.cli.options import ArmOptions, ProbesOption, TargetOption, TargetOptions, parse_severity, with_cache
from auditkit.cli.output import say_json
from auditkit.cli.report import OutputOption, put
from auditkit.errors import ExitCode

EXAMPLE = "Example: auditkit compare ../trainer v1.1 v1.2 --target trainer.stats:grad_norm"


@run_or_exit
def compare(
    checkout: Annotated[str, typer.Argument(metavar="CHECKOUT", help="A git repository, or a folder in one.")],
    base: Annotated[str, typer.Argument(metavar="BASE", help="The revision before.")],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The revision after.")],
    *,
    target: TargetOption = None,
    probe: ProbesOption = None,
    runs: ArmOptions,
    fail_on: Annotated[str, option("--fail-on", "Exit 1 from this severity on.", "P0..P4")] = "P4",
    plan: Annotated[Path | None, option("--plan", "Judge the checkboxes of this Markdown file.", "FILE")] = None,
    tests: Annotated[str, option("--tests", "Run this at both revisions.", "COMMAND")] = "",
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
    from auditkit.probing.run.configuration import catalog_of, read_configuration
    from auditkit.reports.comparison_page import comparison_page
    from auditkit.reports.review import Assessment
    from auditkit.trials.compare import CompareRequest, exit_code, review
    from auditkit.trials.compare import compare as run_both

    lowest = parse_severity(fail_on)
    config = read_configuration(runs.config, checkout)
    named = TargetOptions(target).targets(config, checkout)
    options = with_cache(runs.with_config(config), fresh=False)
    with progress() as told:
        found = run_both(CompareRequest(checkout, base, head, options, named, tuple(probe or ())), told)
    judged = review(found, plan, tests)
    if as_json:
        say_json(found.to_json())
    else:
        put(comparison_page(judged, catalog_of(config)), output)
    code = exit_code(found, lowest)
    if code is ExitCode.OK and (plan or tests) and judged.assessment is not Assessment.APPROVED:
        code = ExitCode.FINDINGS
    raise typer.Exit(int(code))
