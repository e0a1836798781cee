"""Discovery on a small checkout of our own: what is found, how it is fed, what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Contract, Takes
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
    ("call", "takes", "contract"),
    [
        ("telemetry.norms:of_module", Takes.MODULE, Contract.GRAD_NORM),
        ("telemetry.norms:of_parameters", Takes.PARAMETERS, Contract.GRAD_NORM),
        ("telemetry.norms:of_named_parameters", Takes.NAMED_PARAMETERS, Contract.GRAD_STATS),
        ("telemetry.norms:of_gradients", Takes.GRADIENTS, Contract.GRAD_NORM),
        ("telemetry.norms:has_bad_gradients", Takes.MODULE, Contract.GRAD_STATS),
        ("telemetry.norms:clipped", Takes.MODULE, Contract.GRAD_NORM),
        ("telemetry.norms:through_a_helper", Takes.PARAMETERS, Contract.GRAD_NORM),
        ("telemetry.norms:with_switch", Takes.PARAMETERS, Contract.GRAD_NORM),
        ("telemetry.norms:with_switch?detailed", Takes.PARAMETERS, Contract.GRAD_STATS),
        ("telemetry.pairs:Collector.collect", Takes.PARAMETERS, Contract.GRAD_STATS),
        ("telemetry.pairs:collect_both_async", Takes.PARAMETERS, Contract.DUAL_STATS),
        ("telemetry.monitors:Monitor.check", Takes.MODULE, Contract.MONITOR),
        ("telemetry.monitors:BoundMonitor.norm", Takes.MODULE, Contract.MONITOR),
        ("telemetry.monitors:Trainer.static_norm", Takes.MODULE, Contract.GRAD_NORM),
        ("telemetry.norms:printed", Takes.PARAMETERS, Contract.GRAD_STATS),
        ("train.loop:with_optimizer", Takes.OPTIMIZER, Contract.GRAD_NORM),
        ("train.loop:logged", Takes.MODULE, Contract.GRAD_STATS),
        ("train.loop:logged_later", Takes.PARAMETERS, Contract.GRAD_STATS),
    ],
)
def test_how_it_is_fed_and_what_it_promises(
    candidates: dict[str, Candidate], call: str, takes: Takes, contract: Contract
) -> None:
    found = candidates[call]
    assert (found.takes_guesses[0], found.contract_guess) == (takes, contract)
    assert found.obstacles == ()


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


def test_a_monitors_setup_and_a_constructors_arguments_are_named(candidates: dict[str, Candidate]) -> None:
    assert candidates["telemetry.monitors:Monitor.check"].setup_guess == "attach"
    assert "making its object needs model" in candidates["telemetry.monitors:BoundMonitor.norm"].evidence
    trainer = candidates["telemetry.monitors:Trainer.grad_norm"]
    assert trainer.obstacles == ("making a Trainer needs loader",)


def test_what_can_be_fed_comes_first_and_private_functions_last_of_those(
    candidates: dict[str, Candidate],
) -> None:
    order = list(candidates)
    fed = [call for call, item in candidates.items() if not item.obstacles]
    assert order[: len(fed)] == fed
    collectors = [call for call in fed if candidates[call].contract_guess is not Contract.TRAIN_STEP]
    assert [call for call in collectors if "#" not in call][-1] == "telemetry.norms:_private_and_unused"
