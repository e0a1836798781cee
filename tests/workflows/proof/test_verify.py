"""Verification: red first, written as one, in real repositories. The probe reads source, so that no worker starts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, ExitCode, StoreConflictError
from auditkit.model.runs.measurement import Measured
from auditkit.model.runs.target import Target
from auditkit.model.tickets.claim import ClaimState, Condition, parse_claim
from auditkit.model.tickets.ticket import CheckedRun, EvidenceSummary
from auditkit.rules.tickets.claims import check_condition, judge_claim
from auditkit.rules.tickets.proof import Proof, ProofState, Sighting
from auditkit.store.edits.fields import edit_field
from auditkit.store.folder.repository import Repository
from auditkit.workflows.proof import box_proofs
from auditkit.workflows.proof import verify as module
from auditkit.workflows.proof.verify import Verification, exit_code
from tests.verify_helpers import LOOP, LOOP_PRINT, NAIVE, RIGHT, Story, commit, git, tell_story

pytestmark = pytest.mark.process

PROVEN, STILL, VACUOUS, NOT, UNBOUND = (
    ProofState.PROVEN, ProofState.STILL_REPRODUCED, ProofState.VACUOUS, ProofState.NOT_MEASURED, ProofState.UNBOUND,
)  # fmt: skip
BOUND = f"no host read in a loop <!-- probe: {LOOP} -->"


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = tell_story(tmp_path)
    told.put_ticket(BOUND)
    return told


def states(done: Verification) -> list[ProofState]:
    return [item.proof.state for item in done.items]


def ticked(story: Story) -> list[bool]:
    return [item.is_done for item in story.ticket().verification]


def test_a_hand_written_ticket_gets_its_evidence_and_its_tick(story: Story) -> None:
    """The way of a ticket: seen broken, a fix that is none, and the one that is."""
    before = story.text()
    first = story.verify(story.broken)
    assert (states(first), exit_code(first)) == ([UNBOUND, STILL, UNBOUND], ExitCode.FINDINGS)
    (block,) = story.ticket().evidence
    assert (block.fingerprint, block.outcome, block.was_found) == (LOOP_PRINT, "reproduced", True)
    outside = re.sub(r"<!-- auditkit:evidence -->.*?<!-- /auditkit:evidence -->\n\n", "", story.text(), flags=re.DOTALL)
    assert outside == before

    wrong = story.verify(story.wrong)
    assert (states(wrong), ticked(story)) == ([UNBOUND, STILL, UNBOUND], [False, False, False])

    right = story.verify(story.right)
    assert (states(right), exit_code(right)) == ([UNBOUND, PROVEN, UNBOUND], ExitCode.OK)
    assert ticked(story) == [False, True, False]
    (check,) = right.checks
    assert (check.base.commit, check.as_found is not None, check.base_seen) == (story.broken, True, None)
    (block,) = story.ticket().evidence
    assert (block.outcome, block.was_found, block.revision) == ("not_reproduced", True, story.broken)
    assert [(run.role, run.outcome, run.revision, run.is_as_found) for run in block.checks] == [
        ("base", "reproduced", story.broken, True),
        ("fix", "not_reproduced", story.right, False),
    ]
    assert [line.split(": ", 1)[1] for line in block.history] == [
        f"still reproduced at revision {story.broken}",
        f"still reproduced at revision {story.wrong}",
        f"no longer reproduced at revision {story.right} (version 3); it reproduces at {story.broken[:12]}",
    ]


def test_nothing_is_written_twice(story: Story) -> None:
    story.verify(story.right, story.broken)
    written = story.text()
    again = story.verify(story.right, story.broken)
    assert (story.text(), again.change.before.document is again.change.after.document) == (written, True)


def test_red_again_takes_the_tick_back(story: Story) -> None:
    story.verify(story.right, story.broken)
    assert ticked(story) == [False, True, False]
    returned = commit(story.folder, NAIVE)
    done = story.verify()
    assert (states(done), ticked(story)) == ([UNBOUND, STILL, UNBOUND], [False, False, False])
    (block,) = story.ticket().evidence
    assert (block.outcome, block.history[-1].split(": ", 1)[1]) == ("reproduced", f"returned at revision {returned}")


def test_what_passes_on_the_broken_code_is_never_ticked(story: Story) -> None:
    story.put_ticket(f"no host read below line 100 <!-- probe: {LOOP} host_read < 100 -->", BOUND)
    done = story.verify(story.wrong, story.broken)
    assert states(done) == [UNBOUND, VACUOUS, STILL]
    assert ticked(story) == [False, False, False]
    assert exit_code(done) is ExitCode.FINDINGS
    assert "holds at the base, too: host_read is 7" in done.items[1].proof.reason
    assert "| 2: no host read below line 100 | `VACUOUS` | host_read < 100: holds at the base" in story.text()


def test_a_rule_that_looks_only_at_the_fix_ticks_it(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known-bad control of the test above: 'it passes now, so tick it'."""

    def careless(_: object, fix: Sighting, condition: Condition | None = None, *__: object) -> Proof:
        passes = check_condition(condition, fix.reading).is_true if condition else not fix.message
        return Proof(PROVEN if passes else STILL, "it passes now")

    monkeypatch.setattr(box_proofs, "prove", careless)
    story.put_ticket(f"no host read below line 100 <!-- probe: {LOOP} host_read < 100 -->", BOUND)
    story.verify(story.wrong, story.broken)
    assert ticked(story) == [False, True, False]


def test_a_condition_is_proven_where_it_failed_before(story: Story) -> None:
    """The probe still reproduces: only the number is mended. A condition's box may be ticked all the same."""
    story.put_ticket(f"the read is in line 7 no more <!-- probe: {LOOP} host_read != 7 -->", BOUND)
    moved = commit(story.folder, "\n\n" + NAIVE)
    done = story.verify(moved, story.broken)
    assert states(done) == [UNBOUND, PROVEN, STILL]
    assert ticked(story) == [False, True, False]


def test_a_probe_that_never_reproduced_is_vacuous(story: Story) -> None:
    sound = commit(story.folder, RIGHT + "\n# A comment.\n")
    done = story.verify(sound, story.right)
    assert (states(done), exit_code(done)) == ([UNBOUND, VACUOUS, UNBOUND], ExitCode.FINDINGS)
    (block,) = story.ticket().evidence
    assert (block.outcome, block.was_found) == ("not_reproduced", False)
    assert "Proposed severity" not in story.text()
    assert ticked(story) == [False, False, False]


@pytest.mark.parametrize(
    ("at", "base", "reason"),
    [
        ("right", "", "nothing says at which revision it reproduced"),
        ("right", "right", "is the revision that was looked at"),
        ("broken^{commit}", "", None),
        ("older", "right", "is older than the base"),
    ],
)
def test_without_broken_code_nothing_is_proven(story: Story, at: str, base: str, reason: str | None) -> None:
    git(story.folder, "tag", "broken", story.broken)
    git(story.folder, "tag", "right", story.right)
    git(story.folder, "checkout", "-q", story.broken)
    older = commit(story.folder, RIGHT)
    git(story.folder, "tag", "older", older)
    git(story.folder, "checkout", "-q", "-B", "main", older)
    if base == "right":
        newer = commit(story.folder, NAIVE) if at == "older" else story.right
        git(story.folder, "tag", "-f", "right", newer)
    done = story.verify(at, base)
    assert states(done) == [UNBOUND, STILL if reason is None else NOT, UNBOUND]
    assert reason is None or reason in done.items[1].proof.reason
    assert ticked(story) == [False, False, False]


def test_a_dirty_tree_is_said_and_proves_no_commit(story: Story) -> None:
    git(story.folder, "checkout", "-q", story.broken)
    story.verify()
    story.file.write_text(RIGHT, encoding="utf-8")
    done = story.verify()
    assert (states(done), done.is_dirty) == ([UNBOUND, PROVEN, UNBOUND], True)
    (block,) = story.ticket().evidence
    assert [(run.role, run.is_dirty) for run in block.checks] == [("base", False), ("fix", True)]
    assert any("no run at a commit says that it is gone" in one.problem for one in done.missing)


def test_a_run_on_changed_files_is_no_base(story: Story) -> None:
    """The evidence was taken with uncommitted changes: the base is run again, at the commit below them."""
    git(story.folder, "checkout", "-q", story.broken)
    story.file.write_text(NAIVE + "\n# changed\n", encoding="utf-8")
    story.verify()
    git(story.folder, "checkout", "-q", "-f", story.right)
    done = story.verify()
    (check,) = done.checks
    assert (check.as_found, check.base.commit, states(done)[1]) == (None, story.broken, PROVEN)
    assert check.base_seen is not None


def test_the_parent_of_the_resolution_s_commit_is_a_base(story: Story) -> None:
    story.put_ticket(BOUND, more=f"\n## Resolution\n\nDone in commit `{story.right}`.\n")
    done = story.verify()
    (check,) = done.checks
    assert (check.base.commit, states(done)[1]) == (story.wrong, PROVEN)


def test_a_function_that_moved_is_found_by_its_body(story: Story) -> None:
    """Source probes name the module; one that is gone is not measured, and closes nothing."""
    story.verify(story.broken)
    git(story.folder, "checkout", "-q", story.broken)
    git(story.folder, "mv", "src/train/norms.py", "src/train/other.py")
    git(story.folder, "commit", "-q", "-m", "moved")
    done = story.verify()
    assert (states(done)[1], exit_code(done)) == (NOT, ExitCode.NOTHING_MEASURED)
    assert "there is no module train.norms any more" in done.items[1].proof.reason
    assert story.ticket().evidence[0].outcome == "reproduced"


def test_a_file_that_does_not_parse_is_no_pass(story: Story) -> None:
    story.verify(story.broken)
    commit(story.folder, "def total_norm(:\n")
    done = story.verify()
    assert (states(done)[1], exit_code(done)) == (NOT, ExitCode.NOTHING_MEASURED)
    assert ticked(story) == [False, False, False]


def test_a_ticket_that_asks_nothing_says_how_to_bind_it(story: Story) -> None:
    story.put_ticket("nothing")
    with pytest.raises(BadInputError, match="B7-PT-01 is bound to no probe") as refused:
        story.verify()
    assert "auditkit ticket edit B7-PT-01 bound 1=CLAIM" in (refused.value.hint or "")


def test_a_probe_that_is_named_is_asked_of_the_location(story: Story) -> None:
    story.put_ticket("nothing")
    done = story.verify(story.broken, probes=(LOOP,))
    assert [check.question.fingerprint for check in done.checks] == [LOOP_PRINT]
    assert states(done) == [UNBOUND] * 3
    assert exit_code(done) is ExitCode.FINDINGS
    named = story.verify(story.right, probes=(LOOP,), targets=(Target("train.norms:total_norm"),))
    assert [check.proof.state for check in named.checks] == [PROVEN]
    assert exit_code(named) is ExitCode.OK


def test_a_change_meanwhile_loses_nothing(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody edits the ticket while it is measured: another field is kept, another box or block is a conflict."""
    measured = module.before_and_after

    def edited(field: str, value: str) -> None:
        def meanwhile(*arguments: object) -> object:
            checks = measured(*arguments)  # type: ignore[arg-type]
            Repository(story.tickets).change("B7-PT-01", lambda entry: edit_field(entry.document, field, value))
            return checks

        monkeypatch.setattr(module, "before_and_after", meanwhile)

    edited("severity", "P3")
    story.verify(story.right, story.broken)
    assert (story.ticket().severity, ticked(story)) == ("P3", [False, True, False])
    edited("verified", "1")
    kept = story.text()
    with pytest.raises(StoreConflictError, match="changed while it was verified; nothing was written"):
        story.verify(story.wrong)
    assert story.text() == kept.replace("- [ ] by hand", "- [x] by hand")


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_line_ends_stay(story: Story, newline: str) -> None:
    path = story.tickets / "B7-PT-01.md"
    path.write_bytes(story.text().replace("\n", newline).encode())
    story.verify(story.right, story.broken)
    data = path.read_bytes()
    assert data.count(b"\r\n") == (data.count(b"\n") if newline == "\r\n" else 0)
    assert data.count(b"- [x] no host read") == 1


def test_the_audited_repository_is_as_before(story: Story) -> None:
    def shown() -> list[str]:
        return [
            git(story.folder, *words)
            for words in (["status", "--porcelain"], ["worktree", "list"], ["branch", "-a"], ["config", "--list"])
        ]

    before = shown()
    story.verify(story.right, story.broken)
    assert shown() == before


def test_a_further_probe_has_the_base_of_the_ticket(story: Story) -> None:
    """Its rows at the base stand in its block, so that a claim about both runs is not one run over itself."""
    other = "private_torch_api_without_fallback"
    marked = f"\n## Notes\n\ntwice <!-- claim: {other} modules_examined base/fix = 2 x -->\n"
    story.put_ticket(BOUND, more=marked)
    story.verify(story.right, story.broken)
    done = story.verify(story.right, probes=(other,))
    (check,) = done.checks
    assert (check.base.commit, check.base_seen is not None) == (story.broken, True)
    assert check.proof.state is VACUOUS
    assert [item.proof.reason for item in done.items[1:2]] == [f"{LOOP} was not asked"]
    block = next(one for one in story.ticket().evidence if one.probe == other)
    assert (block.revision, [one.role for one in block.checks]) == (story.broken, ["base", "fix"])
    assert (block.outcome, block.was_found) == ("not_reproduced", False)
    assert not [one for one in done.missing if other in one.problem]  # it was no finding: nothing of it is to be fixed


def test_one_run_is_not_compared_with_itself() -> None:
    claim = parse_claim("p n base/fix = 1 x")
    row = Measured.from_cells("n", "3", "count", "", "measured")
    fix = CheckedRun("fix", "not_reproduced", "b" * 40, False, 1)
    block = EvidenceSummary(
        "p/1/t", "p", "t", "not_reproduced", "", "", "", "", "", (), 1,
        measurements=(row,), checks=(fix,), measurements_at_fix=(row,),
    )  # fmt: skip
    judged = judge_claim(claim, [block])
    assert (judged.state, "no run at the base" in judged.message) == (ClaimState.UNTESTED, True)


def test_a_mended_ticket_that_reproduces_is_said_to_be_one(story: Story) -> None:
    story.put_ticket(BOUND)
    path = story.tickets / "B7-PT-01.md"
    path.write_text(story.text().replace("| `open` |", "| `fixed` |"), encoding="utf-8")
    done = story.verify(story.broken)
    assert [note for note in done.notes if "is fixed, but it reproduces: auditkit ticket status B7-PT-01 open" in note]
    assert (story.ticket().status_written, done.missing) == ("fixed", ())


def test_our_own_edit_of_a_ticket_makes_no_code_dirty(story: Story) -> None:
    """Tickets that lie in the repository itself: the second look is at the same commit as the first."""
    inside = replace(story, tickets=story.folder / "tickets")
    inside.put_ticket(BOUND)
    fix = commit(story.folder, RIGHT)
    assert inside.verify(base=story.broken).change.is_edit
    again = inside.verify(base=story.broken)
    assert (git(story.folder, "status", "--porcelain"), again.is_dirty) == ("M tickets/B7-PT-01.md", False)
    (block,) = inside.ticket().evidence
    assert [(run.revision, run.is_dirty) for run in block.checks] == [(story.broken, False), (fix, False)]
    story.file.write_text(RIGHT + "\n# a comment\n", encoding="utf-8")
    assert inside.verify(base=story.broken).is_dirty
