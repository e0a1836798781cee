"""The options that `audit` and `probe run` share, and what is made of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from auditkit.model.enums import Severity
    from auditkit.model.target import Target
    from auditkit.store.config import Config
    from auditkit.workflows.run_options import RunOptions

PythonOption = Annotated[
    str | None,
    typer.Option("--python", metavar="PATH", help="Interpreter of the checkout; default: its .venv, venv, this one."),
]
PythonsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Interpreter of the checkout; default: its .venv, venv, this one. Several: one column each.",
    ),
]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="An auditkit.yaml to read.")]
DeviceOption = Annotated[str, typer.Option("--device", metavar="auto|cuda|cpu|simulated", help="Where probes run.")]
DevicesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="auto|cuda|cpu|simulated",
        help="Where probes run. Several: one column each.",
        show_default="auto",
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="MODULE:FUNCTION", help="A collector, or the name of a configured one."),
]
ContractOption = Annotated[
    str | None, typer.Option("--contract", metavar="NAME", help="What it promises, such as grad_norm.")
]
TakesOption = Annotated[
    str | None,
    typer.Option("--takes", metavar="HOW", help="module, parameters, named_parameters, gradients; default: tried."),
]
FinishOption = Annotated[
    str | None, typer.Option("--finish", metavar="MODULE:FUNCTION", help="The step that reads an asynchronous answer.")
]
SetupOption = Annotated[
    str | None, typer.Option("--setup", metavar="METHOD", help="The method that takes a monitor's modules.")
]
ArgumentOption = Annotated[
    list[str] | None, typer.Option("--argument", metavar="NAME=VALUE", help="A further argument; VALUE may be JSON.")
]
ReturnsOption = Annotated[
    list[str] | None, typer.Option("--returns", metavar="ROLE=FIELD", help="Which field is the norm, nan_count, ...")
]
BatchOption = Annotated[int | None, typer.Option("--batch", metavar="N", min=0, help="Batch number of new tickets.")]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Who files: pytorch, codereview, drl, or a code.")
]
TimeLimitOption = Annotated[
    float, typer.Option("--time-limit", metavar="SECONDS", min=0.1, help="Seconds for each probe.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Name the probes that reproduced nothing.")]
FailOnOption = Annotated[str, typer.Option("--fail-on", metavar="P0..P4", help="Exit 1 from this severity on.")]


def parse_choices(
    config: Config,
    time_limit_s: float,
    pythons: list[str] | None,
    devices: list[str] | None,
    fail_on: str,
    batch: int | None,
    agent: str | None,
) -> tuple[tuple[RunOptions, ...], Severity]:
    """The options that every run parses before anything is measured.

    Raises BadInputError.
    """
    from auditkit.cli.common import choose
    from auditkit.model.enums import DeviceChoice, Severity
    from auditkit.workflows.run_options import RunOptions

    check_ticket_ids(batch, agent, config.agents)
    lowest = choose(Severity, fail_on.upper(), [severity.value for severity in Severity], "severity")
    known = [choice.value for choice in DeviceChoice]
    chosen = [choose(DeviceChoice, device, known, "device") for device in devices or ()]
    return RunOptions(config, time_limit_s=time_limit_s).on_arms(pythons or (), chosen), lowest


def check_ticket_ids(batch: int | None, agent: str | None, agents: Mapping[str, str] | None = None) -> None:
    """Refuse a batch or an agent that makes no ticket id before anything is measured.

    Raises BadInputError.
    """
    from auditkit.errors import BadInputError
    from auditkit.model.ids import AGENT_NAMES, agent_code, format_ticket_id

    try:
        format_ticket_id(batch or 1, agent_code(agent, agents or AGENT_NAMES) if agent else "PT", 1)
    except ValueError:
        wrong = f"--agent {agent}" if batch is None or batch < 10000 else f"--batch {batch}"
        raise BadInputError(f"{wrong}: makes no ticket id", "ids look like B7-PT-01") from None


def make_targets(
    names: list[str] | None,
    config: Config,
    contract: str | None = None,
    takes: str | None = None,
    finish: str | None = None,
    setup: str | None = None,
    arguments: list[str] | None = None,
    returns: list[str] | None = None,
) -> tuple[Target, ...]:
    """The targets that the options name: configured ones by name, others built from the options.

    Raises BadInputError for options that do not fit together.
    """
    from auditkit.cli.common import choose
    from auditkit.errors import BadInputError, nearest_names
    from auditkit.model.enums import Contract, Takes
    from auditkit.model.target import Target, plain_value

    details = [contract, takes, finish, setup, arguments, returns]
    if not names:
        if any(details):
            raise BadInputError(
                "--contract, --takes and the like describe a target", "--target package.module:function"
            )
        return ()
    configured = {target.name: target for target in config.targets if target.name}
    if not any(details):
        configured.update((target.call, target) for target in reversed(config.targets))
    made = []
    for name in names:
        if name in configured:
            made.append(configured[name])
        elif ":" not in name or name.startswith(":") or name.endswith(":"):
            near = nearest_names(name, configured)
            hint = f"did you mean {', '.join(near)}?" if near else "a target is package.module:function"
            raise BadInputError(f"no target is called '{name}'", hint)
        else:
            made.append(
                Target(
                    call=name,
                    contract=choose(Contract, contract, [c.value for c in Contract], "contract") if contract else None,
                    takes=choose(Takes, takes, [t.value for t in Takes], "way to be fed") if takes else None,
                    finish=finish,
                    setup=setup,
                    arguments=_pairs(arguments, "--argument", plain_value),
                    returns=_pairs(returns, "--returns", str),
                )
            )
    return tuple(made)


def _pairs(texts: list[str] | None, option: str, read: Any) -> dict[str, Any]:
    from auditkit.errors import BadInputError

    found = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise BadInputError(f"{option} {text}: not of the form name=value", f"for example: {option} name=value")
        found[name] = read(value)
    return found


def typed_command() -> str:
    """What the user ran, for the tickets' appendix."""
    import shlex

    return shlex.join(["auditkit", *sys.argv[1:]])
