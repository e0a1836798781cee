"""Probes of spectra and of shard plans: how targets are fed and read, and what is no finding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from auditkit.model.enums import Contract
from auditkit.probing.engine.catalog import load_catalog
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import CannotFeedError
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from auditkit.worker.gradients import matrices
from tests.probes.in_process import ROOTS, _ask, ask
from tests.probing_helpers import ALIGNMENT, BATCH, ECHO, LOW_PRECISION, MATRICES, OFF_DEVICE
from tests.project_files import ROOT

CATALOG = load_catalog()


@pytest.mark.acceptance
def test_our_own_collectors_pass() -> None:
    """Aligned SVDs, and echoes as the step that finishes them."""
    from auditkit.collectors import spectral

    roots = SourceRoots(str(ROOT))
    for finish in (None, spectral.spectral_echoes):
        caller = Caller(spectral.aligned_svds, None, "", {}, finish)
        plan = find_plan(caller, {"contract": "spectral_echo" if finish else "aligned_svd"})
        for probe_id in (MATRICES, LOW_PRECISION, ALIGNMENT, BATCH, ECHO):
            if plan.contract in CATALOG[probe_id].contracts:
                answer = _ask(CATALOG[probe_id], Context(plan, caller, "cpu", roots, {}), {})
                assert answer.outcome == "not_reproduced", answer.message


def test_work_of_the_host_counts_wherever_the_answer_ends_up() -> None:
    """A decomposition's answer is as large as its input: bytes alone would not tell."""

    def stays_on_the_host(grads: torch.Tensor) -> Any:
        u, s, vh = torch.linalg.svd(grads.cpu(), full_matrices=False)
        return u, s, vh.mT

    def reads_its_results(grads: torch.Tensor) -> Any:
        u, s, vh = torch.linalg.svd(grads, full_matrices=False)
        return u.cpu(), s.cpu(), vh.mT.cpu()

    outcomes = []
    for function in (stays_on_the_host, reads_its_results):
        caller = Caller(function, None, "", {})
        context = Context(find_plan(caller, {}), caller, "simulated", ROOTS, {})
        outcomes.append(_ask(CATALOG[OFF_DEVICE], context, {}).outcome)
    assert outcomes == ["reproduced", "not_reproduced"]


def test_an_echo_that_is_nan_for_orthogonal_replicas_is_a_finding() -> None:
    def divides(grads: torch.Tensor) -> torch.Tensor:
        u, _, vh = torch.linalg.svd(grads, full_matrices=False)
        z = torch.einsum("and,bnd->dab", u, u) * torch.einsum("adm,bdm->dab", vh, vh)
        mean = (z.sum((1, 2)) - z.shape[1]) / (z.shape[1] * (z.shape[1] - 1))
        return (mean - 1e-3).sqrt() + 5e-4

    assert "orthogonal ones echo nan" in ask(ECHO, divides).message


# --- how targets are fed and read --------------------------------------------------------------------


def _svds(grads: torch.Tensor) -> Any:
    u, s, vh = torch.linalg.svd(grads.float(), full_matrices=False)
    return {"left": u, "values": s, "right_rows": vh}


def _listed(gradients: list) -> Any:
    first, *others = gradients.copy()  # a list, no tensor
    return [tuple(torch.linalg.svd(each, full_matrices=False)) for each in (first, *others)]


def _by_layer(grads: dict) -> Any:
    return {name: torch.linalg.svd(each, full_matrices=False) for name, each in grads.items()}


def _realigned(raw_svds: Any, mean_svd: Any) -> Any:
    raw, reference = matrices.Svd(*raw_svds), matrices.Svd(*mean_svd)
    return tuple(matrices.aligned(raw, reference))


@pytest.mark.parametrize(
    ("function", "forms", "right"),
    [
        (_svds, "batch", ("right_rows", "rows")),
        (_listed, "list", ("*.2", "rows")),
        (_by_layer, "mapping", ("layers.0.weight.2", "rows")),
        (_realigned, "svds,mean_svd", ("2", "columns")),
    ],
)
def test_factors_are_found_in_any_form(function: Any, forms: str, right: tuple[str, str]) -> None:
    plan = find_plan(Caller(function, None, "", {}), {"contract": "aligned_svd"})
    assert ",".join(plan.feed.forms) == forms
    assert (plan.roles["right"].path, plan.roles["right"].kind) == right
    assert set(plan.roles) == {"left", "svals", "right"}


def test_what_is_no_decomposition_is_refused_with_what_was_tried() -> None:
    with pytest.raises(CannotFeedError, match="batch: CannotReadError: its result \\(tensor\\) holds no singular"):
        find_plan(Caller(lambda grads: grads * 2, None, "", {}), {"contract": Contract.ALIGNED_SVD.value})
    with pytest.raises(CannotFeedError, match="nothing is known to fit its arguments alpha, beta"):
        find_plan(Caller(lambda alpha, beta: None, None, "", {}), {"contract": "spectral_echo"})


@pytest.mark.parametrize(
    ("function", "forms"),
    [
        (lambda world_size, rank, names: names[rank::world_size], "world_size,rank,texts"),
        (lambda params, n_shards: [list(params)[r::n_shards] for r in range(n_shards)], "texts,world_size"),
        (lambda keys, rank=0, world_size=1: keys[rank::world_size], "texts,rank,world_size"),
    ],
)
def test_a_plan_is_fed_by_the_names_of_its_arguments(function: Any, forms: str) -> None:
    assert find_plan(Caller(function, None, "", {}), {"contract": "shard_plan"}).feed.forms == tuple(forms.split(","))
