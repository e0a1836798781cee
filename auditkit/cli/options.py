"""The options that several commands share, in groups, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from auditkit.cli.common import JsonOption, option
from auditkit.errors import BadInputError, meant, nearest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from auditkit.audit.audit import AuditRequest
    from auditkit.config.config import Config
    from auditkit.model.enums import DeviceChoice, Severity
    from auditkit.model.runs.target import Target
    from auditkit.probing.run.run_options import RunOptions

Words = list[str] | None

# Headings of the help for what few need.
_CALLED = "How the --target is called"
RUN = "How probes run"
FILED = "How tickets are filed"
WRITTEN = "Files for other programs"

PythonOption = Annotated[
    str | None, option("--python", "Interpreter of the checkout; default: its .venv, venv, this one.", "PATH")
]
ConfigOption = Annotated[Path | None, option("--config", "An auditkit.yaml to read.", "FILE")]
_RunConfigOption = Annotated[Path | None, option("--config", "An auditkit.yaml to read.", "FILE", panel=RUN)]
TargetOption = Annotated[Words, option("--target", "A collector, or the name of a configured one.", "MODULE:FUNCTION")]
ProbesOption = Annotated[Words, option("--probe", "Only this probe (may be repeated).", "ID")]

_DEVICES = "auto, cuda, cpu or simulated"


@dataclass(frozen=True)
class TargetOptions:
    """Which collectors to check; for one that is named by its function, how to call it and read its result."""

    target: TargetOption = None
    contract: Annotated[
        str | None, option("--contract", "What it computes, such as grad_norm.", "NAME", panel=_CALLED)
    ] = None
    takes: Annotated[
        str | None,
        option("--takes", "module, parameters, gradients, ...; default: auditkit tries each.", "HOW", panel=_CALLED),
    ] = None
    finish: Annotated[
        str | None,
        option("--finish", "The function that reads an asynchronous result.", "MODULE:FUNCTION", panel=_CALLED),
    ] = None
    argument: Annotated[
        Words, option("--argument", "A further argument; VALUE may be JSON.", "NAME=VALUE", panel=_CALLED)
    ] = None
    returns: Annotated[
        Words, option("--returns", "Which field is the norm, nan_count, ...", "ROLE=FIELD", panel=_CALLED)
    ] = None

    def targets(self, config: Config, checkout: str | None = None) -> tuple[Target, ...]:
        """What is named: configured targets by name, others made of the options. `checkout` has names to suggest.

        Raises BadInputError for options that do not fit together.
        """
        from auditkit.probing.run.configuration import checkout_of
        from auditkit.probing.run.found_targets import calls_like

        details = any((self.contract, self.takes, self.finish, self.argument, self.returns))
        if details and not self.target:
            raise BadInputError(
                "--contract, --takes and the like describe a target", "--target package.module:function"
            )
        configured = {target.name: target for target in config.targets if target.name}
        if not details:
            configured.update((target.call, target) for target in reversed(config.targets))
        for name in self.target or ():
            if name not in configured and (":" not in name or name.startswith(":") or name.endswith(":")):
                here = checkout_of(checkout, config)
                near = nearest_names(name, configured) or calls_like(name, here, config.import_roots)
                hint = f"did you mean {' or '.join(near)}? " if near else ""
                raise BadInputError(f"no target is called '{name}'", f"{hint}a target is package.module:function")
        return tuple(configured.get(name) or self._described(name) for name in self.target or ())

    def _described(self, call: str) -> Target:
        from auditkit.model.enums import Contract, Takes
        from auditkit.model.runs.target import Target, plain_value

        return Target(
            call=call,
            contract=Contract(choose(self.contract, Contract, "contract")) if self.contract else None,
            takes=Takes(choose(self.takes, Takes, "way to be fed")) if self.takes else None,
            finish=self.finish,
            arguments=pairs(self.argument, "--argument", plain_value),
            returns=pairs(self.returns, "--returns", str),
        )


@dataclass(frozen=True)
class ArmOptions:
    """How probes are run: under one interpreter, on one device."""

    python: PythonOption = None
    device: Annotated[str, option("--device", f"Where probes run: {_DEVICES}.", "NAME", panel=RUN)] = "auto"
    config: _RunConfigOption = None

    def with_config(self, config: Config) -> RunOptions:
        """What the workflows know them as. Raises BadInputError for an unknown device."""
        from auditkit.probing.run.run_options import RunOptions

        return RunOptions(config, self.python, parse_device(self.device))


@dataclass(frozen=True)
class MatrixOptions:
    """How probes are run: under every one of some interpreters, on every one of some devices."""

    python: Annotated[
        Words, option("--python", "May be repeated; default: the checkout's .venv, venv, this one.", "PATH")
    ] = None
    device: Annotated[
        Words, option("--device", f"May be repeated: {_DEVICES}.", "NAME", panel=RUN, show_default="auto")
    ] = None
    config: _RunConfigOption = None
    time_limit: Annotated[float, option("--time-limit", "Seconds for each probe.", "S", panel=RUN, min=0.1)] = 120.0
    in_place: Annotated[bool, option("--in-place", "Run the code in place, not in a copy.", panel=RUN)] = False
    fresh: Annotated[bool, option("--fresh", "Use no cached results: run every probe.", panel=RUN)] = False

    def arms(self, config: Config) -> tuple[RunOptions, ...]:
        """Return one for each interpreter and device. Raises BadInputError for an unknown device."""
        from auditkit.probing.run.run_options import RunOptions

        options = with_cache(RunOptions(config, time_limit_s=self.time_limit, in_place=self.in_place), self.fresh)
        return options.on_arms(self.python or (), [parse_device(device) for device in self.device or ()])


@dataclass(frozen=True)
class AuditOptions(MatrixOptions, TargetOptions):
    """What is checked, and how that is run: all that `audit` and `probe run` have in common."""

    def request(
        self, checkout: str | None, config: Config, probes: Sequence[str] | None, tickets: Path | None, **more: Any
    ) -> AuditRequest:
        """Return the request of the audit; `more` are further fields of it. Raises BadInputError."""
        from auditkit.audit.audit import AuditRequest
        from auditkit.probing.run.configuration import checkout_of

        return AuditRequest(
            checkout=checkout_of(checkout, config),
            arms=self.arms(config),
            targets=self.targets(config, checkout),
            probes=tuple(probes or ()),
            tickets=tickets,
            **more,
        )


@dataclass(frozen=True)
class ResultOptions:
    """How a finished run is shown, and from which severity on it fails."""

    fail_on: Annotated[str, option("--fail-on", "Exit 1 from this severity on.", "P0..P4")] = "P4"
    verbose: Annotated[bool, option("--verbose -v", "Show every finding, probe and note.")] = False
    as_json: JsonOption = False


SaveOption = Annotated[
    Path | None,
    option("--save", "Write the whole run as JSON; --json then prints only findings.", "FILE", panel=WRITTEN),
]


def choose(word: str, known: Iterable[str], what: str) -> str:
    """The word, if it is known. Raises BadInputError with the nearest ones."""
    names = list(map(str, known))
    if word not in names:
        raise BadInputError(f"no such {what}: '{word}'", meant(word, names, f"one of {', '.join(names)}", most=3))
    return word


def parse_severity(word: str) -> Severity:
    """The severity that an option names. Raises BadInputError."""
    from auditkit.model.enums import Severity

    return Severity(choose(word.upper(), Severity, "severity"))


def parse_device(word: str) -> DeviceChoice:
    """The device that an option names. Raises BadInputError."""
    from auditkit.model.enums import DeviceChoice

    return DeviceChoice(choose(word, DeviceChoice, "device"))


def pairs(texts: Words, option: str, read: Callable[[str], Any]) -> dict[str, Any]:
    found = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise BadInputError(f"{option} {text}: not of the form name=value", f"for example: {option} name=value")
        found[name] = read(value)
    return found


FIRST: list[Path] = []
"""Checkouts whose code this command is the first to run."""


def with_cache(options: RunOptions, fresh: bool) -> RunOptions:
    """The options with the results of earlier commands; `fresh` reads none of them."""
    from dataclasses import replace

    return replace(options, uses_cache=True, fresh=fresh, first=FIRST.append)
