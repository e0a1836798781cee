"""The review of a change: a comparison, the checkboxes of a plan, and the checkout's own tests at both revisions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.revisions.comparison import Comparison
from auditkit.probing.checkout.checkout import open_checkout, parse_checkout
from auditkit.reports.review import Requirement, Review, State, judge_plan, review_of

_TESTS_LIMIT_S = 3600


def review(comparison: Comparison, plan: Path | None = None, tests: str = "") -> Review:
    """Judge a change by the checkboxes of `plan`; run the command `tests` at both revisions.

    Raises BadInputError for a plan that cannot be read or has no checkbox, and for a missing revision.
    """
    required: list[Requirement] = []
    if plan is not None:
        try:
            required += judge_plan(plan.read_text(encoding="utf-8"), comparison)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"{plan} cannot be read: {error}") from None
        if not required:
            raise BadInputError(f"{plan} has no checkbox", "write each requirement as: - [ ] PROBE: fixed")
    ended = []
    if tests:
        sides = (("base", comparison.base.checkout), ("head", comparison.head.checkout))
        ended = [f"{name}: {_tested(side, tests)}" for name, side in sides]
        state = State.MET if ended[1].startswith("head: passed") else State.NOT_MET
        required.append(Requirement("the tests pass", state, "; ".join(ended)))
    return review_of(comparison, required, "; ".join(ended))


def _tested(checkout: str, command: str) -> str:
    """Return how the tests end at one revision: `passed`, or the exit code and the last line."""
    with open_checkout(parse_checkout(checkout)) as opened:
        try:
            done = subprocess.run(
                command, shell=True, cwd=opened.path, capture_output=True, text=True, errors="replace",
                timeout=_TESTS_LIMIT_S, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no result in {_TESTS_LIMIT_S} s"
    last = ([line for line in done.stdout.splitlines() if line.strip()] or [""])[-1].strip(" =")
    state = "passed" if done.returncode == 0 else f"failed with exit code {done.returncode}"
    return f"{state} ({last})" if last else state
