"""Fixes of an audit: a rewrite is one only where its findings are gone, right answers stay and nothing is paid."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.config.config import Config
from auditkit.model.enums import Severity
from auditkit.model.runs.run import Finding, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.fix.rewrites.rewrite import Rewrite
from auditkit.probing.run.measurement import ask
from auditkit.probing.run.run_options import RunOptions
from auditkit.tickets.store import TicketFolder
from auditkit.trials.fix_search import Found, Search
from auditkit.trials.fix_trials import Scene
from tests.filing_helpers import put
from tests.probing.fix.rewrites.places import of_lines
from tests.probing_helpers import LAUNCHES, MEMORY, OVERFLOW, SYNCS
from tests.verify_helpers import git

pytestmark = pytest.mark.process

STATS = '''"""Statistics of gradients."""

import torch


def collect(module):
    """The norm and the number of all gradients."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return {"norm": 0.0, "count": 0}
    total = _total(grads)
    return {"norm": total, "count": len(grads)}


def _total(grads):
    return torch.stack([(g * g).sum() for g in grads]).sum().sqrt().item()


def other(module):
    return {"norm": _total([p.grad for p in module.parameters() if p.grad is not None])}
'''
LINE = STATS.splitlines().index("    return torch.stack([(g * g).sum() for g in grads]).sum().sqrt().item()") + 1
OPTIONS = RunOptions(Config(), sys.executable, time_limit_s=60.0)


def rewrite(*lines: tuple[int, str]) -> Rewrite:
    return of_lines(dict(lines), OVERFLOW, MEMORY)


WIDE = (LINE, "    return torch.stack([g.double().norm() for g in grads]).norm().item()")
SUFFICES = rewrite(WIDE)
FLAT = rewrite((LINE, "    return torch.cat([g.reshape(-1).double() for g in grads]).norm().item()"))
ANOTHER_COUNT = rewrite((11, "    total = torch.stack([g.double().norm() for g in grads]).norm().item()"),
                        (12, '    return {"norm": total, "count": len(grads) + 1}'))  # fmt: skip
LOSES = rewrite((11, "    total = torch.stack([g.double().norm() for g in grads]).norm().item()"),
                (12, '    return {"norm": total}'))  # fmt: skip
BROKEN = rewrite((LINE, "    return torch.no_such_norm(grads)"))
NOTHING = rewrite((LINE, "    return torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt().item()"))


class Searched:
    """A checkout in a folder of its repository, audited once; its first target's overflow is to be fixed."""

    def __init__(self, folder: Path, file: str, text: str, calls: Sequence[str], *probes: str) -> None:
        self.top, self.checkout = folder / "trainer", folder / "trainer" / "sub"
        self.checkout.mkdir(parents=True)
        git(self.top, "init", "--quiet")
        # Carriage returns, and no newline at the end.
        (self.checkout / file).write_bytes(text.rstrip("\n").replace("\n", "\r\n").encode())
        git(self.top, "-c", "core.autocrlf=false", "add", ".")
        git(self.top, "commit", "--quiet", "-m", "stats")
        self.spec = parse_checkout(str(self.checkout))
        catalog = load_catalog()
        self.probes = [catalog[probe] for probe in probes]
        with OPTIONS.open(self.spec) as opened:
            self.run: Run = ask(OPTIONS, opened, list(map(Target, calls)), self.probes)
        # What is tried are the test's own changes.
        self.findings = [
            Finding(replace(catalog[one.probe], remediation_code=""), one, self.run.environment, self.run.id,
                    self.run.targets[0].target)
            for one in self.run.results
            if (one.target, one.probe) == (calls[0], OVERFLOW)
        ]  # fmt: skip

    def search(self, *rewrites: Rewrite, limit_s: float = 60.0) -> Found:
        with OPTIONS.open(self.spec) as opened, open_copy(self.spec, sys.executable) as copy:
            scene = Scene(self.spec, opened, {"": OPTIONS}, self.probes, "sub/")
            search = Search(scene, self.run, [copy], limit_s, rewrites=lambda *_: list(rewrites))
            return search.fixes_of([self.findings])


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    return Searched(
        tmp_path_factory.mktemp("searched"), "stats.py", STATS, ("stats:collect", "stats:other"), OVERFLOW, MEMORY
    )


def test_a_rewrite_that_suffices_is_a_diff_that_git_applies(searched: Searched) -> None:
    """Through the other target that calls the changed function, too; the paths begin at the repository's top."""
    before = (searched.checkout / "stats.py").read_bytes()
    found = searched.search(NOTHING, SUFFICES)
    (fix,), said = found.fixes, found.note
    assert found.no_fix == {}
    assert (searched.checkout / "stats.py").read_bytes() == before
    assert fix.changes == (f"line {LINE}: changed",)
    assert (fix.target, fix.file, fix.function) == ("stats:collect", "stats.py", "_total")
    assert fix.mends == (searched.findings[0].result.fingerprint,)
    assert [row.probe for row in fix.rows] == [OVERFLOW]
    assert fix.rows[0].patched == "does not reproduce"
    assert said.startswith("fixes that were run: for 1 of 1 new ticket, ")
    for words in (["--check"], []):
        done = subprocess.run(
            ["git", "apply", *words, "-"], input=fix.difference.encode(), cwd=searched.top, check=True
        )
        assert done.returncode == 0
    after = (searched.checkout / "stats.py").read_bytes()
    git(searched.top, "checkout", "--", ".")
    assert after == before.replace(b"    return torch.stack([(g * g).sum() for g in grads]).sum().sqrt().item()",
                                   WIDE[1].encode())  # fmt: skip


@pytest.mark.parametrize(
    ("rewrites", "told"),
    [
        ([FLAT], "1 change was tried and is not sufficient: it changed a correct result"),
        ([ANOTHER_COUNT], "changed a correct result: count of dtype float32, seed 0"),
        ([LOSES], "count of dtype float32, seed 0, device cpu: 3 -> nothing"),
        ([BROKEN, NOTHING], "2 changes were tried, none is sufficient; the best one left"),
        ([], "no rewrite fits these statements"),
    ],
    ids=["memory", "a right answer", "a field", "does not run", "none"],
)
def test_what_trades_changes_a_right_answer_or_does_not_run_is_none(
    searched: Searched, rewrites: list[Rewrite], told: str
) -> None:
    found = searched.search(*rewrites)
    assert found.fixes == ()
    assert found.note.startswith("fixes that were run: for 0 of 1 new ticket, ")
    assert found.no_fix.keys() == {searched.findings[0].result.fingerprint}
    assert told in found.no_fix[searched.findings[0].result.fingerprint]


def test_a_fix_that_hangs_ends_with_the_time_and_it_is_said(searched: Searched) -> None:
    found = searched.search(rewrite((LINE, "    import time\n    time.sleep(600)")), limit_s=2.0)
    assert found.fixes == ()
    assert list(found.no_fix.values()) == ["not tried: the time for fixes (2 s) was over"]


def test_an_interrupt_ends_the_search_and_keeps_the_audit(searched: Searched) -> None:
    def interrupted(*_: object) -> list[Rewrite]:
        raise KeyboardInterrupt

    with OPTIONS.open(searched.spec) as opened, open_copy(searched.spec, sys.executable) as copy:
        scene = Scene(searched.spec, opened, {"": OPTIONS}, searched.probes)
        found = Search(scene, searched.run, [copy], 60.0, rewrites=interrupted).fixes_of([searched.findings])
    assert found.fixes == ()
    assert list(found.no_fix.values()) == ["not tried: the search for fixes was interrupted"]


# A fix keeps the types that callers have: of what is returned, and of what other ranks reduce with it.
REDUCED = """import torch
import torch.distributed as dist


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.zeros(()) if not grads else torch.stack([g.norm() for g in grads]).norm() ** 2
    dtype = grads[0].dtype if grads else torch.float32
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(total)
    return total.sqrt()
"""
SUM, RETURN = (REDUCED.split("\n").index(line) + 1 for line in REDUCED.split("\n") if "stack" in line or "sqrt" in line)
EMPTY, FULL = "torch.zeros(())", "torch.stack([g.norm() for g in grads])"
WIDE_EMPTY, WIDE_FULL = "torch.zeros((), dtype=torch.float64)", "torch.stack([g.double().norm() for g in grads])"
CAST = "    return total.sqrt().to(torch.promote_types(dtype, torch.float32))"


def reduced_by(total: str, returned: str) -> Rewrite:
    return of_lines({SUM: total, RETURN: returned}, OVERFLOW)


def wide(line: str) -> str:
    return line.replace(FULL, WIDE_FULL)


OF_LINE, RETURNED = REDUCED.split("\n")[SUM - 1], REDUCED.split("\n")[RETURN - 1]
WIDENS = reduced_by(wide(OF_LINE).replace(EMPTY, WIDE_EMPTY), RETURNED)
ABORTS = reduced_by(wide(OF_LINE), CAST)
KEEPS = reduced_by(wide(OF_LINE).replace(EMPTY, WIDE_EMPTY), CAST)


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    return Searched(tmp_path_factory.mktemp("reduced"), "norms.py", REDUCED, ("norms:grad_norm",), OVERFLOW)


def test_a_change_of_the_returned_dtype_is_no_fix(reduced: Searched) -> None:
    found = reduced.search(WIDENS)
    assert found.fixes == ()
    (why,) = found.no_fix.values()
    assert why.endswith("type of the result of dtype float32, seed 0, device cpu: "
                        "float32 tensor on cpu -> float64 tensor on cpu")  # fmt: skip


def test_a_change_that_aborts_a_rank_without_gradients_is_no_fix(reduced: Searched) -> None:
    """Each rank alone returns what it did; together they reduce 8 bytes with 4."""
    (fix,) = reduced.search(ABORTS, KEEPS).fixes
    assert WIDE_EMPTY in fix.difference
    assert CAST in fix.difference


FLATTENED = '''import torch


def grad_quality(parameters):
    """Norm and share of zeros of all gradients, read from the device once."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "zero_fraction": 0.0}
    flat = torch.cat([grad.view(-1) for grad in grads])
    norm = torch.linalg.vector_norm(flat, dtype=torch.float64)
    zeros = (flat == 0).sum().double()
    norm, zeros = torch.stack([norm, zeros]).tolist()
    return {"grad_norm": norm, "zero_fraction": zeros / max(flat.numel(), 1)}
'''
VIEW, SPARSE = "fails_on_noncontiguous_grads", "fails_on_sparse_grads"


def test_the_smallest_diff_comes_first(tmp_path: Path) -> None:
    """One word ends the error of `view`; the sparse gradients that nobody has stay, though a larger diff ends both."""
    put(tmp_path, "trainer/quality.py", FLATTENED)
    catalog, spec = load_catalog(), parse_checkout(str(tmp_path / "trainer"))
    probes = [catalog[VIEW], catalog[SPARSE], catalog[MEMORY]]
    target = Target("quality:grad_quality")
    with OPTIONS.open(spec) as opened, open_copy(spec, sys.executable) as copy:
        run = ask(OPTIONS, opened, [target], probes)
        found = {one.probe: Finding(catalog[one.probe], one, run.environment, run.id, run.targets[0].target)
                 for one in run.results}  # fmt: skip
        assert [found[name].severity for name in (VIEW, SPARSE, MEMORY)] == [Severity.P2, Severity.P4, Severity.P2]
        search = Search(Scene(spec, opened, {"": OPTIONS}, probes), run, [copy], 120.0)
        groups = [[found[VIEW], found[SPARSE]], [found[MEMORY]]]
        view, memory = search.fixes_of(groups).fixes
    changed = [line for line in view.difference.split("\n") if line.startswith(("-  ", "+  "))]
    assert changed == [
        "-    flat = torch.cat([grad.view(-1) for grad in grads])",
        "+    flat = torch.cat([grad.reshape(-1) for grad in grads])",
    ]
    assert view.mends == (found[VIEW].result.fingerprint,)
    assert memory.mends == (found[MEMORY].result.fingerprint,)


READS = '''import torch


def grad_norm(parameters):
    """Total norm, for the log."""
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.norm(2).item() ** 2
    return total ** 0.5
'''


@pytest.mark.slow
def test_a_minor_finding_may_stay_and_the_next_audit_searches_where_none_had_time(tmp_path: Path) -> None:
    """A launch for each tensor stays, and nobody would keep the waits because of it."""
    put(tmp_path, "trainer/norms.py", READS)
    arms, probes = (RunOptions(Config(), sys.executable),), (SYNCS, LAUNCHES)
    request = AuditRequest(str(tmp_path / "trainer"), arms, (), probes, tickets=tmp_path / "tickets")
    untried = audit(request)
    assert set(untried.no_fix.values()) == {"not tried: --fix-time 0"}
    assert untried.no_fix.keys() == {one.fingerprint for one in untried.results}
    folder = TicketFolder(tmp_path / "tickets")
    assert "No fix was run: not tried: --fix-time 0." in str(folder.read("B1-PT-01").section("Fix"))
    run = audit(replace(request, fix_time_s=120.0))
    severity = {one.probe: one.severity for one in run.results}
    assert (severity[SYNCS], severity[LAUNCHES]) == (Severity.P2, Severity.P4)
    (fix,) = run.fixes
    assert fix.mends == (f"{SYNCS}/1/norms:grad_norm",)
    text = folder.read("B1-PT-01").text
    assert f"With it these minor findings still reproduce: `{LAUNCHES}`." in text
    assert "No fix was run" not in text
    evidence = folder.evidence("B1-PT-01")
    assert evidence is not None
    assert [one["mends"] for one in evidence.fixes] == [list(fix.mends)]
