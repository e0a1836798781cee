"""Options of how probes run, and the setting that they make in an open checkout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit import __version__, sandbox
from auditkit.config.config import Config
from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.probe import Policy
from auditkit.probing.checkout import checkout
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout, choose_interpreter, open_checkout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.engine.cache import ResultCache, cache_for
from auditkit.probing.engine.sandbox import DEFAULT_TIME_LIMIT_S, Setting
from auditkit.probing.run.recorded_file import recorded_in


@dataclass(frozen=True)
class RunOptions:
    """How probes run: configuration, interpreter (None: the configured one), device and time limit.

    `in_place` runs the files of a checkout where they are, not in a copy. `uses_cache` reuses results of earlier
    commands; `fresh` replaces them. `first` is called with a checkout that no command has run before.
    """

    config: Config = field(default_factory=Config)
    python: str | None = None
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    in_place: bool = False
    uses_cache: bool = False
    fresh: bool = False
    first: Callable[[Path], None] = lambda _: None

    @property
    def interpreter(self) -> str | None:
        """The interpreter named on the command line or in the configuration; None: the checkout's own."""
        return self.python or self.config.python

    @contextlib.contextmanager
    def open(self, spec: CheckoutSpec) -> Iterator[OpenCheckout]:
        """Open the checkout, by default as a copy. Raises BadInputError as `open_copy` does."""
        opening = open_checkout if self.in_place else open_copy
        with opening(spec, self.interpreter) as opened:
            yield opened

    def import_roots(self, opened: OpenCheckout) -> tuple[Path, ...]:
        """Return where the checkout's modules are imported from. Raises BadInputError for a missing root."""
        return checkout.import_roots(opened.path, self.config.import_roots)

    @property
    def policy(self) -> Policy:
        """The thresholds and severities of the configuration."""
        return Policy(self.config.policy, self.config.severity)

    def setting(self, opened: OpenCheckout) -> Setting:
        """Return the setting for `opened`. Raises BadInputError for a missing interpreter or root."""
        interpreter, _ = choose_interpreter(opened.source, self.interpreter)
        return Setting(
            checkout=opened.path,
            interpreter=str(interpreter),
            import_roots=self.import_roots(opened),
            device=self.device,
            time_limit_s=self.time_limit_s,
            policy=self.policy,
            cache=self._cache(opened.source),
            copied=opened.copied,
            recorded=recorded_in(opened.source)[0],
        )

    def _cache(self, checkout: Path) -> ResultCache | None:
        """Return the cache of a checkout; None in a sandbox, where code inside can forge every result."""
        if not self.uses_cache or sandbox.inside():
            return None
        cache, is_first = cache_for(checkout, __version__, self.fresh)
        if is_first:
            self.first(checkout)
        return cache

    def on_arms(self, pythons: Sequence[str], devices: Sequence[DeviceChoice]) -> tuple[RunOptions, ...]:
        """Return options for every interpreter on every device, each once, in the given order."""
        named = dict.fromkeys(pythons) or [self.python]
        kinds = dict.fromkeys(devices) or [self.device]
        return tuple(replace(self, python=python, device=device) for python in named for device in kinds)
