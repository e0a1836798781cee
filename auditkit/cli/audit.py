"""`auditkit audit`: run every probe on every collector of a checkout, and file what reproduced."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import option, run_or_exit
from auditkit.cli.export import PageFiles
from auditkit.cli.options import (
    FILED,
    RUN,
    AuditOptions,
    ProbesOption,
    ResultOptions,
    SaveOption,
    Words,
)
from auditkit.errors import BadInputError

EXAMPLE = "Example: auditkit audit ../trainer@v1.2 --tickets tickets --batch 7"
_IN_CI = "In CI"
DEMO_FOLDER = Path("auditkit-demo")
_FIX_TIME_S = 120.0


@functools.partial(run_or_exit, writes=True)
def audit(
    checkout: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHECKOUT[@REV]]", help="Default: this folder if it has auditkit.yaml, else the bundled specimen."
        ),
    ] = None,
    probe: ProbesOption = None,
    style: Annotated[bool, option("--style", "Also check style: unused or untested functions, ...")] = False,
    *,
    options: AuditOptions,
    exclude: Annotated[Words, option("--exclude", "Paths to skip: 'examples/*'.", "GLOB", panel=RUN)] = None,
    batch: Annotated[
        int | None, option("--batch", "Batch number of new tickets.", "N", panel=FILED, min=0, max=9999)
    ] = None,
    tickets: Annotated[
        Path | None, option("--tickets", "File tickets there.", "DIR", show_default="tickets, if it exists")
    ] = None,
    no_tickets: Annotated[bool, option("--no-tickets", "File no tickets.", panel=FILED)] = False,
    fix_time: Annotated[
        float | None,
        option("--fix-time", "Default: 120 if tickets are filed; 0 tries no fix.", "SECONDS", panel=FILED, min=0.0),
    ] = None,
    new_only: Annotated[
        bool, option("--new-only", "Exit 1 only for findings that no ticket knows; file no tickets.", panel=_IN_CI)
    ] = False,
    changed: Annotated[
        bool, option("--changed", "Check only what changed since --against (HEAD), and its callers.", panel=_IN_CI)
    ] = False,
    against: Annotated[
        str | None,
        option("--against", "Whose tickets, auditkit.yaml and files to compare with.", "REV", panel=_IN_CI),
    ] = None,
    require_steps: Annotated[
        bool, option("--require-steps", "Exit 3 if a training step was found and could not be checked.", panel=_IN_CI)
    ] = False,
    outputs: PageFiles,
    results: ResultOptions,
    save: SaveOption = None,
) -> None:
    """Find a checkout's collectors, run every probe, file tickets.

    auditkit files tickets in --tickets, in the folder that auditkit.yaml names, or in an existing folder `tickets`.
    Without CHECKOUT it audits the bundled specimen and files into auditkit-demo; with --target, or where auditkit.yaml
    is, it audits this folder.
    A ticket recommends a fix only if auditkit ran it in a copy: the findings are gone, correct results stay the same,
    and nothing gets worse. --dry-run tries no fix without --fix-time.
    """
    from dataclasses import replace

    from auditkit.audit.audit import is_about_specimen, specimen_dir
    from auditkit.audit.baseline import base_at
    from auditkit.cli.runs.report import run_and_finish
    from auditkit.config.config_file import CONFIG_NAME
    from auditkit.files import is_dry_run
    from auditkit.model.runs.run import BUNDLED

    if tickets is not None and no_tickets:
        raise BadInputError("--tickets and --no-tickets exclude each other")
    if new_only and no_tickets:
        raise BadInputError("--new-only compares with tickets", "leave out --no-tickets: --new-only files none")
    if against is not None and not (new_only or changed):
        raise BadInputError("--against is for --new-only and --changed", "add one of the two")
    files = outputs.checked()
    is_here = bool(checkout or new_only or changed or options.config) or Path(CONFIG_NAME).is_file()
    demo = not is_here and is_about_specimen(options.target or ())
    with base_at(against if new_only else None, checkout) as base:
        configuration = base.configuration(options.config, str(specimen_dir()) if demo else checkout)
        usual = DEMO_FOLDER / "tickets" if demo else Path("tickets")  # auditkit creates no folder by itself
        usual_folder = usual if demo or usual.is_dir() else None
        folder = None if no_tickets else tickets or configuration.tickets or usual_folder
        known = base.known(folder or Path("tickets")) if new_only else None
        folder = None if new_only else folder
        label, limit_s = BUNDLED if demo else None, fix_time
        if limit_s is None:
            limit_s = _FIX_TIME_S if folder is not None and not is_dry_run() else 0.0
        configuration = replace(configuration, exclude=(*configuration.exclude, *(exclude or ())))
        since = (against or "HEAD") if changed else None
        more = {"batch": batch, "fix_time_s": limit_s, "known": known, "changed_since": since}
        request = options.request(checkout, configuration, probe, folder, label=label, style=style, **more)
        run_and_finish(
            request, results, wants_tickets=not no_tickets, files=files, save=save, requires_steps=require_steps
        )
