"""Training steps over real ranks that have different numbers of targets: loss_weighted_per_rank."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditkit.model.enums import Contract
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, load_module
from auditkit.worker.measure.ranks import why_not
from tests.probes.in_process import Answer, ask_all
from tests.probes.test_sharding_probes import row
from tests.probing_helpers import PER_RANK, STEPS

PROBE = load_catalog()[PER_RANK]
SPECIMEN = Path(__file__).parents[2] / "probes" / "specimens" / "training_steps"
pytestmark = [pytest.mark.skipif(why_not("cpu", 2) is not None, reason=str(why_not("cpu", 2))), pytest.mark.acceptance]


def asked(call: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *others: str) -> dict[str, Answer]:
    monkeypatch.syspath_prepend(str(folder))
    return ask_all(Target(call, contract=Contract.TRAIN_STEP), [PER_RANK, *others], folder)


def test_the_tokens_of_a_rank_with_few_weigh_more(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked("ranksteps.defective:train_by_own_tokens", SPECIMEN, monkeypatch)[PER_RANK]
    assert (answer.outcome, answer.severity) == ("reproduced", "P1")
    lines = (SPECIMEN / "ranksteps" / "defective.py").read_text().splitlines()
    assert "loss.backward()" in lines[(answer.line or 0) - 1]
    assert {each.name: each.unit for each in answer.rows}.items() <= PROBE.units.items()
    for ranks in (2, 4):
        cosines = {wrap: answer.values("cosine", wrapping=wrap, ranks=ranks) for wrap in ("ddp", "fsdp2")}
        assert max(*cosines["ddp"], *cosines["fsdp2"]) < 0.95
        assert cosines["ddp"] == pytest.approx(cosines["fsdp2"], abs=1e-4)
    assert answer.message.endswith("under DDP and FSDP2")


def test_what_is_averaged_again_is_smaller_by_the_number_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked("ranksteps.defective:train_by_all_tokens", SPECIMEN, monkeypatch)[PER_RANK]
    assert answer.outcome == "reproduced"
    for ranks in (2, 4):
        assert answer.values("norm_ratio", wrapping="ddp", ranks=ranks) == pytest.approx([1 / ranks] * ranks, rel=1e-3)
    assert load_module(PROBE).judge(answer.rows, PROBE.policy)["law"] == "norm ratio 1/ranks"


@pytest.mark.parametrize("function", ["train_by_all_tokens", "train_and_reduce"])
def test_a_step_that_counts_over_all_ranks_passes(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked(f"ranksteps.sound:{function}", SPECIMEN, monkeypatch)[PER_RANK]
    assert answer.outcome == "not_reproduced", answer.message


def test_a_plain_loop_is_not_judged_and_its_figure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked("trainsteps.sound:train_by_token", SPECIMEN, monkeypatch)[PER_RANK]
    assert answer.outcome == "not_applicable"
    assert "times the norm of the mean over all targets" in answer.message
    assert answer.message.startswith("its code does not say that ranks have different numbers of targets")


def test_the_recommended_code_passes_every_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fix_of_ranks.py").write_text(PROBE.remediation_code, encoding="utf-8")
    function = re.findall(r"^def (\w+)", PROBE.remediation_code, re.MULTILINE)[-1]
    answers = asked(f"fix_of_ranks:{function}", tmp_path, monkeypatch, *STEPS)
    assert answers[PER_RANK].outcome == "not_reproduced"
    assert {answer.outcome for answer in answers.values()} <= {"not_reproduced", "not_applicable"}


@pytest.mark.parametrize(
    ("counts", "ignores", "reduces", "package", "outcome", "occurs"),
    [
        (True, False, False, True, "reproduced", None),
        (True, True, True, False, "reproduced", None),
        (False, True, True, True, "reproduced", "rare"),
        (True, True, False, False, "not_applicable", None),
        (False, False, True, True, "not_applicable", None),
        (False, True, False, True, "not_applicable", None),
    ],
)
def test_what_is_a_finding_follows_from_what_the_code_says(
    counts: bool, ignores: bool, reduces: bool, package: bool, outcome: str, occurs: str | None
) -> None:
    """nanoGPT's loop divides by the number of ranks and has no tokens without a target: it is right as it is."""
    said = {"counts_targets": counts, "ignores_targets": ignores, "reduces_over_ranks": reduces}
    rows = [row(name, value) for name, value in {**said, "package_has_ranks": package}.items()]
    for rank, alone in enumerate((1.4, 0.9)):
        for wrapping, ratio in (("none", alone), ("ddp", 1.2), ("fsdp2", 1.2)):
            case = {"wrapping": wrapping, "ranks": 2, "rank": rank}
            rows += [row("norm_ratio", ratio, **case), row("cosine", 0.8, **case)]
    answer = load_module(PROBE).judge(rows, PROBE.policy)
    assert (answer["outcome"], answer.get("occurs")) == (outcome, occurs)
