"""Statements of a training script as targets: the same probes, with the script's own lines, and nothing else run."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.model.enums import Outcome, Reason
from auditkit.probing.engine.results import TargetRun
from tests.probing_helpers import OVERFLOW, by_probe, run_probes

pytestmark = pytest.mark.process

SCRIPT = """\
import absent_logger
import torch

open(__file__ + ".ran", "w").close()  # what an import of the script would do


def main(arguments):
    model, optimizer = make(arguments)
    for batch in arguments:
        model(batch).sum().backward()
        total_norm = 0.0
        for p in model.parameters():
            if p.grad is not None:
                total_norm += p.grad.data.norm(2).item() ** 2
        total_norm = total_norm**0.5
        absent_logger.log(norm=total_norm)
        print(sum(p.grad.norm() for p in model.parameters()) / made_elsewhere.scale)
        optimizer.step()


model = torch.nn.Linear(2, 2)
for step in range(3):
    model(torch.ones(1, 2)).sum().backward()
    norms = torch._foreach_norm([p.grad for p in model.parameters() if p.grad is not None], dtype=torch.float64)
    grad_norm = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
    print(grad_norm)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "train.py").write_text(SCRIPT)
    return folder


def ask(checkout: Path, name: str) -> TargetRun:
    return run_probes(checkout, f"train.py:{name}", [OVERFLOW])


def test_a_norm_in_a_loop_overflows_and_a_sound_one_of_the_script_does_not(checkout: Path) -> None:
    """The finding is at the statement's own line in the function around it; the script itself never runs."""
    found = by_probe(ask(checkout, "main#total_norm"))[OVERFLOW]
    assert (found.outcome, found.fingerprint) == (Outcome.REPRODUCED, f"{OVERFLOW}/1/train.py:main#total_norm")
    assert found.location is not None
    assert (found.location.file, found.location.line, found.location.function) == ("train.py", 14, "main#total_norm")
    assert found.excerpt is not None
    assert "total_norm += p.grad.data.norm(2).item() ** 2" in "\n".join(found.excerpt.lines)
    sound = by_probe(ask(checkout, "#grad_norm"))[OVERFLOW]
    assert sound.outcome is Outcome.NOT_REPRODUCED
    assert [path.name for path in checkout.glob("*.ran")] == []


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("main#norm", Reason.IMPORT_ERROR, "train.py:main#norm reads made_elsewhere, which nothing sets"),
        (
            "main#tota_norm",
            Reason.IMPORT_ERROR,
            "there is no block train.py:main#tota_norm; train.py has train.py:main#tot",
        ),
        ("other#x", Reason.IMPORT_ERROR, "there is no block train.py:other#x"),
    ],
)
def test_what_cannot_be_asked_says_why_and_is_no_pass(checkout: Path, name: str, reason: Reason, words: str) -> None:
    result = by_probe(ask(checkout, name))[OVERFLOW]
    assert (result.outcome, result.reason) == (Outcome.ERROR, reason)
    assert words in result.message


def test_an_audit_without_configuration_asks_the_blocks_of_a_script(checkout: Path) -> None:
    run = audit(AuditRequest(str(checkout), probes=(OVERFLOW,)))
    assert {result.target: result.outcome.value for result in run.results} == {
        "train.py:main#total_norm": "reproduced",
        "train.py:#grad_norm": "not_reproduced",
        "train.py:main#training_step": "not_applicable",
    }
