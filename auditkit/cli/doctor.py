"""`auditkit doctor`: which probes can run on this machine, and what the others need."""

from __future__ import annotations

from typing import Annotated

from auditkit.cli.common import JsonOption, option, run_or_exit
from auditkit.cli.options import PythonOption
from auditkit.cli.output import say, say_json

EXAMPLE = "Example: auditkit doctor --python ../trainer/.venv/bin/python"


@run_or_exit
def doctor(
    checkout: Annotated[str, option("--checkout", "Check the interpreter of this one.", "DIR")] = ".",
    python: PythonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which probes can run on this machine, and what the others need.

    Every instrument is checked on every device, in the interpreter that probes would use.
    """
    from auditkit import __version__
    from auditkit.audit.doctor import doctor as examine_machine

    machine = examine_machine(checkout, python)
    found = machine.examination
    if as_json:
        states = [dict(vars(state)) for state in found.states]
        known = {"git": machine.has_git, "sandbox": machine.sandbox, "no_sandbox": machine.no_sandbox}
        say_json({"schema_version": 1, "auditkit": __version__, **known, **found.environment, "instruments": states})
        return
    say(f"auditkit {__version__}")
    say(f"interpreter  {machine.interpreter} (Python {found.environment['python']})")
    say(f"torch        {found.environment['torch']}")
    device = found.environment.get("device_name") or "none: device traffic is simulated"
    say(f"CUDA device  {device}")
    say(f"git          {'found' if machine.has_git else 'not found: DIR@REV cannot be read'}")
    say(f"sandbox      {machine.sandbox or f'none: {machine.no_sandbox}'}")
    for state in found.states:
        answer = "ok" if state.works else f"no: {state.message}"
        say(f"{state.device:<10}  {state.instrument:<9} {answer}")
