"""Guards for tests: laws that a collector or a block of code must keep, checked in the test's own process.

Nothing here imports torch before a guard is checked. Lines are those of files under `root`, by default the current
folder.
"""

from __future__ import annotations

from auditkit.testing.blocks import no_allocation, no_sync
from auditkit.testing.checks import Check, check
from auditkit.testing.failures import GuardFailed, GuardUnavailable
from auditkit.testing.watching import watch

__all__ = ["Check", "GuardFailed", "GuardUnavailable", "check", "no_allocation", "no_sync", "watch"]
