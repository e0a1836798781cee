"""Probes that start real ranks: norms of sharded gradients, gathers, plans that ask the process group."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from auditkit.audit.audit import AuditRequest, audit
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, load_module
from auditkit.probing.run.run_options import RunOptions
from auditkit.worker.gradients import sharded
from auditkit.worker.measure.ranks import RanksFailed, run_ranks, why_not
from tests.probes.in_process import Answer, ask_all
from tests.probes.specimens import DEAR, NEEDS_GPU, PROBES
from tests.probes.spectral_specimens import ONE_PROCESS, SPECIMEN
from tests.probing_helpers import BATCH, GATHER, MESH, SHARDING, SHARDS, SPECTRAL, TARGETS, is_alive, run_probes

CATALOG = load_catalog()
REPRODUCED = {
    "local_norm": SHARDING,
    "summed_norm": SHARDING,
    "clip_by_local_norm": SHARDING,
    "plain_norm_per_rank": MESH,
    "inner_mesh_norm": MESH,
    "echoes_without_last": GATHER,
    "unordered_keys_of_group": SHARDS,
}
SOUND = {
    "sharded_norm": SHARDING,
    "clip_sharded": SHARDING,
    "gathered_echoes": GATHER,
    "shard_keys_of_group": SHARDS,
}
pytestmark = [pytest.mark.skipif(why_not("cpu", 2) is not None, reason=str(why_not("cpu", 2))), pytest.mark.acceptance]


@functools.cache
def specimen(module: str, function: str, probe: str) -> Answer:
    return ask_all(Target(f"specan.{module}:{function}"), [probe], SPECIMEN)[probe]


@pytest.fixture(autouse=True)
def _specimen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SPECIMEN))


# --- the contract of every probe ---------------------------------------------------------------------


# Of three norms one by default; a test below asks another one.
NORMS_BY_DEFAULT = ("local_norm", "sharded_norm")


def _or_slow(probes: dict[str, str]) -> list[Any]:
    dear = [name for name, probe in probes.items() if probe == SHARDING and name not in NORMS_BY_DEFAULT]
    return [pytest.param(name, marks=pytest.mark.slow) if name in dear else name for name in probes]


@pytest.mark.parametrize("function", _or_slow(REPRODUCED))
def test_a_defect_of_ranks_is_reproduced(function: str) -> None:
    answer = specimen("defective_ranks", function, REPRODUCED[function])
    assert (answer.outcome, answer.line is not None) == ("reproduced", True)
    assert {row.name: row.unit for row in answer.rows}.items() <= CATALOG[REPRODUCED[function]].units.items()
    said = load_module(CATALOG[REPRODUCED[function]]).judge(answer.rows, CATALOG[REPRODUCED[function]].policy)
    assert said["outcome"] == "reproduced"


@pytest.mark.parametrize("function", _or_slow(SOUND))
def test_its_sound_counterpart_passes(function: str) -> None:
    answer = specimen("sound_ranks", function, SOUND[function])
    assert answer.outcome == "not_reproduced", answer.message


@pytest.mark.parametrize(("probe_id", "function"), [(SHARDING, "gradient_norm"), (GATHER, "gathered_echoes")])
def test_the_recommended_code_passes(
    probe_id: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = CATALOG[probe_id].remediation_code
    (tmp_path / f"fix_of_{probe_id}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    others = [probe for probe in (*PROBES, *ONE_PROCESS) if probe not in NEEDS_GPU | DEAR and probe != BATCH]
    own = [SHARDING, MESH] if probe_id == SHARDING else [probe_id]  # the two recommend the same
    answers = ask_all(Target(f"fix_of_{probe_id}:{function}"), [*own, *others], tmp_path)
    assert {answers[probe].outcome for probe in own} == {"not_reproduced"}
    assert answers[probe_id].outcome == "not_reproduced", answers[probe_id].message
    reproduced = {probe: answer.message for probe, answer in answers.items() if answer.outcome == "reproduced"}
    assert reproduced == {}


def test_a_contract_that_it_does_not_cover_is_not_applicable() -> None:
    assert specimen("sound", "aligned_svds", SHARDING).outcome == "not_applicable"
    assert specimen("sound_ranks", "sharded_norm", GATHER).outcome == "not_applicable"


def test_a_target_without_collectives_gathers_nothing() -> None:
    answer = specimen("sound", "spectral_echoes", GATHER)
    assert answer.outcome == "not_applicable"
    assert answer.message == "it calls no collective: it answers about the replicas that it is given"


@pytest.mark.slow
@pytest.mark.parametrize("probe_id", SPECTRAL)
def test_every_probe_runs_alone(probe_id: str, tmp_path: Path) -> None:
    """On the whole specimen, in real workers: each probe reproduces on its defective targets and on no others."""
    command = [sys.executable, str(CATALOG[probe_id].path), "--checkout", str(SPECIMEN), "--json"]
    done = subprocess.run(
        [*command, "--python", sys.executable], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    results = json.loads(done.stdout)["results"]
    found = {each["target"].split(":")[0] for each in results if each["outcome"] == "reproduced"}
    assert found
    assert all("defective" in module for module in found)
    assert "error" not in {each["outcome"] for each in results}


# --- what is measured --------------------------------------------------------------------------------


def test_a_local_norm_shrinks_with_the_ranks_and_differs_between_them() -> None:
    answer = specimen("defective_ranks", "local_norm", SHARDING)
    wrappings = "fsdp2_root, fsdp2_root_and_submodules, fsdp2_submodules, hsdp"
    assert answer.message.startswith(f"another number under {wrappings}, partial, tensor_parallel; the norm of ")
    (whole,) = answer.values("one_process_norm")
    for ranks in (2, 4):
        local = answer.values("norm", placement="fsdp2_root", ranks=ranks)
        assert len(set(local)) == ranks
        assert sum(norm**2 for norm in local) == pytest.approx(whole**2, rel=1e-5)


def test_replicas_counted_twice_read_too_large_by_their_root() -> None:
    """A sum over all ranks is right under FSDP2 and for plain shards; HSDP holds everything twice."""
    answer = specimen("defective_ranks", "summed_norm", SHARDING)
    (whole,) = answer.values("one_process_norm")
    assert answer.values("norm", placement="fsdp2_root", ranks=4) == pytest.approx([whole] * 4, rel=1e-5)
    assert answer.values("norm", placement="plain_shards", ranks=4) == pytest.approx([whole] * 4, rel=1e-5)
    assert answer.values("norm", placement="hsdp", ranks=4) == pytest.approx([whole * 2**0.5] * 4, rel=1e-5)
    assert "hsdp" in answer.message
    assert "fsdp2" not in answer.message


def test_what_each_mesh_reads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four copies of the vectors are counted; half of the shards are left out. Each passes norm_depends_on_sharding."""
    of_plain = specimen("defective_ranks", "plain_norm_per_rank", MESH)
    (whole, *_) = of_plain.values("one_process_norm")
    (norm, *others) = of_plain.values("norm", mesh="plain_beside_sharded")
    vectors = sum(float(grad.square().sum()) for grad in sharded.one_process() if grad.dim() == 1)
    assert norm**2 == pytest.approx(whole**2 + 3 * vectors, rel=1e-5)
    assert others == [norm] * 3
    assert of_plain.message.startswith(f"under plain_beside_sharded the norm of 4 ranks reads {norm:.6g} instead of ")
    assert "pipeline" in of_plain.message.split("right under ")[1]
    of_inner = specimen("defective_ranks", "inner_mesh_norm", MESH)
    first, _, third, _ = of_inner.values("norm", mesh="fsdp_and_tensor_parallel")
    assert (first < whole, third < whole, first == third) == (True, True, False)
    assert (of_inner.severity, specimen("sound_ranks", "sharded_norm", MESH).outcome) == ("P2", "not_reproduced")


def test_where_shards_that_are_all_alike_are_off_another_probe_says_so() -> None:
    answer = specimen("defective_ranks", "local_norm", MESH)
    assert (answer.outcome, "see norm_depends_on_sharding" in answer.message) == ("not_applicable", True)


@pytest.mark.slow
def test_ranks_that_clip_by_their_own_norm_scale_by_another_factor() -> None:
    answer = specimen("defective_ranks", "clip_by_local_norm", SHARDING)
    (one,) = answer.values("one_process_clip_coefficient")
    assert all(value > 1.2 * one for value in answer.values("clip_coefficient", placement="fsdp2_root"))
    assert "the clip coefficient of 2 ranks under fsdp2_root reads" in answer.message


def test_every_placement_holds_the_gradients_of_one_process() -> None:
    """What is handed to targets is right before they are asked; plain shards are put together by hand."""
    placements = list(sharded._MAKERS)[1:8]

    def gather(rank: int) -> Iterator[dict]:
        for placement in placements:
            grads = sharded.placed(placement, rank, 2)
            yield {
                "grads": [grad.tolist() for grad in sharded.whole(grads)],
                "kinds": [type(g).__name__ for g in grads],
            }

    expected = sharded.one_process()
    for placement, first, second in zip(placements, *run_ranks(2, gather, 60), strict=True):
        if placement == "plain_shards":
            halves = zip(first["grads"], second["grads"], expected, strict=True)
            found = [torch.tensor([*one, *other]).view_as(grad) for one, other, grad in halves]
        else:
            found = [torch.tensor(grad) for grad in first["grads"]]
            assert set(first["kinds"]) == {"DTensor"}
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


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


def test_the_wrapping_that_fails_is_named_with_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in LoongForge before 36f13e39: right where the root is wrapped, and what a rank holds where it is not."""
    (tmp_path / "of_wrapped_root.py").write_text(WRAPPED_ROOT)
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = ask_all(Target("of_wrapped_root:get_grad_norm"), [SHARDING], tmp_path)[SHARDING]
    (whole,) = answer.values("one_process_norm")
    for right in ("fsdp2_root", "fsdp2_root_and_submodules"):
        assert answer.values("norm", placement=right) == pytest.approx([whole] * 6, rel=1e-5)
    for ranks in (2, 4):
        local = answer.values("norm", placement="fsdp2_submodules", ranks=ranks)
        assert sum(norm**2 for norm in local) == pytest.approx(whole**2, rel=1e-5)
    assert "fsdp2_root" not in answer.message
    assert f"of 2 ranks under fsdp2_submodules reads {answer.values('norm', placement='fsdp2_submodules')[0]:.6g}" in (
        answer.message
    )


def row(name: str, value: Any, **case: Any) -> SimpleNamespace:
    return SimpleNamespace(name=name, value=value, case=case)


def judged(*rows: SimpleNamespace) -> dict:
    module = load_module(CATALOG[SHARDING])
    return module.judge([row("one_process_norm", 4.0), *rows], CATALOG[SHARDING].policy)


def test_plain_tensors_are_judged_by_the_better_of_their_two_meanings() -> None:
    replicated = row("norm", 5.7, placement="replicated", ranks=2, rank=0)
    shards = row("norm", 2.8, placement="plain_shards", ranks=2, rank=0)
    assert judged(replicated)["outcome"] == "not_reproduced"
    assert judged(shards)["outcome"] == "not_reproduced"
    both = judged(replicated, shards)
    assert (both["outcome"], both.get("breaks")) == ("reproduced", None)
    assert both["message"] == "another number under plain_shards, replicated"


def test_an_error_stops_training_and_a_refusal_is_none() -> None:
    case = {"placement": "fsdp2_root", "ranks": 2, "rank": 0}
    raised = judged(row("raised", True, how="RuntimeError: mixed", **case))
    assert (raised["outcome"], raised["breaks"], raised["occurs"]) == ("reproduced", "stops", "ordinary")
    refused = judged(row("refused", True, how="refuses: TypeError: no shards", **case))
    assert refused["outcome"] == "not_reproduced"
    assert refused["message"].endswith("it refuses in words: fsdp2_root")
    assert "breaks" not in judged(row("norm", float("nan"), **case))


# --- ranks that misbehave ----------------------------------------------------------------------------


def test_a_hang_is_an_error_within_its_limit_and_every_rank_is_gone(tmp_path: Path) -> None:
    options = {"rank_limit_s": 4}
    started = time.monotonic()
    run = run_probes(TARGETS / "ranks", Target("norms:waits_for_rank_zero"), [SHARDING], options=options)
    (result,) = run.results
    assert (result.outcome.value, result.reason and result.reason.value) == ("error", "timeout")
    assert "did not answer within 4 s" in result.message
    assert "every rank was ended" in result.message
    assert time.monotonic() - started < 110, "the worker's own limit ended it"


def _pids_then(pids: Path, behave: Any) -> Any:
    def body(rank: int) -> Iterator[dict]:
        (pids / str(rank)).write_text(str(os.getpid()))
        yield {"rank": rank}
        behave(rank)

    return body


def _alive(pids: Path) -> list[int]:
    return [pid for pid in (int(path.read_text()) for path in pids.iterdir()) if is_alive(pid)]


def test_ranks_are_ended_whether_they_hang_end_or_answer(tmp_path: Path) -> None:
    with pytest.raises(RanksFailed, match=r"rank 0 of 2 did not answer within 3 s \(after 1 answers of others\)"):
        run_ranks(2, _pids_then(tmp_path, lambda rank: rank or time.sleep(600)), 3)
    assert len(list(tmp_path.iterdir())) == 2
    assert _alive(tmp_path) == []
    with pytest.raises(RanksFailed, match="the process of rank 1 of 2 ended itself") as failed:
        run_ranks(2, _pids_then(tmp_path, lambda rank: rank and os._exit(0)), 60)
    assert failed.value.reason == "exit"
    assert run_ranks(2, _pids_then(tmp_path, lambda rank: None), 60) == [[{"rank": 0}], [{"rank": 1}]]
    assert _alive(tmp_path) == []


def test_a_rank_that_raises_says_so_and_the_others_do_not_wait_for_it() -> None:
    def body(rank: int) -> Iterator[dict]:
        yield {"rank": rank}
        if rank == 0:
            raise ValueError("no such shard")
        time.sleep(600)

    first, second = run_ranks(2, body, 60)
    assert first == [{"rank": 0}, {"rank_raised": "ValueError: no such shard"}]
    assert second == [{"rank": 1}, {"rank_raised": "waited for a rank that had ended"}]


def test_without_a_gpu_for_each_rank_nccl_is_not_asked() -> None:
    if torch.cuda.device_count() >= 2:
        pytest.skip("there are two GPUs")
    assert "NCCL wants a GPU for each of 2 ranks" in str(why_not("cuda", 2))


# --- code that shards nothing -----------------------------------------------------------------------


def test_code_that_knows_nothing_of_shards_is_not_asked_even_by_name() -> None:
    """A norm for one process is no finding where nobody shards: of a whole audit, or of this probe alone."""
    checkout, target = SPECIMEN.parent / "gradient_monitoring", Target("gradmon.sound:foreach_norm")
    arms = (RunOptions(python=sys.executable),)
    (result,) = audit(AuditRequest(str(checkout), arms, (target,), (SHARDING,))).results
    told = "no code of its package deals with sharded gradients"
    assert (result.outcome.value, result.message) == ("not_applicable", told)


@pytest.mark.parametrize(
    ("code", "shards"),
    [
        ("total = norm.full_tensor()\n", "torch's"),
        ("from torch.distributed.tensor import DTensor\n", "torch's"),
        ("model = fully_shard(model)\n", "torch's"),
        ("if isinstance(grad, DTensor):\n", "torch's"),
        ("# compatible with DTensor and FSDP2 (later)\n", ""),
        ("dist.broadcast_object_list(names, src=0)\n", ""),
        ("dist.all_reduce(total_norm, op=dist.ReduceOp.SUM)\n", "its own"),
        ("dist.all_reduce(loss, op=dist.ReduceOp.SUM)\n", ""),
    ],
)
def test_code_that_deals_with_shards_is_told_from_remarks(code: str, shards: str, tmp_path: Path) -> None:
    from auditkit.worker.context.rank_calls import _DTENSORS, _OWN_SHARDS, _mentions

    (tmp_path / "norms.py").write_text(code)
    patterns = {"torch's": _DTENSORS, "its own": _OWN_SHARDS}
    found = [kind for kind, pattern in patterns.items() if _mentions(str(tmp_path / "norms.py"), pattern)]
    assert found == [shards] * bool(shards)


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


def test_what_torch_refuses_is_not_its_callers_defect(tmp_path: Path) -> None:
    """torch clips no DTensor by value that is not reduced yet, and says so: whoever calls it raises as well."""
    text = "import torch\nfrom torch.distributed.tensor import DTensor\n\n\ndef clip(parameters):\n    CALL\n"
    (tmp_path / "clips.py").write_text(text.replace("CALL", "torch.nn.utils.clip_grad_value_(parameters, 1.0)"))
    arms = (RunOptions(python=sys.executable),)
    (result,) = audit(AuditRequest(str(tmp_path), arms, (Target("clips:clip"),), (SHARDING,))).results
    assert result.owner.endswith(": torch.nn.utils.clip_grad_value_")
    assert (result.outcome, result.severity) == (Outcome.REPRODUCED, Severity.P4)
