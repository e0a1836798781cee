"""`auditkit compare`: run the same probes at two revisions, and review what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, run_or_exit
from auditkit.cli.export import read_saved_run
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
    options: ArmOptions,
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
    from auditkit.cli.runs.progress import progress
    from auditkit.errors import BadInputError, ExitCode
    from auditkit.model.enums import Severity
    from auditkit.probing.run.configuration import read_configuration
    from auditkit.trials.compare import CompareRequest, compare_runs, exit_code
    from auditkit.trials.compare import compare as compare_revisions
    from auditkit.trials.review import review, review_page

    lowest = choose(Severity, fail_on.upper(), list(Severity), "severity")
    is_html = wants_html(form, output)
    configuration = read_configuration(options.config, None if runs else checkout)
    if runs:
        if checkout is None or base is None or head is not None or targets.target or probe:
            hint = "it measures nothing: auditkit compare --runs base.json head.json"
            raise BadInputError("--runs takes two files, and no --target or --probe", hint)
        found = compare_runs(read_saved_run(Path(checkout)), read_saved_run(Path(base)))
    else:
        if checkout is None or base is None or head is None:
            raise BadInputError("name a checkout and two revisions of it", "auditkit compare CHECKOUT BASE HEAD")
        request = CompareRequest(
            checkout=checkout,
            base=base,
            head=head,
            options=with_cache(options.with_config(configuration), fresh=False),
            targets=targets.targets(configuration, checkout),
            probes=tuple(probe or ()),
        )
        with progress() as told:
            found = compare_revisions(request, told)
    judged = review(found, plan, tests)
    if as_json:
        say_json(found.to_json())
    else:
        put(review_page(judged, configuration, is_html), output)
    code = exit_code(found, lowest)
    if code is ExitCode.OK and (plan or tests) and not judged.is_approved:
        code = ExitCode.FINDINGS
    raise typer.Exit(int(code))
