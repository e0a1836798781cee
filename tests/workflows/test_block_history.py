"""A block of a training script through every verb: audited, verified, a fix tried, compared and bisected."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.errors import AuditkitError
from auditkit.model.enums import Outcome
from auditkit.model.revisions.bisection import State
from auditkit.model.revisions.comparison import Change, MatchState
from auditkit.model.revisions.trial import FixVerdict
from auditkit.model.runs.target import Target
from auditkit.rules.tickets.proof import ProofState
from auditkit.store.config.config import Config
from auditkit.store.folder.repository import Repository
from auditkit.workflows.audit.audit import AuditRequest, audit
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.fixes.try_fix import TryRequest, try_fix
from auditkit.workflows.history.bisect import BisectRequest, bisect
from auditkit.workflows.history.compare import CompareRequest, compare
from auditkit.workflows.proof.verify import Verification, VerifyRequest, verify
from tests.probing_helpers import OVERFLOW
from tests.verify_helpers import git

pytestmark = pytest.mark.process

CALL = "train.py:#total_norm"
SCRIPT = """\
import torch

model = make_model()
for step in range(100):
    model(next(data)).sum().backward()
{block}
    print(total_norm)
    optimizer.step()
"""
SOUND = """\
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    total_norm = torch.stack([g.double().norm() for g in grads]).norm() if grads else torch.zeros(())
"""
OVERFLOWING = """\
    total_norm = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total_norm += p.grad.pow(2).sum()
    total_norm = total_norm**0.5
"""
GONE = "    total_norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])\n"
FIX = """\
squares = [p.grad.double().pow(2).sum() for p in model.parameters() if p.grad is not None]
total_norm = torch.stack(squares).sum() ** 0.5 if squares else torch.zeros(())
"""
NORM_OF = """\
def norm_of(grads):
    if not grads:
        return 0.0
    return torch.stack([g.double().norm() for g in grads]).norm()
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A repository with a commit of each text of the block, and the commits by their names."""
    folder = tmp_path_factory.mktemp("history") / "trainer"
    folder.mkdir()
    git(folder, "init", "-q", "--template=")
    texts = {"sound": SOUND, "overflowing": OVERFLOWING, "moved": "    step += 1\n" + OVERFLOWING, "gone": GONE}
    commits = {}
    for name, block in texts.items():
        (folder / "train.py").write_text(SCRIPT.format(block=block.rstrip("\n")))
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", name)
        commits[name] = git(folder, "rev-parse", "HEAD")
    return folder, commits


OPTIONS = RunOptions(Config(), sys.executable)


@pytest.fixture(scope="module")
def ticket(history: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The ticket that an audit of the overflowing commit files."""
    folder, commits = history
    repository = Repository(tmp_path_factory.mktemp("tickets"))
    request = AuditRequest(
        f"{folder}@{commits['overflowing']}", (OPTIONS,), probes=(OVERFLOW,), tickets=repository.folder, batch=1
    )
    run = audit(request)
    assert [(result.target, result.outcome) for result in run.results] == [(CALL, Outcome.REPRODUCED)]
    return repository


def only_id(repository: Repository) -> str:
    (file,) = repository.files()
    return file.stem.partition("_")[0]


def test_a_ticket_shows_the_statements_and_is_found_again_by_the_blocks_name(ticket: Repository) -> None:
    entry = ticket.find(only_id(ticket))
    (block,) = entry.ticket.evidence
    assert block.fingerprint == f"{OVERFLOW}/1/{CALL}"
    text = entry.document.data.decode()
    assert "total_norm += p.grad.pow(2).sum()" in text
    assert "| **Function/Class** | `#total_norm()` |" in text


def verified(history: tuple[Path, dict[str, str]], ticket: Repository, at: str) -> Verification:
    folder, commits = history
    return verify(ticket, only_id(ticket), VerifyRequest(str(folder), OPTIONS, at=commits[at]))


def test_a_block_that_moved_still_reproduces_and_one_that_is_gone_proves_nothing(
    history: tuple[Path, dict[str, str]], ticket: Repository
) -> None:
    assert verified(history, ticket, "moved").checks[0].proof.state is ProofState.STILL_REPRODUCED
    gone = verified(history, ticket, "gone").checks[0]
    assert gone.fix.result.outcome is Outcome.ERROR
    assert gone.fix.result.message == f"{CALL} is gone, and no block is like it"
    assert gone.proof.state is ProofState.NOT_MEASURED


def test_a_fix_is_tried_in_the_place_of_the_statements(
    history: tuple[Path, dict[str, str]], ticket: Repository
) -> None:
    """Statements, and a function that somebody wrote for it; what does not help is said not to.

    Nor does what raises where the base was right: `.view` of channels_last gradients.
    """
    folder, commits = history
    path = ticket.find(only_id(ticket)).file
    text = path.read_text()
    shown = [FIX, "total_norm = sum(p.grad.pow(2).sum() for p in model.parameters()) ** 0.5\n"]
    shown += [NORM_OF, NORM_OF.replace("double()", "double().view(-1)")]
    start = text.index("## Recommended Fix")
    end = text.index("\n## ", start + 1)
    fences = "\n".join(f"```python\n{code}```\n" for code in shown)
    path.write_text(f"{text[:start]}## Recommended Fix\n\n{fences}{text[end:]}")
    request = TryRequest(only_id(ticket), str(folder), OPTIONS, base=commits["overflowing"], probes=(OVERFLOW,))
    arms = try_fix(ticket, request).arms
    assert [arm.judgement.verdict for arm in arms] == [
        FixVerdict.SUFFICIENT,
        FixVerdict.INSUFFICIENT,
        FixVerdict.SUFFICIENT,
        FixVerdict.TRADES,
    ]
    assert "-    total_norm = 0.0" in arms[0].difference
    assert "+    total_norm = torch.stack(squares).sum() ** 0.5" in arms[0].difference
    assert "+    total_norm = norm_of([p.grad for p in model.parameters() if p.grad is not None])" in arms[2].difference


def test_two_revisions_are_compared_block_by_block(history: tuple[Path, dict[str, str]]) -> None:
    folder, commits = history
    request = CompareRequest(str(folder), commits["sound"], commits["overflowing"], OPTIONS, probes=(OVERFLOW,))
    (target,) = compare(request).targets
    assert (target.match.base, target.match.head, target.match.state) == (CALL, CALL, MatchState.CHANGED)
    assert [one.change for one in target.contrasts] == [Change.INTRODUCED]
    with pytest.raises(AuditkitError):
        compare(CompareRequest(str(folder), commits["gone"], commits["gone"], OPTIONS, probes=(OVERFLOW,)))


def test_the_first_commit_with_the_defect_is_found(history: tuple[Path, dict[str, str]], ticket: Repository) -> None:
    folder, commits = history
    found = bisect(
        BisectRequest(ticket.find(only_id(ticket)).ticket, str(folder), commits["sound"], commits["moved"], OPTIONS)
    )
    assert (found.first, found.newer.state) == (commits["overflowing"], State.REPRODUCED)
    assert found.target == Target(CALL).call
