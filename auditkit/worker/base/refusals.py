"""Exceptions for a probe without a result: the target cannot be fed or read, or raises; the probe does not apply."""

from typing import Optional, Tuple

from .frames import Site


class CannotFeedError(Exception):
    """The target needs an argument that auditkit cannot provide; the message names it.

    `attempts` are the errors of each way to feed it.
    """

    reason = "cannot_feed"

    def __init__(self, message: str, attempts: Tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.attempts = attempts


class CannotReadError(Exception):
    """The result has no value that a probe can judge, or not the field that `returns` names."""

    reason = "cannot_read"


class NotApplicable(Exception):
    """The probe does not apply to this target."""


class Unavailable(Exception):
    """The probe needs hardware or memory that is missing; `reason` is the outcome's."""

    def __init__(self, message: str, reason: str = "no_memory") -> None:
        super().__init__(message)
        self.reason = reason


class TargetRaised(Exception):
    """The target raised on a valid case; `site` is the line in the checkout.

    `deliberate` means that a `raise` in the checkout itself raised the error.
    """

    def __init__(self, error: BaseException, site: Optional[Site], deliberate: bool = False) -> None:
        said = " ".join(str(error).split())[:300] or "no message" + (", in " + site.function if site else "")
        super().__init__("{}: {}".format(type(error).__name__, said))
        self.site = site
        self.deliberate = deliberate
