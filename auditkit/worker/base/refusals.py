"""Exceptions for a probe without a result: the target cannot be fed or read, or raises; the probe does not apply."""

from typing import Optional, Tuple

from .frames import Site


class CannotFeedError(Exception):
    """The target wants something that no gradient case provides; the message names it.

    `attempts` is what each way to feed it said.
    """

    def __init__(self, message: str, attempts: Tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.attempts = attempts


class CannotReadError(Exception):
    """The result holds nothing that a probe can judge, or not the field that `returns` names."""


class NotApplicable(Exception):
    """The probe does not apply to this target."""


class Unavailable(Exception):
    """The probe needs hardware or memory that is not here; `reason` is the outcome's."""

    def __init__(self, message: str, reason: str = "no_memory") -> None:
        super().__init__(message)
        self.reason = reason


class TargetRaised(Exception):
    """The target raised on a valid case; `site` is the line in the checkout.

    `deliberate` where a `raise` of the checkout itself did it: a refusal in its own words.
    """

    def __init__(self, error: BaseException, site: Optional[Site], deliberate: bool = False) -> None:
        said = " ".join(str(error).split())[:300] or "no message" + (", in " + site.function if site else "")
        super().__init__("{}: {}".format(type(error).__name__, said))
        self.site = site
        self.deliberate = deliberate
