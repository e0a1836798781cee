"""Verification of real collectors: the check that passes on broken code, and the claim that was never measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import fingerprint
from auditkit.model.tickets.claim import ClaimState
from auditkit.rendering.evidence import render_evidence
from auditkit.rules.tickets.proof import ProofState
from auditkit.store.edits.claims import mark
from auditkit.store.edits.evidence import put_evidence
from auditkit.store.edits.fields import edit_field
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import Document
from auditkit.store.reading.claim_comments import judged_claims
from auditkit.store.reading.reader import ticket_of
from auditkit.workflows.proof.verify import VerifyRequest, exit_code, verify
from tests.filing_helpers import PATH, corpus_folder, make_finding
from tests.probing_helpers import MEMORY, OVERFLOW
from tests.store.edits.test_claims import CLAIM
from tests.verify_helpers import TICKET, commit, git

pytestmark = pytest.mark.process

NAIVE = """import torch


def compute_grad_norm_surrogate(module):
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return None
    total_sq = sum((g.float() * g.float()).sum() for g in grads)
    return float(total_sq.sqrt().item())
"""
FUSED = """import torch


def compute_grad_norm_surrogate(module):
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return None
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack(norms)).item()
"""
FILE = Path("src/esper/simic/telemetry/emitters.py")
BOXES = """- [ ] Replace manual computation with torch._foreach_norm
- [ ] Add test with artificially large gradients (1e10 scale)
- [ ] Verify no inf/nan in output
"""
OWN = (
    TICKET.replace("- [ ] by hand\n- [ ] one\n- [ ] two\n", BOXES)
    .replace("trainer/src/train/norms.py", "esper-lite/src/esper/simic/telemetry/emitters.py")
    .replace("total_norm()", "compute_grad_norm_surrogate()")
)


def from_corpus(name: str) -> str:
    """A real ticket, where this machine has them."""
    folder = corpus_folder()
    if folder is None:
        pytest.skip("the real tickets are not here")
    (path,) = (folder / "tickets").rglob(f"{name}.md")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def code(tmp_path: Path) -> tuple[Path, str, str]:
    """A repository with the overflowing norm and its fix: folder, base, fix."""
    folder = tmp_path / "esper-lite"
    folder.mkdir()
    git(folder, "init", "-q")
    base = commit_at(folder, NAIVE)
    fix = commit_at(folder, FUSED)
    return folder, base, fix


def commit_at(folder: Path, text: str) -> str:
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / "src" / "esper" / "__init__.py").write_text("", encoding="utf-8")
    (folder / FILE).write_text(text, encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "work")
    return git(folder, "rev-parse", "HEAD")


@pytest.mark.parametrize("source", ["own", pytest.param("corpus", marks=pytest.mark.slow)])
def test_the_check_at_1e10_passes_on_the_broken_norm(source: str, code: tuple[Path, str, str], tmp_path: Path) -> None:
    """Seed 003: a test 'at 1e10 scale' proves nothing, because the norm breaks at 1.84e19; the probe proves the fix."""
    folder, base, fix = code
    document = Document.parse((OWN if source == "own" else from_corpus("B7-PT-01")).encode(), PATH)
    bound = edit_field(document, "bound", f"1e10 scale={OVERFLOW} breaking_norm > 1e10")
    bound = edit_field(bound, "bound", f"no inf/nan={OVERFLOW}")
    tickets = tmp_path / "tickets"
    tickets.mkdir()
    (tickets / "B7-PT-01.md").write_bytes(bound.data)
    done = verify(Repository(tickets), "B7-PT-01", VerifyRequest(str(folder), at=fix, base=base))
    assert [item.proof.state for item in done.items] == [
        ProofState.UNBOUND, ProofState.VACUOUS, ProofState.PROVEN,
    ]  # fmt: skip
    assert [item.is_done for item in done.change.after.ticket.verification] == [False, False, True]
    assert "holds at the base, too: breaking_norm is 1.845e+19" in done.items[1].proof.reason
    assert "1.84e+19 in " in done.items[2].proof.reason
    assert exit_code(done) == 1
    (block,) = done.change.after.ticket.evidence
    assert block.fingerprint == fingerprint(OVERFLOW, "esper.simic.telemetry.emitters:compute_grad_norm_surrogate")
    assert (block.revision, [check.outcome for check in block.checks]) == (base, ["reproduced", "not_reproduced"])


@pytest.mark.parametrize("source", ["own", "corpus"])
def test_the_claim_of_400_mb_is_refuted(source: str) -> None:
    """Seed 001 counts one float32 copy of the gradients; 3.25 of their bytes were measured, 1.21 GiB at 100M."""
    own = TICKET + "\n| Size | Temporary |\n|--|--|\n| 100M params | 400MB |\n"
    text = from_corpus("B7-PT-03") if source == "corpus" else own
    measured = (
        Measurement("peak_extra_bytes", int(3.25 * 4 * 10_000_000), "bytes", {"params": 10_000_000, "tensors": 10}),
        Measurement("peak_extra_bytes", int(3.25 * 4 * 100_000_000), "bytes", {"params": 100_000_000, "tensors": 10}),
        Measurement("peak_extra_per_gradient_byte", 3.25, "ratio", {"params": 100_000_000, "tensors": 10}),
    )
    finding = make_finding(probe=MEMORY, measurements=measured, fingerprint=fingerprint(MEMORY, "m:f"))
    document = Document.parse(text.encode(), PATH)
    line = next(n for n, one in enumerate(text.split("\n"), 1) if one.startswith("| 100M params | 400MB"))
    marked = mark(document, "400MB", CLAIM, line)
    marked = mark(marked, "100M params", f"{MEMORY} peak_extra_per_gradient_byte = 3..3.5 x @ params=100M", line)
    assert [one.state for one in judged_claims(marked, ticket_of(marked))] == [ClaimState.UNTESTED] * 2
    filled = put_evidence(marked, finding.result.fingerprint, render_evidence(finding))
    ratio, claim = judged_claims(filled, ticket_of(filled))
    assert (claim.state, claim.claim.beside) == (ClaimState.REFUTED, "400MB")
    assert claim.message == "peak_extra_bytes is 1.21 GiB (params=100,000,000, tensors=10)"
    assert (ratio.state, ratio.claim.beside) == (ClaimState.CONFIRMED, "100M params")


@pytest.mark.slow
def test_a_renamed_collector_is_found_again(code: tuple[Path, str, str], tmp_path: Path) -> None:
    """The function is lost, moved and renamed: what is found again is asked, and the ticket says so."""
    folder, base, _ = code
    tickets = tmp_path / "tickets"
    tickets.mkdir()
    (tickets / "B7-PT-01.md").write_text(OWN, encoding="utf-8")
    request = VerifyRequest(str(folder), at=base, probes=(OVERFLOW,))
    verify(Repository(tickets), "B7-PT-01", request)

    def state(text: str, name: str = FILE.name) -> tuple[ProofState, str]:
        git(folder, "checkout", "-q", "-f", base)
        git(folder, "rm", "-q", str(FILE))
        (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
        (folder / FILE.with_name(name)).write_text(text, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "renamed")
        done = verify(Repository(tickets), "B7-PT-01", VerifyRequest(str(folder)))
        return done.checks[0].proof.state, done.checks[0].fix.note

    renamed = NAIVE.replace("compute_grad_norm_surrogate", "surrogate")
    assert state(renamed)[0] is ProofState.STILL_REPRODUCED
    moved = NAIVE.replace("(g.float() * g.float())", "(g.double() * g.double())")
    proven, note = state(moved, "norms.py")
    assert proven is ProofState.PROVEN
    assert "moved to esper.simic.telemetry.norms:compute_grad_norm_surrogate" in note
    lost, note = state("def unlike(a):\n    return a\n")
    assert (lost, "is not there any more" in note) == (ProofState.NOT_MEASURED, True)


@pytest.mark.slow
def test_a_measured_ratio_confirms_what_was_claimed_of_the_fix(tmp_path: Path) -> None:
    """Fewer launches, counted at both revisions: '24-33x faster' becomes a claim that a run can refute."""
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q")
    base = commit(folder, NAIVE)
    fix = commit(folder, FUSED)
    tickets = tmp_path / "tickets"
    tickets.mkdir()
    launches = "launches_grow_with_tensors"
    text = OWN.replace("src/esper/simic/telemetry/emitters.py", "src/train/norms.py").replace("esper-lite/", "")
    text = text.replace("Do it at once.", (
        f"24-33x fewer launches <!-- claim: {launches} launch_count base/fix = 24..33 x @ tensors=64 -->, and "
        f"O(1) of them <!-- claim: {launches} law at fix = O(1) -->, once O(n) <!-- claim: {launches} law = O(n) -->."
    ))  # fmt: skip
    (tickets / "B7-PT-01.md").write_text(text, encoding="utf-8")
    request = VerifyRequest(str(folder), at=fix, base=base, probes=(launches,))
    done = verify(Repository(tickets), "B7-PT-01", request)
    assert [one.state for one in done.claims][1:] == [ClaimState.CONFIRMED, ClaimState.CONFIRMED], done.claims
    assert done.claims[0].state in (ClaimState.CONFIRMED, ClaimState.REFUTED)
    assert "(tensors=64" in done.claims[0].message
