"""A probe's verdict on its measurements: judging runs its file."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True)
class Judgement:
    """The result of a probe's `judge`; missing fields are those of its `PROBE`. A severity overrides the two words.

    `occurs` has a word for each need (see source/who_meets.py); a single word needs nothing.
    """

    outcome: Outcome
    message: str
    severity: Severity | None = None
    breaks: str = ""
    occurs: Mapping[str, Occurs] = field(default_factory=dict)
    law: str = ""


def judge(probe: ProbeInfo, measurements: Sequence[Measurement], policy: Mapping[str, Any]) -> Judgement:
    """Return the probe's verdict. Raises JudgingFailedError."""
    try:
        with stdout_is_stderr():
            said = load_module(probe).judge(measurements, policy)
    except (Exception, SystemExit) as error:
        raise JudgingFailedError(f"{type(error).__name__}: {error}") from error
    return _verdict(said)


def _needs(said: Any) -> dict[str, Occurs]:
    """Return the word for each need that a verdict names. Raises ValueError for an unknown need."""
    words = said if isinstance(said, dict) else {"": said} if said else {}
    unknown = words.keys() - set(NEEDS)
    if unknown:
        raise ValueError(f"{min(unknown)!r} is no need")
    return {need: Occurs(word) for need, word in words.items()}


def _verdict(said: Any) -> Judgement:
    try:
        severity, breaks, occurs = (said.get(name) for name in ("severity", "breaks", "occurs"))
        if breaks:
            meant(breaks, clips=False)
        verdict = Judgement(
            outcome=Outcome(said["outcome"]),
            message=said["message"],
            severity=Severity(severity) if severity else None,
            breaks=breaks or "",
            occurs=_needs(occurs),
            law=said.get("law", ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise JudgingFailedError(f"no verdict, but {said!r}: {type(error).__name__}: {error}") from error
    if not isinstance(verdict.message, str) or not verdict.message or not isinstance(verdict.law, str):
        raise JudgingFailedError(f"a verdict needs a message as text: {said!r}")
    return verdict
