"""The review of a change: a comparison, what its commits and a plan claim, and its own tests at both revisions."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from auditkit.config.config import Config
from auditkit.errors import BadInputError
from auditkit.model.revisions.comparison import Comparison
from auditkit.probing.checkout.checkout import open_checkout, parse_checkout
from auditkit.probing.run.configuration import catalog_of
from auditkit.reports.commit_claims import NOT_RUN, claims_of_commits, claims_of_plan
from auditkit.reports.comparison_page import comparison_page
from auditkit.reports.html.page import html_page
from auditkit.reports.page import markdown_page
from auditkit.reports.requirements import State, outcomes_as_requirements
from auditkit.reports.review_parts import Review, review_of

_TESTS_LIMIT_S = 3600


def review(comparison: Comparison, plan: Path | None = None, tests: str = "") -> Review:
    """Judge a change by its commits and the checkboxes of `plan`; run the command `tests` at both revisions.

    Raises BadInputError for a plan that cannot be read or has no checkbox, and for a revision that is not there.
    """
    claims = list(claims_of_commits(comparison.changes.commits, comparison))
    if plan is not None:
        try:
            found = claims_of_plan(plan.read_text(encoding="utf-8"), comparison)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"{plan} cannot be read: {error}") from None
        if not found:
            raise BadInputError(f"{plan} has no checkbox", "write each requirement as: - [ ] PROBE: fixed")
        claims += found
    ended = []
    if tests:
        sides = (("base", comparison.base.checkout), ("head", comparison.head.checkout))
        ended = [f"{name}: {_tested(side, tests)}" for name, side in sides]
        state = State.MET if ended[1].startswith("head: passed") else State.NOT_MET
        claims = [
            replace(one, state=state, message="; ".join(ended)) if one.message == NOT_RUN else one for one in claims
        ]
    return review_of(comparison, claims or outcomes_as_requirements(comparison), "; ".join(ended))


def review_page(judged: Review, config: Config, is_html: bool = False) -> bytes:
    """The page of a review, as Markdown or HTML."""
    page = comparison_page(judged, catalog_of(config))
    return html_page(page) if is_html else markdown_page(page)


def _tested(checkout: str, command: str) -> str:
    """How the tests end at one revision: `passed`, or the exit code and the last line."""
    with open_checkout(parse_checkout(checkout)) as opened:
        try:
            done = subprocess.run(
                command, shell=True, cwd=opened.path, capture_output=True, text=True, errors="replace",
                timeout=_TESTS_LIMIT_S, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no result in {_TESTS_LIMIT_S} s"
    last = ([line for line in done.stdout.splitlines() if line.strip()] or [""])[-1].strip(" =")
    return (
        f"{'passed' if done.returncode == 0 else f'failed with exit code {done.returncode}'}{f' ({last})' * bool(last)}"
    )
