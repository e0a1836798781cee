"""Discovery on a small checkout of our own: what is found, and what finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.find.candidates import Candidate
from auditkit.probing.find.search import discover

CHECKOUT = Path(__file__).resolve().parents[2] / "targets" / "discovery"


@pytest.fixture(scope="module")
def candidates() -> dict[str, Candidate]:
    """The candidates by their call; those with a flag set are `call?flag`."""
    found = discover(CHECKOUT).candidates
    keys = [item.call + "".join(f"?{flag}" for flag, on in item.arguments.items() if on is True) for item in found]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found, strict=True))


def test_exactly_the_collectors_are_found(candidates: dict[str, Candidate]) -> None:
    assert sorted(candidates) == [
        "src/telemetry/monitors.py:Trainer.last_norm#norm",
        "src/telemetry/monitors.py:Trainer.train#norm",
        "src/telemetry/not_collectors.py:Optimizer.step#norm",
        "telemetry.monitors:BoundMonitor.norm",
        "telemetry.monitors:Monitor.check",
        "telemetry.monitors:Trainer.grad_norm",
        "telemetry.monitors:Trainer.static_norm",
        "telemetry.monitors:Trainer.train",
        "telemetry.norms:_exported_norm",
        "telemetry.norms:_private_and_unused",
        "telemetry.norms:clipped",
        "telemetry.norms:has_bad_gradients",
        "telemetry.norms:of_gradients",
        "telemetry.norms:of_module",
        "telemetry.norms:of_named_parameters",
        "telemetry.norms:of_parameters",
        "telemetry.norms:printed",
        "telemetry.norms:through_a_helper",
        "telemetry.norms:with_switch",
        "telemetry.norms:with_switch?detailed",
        "telemetry.pairs:Collector.collect",
        "telemetry.pairs:Collector.collect_async",
        "telemetry.pairs:collect_both_async",
        "telemetry.pairs:collect_norms",
        "telemetry.pairs:collect_part_async",
        "telemetry.pairs:collect_stats_async",
        "train.loop:logged",
        "train.loop:logged_later",
        "train.loop:with_optimizer",
    ]


@pytest.mark.parametrize(
    ("call", "finish"),
    [
        ("telemetry.pairs:Collector.collect_async", ("telemetry.pairs:materialize_stats",)),
        ("telemetry.pairs:collect_stats_async", ("telemetry.pairs:materialize_stats",)),
        ("train.loop:logged_later", ("telemetry.pairs:materialize_stats",)),
        ("telemetry.pairs:collect_both_async", ("telemetry.pairs:materialize_both",)),
        ("telemetry.pairs:collect_norms", ("telemetry.pairs:finalize_norms",)),
        ("telemetry.pairs:collect_part_async", ()),
        ("telemetry.pairs:Collector.collect", ()),
        ("telemetry.norms:of_module", ()),
    ],
)
def test_a_collection_is_paired_with_what_finishes_it(
    candidates: dict[str, Candidate], call: str, finish: tuple[str, ...]
) -> None:
    assert candidates[call].finish_candidates == finish
