"""`ticket verify`: red before the fix and green after it, with real probes on real revisions, patches and blocks."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.errors import BadInputError, ExitCode
from auditkit.probing.run.run_options import RunOptions
from auditkit.tickets.store import TicketFolder
from auditkit.trials.verify import Verification, VerifyRequest, apply_fix, verify_commit, verify_patch
from tests.filing_helpers import put
from tests.verify_helpers import LOOP, LOOP_PRINT, NAIVE, WRONG, commit, git

pytestmark = pytest.mark.process
SYNCS = "syncs_grow_with_tensors"
OPTIONS = RunOptions(python=sys.executable)
Story = tuple[Path, list[str], Path]
# Unlike RIGHT, it also takes sparse gradients, as the defect does.
WHOLE = """import torch


def total_norm(grads):
    squares = [(grad.float() * grad.float()).sum() for grad in grads]
    return torch.stack(squares).double().sum().item() ** 0.5 if squares else 0.0
"""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A repository with a defect, a change that fixes nothing and a fix; and the tickets of the defect."""
    place = tmp_path_factory.mktemp("story")
    git(place, "init", "-q", "--template=")
    commits = [commit(place, text) for text in (NAIVE, WRONG, WHOLE)]
    tickets = place.with_name("tickets-of-story")
    run = audit(AuditRequest(f"{place}@{commits[0]}", (OPTIONS,), probes=(LOOP, SYNCS), tickets=tickets))
    assert {one.ticket for one in run.results if one.severity} == {"B1-PT-01"}
    return place, commits, tickets


@pytest.fixture
def folder(story: Story, tmp_path: Path) -> TicketFolder:
    """A copy of the tickets."""
    for path in story[2].rglob("B1-*"):
        put(tmp_path, str(path.relative_to(story[2])), path.read_bytes())
    return TicketFolder(tmp_path)


def verified(folder: TicketFolder, place: Path, at: str) -> Verification:
    return verify_commit(folder, VerifyRequest("B1-PT-01", str(place), OPTIONS, at=at))


def test_a_fix_is_proven_by_red_then_green_and_its_boxes_are_ticked(story: Story, folder: TicketFolder) -> None:
    place, commits, _ = story
    found = verified(folder, place, commits[2])
    assert (found.verdict, found.exit_code, found.base, found.fix) == ("proven", ExitCode.OK, commits[0], commits[2])
    assert {one.state.value for one in found.findings} == {"proven"}
    ticket = folder.read("B1-PT-01").ticket
    assert [box.is_done for box in ticket.boxes if box.probe] == [True] * len(ticket.boxes)
    evidence = folder.evidence("B1-PT-01")
    assert evidence is not None
    assert evidence.proof is not None
    assert evidence.proof["findings"][LOOP_PRINT]["state"] == "proven"


def test_what_still_reproduces_is_no_fix_and_a_pass_on_broken_code_proves_nothing(
    story: Story, folder: TicketFolder
) -> None:
    place, commits, _ = story
    wrong = verified(folder, place, commits[1])
    assert (wrong.verdict, wrong.exit_code) == ("reproduced", ExitCode.FINDINGS)
    assert not any(box.is_done for box in folder.read("B1-PT-01").ticket.boxes)
    request = VerifyRequest("B1-PT-01", str(place), OPTIONS, at=commits[2], base=commits[2])
    assert verify_commit(folder, request).verdict == "vacuous"
    assert not any(box.is_done for box in folder.read("B1-PT-01").ticket.boxes)
    with pytest.raises(BadInputError, match="nosuch"):
        verified(folder, place, "nosuch")


def test_a_patch_is_run_in_a_copy_and_changes_nothing(story: Story, folder: TicketFolder) -> None:
    """The fix is sufficient, the change that keeps the loop is not; neither file nor ticket changes."""
    place, commits, _ = story
    before = folder.read("B1-PT-01").text
    request = VerifyRequest("B1-PT-01", f"{place}@{commits[0]}", OPTIONS, probes=(SYNCS,))
    for revision, verdict, code in ((commits[2], "sufficient", 0), (commits[1], "insufficient", 1)):
        patch = put(folder.folder, "fix.diff", git(place, "diff", commits[0], revision) + "\n")
        found = verify_patch(folder, request, patch)
        assert (found.verdict, int(found.exit_code)) == (verdict, code), found.reason
    block = put(folder.folder, "fix.py", WHOLE.partition("\n\n\n")[2])
    assert verify_patch(folder, request, block).verdict == "sufficient"
    assert (folder.read("B1-PT-01").text, git(place, "status", "--porcelain")) == (before, "")


def test_the_recommended_diff_is_run_again_and_applied_where_git_can_undo_it(
    story: Story, folder: TicketFolder, tmp_path: Path
) -> None:
    place, commits, _ = story
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(place), str(clone))
    git(clone, "checkout", "-q", commits[0])
    diff = git(place, "diff", commits[0], commits[2])
    shown = folder.read("B1-PT-01").with_section("Fix", f"Sum on the device.\n```diff\n{diff}\n```")
    put(folder.folder, "B1-PT-01.md", shown.text)
    request = VerifyRequest("B1-PT-01", str(clone), OPTIONS, probes=(SYNCS,))
    with pytest.raises(BadInputError, match="is a revision"):
        apply_fix(folder, replace(request, checkout=f"{clone}@{commits[0]}"))
    put(clone, "src/train/norms.py", NAIVE + "# mine\n")
    with pytest.raises(BadInputError, match="has uncommitted changes"):
        apply_fix(folder, request)
    put(clone, "src/train/norms.py", NAIVE)
    found, files = apply_fix(folder, request)
    assert (found.verdict, files) == ("sufficient", ("src/train/norms.py",))
    assert (clone / "src/train/norms.py").read_text() == WHOLE
