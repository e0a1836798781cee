"""A recommended fix is run in a copy of the checkout: its verdict, its block in the ticket, nothing else changed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from auditkit.errors import BadInputError, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import ArmKind, FixTrial, FixVerdict
from auditkit.probing.checkouts.scratch import PREFIX, remove_abandoned
from auditkit.store.config.config import Config
from auditkit.store.folder.repository import Repository
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.fixes.try_fix import TryRequest, try_fix, write_trial
from auditkit.workflows.lint.lint import LintRequest, lint
from tests.probing_helpers import LAUNCHES, MEMORY, NONCONTIGUOUS, OVERFLOW, SYNCS
from tests.project_files import auditkit, our_environment
from tests.test_schema import document_of

pytestmark = pytest.mark.process

SQUARES = '''"""Norms of gradients."""

import torch


def total_norm(module):
    """The norm of all gradients."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    total_sq = torch.stack([(g * g).sum() for g in grads]).sum()
    return total_sq.sqrt().item()
'''
DOUBLE = SQUARES.replace("(g * g).sum()", "(g.double() * g.double()).sum()")
FOREACH = """def total_norm(module):
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    # handles everything internally
    return torch.stack(torch._foreach_norm(grads)).norm().item()
"""
READ_EACH = "total_sq = sum((g.double().norm() ** 2).item() for g in grads)\nreturn float(total_sq) ** 0.5\n"
TICKET = """# Finding Ticket: Norm overflow

---

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `B7-PT-01` |
| **Severity** | `P1` |
| **Status** | `open` |
| **Batch** | 7 |
| **Agent** | `pytorch` |
| **Domain** | `train` |
| **Assignee** | |
| **Created** | 2026-01-02 |
| **Updated** | 2026-01-02 |

---

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `/home/dana/trainer/norms.py` |
| **Line(s)** | `6-12` |
| **Function/Class** | `total_norm()` |

---

## Summary

**One-line summary:** Squares overflow.

**Category:**
- [x] Numerical stability
- [x] Performance bottleneck

---

## Detailed Description

### What's Wrong

Squares.

---

## Recommended Fix

{fix}

---

## Verification

- [ ] It is right at 1e20

---

## Resolution

| Field | Value |
|-------|-------|
| **Fixed By** | |
| **Fixed Date** | |
| **Commit** | {commit} |
{applied}
"""


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", folder, *settings, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Ground:
    """A checkout with two commits, squares and then doubles, and a folder with one ticket about it."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.tickets = folder / "trainer", folder / "tickets"
        self.checkout.mkdir()
        self.tickets.mkdir()
        git(self.checkout, "init", "--quiet")
        for text in (SQUARES, DOUBLE):
            (self.checkout / "norms.py").write_text(text, encoding="utf-8")
            git(self.checkout, "add", "norms.py")
            git(self.checkout, "commit", "--quiet", "-m", "norms")
        self.ticket = self.tickets / "B7-PT-01.md"

    def write(self, *blocks: str, commit: str = "(pending)", applied: str = "") -> None:
        fix = "\n\nAlternatively:\n\n".join(f"```python\n{block}```" for block in blocks) or "Use another norm."
        shown = f"\n### Fix Applied\n\n```python\n{applied}```\n" if applied else ""
        self.ticket.write_text(TICKET.format(fix=fix, commit=commit, applied=shown), encoding="utf-8")

    def try_it(
        self, *probes: str, base: str = "HEAD~1", fix: str = "", time_limit_s: float = 60.0, **more: Any
    ) -> FixTrial:
        options = RunOptions(Config(), sys.executable, time_limit_s=time_limit_s)
        request = TryRequest("B7-PT-01", str(self.checkout), options, base=base, fix=fix, probes=probes, **more)
        return try_fix(Repository(self.tickets), request)

    def state(self) -> dict[str, str]:
        """Every byte of the checkout, its git directory and its modes among them."""
        return {
            str(path): f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            for path in sorted(self.checkout.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def verdicts(trial: FixTrial) -> list[str]:
    return [arm.judgement.text for arm in trial.arms]


def rules_of(ground: Ground) -> list[str]:
    """What lint has to say of the ticket, without lines."""
    return [finding.rule for finding in lint(LintRequest(tickets=ground.tickets)).findings]


def test_three_arms_are_judged_and_the_ticket_says_so(ground: Ground) -> None:
    """Of a fragment that reads every norm back, prose that is none, and the commit that mended it."""
    commit = git(ground.checkout, "rev-parse", "HEAD")
    ground.write(READ_EACH, "Use vector_norm.\n", commit=f"`{commit}`")
    before = ground.state()
    trial = ground.try_it(OVERFLOW, SYNCS)
    assert ground.state() == before
    assert trial.findings == (OVERFLOW,)
    assert [arm.kind for arm in trial.arms] == [ArmKind.RECOMMENDED, ArmKind.RECOMMENDED, ArmKind.APPLIED]
    assert verdicts(trial) == ["trades overflow for syncs", "does not run", "sufficient"]
    assert "1 -> n" in trial.first.judgement.reason
    assert trial.arms[1].judgement.reason.startswith("the block is no Python: invalid syntax")
    assert "kept 3 lines of the original before it and 0 lines after" in trial.first.completion

    repository = Repository(ground.tickets)
    old, warned = ground.ticket.read_text("utf-8"), rules_of(ground)
    write_trial(repository, trial)
    text = ground.ticket.read_text("utf-8")
    start, end = text.index("<!-- auditkit:evidence -->"), text.index("<!-- /auditkit:evidence -->")
    assert text[: start - 2] + text[end + len("<!-- /auditkit:evidence -->") :] == old
    assert "| **Tried** | `try-fix/1/norms:total_norm` |" in text[start:end]
    assert "+    total_sq = sum((g.double().norm() ** 2).item() for g in grads)" in text[start:end]
    ticket = repository.find("B7-PT-01").ticket
    assert (ticket.fingerprints, ticket.evidence) == ((), ())
    assert ticket.recommended_fix.endswith("```")
    change = write_trial(repository, trial)
    assert change.after.document.data == change.before.document.data
    assert rules_of(ground) == warned


def test_a_ticket_without_code_is_refused_before_anything_runs(ground: Ground) -> None:
    ground.write()
    with pytest.raises(BadInputError, match="its Recommended Fix shows no Python code"):
        ground.try_it(OVERFLOW)
    ground.write(FOREACH)
    with pytest.raises(BadInputError, match="has no block 2"):
        ground.try_it(OVERFLOW, block=2)
    for base, fix in (("no-such-branch", ""), ("HEAD~1", "no-such-branch")):
        with pytest.raises(BadInputError, match="no-such-branch"):
            ground.try_it(OVERFLOW, base=base, fix=fix)


@pytest.mark.slow
def test_a_fix_that_does_not_fix_is_insufficient_and_so_is_its_alternative(ground: Ground) -> None:
    """As in the ticket that said that torch._foreach_norm handles overflow; the code that was applied does."""
    alternative = "return torch.norm(torch.stack([torch.norm(g, 2) for g in grads]), 2).item()\n"
    ground.write(FOREACH, alternative, applied=DOUBLE.partition("import torch\n\n\n")[2])
    trial = ground.try_it(OVERFLOW, MEMORY)
    assert verdicts(trial) == ["insufficient", "insufficient", "trades overflow for memory"]
    assert [arm.name for arm in trial.arms][2] == "Resolution, block 1"
    assert "1.84e+19" in trial.first.judgement.reason
    second = ground.try_it(OVERFLOW, block=2)
    assert next(arm.name for arm in second.arms) == "Recommended Fix, block 2"


STATS = '''import torch


def collect(parameters, floor=1e-7):
    """Norms and counts."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"norm": 0.0, "zero_fraction": 0.0, "nan_count": 0}
    norms = torch.stack(torch._foreach_norm(grads))
    flat = torch.cat([g.view(-1) for g in grads])
    zeros = (flat == 0).sum()
    nans = torch.isnan(flat).sum()
    stats = torch.stack([norms.norm(), zeros.float(), nans.float()])
    norm, zero_count, nan_count = stats.tolist()
    nan_count = int(nan_count)
    total = sum(g.numel() for g in grads)
    return {"norm": norm, "zero_fraction": zero_count / total, "nan_count": nan_count}
'''
ELIDED = """def collect(...):
    # ... existing grad collection ...

    nan_count = 0
    for g in grads:
        piece = g.view(-1)
        nan_count += torch.isnan(piece).sum().item()
"""


@pytest.mark.slow
def test_a_fragment_with_an_elision_trades_memory_for_syncs(ground: Ground) -> None:
    """Its head is left out, it returns nothing, and it forgets a count; what raised before raises still."""
    (ground.checkout / "norms.py").write_text(STATS, encoding="utf-8")
    ground.write(ELIDED)
    text = ground.ticket.read_text("utf-8")
    text = text.replace("total_norm()", "collect()").replace("6-12", "10-10").replace("Norm overflow", "Large memory")
    ground.ticket.write_text(text, encoding="utf-8")
    before = ground.state()
    assert verdicts(ground.try_it(MEMORY, SYNCS, NONCONTIGUOUS, base="")) == ["incomplete: forgets zeros"]
    trial = ground.try_it(MEMORY, SYNCS, NONCONTIGUOUS, base="", complete=True)
    assert ground.state() == before
    assert trial.base.environment.dirty
    assert trial.findings == (MEMORY,)
    assert verdicts(trial) == ["trades memory for syncs"]
    reason = trial.first.judgement.reason
    assert "1 -> n+1" in reason
    assert reason.endswith(f"as before reproduce {NONCONTIGUOUS}")
    assert any("zeros, which the function still needs" in note for note in trial.first.completion)


MISBEHAVING = {
    "hangs": ("import time\ndef total_norm(module):\n    time.sleep(600)\n    return 0.0\n", "no answer within 8 s"),
    "exits": ("import os\ndef total_norm(module):\n    os._exit(0)\n", "exit"),
    "exits on import": ("raise SystemExit(3)\n\ndef total_norm(module):\n    return 0.0\n", "the same for other"),
    "raises": ("def total_norm(module):\n    return module.such_norm()\n", "such_norm"),
    "gives nothing": ("def total_norm(module):\n    pass\n", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "said"), MISBEHAVING.values(), ids=MISBEHAVING)
def test_code_that_misbehaves_does_not_run(ground: Ground, code: str, said: str) -> None:
    ground.write(code)
    before = ground.state()
    trial = ground.try_it(OVERFLOW, time_limit_s=8.0)
    assert ground.state() == before
    assert verdicts(trial) == ["does not run"]
    assert said in trial.first.judgement.reason
    assert all(result.outcome is not Outcome.REPRODUCED for arm in trial.arms if arm.run for result in arm.run.results)


@pytest.mark.slow
def test_files_that_the_code_writes_stay_in_the_copy(ground: Ground) -> None:
    """Beside itself and in its working directory; the checkout is the directory as it lies, not a revision."""
    code = (
        "from pathlib import Path\n\ndef total_norm(module):\n"
        "    Path(__file__).with_name('made.txt').write_text('x')\n    Path('made.txt').write_text('x')\n"
        "    grads = [p.grad for p in module.parameters() if p.grad is not None]\n"
        "    return torch.stack([g.double().norm() for g in grads]).norm().item() if grads else 0.0\n"
    )
    (ground.checkout / "norms.py").write_text(SQUARES, encoding="utf-8")
    ground.write(code)
    before = ground.state()
    trial = ground.try_it(OVERFLOW, base="")
    assert ground.state() == before
    assert trial.first.judgement.verdict is FixVerdict.SUFFICIENT
    assert not Path("made.txt").exists()


@pytest.mark.slow
def test_nothing_red_at_the_base_and_a_base_that_does_not_load_are_said(ground: Ground) -> None:
    ground.write(FOREACH)
    with pytest.raises(NothingMeasuredError, match="does not reproduce at"):
        ground.try_it(OVERFLOW, base="HEAD")
    (ground.checkout / "norms.py").write_text(
        SQUARES.replace("def total", "@no_such_decorator\ndef total"), encoding="utf-8"
    )
    with pytest.raises(TargetNotLoadedError, match="no_such_decorator"):
        ground.try_it(OVERFLOW, base="")


@pytest.mark.slow
def test_the_command_prints_writes_and_ends_with_the_verdict(ground: Ground) -> None:
    ground.write(FOREACH)
    words = ["ticket", "try-fix", "B7-PT-01", "--tickets", ground.tickets, "--checkout", ground.checkout]
    words += ["--base", "HEAD~1", "--probe", OVERFLOW, "--probe", LAUNCHES, "--json"]
    old = ground.ticket.read_bytes()
    ended = auditkit(*words, "--dry-run")
    document = document_of("ticket_try_fix", ended)
    assert (ended.code, document["verdict"], document["written"], document["path"]) == (1, "insufficient", False, "")
    assert ground.ticket.read_bytes() == old
    assert document["arms"][0]["source"].startswith("def total_norm(module):")
    written = document_of("ticket_try_fix", auditkit(*words))
    assert (written["written"], Path(written["path"])) == (True, ground.ticket)
    text = ground.ticket.read_text("utf-8")
    assert document_of("ticket_try_fix", auditkit(*words))["written"] is False, ground.ticket.read_text("utf-8") + text
    listed = document_of("tickets", auditkit("ticket", "show", "B7-PT-01", "--tickets", ground.tickets, "--json"))
    assert listed["tickets"][0]["evidence"] == []


def copies() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_an_interrupted_trial_leaves_nothing(ground: Ground, number: signal.Signals) -> None:
    """After Ctrl-C at once, after kill -9 by the next start; the ticket and the checkout are as before."""
    ground.write("import time\ndef total_norm(module):\n    time.sleep(600)\n    return 0.0\n")
    before, old = ground.state(), ground.ticket.read_bytes()
    command = [sys.executable, "-m", "auditkit", "ticket", "try-fix", "B7-PT-01", "--tickets", str(ground.tickets)]
    command += ["--checkout", str(ground.checkout), "--base", "HEAD~1", "--probe", OVERFLOW]
    process = subprocess.Popen(command, env=our_environment(), start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while not (mine := [path for path in copies() if f"-{process.pid}-" in path.name]):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, number)
        process.wait(60)
    finally:
        process.kill()
    remove_abandoned()
    assert not [path for path in mine if path.exists()]
    assert (ground.state(), ground.ticket.read_bytes()) == (before, old)


@pytest.mark.slow
def test_the_diff_of_an_audit_s_own_ticket_is_sufficient(ground: Ground) -> None:
    """Its ticket is bound; its fix was run before it was filed, and runs again; the finding's block stays."""
    (ground.checkout / "norms.py").write_text(SQUARES, encoding="utf-8")
    where = ["--tickets", ground.tickets, "--probe", OVERFLOW, "--json"]
    run = document_of("run", auditkit("audit", ground.checkout, "--target", "norms:total_norm", *where))
    (ticket,) = {result["ticket"] for result in run["results"]}
    words = ["ticket", "try-fix", ticket, "--checkout", ground.checkout, *where]
    document = document_of("ticket_try_fix", auditkit(*words))
    assert (document["verdict"], document["chosen"]) == ("sufficient", "bound")
    assert "dtype=torch.float64" in document["arms"][0]["difference"]
    held = Repository(ground.tickets).find(ticket)
    assert held.ticket.fingerprints == tuple(result["fingerprint"] for result in run["results"])
    assert [block.fingerprint != "" for block in held.document.evidence] == [False, True, False]
