"""Probes of spectra on a real CUDA device, and of ranks over NCCL where there are two."""

from __future__ import annotations

import pytest
import torch

from auditkit.model.enums import DeviceChoice
from tests.probes.specimens import folder_of, target_of
from tests.probing_helpers import (
    BATCH,
    ECHO,
    LOW_PRECISION,
    MATRICES,
    OFF_DEVICE,
    SHARDING,
    by_probe,
    outcomes,
    run_probes,
)

SPECIMEN = folder_of("specan")
pytestmark = pytest.mark.gpu
ASKED = (MATRICES, LOW_PRECISION, BATCH, OFF_DEVICE)


@pytest.mark.parametrize(
    ("kind", "function", "reproduced"),
    [
        ("sound", "aligned_svds", set()),
        ("defective", "diagonal_svds", {MATRICES}),
        ("defective", "unpromoted_svds", {LOW_PRECISION, BATCH}),
        ("defective", "host_svds", {OFF_DEVICE}),
    ],
)
def test_a_decomposition_on_the_device_is_told_as_on_the_cpu(kind: str, function: str, reproduced: set[str]) -> None:
    run = run_probes(SPECIMEN, target_of(f"specan.{kind}:{function}"), ASKED, device=DeviceChoice.CUDA)
    assert {probe for probe, outcome in outcomes(run).items() if outcome == "reproduced"} == reproduced
    assert "error" not in outcomes(run).values()


def test_an_echo_on_the_device_has_the_law_of_the_cpu() -> None:
    result = by_probe(
        run_probes(SPECIMEN, target_of("specan.defective:biased_echoes"), [ECHO], device=DeviceChoice.CUDA)
    )
    assert result[ECHO].outcome.value == "reproduced"
    assert "0.577 at R = 3" in result[ECHO].message


@pytest.mark.parametrize(("kind", "function"), [("sound", "sharded_norm"), ("defective", "local_norm")])
def test_ranks_meet_over_nccl_where_each_has_a_gpu_and_over_gloo_otherwise(kind: str, function: str) -> None:
    target = target_of(f"specan.{kind}_ranks:{function}")
    result = by_probe(run_probes(SPECIMEN, target, [SHARDING], device=DeviceChoice.CUDA))[SHARDING]
    assert result.outcome.value == ("not_reproduced" if kind == "sound" else "reproduced")
    over_gloo = any("the ranks met over gloo" in note for note in result.notes)
    assert over_gloo == (torch.cuda.device_count() < 4)
