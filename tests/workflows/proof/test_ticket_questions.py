"""What a ticket asks is read from its evidence, its boxes' commands, or its Location."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.target import Target
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts.checkout import import_roots
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.store.config.config import Config
from auditkit.store.reading.reader import read_ticket
from auditkit.workflows.proof.ticket_questions import bound_questions, located_target

PROBE = "norm_overflows_on_finite_grads"
CALL = "train.norms:total_norm"
COMMAND = (
    f"auditkit probe run {PROBE} --checkout . --target {CALL} --contract grad_norm --takes module "
    "--argument p=2 --argument 'tag=a b' --returns norm=total"
)
TARGET = Target(
    CALL, contract=Contract.GRAD_NORM, takes=Takes.MODULE, arguments={"p": 2, "tag": "a b"}, returns={"norm": "total"}
)
TEMPLATE = """# Finding Ticket: x

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `B7-PT-01` |
| **Severity** | `P1` |
| **Status** | `open` |

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `{file}` |
| **Function/Class** | {function} |

{evidence}

## Verification

- [ ] {box}
"""


def _ticket(box: str = "nothing", file: str = "", function: str = "", fingerprint: str = "") -> Ticket:
    row = f"| Field | Value |\n|---|---|\n| **Fingerprint** | `{fingerprint}` |\n"
    evidence = f"<!-- auditkit:evidence -->\n{row}<!-- /auditkit:evidence -->" if fingerprint else ""
    text = TEMPLATE.format(box=box, file=file, function=function, evidence=evidence)
    return read_ticket(text.encode(), Path("B7-PT-01.md"))


def test_an_evidence_block_is_asked_as_the_ticket_s_own_command_says() -> None:
    ticket = _ticket(f"`{COMMAND}` no longer reproduces <!-- probe: {PROBE} -->", fingerprint=f"{PROBE}/1/{CALL}#1")
    (question,) = bound_questions(ticket, Config(), load_catalog())
    assert question.probe.id == PROBE
    assert question.target == TARGET
    assert question.fingerprint == f"{PROBE}/1/{CALL}#1"


def test_the_configuration_knows_better_how_a_target_is_fed() -> None:
    configured = Target(CALL, name="mine", takes=Takes.GRADIENTS)
    ticket = _ticket(f"`{COMMAND}`", fingerprint=f"{PROBE}/1/{CALL}")
    (question,) = bound_questions(ticket, Config(targets=(configured,)), load_catalog())
    assert question.target is configured


def test_a_bound_box_without_evidence_is_a_question_too() -> None:
    ticket = _ticket(f"`{COMMAND}` <!-- probe: {PROBE} -->")
    (question,) = bound_questions(ticket, Config(), load_catalog())
    assert (question.target, question.fingerprint) == (TARGET, f"{PROBE}/1/{CALL}")


@pytest.mark.parametrize("box", ["nothing", "`rm -rf --target a:b`", "`auditkit probe run 'open`"])
def test_without_a_binding_there_is_no_question(box: str) -> None:
    assert bound_questions(_ticket(f"{box} <!-- probe: {PROBE} -->"), Config(), load_catalog()) == ()


def test_a_probe_that_is_not_here_is_named() -> None:
    with pytest.raises(BadInputError, match="my_own_probe, which is not here"):
        bound_questions(_ticket(fingerprint="my_own_probe/1/a:b"), Config(), load_catalog())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    file = tmp_path / "src" / "train" / "norms.py"
    file.parent.mkdir(parents=True)
    file.write_text("def total_norm(module):\n    return 0.0\n\n\nclass Monitor:\n    def check(self):\n        pass\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "function", "call"),
    [
        ("/home/dana/trainer/src/train/norms.py", "`total_norm()`", "train.norms:total_norm"),
        ("src/train/norms.py", "`Monitor.check`", "train.norms:Monitor.check"),
        ("train/norms.py`, `src/train/norms.py", "check()", "train.norms:Monitor.check"),
        ("src/train/norms.py", "`missing()`, `total_norm()`", "train.norms:total_norm"),
    ],
)
def test_a_location_of_another_machine_is_found(checkout: Path, file: str, function: str, call: str) -> None:
    found = located_target(_ticket(file=file, function=function), checkout, import_roots(checkout), Config())
    assert found == Target(call)


@pytest.mark.parametrize(("file", "function"), [("src/other.py", "`total_norm`"), ("src/train/norms.py", "`nothing`")])
def test_a_location_that_is_not_there_is_said(checkout: Path, file: str, function: str) -> None:
    with pytest.raises(BadInputError, match="names no function of this checkout"):
        located_target(_ticket(file=file, function=function), checkout, import_roots(checkout), Config())
