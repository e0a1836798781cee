"""`auditkit doctor`: what this machine can measure, and why not the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, run_or_exit, say, say_json
from auditkit.cli.options import PythonOption

EXAMPLE = "Example: auditkit doctor --python ../trainer/.venv/bin/python"


@run_or_exit
def doctor(
    checkout: Annotated[str, typer.Option("--checkout", metavar="DIR", help="Whose interpreter to ask.")] = ".",
    python: PythonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every instrument on every device, in the interpreter that probes would use."""
    from auditkit import __version__
    from auditkit.errors import TargetNotLoadedError
    from auditkit.probing.checkout import choose_interpreter, parse_checkout
    from auditkit.probing.examine import examine
    from auditkit.probing.git import git_is_installed

    interpreter, _ = choose_interpreter(parse_checkout(checkout).directory, python)
    found = examine(str(interpreter))
    if found.failure:
        raise TargetNotLoadedError(found.failure, found.hint or None)
    if as_json:
        states = [dict(vars(state)) for state in found.states]
        machine = {key: value for key, value in found.environment.items() if key != "type"}
        git = git_is_installed()
        say_json({"schema_version": 1, "auditkit": __version__, "git": git, **machine, "instruments": states})
        return
    say(f"auditkit {__version__}")
    say(f"interpreter  {interpreter} (Python {found.environment['python']})")
    say(f"torch        {found.environment['torch']}")
    device = found.environment.get("device_name") or "none: device traffic is simulated"
    say(f"CUDA device  {device}")
    say(f"git          {'found' if git_is_installed() else 'not found: DIR@REV cannot be read'}")
    for state in found.states:
        answer = "ok, reads its toy" if state.works else f"no: {state.message}"
        say(f"{state.device:<10}  {state.instrument:<9} {answer}")
