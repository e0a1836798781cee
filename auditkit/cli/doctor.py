"""`auditkit doctor`: which probes can run on this machine, and what the others need."""

from __future__ import annotations

from typing import Annotated

from auditkit.cli.common import JsonOption, option, run_or_exit
from auditkit.cli.options import PythonOption
from auditkit.cli.output import say, say_json
from auditkit.errors import NoSandboxError, TargetNotLoadedError

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
    from auditkit import __version__, sandbox
    from auditkit.model.enums import Reason
    from auditkit.probing.checkout.checkout import choose_interpreter, parse_checkout
    from auditkit.probing.checkout.git import git_is_installed
    from auditkit.probing.engine.examination import examine

    interpreter, _ = choose_interpreter(parse_checkout(checkout).directory, python)
    found, has_git = examine(str(interpreter)), git_is_installed()
    if found.failure is not None:
        without = "; tickets, reports, lint and the probes that read source need none"
        raise TargetNotLoadedError(
            found.failure.message + (without if found.failure.reason is Reason.NO_TORCH else ""),
            found.failure.hint or "name another interpreter: --python PATH",
        )
    cage, no_cage = f"{sandbox.inside()}, and this command runs in it", ""
    if not sandbox.inside():
        try:
            cage = sandbox.engine()[1]
        except NoSandboxError as error:
            cage, no_cage = "", f"{error.message.removeprefix('--cage: ')}; {error.hint}"
    if as_json:
        states = [dict(vars(state)) for state in found.states]
        known = {"git": has_git, "sandbox": cage, "no_sandbox": no_cage}
        say_json({"schema_version": 1, "auditkit": __version__, **known, **found.environment, "instruments": states})
        return
    say(f"auditkit {__version__}")
    say(f"interpreter  {interpreter} (Python {found.environment['python']})")
    say(f"torch        {found.environment['torch']}")
    say(f"CUDA device  {found.environment.get('device_name') or 'none: device traffic is simulated'}")
    say(f"git          {'found' if has_git else 'not found: DIR@REV cannot be read'}")
    say(f"sandbox      {cage or f'none: {no_cage}'}")
    for state in found.states:
        say(f"{state.device:<10}  {state.instrument:<9} {'ok' if state.works else f'no: {state.message}'}")
