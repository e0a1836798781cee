"""A probe's verdict on its measurements: judging runs its file."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.severity import Occurs, meant
from auditkit.probing.engine.catalog import load_module
from auditkit.probing.source.who_meets import NEEDS

_STDOUT = threading.Lock()


@contextlib.contextmanager
def stdout_is_stderr() -> Iterator[None]:
    """Redirect prints of a probe's own code to stderr: stdout may contain a document.

    Only one thread at a time: of two that overlap, the second would restore the first one's stderr permanently.
    """
    with _STDOUT, contextlib.redirect_stdout(sys.stderr):
        yield


class JudgingFailedError(Exception):
    """`judge` raised, or returned something that is not a verdict."""


class Judgement(msgspec.Struct, frozen=True):
    """The result of a probe's `judge`; missing fields are those of its `PROBE`. A severity overrides the two words.

    `occurs` has a word for each need (see source/who_meets.py); a single word needs nothing.
    """

    outcome: Outcome
    message: Annotated[str, msgspec.Meta(min_length=1)]
    severity: Severity | None = None
    breaks: str = ""
    occurs: dict[str, Occurs] | Occurs | None = None
    law: str = ""

    def __post_init__(self) -> None:
        if self.breaks:
            meant(self.breaks, clips=False)
        unknown = self.by_need().keys() - set(NEEDS)
        if unknown:
            raise ValueError(f"{min(unknown)!r} is no need")

    def by_need(self) -> dict[str, Occurs]:
        """Return the word for each need; "" is no need."""
        return self.occurs if isinstance(self.occurs, dict) else {"": self.occurs} if self.occurs else {}


def judge(probe: ProbeInfo, measurements: Sequence[Measurement], policy: Mapping[str, Any]) -> Judgement:
    """Return the probe's verdict. Raises JudgingFailedError."""
    try:
        with stdout_is_stderr():
            said = load_module(probe).judge(measurements, policy)
    except (Exception, SystemExit) as error:
        raise JudgingFailedError(f"{type(error).__name__}: {error}") from error
    try:
        return msgspec.convert(said, Judgement)
    except msgspec.ValidationError as error:
        raise JudgingFailedError(f"no verdict, but {said!r}: {error}") from error
