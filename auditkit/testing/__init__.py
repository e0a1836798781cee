"""Guards for tests: what a collector or a block of code must keep to, asked in the test's own process.

Nothing here imports torch before a guard is checked. Lines are looked for under `root`, without it the current folder.
"""

from __future__ import annotations

from auditkit.testing.checks import Check, check
from auditkit.testing.failures import GuardFailed, GuardUnavailable
from auditkit.testing.memory_block import no_allocation
from auditkit.testing.sync_block import no_sync
from auditkit.testing.watching import watch

__all__ = ["Check", "GuardFailed", "GuardUnavailable", "check", "no_allocation", "no_sync", "watch"]
