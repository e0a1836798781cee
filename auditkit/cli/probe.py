"""`auditkit probe`: the catalog, one probe's page, and single probes on named targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, command, option
from auditkit.cli.options import AuditOptions, ConfigOption, ResultOptions, SaveOption
from auditkit.cli.output import complain_of, say, say_json
from auditkit.errors import ExitCode, NothingMeasuredError, TargetNotLoadedError

_SKIP_COMMIT = 125
"""`git bisect run` skips a commit that ends so."""

app = typer.Typer(
    help="List, read, run and write single probes.", epilog="Example: auditkit probe list", no_args_is_help=True
)


@command(app, "probe list --json", name="list")
def list_probes(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the probes: what each one proves, and its severity."""
    from auditkit.probing.run.configuration import find_probes

    probes = find_probes(config)
    if as_json:
        say_json({"schema_version": 1, "probes": [probe.to_json() for probe in probes]})
        return
    width = max(len(probe.id) for probe in probes)
    for probe in probes:
        when = "" if probe.lifecycle == "stable" else f" ({probe.lifecycle}: runs only when named)"
        when += " (style: an audit runs it with --style)" if probe.style else ""
        say(f"{probe.severity.value}  {probe.id:<{width}}  {probe.title}{when}")


@command(app, "probe show norm_overflows_on_finite_grads", name="show")
def show_probe(
    probe: Annotated[str, typer.Argument(metavar="ID", help="A probe's id.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a probe checks, how, what it cannot see, and the fix."""
    import textwrap

    from auditkit.probing.run.configuration import find_probes

    info = find_probes(config, [probe])[0]
    if as_json:
        say_json({"schema_version": 1, "probe": info.to_json()})
        return
    style = ", style (an audit runs it with --style)" if info.style else ""
    say(f"{info.id}, version {info.version}, {info.severity.value}, {info.lifecycle}{style}\n{info.title}\n")
    contracts = ", ".join(contract.value for contract in info.contracts)
    say(f"Contracts: {contracts}" if contracts else "Reads the checkout's source; needs no target and runs nothing")
    for title, text in (
        ("Why", info.motivation),
        ("How", info.method),
        ("What it cannot see", info.limits),
        ("Recommended fix", info.remediation),
    ):
        say(f"\n{title}:\n{textwrap.fill(text, 96, initial_indent='  ', subsequent_indent='  ')}")
    if info.remediation_code:
        say("\n" + "\n".join("    " + line for line in info.remediation_code.rstrip().splitlines()))


@command(app, "probe run norm_overflows_on_finite_grads --checkout ../trainer --target stats:norm --json", name="run")
def run_probes(
    probes: Annotated[list[str], typer.Argument(metavar="ID...", help="Probe ids, or files of probes.")],
    checkout: Annotated[
        str | None, option("--checkout", "Default: that of auditkit.yaml, else this folder.", "DIR")
    ] = None,
    *,
    options: AuditOptions,
    results: ResultOptions,
    save: SaveOption = None,
    bisect: Annotated[
        bool, option("--bisect", "Exit 125 if nothing could be measured, as git bisect run expects.")
    ] = False,
) -> None:
    """Run the named probes; file no tickets.

    Probes that read the source need no --target: they read the whole checkout, or, with one, its module.
    """
    from auditkit.cli.runs.report import run_and_finish
    from auditkit.probing.run.configuration import read_configuration

    configuration = read_configuration(options.config, checkout or ".")
    request = options.request(checkout, configuration, probes, None, whole_source=True)
    try:
        run_and_finish(request, results, named=True, wants_tickets=False, save=save)
    except (NothingMeasuredError, TargetNotLoadedError) as error:
        raise typer.Exit(_SKIP_COMMIT if bisect else complain_of(error, results.as_json)) from None
    except typer.Exit as ended:
        is_skipped = bisect and ended.exit_code in (ExitCode.NOTHING_MEASURED, ExitCode.TARGET_NOT_LOADED)
        raise typer.Exit(_SKIP_COMMIT) if is_skipped else ended from None


@command(app, "probe new norm_is_cut_off --dir probes", name="new")
def write_probe(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="The defect that it would prove: norm_is_cut_off.")],
    folder: Annotated[
        Path | None, option("--dir", "Default: the configuration's probes_dir, else probes.", "DIR")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write a probe of your own that runs at once.

    With it come a defective and a sound specimen, and its test.
    """
    from auditkit.audit.new_probe import new_probe

    files, steps = new_probe(claim, folder, config)
    for path in files:
        say(f"wrote {path}")
    for number, step in enumerate(steps, start=1):
        say(f"{number}. {step}")
