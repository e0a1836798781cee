"""What a user says of how probes run, and what that comes to in an open checkout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit import __version__
from auditkit.model.enums import CageChoice, DeviceChoice
from auditkit.model.runs.probe import Policy
from auditkit.probing.checkouts import checkout
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, choose_interpreter, open_checkout
from auditkit.probing.checkouts.copies import open_copy
from auditkit.probing.hosts.memory import Memory
from auditkit.probing.hosts.sandbox import DEFAULT_TIME_LIMIT_S, Setting, repository_of
from auditkit.store.config.config import Config
from auditkit.store.listing.answers import Answers

_STRICTER = (CageChoice.OFF, CageChoice.AUTO, CageChoice.REQUIRE)


@dataclass(frozen=True)
class RunOptions:
    """How probes run: with which configuration, interpreter (None: the configured one), device and limit.

    `in_place` says that the files of a checkout run where they lie, not in a copy; `memory` has answers of earlier
    commands, which are used where nothing that they hang on has changed. `cage` is what the user says of it, None for
    nothing, and `cage_read` what else the code may read.
    """

    config: Config = field(default_factory=Config)
    python: str | None = None
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    in_place: bool = False
    memory: Memory | None = None
    cage: CageChoice | None = None
    cage_read: tuple[Path, ...] = ()

    @property
    def interpreter(self) -> str | None:
        """The interpreter that was named, on the command line or in the configuration; None: the checkout's own."""
        return self.python or self.config.python

    @contextlib.contextmanager
    def open(self, spec: CheckoutSpec) -> Iterator[OpenCheckout]:
        """The checkout, ready to be run. Raises BadInputError as `open_copy` does."""
        opening = open_checkout if self.in_place else open_copy
        with opening(spec, self.interpreter) as opened:
            yield opened

    def import_roots(self, opened: OpenCheckout) -> tuple[Path, ...]:
        """Where the checkout's modules are imported from. Raises BadInputError for a root that is not there."""
        return checkout.import_roots(opened.path, self.config.import_roots)

    @property
    def policy(self) -> Policy:
        """The thresholds and severities of the configuration."""
        return Policy(self.config.policy, self.config.severity)

    def setting(self, opened: OpenCheckout) -> Setting:
        """What they come to in `opened`. Raises BadInputError for an interpreter or root that is not there."""
        interpreter, _ = choose_interpreter(opened.source, self.interpreter)
        return Setting(
            checkout=opened.path,
            interpreter=str(interpreter),
            import_roots=self.import_roots(opened),
            device=self.device,
            time_limit_s=self.time_limit_s,
            policy=self.policy,
            memory=self.memory if self.memory is not None and not self.memory.lies_in(opened.source) else None,
            copied=opened.copied,
            replaced=opened.replaced,
            cage=self.cage_for(opened.source),
            source=opened.source,
            names_interpreter=bool(self.python is None and self.config.python and self._config_lies_in(opened.source)),
            readable=tuple(str(path.expanduser().absolute()) for path in self.cage_read),
        )

    def cage_for(self, checkout: Path) -> CageChoice:
        """The user's word, else the configuration's; a file that lies in the checkout can only make it stricter."""
        said = self.config.cage
        if said is None:
            return self.cage or CageChoice.AUTO
        if self._config_lies_in(checkout):
            return max(self.cage or CageChoice.AUTO, said, key=_STRICTER.index)
        return self.cage or said

    def _config_lies_in(self, checkout: Path) -> bool:
        top, path = repository_of(checkout).resolve(), self.config.path
        return path is not None and path.resolve().is_relative_to(top)

    def on_arms(self, pythons: Sequence[str], devices: Sequence[DeviceChoice]) -> tuple[RunOptions, ...]:
        """Every interpreter on every device, each once, in the order given; these options where none is named."""
        named = dict.fromkeys(pythons) or [self.python]
        kinds = dict.fromkeys(devices) or [self.device]
        return tuple(replace(self, python=python, device=device) for python in named for device in kinds)


def user_memory(fresh: bool) -> Memory | None:
    """What earlier commands of this user were told; None where no folder is the user's alone. `fresh` uses none."""
    answers = Answers()
    return Memory(answers, __version__, fresh) if answers.folder else None
