"""Probes that start real ranks: norms of sharded gradients, gathers, plans that ask the process group."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.model.enums import Contract, Outcome
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.run.run_options import RunOptions
from auditkit.worker.gradients import sharded
from auditkit.worker.measure.ranks import RanksFailed, run_ranks
from tests.probes.in_process import Answer, ask_all
from tests.probes.specimens import NO_RANKS, asked_here, folder_of
from tests.probing_helpers import GATHER, MESH, PER_RANK, SHARDING, TARGETS, is_alive, run_probes

CATALOG = load_catalog()
SPECIMEN = folder_of("specan")
pytestmark = [pytest.mark.skipif(NO_RANKS is not None, reason=str(NO_RANKS)), pytest.mark.acceptance]


def asked(function: str, probe: str) -> Answer:
    return asked_here(f"specan.defective_ranks:{function}")[probe]


def test_what_a_placement_reads_is_told_with_its_figure() -> None:
    """Every rank's own norm differs, and their squares add up to the whole."""
    answer = asked("local_norm", SHARDING)
    (whole,) = answer.values("one_process_norm")
    for ranks in (2, 4):
        local = answer.values("norm", placement="fsdp2_root", ranks=ranks)
        assert len(set(local)) == ranks
        assert sum(norm**2 for norm in local) == pytest.approx(whole**2, rel=1e-5)
    assert answer.message.startswith("another number under fsdp2_root, ")


def test_what_each_mesh_reads_is_told() -> None:
    """Four copies of the vectors are counted; shards that are all alike are another probe's business."""
    of_plain = asked("plain_norm_per_rank", MESH)
    (whole, *_) = of_plain.values("one_process_norm")
    (norm, *others) = of_plain.values("norm", mesh="plain_beside_sharded")
    vectors = sum(float(grad.square().sum()) for grad in sharded.one_process() if grad.dim() == 1)
    assert norm**2 == pytest.approx(whole**2 + 3 * vectors, rel=1e-5)
    assert others == [norm] * 3
    assert of_plain.message.startswith(f"under plain_beside_sharded the norm of 4 ranks reads {norm:.6g} instead of ")
    of_local = ask_all(Target("specan.defective_ranks:local_norm"), [MESH], SPECIMEN)[MESH]
    assert (of_local.outcome, "see norm_depends_on_sharding" in of_local.message) == ("not_applicable", True)


def test_a_target_without_collectives_gathers_nothing() -> None:
    answer = ask_all(Target("specan.sound:spectral_echoes"), [GATHER], SPECIMEN)[GATHER]
    told = "it calls no collective: its result is about the replicas that it is given"
    assert (answer.outcome, answer.message) == ("not_applicable", told)


WRAPPED_ROOT = """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule


def get_grad_norm(model: torch.nn.Module) -> float:
    grads = [getattr(p.grad, "_local_tensor", p.grad) for p in model.parameters() if p.grad is not None]
    total = torch.stack([g.double().square().sum() for g in grads]).sum()
    if isinstance(model, FSDPModule):
        dist.all_reduce(total)
    return total.sqrt().item()
"""


def test_the_wrapping_that_fails_is_named_with_its_figure(tmp_path: Path) -> None:
    """As in LoongForge before 36f13e39: right where the root is wrapped, and what a rank holds where it is not."""
    (tmp_path / "of_wrapped_root.py").write_text(WRAPPED_ROOT)
    answer = ask_all(Target("of_wrapped_root:get_grad_norm"), [SHARDING], tmp_path)[SHARDING]
    (whole,) = answer.values("one_process_norm")
    for right in ("fsdp2_root", "fsdp2_root_and_submodules"):
        assert answer.values("norm", placement=right) == pytest.approx([whole] * 6, rel=1e-5)
    for ranks in (2, 4):
        local = answer.values("norm", placement="fsdp2_submodules", ranks=ranks)
        assert sum(norm**2 for norm in local) == pytest.approx(whole**2, rel=1e-5)
    assert "fsdp2_root" not in answer.message
    assert (
        f"under fsdp2_submodules the norm of 2 ranks reads {answer.values('norm', placement='fsdp2_submodules')[0]:.6g}"
        in (answer.message)
    )


# --- training steps over ranks ------------------------------------------------------------------------


def test_a_plain_loop_is_not_judged_and_its_figure_is_told() -> None:
    folder = folder_of("trainsteps")
    target = Target("trainsteps.sound:train_by_token", contract=Contract.TRAIN_STEP)
    answer = ask_all(target, [PER_RANK], folder)[PER_RANK]
    assert answer.outcome == "not_applicable"
    assert answer.message.startswith("its code does not handle ranks with different numbers of targets")
    assert "times the norm of the mean over all targets" in answer.message


# --- ranks that misbehave ----------------------------------------------------------------------------


def test_a_hang_is_an_error_within_its_limit_and_every_rank_is_gone(tmp_path: Path) -> None:
    options = {"rank_limit_s": 4}
    started = time.monotonic()
    run = run_probes(TARGETS / "ranks", Target("norms:waits_for_rank_zero"), [SHARDING], options=options)
    (result,) = run.results
    assert (result.outcome.value, result.reason and result.reason.value) == ("error", "timeout")
    assert "did not respond within 4 s" in result.message
    assert "every rank was ended" in result.message
    assert time.monotonic() - started < 110, "the worker's own limit ended it"


def test_ranks_are_ended_whether_they_hang_end_or_raise(tmp_path: Path) -> None:
    def ranks(behave: Any, limit_s: float = 60) -> list[list[dict]]:
        def body(rank: int) -> Iterator[dict]:
            (tmp_path / str(rank)).write_text(str(os.getpid()))
            yield {"rank": rank}
            behave(rank)

        return run_ranks(2, body, limit_s)

    def raises(rank: int) -> None:
        if rank == 0:
            raise ValueError("no such shard")
        time.sleep(600)

    with pytest.raises(RanksFailed, match=r"rank 0 of 2 did not respond within 3 s \(after 1 results of others\)"):
        ranks(lambda rank: rank or time.sleep(600), 3)
    with pytest.raises(RanksFailed, match="the process of rank 1 of 2 ended itself"):
        ranks(lambda rank: rank and os._exit(0))
    first, second = ranks(raises)
    assert first == [{"rank": 0}, {"rank_raised": "ValueError: no such shard"}]
    assert second == [{"rank": 1}, {"rank_raised": "waited for a rank that had ended"}]
    assert [path for path in tmp_path.iterdir() if is_alive(int(path.read_text()))] == []


# --- code that shards nothing -----------------------------------------------------------------------


def test_code_that_knows_nothing_of_shards_is_not_asked_even_by_name() -> None:
    """A norm for one process is no finding where nobody shards: of a whole audit, or of this probe alone."""
    checkout, target = SPECIMEN.parent / "gradient_monitoring", Target("gradmon.sound:foreach_norm")
    arms = (RunOptions(python=sys.executable),)
    (result,) = audit(AuditRequest(str(checkout), arms, (target,), (SHARDING,))).results
    told = "no code of its package deals with sharded gradients"
    assert (result.outcome.value, result.message) == ("not_applicable", told)


BY_HAND = """
import torch
import torch.distributed as dist


def grad_norm(parameters, group=None):
    grads = [p.grad.double() for p in parameters if p.grad is not None]
    total_norm = torch.stack([g.square().sum() for g in grads]).sum() if grads else torch.zeros((), dtype=torch.float64)
    WORK
    return total_norm.sqrt().item()
"""


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        ("dist.all_reduce(total_norm, group=group)", Outcome.NOT_REPRODUCED),
        ("dist.all_reduce(total_norm, group=group); total_norm *= dist.get_rank() + 1", Outcome.REPRODUCED),
    ],
    ids=["over its ranks", "another norm on each rank"],
)
def test_code_that_shards_by_itself_meets_plain_tensors_alone(work: str, outcome: Outcome, tmp_path: Path) -> None:
    """`dist.all_reduce` of what was made of a DTensor raises; nobody hands it one."""
    (tmp_path / "norms.py").write_text(BY_HAND.replace("WORK", work))
    arms = (RunOptions(python=sys.executable),)
    (result,) = audit(AuditRequest(str(tmp_path), arms, (Target("norms:grad_norm"),), (SHARDING,))).results
    assert result.outcome is outcome, result.message
    assert {one.case["placement"] for one in result.measurements if "rank" in one.case} == {
        "replicated",
        "plain_shards",
    }
