"""Two revisions of a repository: what was fixed, what got worse, which target became which; nothing else changes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, ExitCode
from auditkit.model.enums import Outcome, Reason, Severity
from auditkit.model.revisions.comparison import Agreement, Change, Comparison, Contrast, MatchState, Trend
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import open_checkout
from auditkit.probing.run.run_options import RunOptions
from auditkit.trials.compare import CompareRequest, compare, exit_code
from auditkit.trials.questions import Version
from auditkit.trials.target_pairs import names_of, pair_named
from tests import compared_results as results
from tests.compared_history import OVERFLOWING, commit, make_history
from tests.probing_helpers import OVERFLOW, SYNCS
from tests.verify_helpers import state_of

pytestmark = pytest.mark.process

TOTAL = Target("trainer.stats:total_norm")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_history(tmp_path_factory.mktemp("compared") / "trainer")


def compared(repository: Path, base: str, head: str, *probes: str, named: tuple[Target, ...] = (TOTAL,)) -> Comparison:
    return compare(CompareRequest(str(repository), base, head, targets=named, probes=probes))


def by_probe(comparison: Comparison) -> dict[str, Contrast]:
    return {contrast.probe: contrast for contrast in comparison.contrasts}


def broken(reason: Reason = Reason.CRASH, outcome: Outcome = Outcome.ERROR) -> ProbeResult:
    return results.result(SYNCS, outcome, reason=reason)


@contextlib.contextmanager
def sides(repository: Path, *revisions: str) -> Iterator[list[Version]]:
    """Revisions whose sources are read; nothing is run."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(open_checkout(f"{repository}@{revision}")) for revision in revisions]
        yield [Version(one, RunOptions()) for one in opened]


def test_a_fix_that_costs_memory_is_fixed_and_introduced(repository: Path) -> None:
    """The overflow is gone, the peak is up, both in one comparison; the answers say where they are not the same."""
    before = state_of(repository)
    found = compared(repository, "overflowing", "widened", OVERFLOW)
    contrast = by_probe(found)[OVERFLOW]
    assert (contrast.change, contrast.severity, contrast.trend) == (Change.FIXED, Severity.P4, Trend.BETTER)
    (target,) = found.targets
    assert (target.match.state, target.match.name) == (MatchState.CHANGED, "trainer.stats:total_norm")
    apart = [answer for answer in target.answers if answer.agreement is Agreement.DIFFERS]
    assert {answer.case["magnitude"] for answer in apart if answer.family == "magnitudes"} == {1e-30, 1e20, 1e30}
    assert {answer.nearer for answer in apart} == {"head"}
    kinds = {answer.agreement for answer in target.answers if answer.family == "seeded"}
    assert kinds <= {Agreement.IDENTICAL, Agreement.WITHIN}
    assert exit_code(found) is ExitCode.OK
    assert state_of(repository) == before


def test_a_renamed_function_is_the_same_target(repository: Path) -> None:
    """By its body, and the similarity is said; one that is gone or new is said to be."""
    targets = [TOTAL, Target("trainer.stats:largest_norm"), Target("trainer.stats:no_such")]
    with sides(repository, "widened", "renamed") as (base, head):
        renamed, same, unread = (pair_named(target, base, head) for target in targets)
        back = pair_named(Target("trainer.stats:gradient_norm"), base, head)
    assert (renamed.match.state, renamed.match.head) == (MatchState.RENAMED, "trainer.stats:gradient_norm")
    assert renamed.match.describe() == "renamed from trainer.stats:total_norm (body 100% the same)"
    assert renamed.head == Target("trainer.stats:gradient_norm")
    assert (same.match.state, unread.match.state) == (MatchState.SAME, MatchState.UNREAD)
    assert names_of([renamed, same]) == {"trainer.stats:total_norm": "trainer.stats:gradient_norm"}
    assert (back.match.state, back.base) == (MatchState.RENAMED, TOTAL)


def test_only_targets_that_the_change_touches_are_run(tmp_path: Path) -> None:
    """A target in a changed file, or one that calls into it; none of them is no failure, and is counted."""
    repository = make_history(tmp_path / "trainer")
    calls = (
        "from trainer.stats import gradient_norm\n\n\ndef logged(parameters):\n    return gradient_norm(parameters)\n"
    )
    commit(repository, "more", trainer__logged=calls, trainer__apart=OVERFLOWING.replace("total_norm", "norm_apart"))
    widened = (repository / "trainer/stats.py").read_text(encoding="utf-8")
    commit(repository, "stats", trainer__stats=widened.replace(".double()", ".float()"))
    commit(repository, "text", trainer__text="NAME = 1\n")
    touched = compare(CompareRequest(str(repository), "HEAD~2", "HEAD~1", probes=(OVERFLOW,)))
    names = {target.match.name for target in touched.targets}
    assert names >= {"trainer.stats:gradient_norm"}
    assert (touched.untouched, names & {"trainer.apart:norm_apart"}) == (1, set())
    nothing = compare(CompareRequest(str(repository), "HEAD~1", "HEAD", probes=(OVERFLOW,)))
    assert (nothing.targets, exit_code(nothing)) == ((), ExitCode.OK)
    assert nothing.untouched > 1


def test_wrong_words_are_refused_before_anything_runs(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is not in a git repository, so it has no revisions to compare"):
        compared(tmp_path, "overflowing", "widened")
    with pytest.raises(BadInputError, match="names a revision already"):
        compare(CompareRequest(f"{repository}@widened", "overflowing", "widened"))
    with pytest.raises(BadInputError, match="has no revision 'wide'"):
        compared(repository, "overflowing", "wide")
    with pytest.raises(BadInputError, match="no probe is called"):
        compared(repository, "overflowing", "widened", "norm_overflow")


@pytest.mark.parametrize(
    ("base", "head", "code"),
    [
        (results.before(), results.after(), ExitCode.FINDINGS),
        (results.before(), results.before(), ExitCode.OK),
        (results.after()[2:], results.before()[2:], ExitCode.OK),
        ([broken()], [broken()], ExitCode.NOTHING_MEASURED),
        ([broken(), *results.before()[1:]], results.before(), ExitCode.NOTHING_MEASURED),
        (results.before(), [broken(Reason.IMPORT_ERROR), *results.before()[1:]], ExitCode.TARGET_NOT_LOADED),
        ([broken(Reason.NO_DEVICE, Outcome.UNAVAILABLE)] * 2, [broken(Reason.NO_DEVICE, Outcome.UNAVAILABLE)] * 2,
         ExitCode.NOTHING_MEASURED),
    ],
    ids=range(7),
)  # fmt: skip
def test_the_exit_code_of_a_comparison(base: list[ProbeResult], head: list[ProbeResult], code: ExitCode) -> None:
    """New or worse, nothing new, fixed, errors on either side, a target that is not loaded, nothing measured."""
    assert exit_code(results.comparison(base, head, source=())) is code
