"""A ticket's whole way by its own advice: audited, changed as recommended, verified, fixed; and it stays so."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pytest

from auditkit.errors import ExitCode
from auditkit.model.tickets.ticket import Status
from auditkit.store.config.config import Config
from auditkit.store.folder.repository import Repository
from auditkit.workflows.audit.audit import AuditRequest, audit
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.proof.verify import VerifyRequest, exit_code, verify
from auditkit.workflows.tickets.resolution import ResolveRequest, resolve, sign_off
from tests.filing_helpers import put
from tests.probing_helpers import LAUNCHES, SYNCS
from tests.workflows.fixes.test_fix_search import READS
from tests.workflows.fixes.test_try_fix import git

pytestmark = pytest.mark.process
TODAY = datetime.date(2026, 3, 4)


def test_what_is_recommended_is_enough_for_fixed(tmp_path: Path) -> None:
    """A launch for each tensor is minor and stays: neither `fixed` nor the next audit minds."""
    top, options = tmp_path / "trainer", RunOptions(Config(), sys.executable)
    put(top, "norms.py", READS)
    git(top, "init", "--quiet")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "norms")
    request = AuditRequest(str(top), (options,), (), (SYNCS, LAUNCHES), tickets=tmp_path / "tickets", fix_time_s=120.0)
    (fix,) = audit(request).fixes
    repository = Repository(tmp_path / "tickets")
    (ticket,) = repository.listing().tickets
    put(tmp_path, "fix.diff", fix.difference)
    git(top, "apply", str(tmp_path / "fix.diff"))
    git(top, "commit", "--quiet", "-am", "as recommended")

    done = verify(repository, str(ticket.id), VerifyRequest(str(top), options))
    told = done.change.after.ticket
    assert exit_code(done) is ExitCode.OK
    assert all(item.is_done for item in told.verification)
    assert {check.question.probe.id: check.proof.state.value for check in done.checks} == {
        SYNCS: "PROVEN",
        LAUNCHES: "STILL_REPRODUCED",
    }
    sign_off(repository, str(ticket.id), None, "", TODAY)
    how = ResolveRequest(Status.FIXED, "as recommended", (done.revision,), checkout=str(top))
    moved = resolve(repository, str(ticket.id), how, TODAY)
    assert (moved.change.after.ticket.status, moved.missing) == (Status.FIXED, ())

    audit(request)
    assert repository.find(str(ticket.id)).ticket.status is Status.FIXED
