"""A box's sentence, the command in it and the run that ticks it are one question: what asks more is not ticked."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from auditkit.model.enums import Outcome, Takes
from auditkit.model.runs.run import Environment, ProbeResult
from auditkit.model.runs.target import Target
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.rules.tickets.proof import ProofState
from auditkit.store.config.config import Config
from auditkit.store.folder.repository import Repository
from auditkit.store.reading.reader import read_ticket
from auditkit.workflows.proof.before_after_runs import Base, Check
from auditkit.workflows.proof.box_commands import commands_in, names_in
from auditkit.workflows.proof.box_proofs import prove_boxes
from auditkit.workflows.proof.question_answers import Answer
from auditkit.workflows.proof.ticket_questions import Question, questions_of
from tests.filing_helpers import PATH, ticket_text
from tests.probing_helpers import OVERFLOW
from tests.project_files import auditkit
from tests.verify_helpers import LOOP, NAIVE, RIGHT, Story, commit, git, tell_story

PROVEN, STILL, NOT = ProofState.PROVEN, ProofState.STILL_REPRODUCED, ProofState.NOT_MEASURED
HERE = "train.norms:total_norm"
ASKED = f"auditkit probe run {LOOP} --checkout ."
FINDINGS = 1


@pytest.mark.parametrize(
    ("text", "probes", "calls"),
    [
        ("`auditkit probe run one two --checkout . --target a:b` is quiet", ("one", "two"), ["a:b"]),
        ("`$ auditkit audit . --probe=one --target a:b --target a:c`", ("one",), ["a:b", "a:c"]),
        ("`auditkit probe run checks/one.py`", ("one",), []),
        ("`pytest tests -q` passes", (), []),
        ("`auditkit probe run 'one` has no end", ("'one",), []),
    ],
)
def test_a_command_says_what_it_asks(text: str, probes: tuple[str, ...], calls: list[str]) -> None:
    (command,) = commands_in(text)
    assert (command.probes, [target.call for target in command.targets]) == (probes, calls)


def test_other_code_is_no_command() -> None:
    text = "`auditkit audit` names neither `a.b:c` nor `norm`"
    assert (len(commands_in(text)), names_in(text)) == (1, {"a.b:c", "norm"})


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """The repository of the other tests, with a second function that stays broken."""
    told = tell_story(tmp_path)
    (told.folder / "src" / "train" / "other.py").write_text(NAIVE.replace("total_norm", "other_norm"), "utf-8")
    return told


BOXES = (
    (f"`{ASKED}` no longer reproduces", STILL, "asks about the checkout, and names train.other:other_norm"),
    (f"`{ASKED}` no longer names `{HERE}`", PROVEN, ""),
    (f"`{ASKED} --target {HERE}` no longer reproduces", PROVEN, ""),
    (f"`auditkit probe run {LOOP} default_repeated --target {HERE}` is quiet", NOT, "asks default_repeated, too"),
    ("`auditkit probe run default_repeated` is quiet", NOT, f"does not ask {LOOP}"),
    ("`pytest tests/test_norms.py` passes", NOT, "`pytest tests/test_norms.py` does not ask"),
    (f"`{ASKED}@1234567` no longer names `{HERE}`", NOT, "asks at 1234567"),
    ("no line of the function reads a tensor in a loop", PROVEN, ""),
)


@pytest.mark.process
def test_a_box_is_ticked_by_what_its_command_asks(story: Story) -> None:
    """One of two broken functions is mended; a command that asks about both still reproduces."""
    broken, right = commit(story.folder, NAIVE), commit(story.folder, RIGHT)
    story.put_ticket("\n- [ ] ".join(f"{box} <!-- probe: {LOOP} -->" for box, _, _ in BOXES))
    items = story.verify(right, broken).items[1:-1]
    assert [item.proof.state for item in items] == [state for _, state, _ in BOXES]
    assert [reason in item.proof.reason for item, (_, _, reason) in zip(items, BOXES, strict=True)] == [True] * 8
    assert [box.is_done for box in story.ticket().verification[1:-1]] == [state is PROVEN for _, state, _ in BOXES]


def _answer(call: str, outcome: Outcome, device: str = "cpu") -> Answer:
    probe = load_catalog()[OVERFLOW]
    result = ProbeResult(OVERFLOW, probe.version, call, outcome, "told", f"{OVERFLOW}/1/{call}", device=device)
    return Answer(result, Environment("", "a" * 40, False, "3.11", "2.13", "cpu", "CPU", "/usr/bin/python3.11"))


def _check(target: Target) -> Check:
    """Reproduced at the base and not at the fix."""
    red, green = (_answer(target.call, outcome) for outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED))
    question = Question(load_catalog()[OVERFLOW], target, green.result.fingerprint)
    return Check(question, green, Base("b" * 40), base_seen=red)


RUN = f"auditkit probe run {OVERFLOW} --checkout ."


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (f"{RUN} --target a:b --takes module --argument p=2", ""),
        (f"{RUN} --target a:b --argument p=2 --contract grad_norm", ""),
        (f"{RUN} --target mine --argument p=2", ""),
        (f"auditkit audit --probe {OVERFLOW} --target a:b --argument p=2 --device cpu --python python3.11", ""),
        (RUN, "asks every target that it finds, and the run only a:b"),
        (f"{RUN} --target a:c", "asks a:c, which was not asked"),
        (f"{RUN} --target a:b --target a:c --argument p=2", "asks a:c, which was not asked"),
        (f"{RUN} --target a:b --takes gradients --argument p=2", "asks a:b with another --takes"),
        (f"{RUN} --target a:b", "asks a:b with another --argument"),
        (f"{RUN} --target a:b --argument p=2 --returns norm=total", "asks a:b with another --returns"),
        (f"{RUN} --target a:b --argument p=2 --device cuda", "asks on cuda, and the run was on cpu"),
        (f"{RUN} --target a:b --argument p=2 --python .venv/bin/python3.9", "asks with .venv/bin/python3.9"),
    ],
)
def test_the_same_target_fed_otherwise_is_another_question(command: str, reason: str) -> None:
    """The proof of `a:b`, fed as a module with p=2, on the CPU."""
    text = ticket_text(extra=f"- [ ] `{command}` no longer reproduces <!-- probe: {OVERFLOW} -->\n")
    target = Target("a:b", name="mine", takes=Takes.MODULE, arguments={"p": 2})
    box = prove_boxes(read_ticket(text.encode(), PATH), [_check(target)])[-1]
    assert (box.is_done, box.proof.state) == ((True, PROVEN) if not reason else (False, NOT)), box.proof.reason
    assert reason in box.proof.reason


def test_a_command_about_a_further_target_is_asked_too() -> None:
    """Its evidence knows one function, its boxes another."""
    box = f"- [ ] `{RUN} --target a:c --takes gradients` <!-- probe: {OVERFLOW} -->\n"
    ticket = read_ticket(ticket_text(fingerprint=f"{OVERFLOW}/1/a:b", extra=box).encode(), PATH)
    asked = questions_of(ticket, Config(), ())
    assert [(one.target.call, one.fingerprint) for one in asked] == [
        ("a:b", f"{OVERFLOW}/1/a:b"), ("a:c", f"{OVERFLOW}/1/a:c"),
    ]  # fmt: skip


SQUARES = """import torch


def grad_norm(parameters):
    total = 0.0
    for p in parameters:
        total += (p.grad * p.grad).sum().item()
    return total**0.5


def scaled_norm(parameters, scale=2.0):
    return scale * grad_norm(parameters)
"""


def commands_of(ticket: Ticket, text: str) -> list[str]:
    """The commands in a ticket's boxes and in its appendix."""
    boxes = [" ".join(command.words) for item in ticket.verification for command in commands_in(item.text)]
    return [*boxes, *re.findall(r"^\*\*Command:\*\* `(.+)`$", text, re.MULTILINE)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A fresh git repository with two collectors in a folder, a configuration and no tickets."""
    top = tmp_path / "repository"
    (top / "trainer" / "src").mkdir(parents=True)
    git(top, "init", "-q", "--template=")
    (top / "trainer" / "src" / "norms.py").write_text(SQUARES, "utf-8")
    git(top, "add", ".")
    git(top, "commit", "-qm", "broken")
    return top


TARGETS = ("--target", "norms:grad_norm", "--takes", "parameters", "--contract", "grad_norm")


@pytest.mark.process
@pytest.mark.parametrize("place", ["absolute", "inside"])
def test_every_command_in_a_ticket_runs_from_the_top_of_the_repository(repository: Path, place: str) -> None:
    """Whatever the user typed, and wherever: no absolute path, and the command reproduces what the ticket says."""
    cwd = {"absolute": repository.parent, "inside": repository / "trainer"}[place]
    checkout = {"absolute": str(repository / "trainer"), "inside": "."}[place]
    tickets = {"absolute": str(repository / "tickets"), "inside": "../tickets"}[place]
    config = repository.parent / "audits" / "auditkit.yaml"
    config.parent.mkdir()
    config.write_text("batch: 3\n", "utf-8")
    # A probe that calls its target takes a worker, and so is asked from one place only.
    probes = ["--probe", LOOP, *(["--probe", OVERFLOW] if place == "absolute" else [])]
    asked = ["audit", checkout, *probes, "--no-fixes", "--config", str(config), "--tickets", tickets]
    filed = auditkit(*asked, *TARGETS, cwd=cwd)
    assert filed.code == FINDINGS, filed.stderr
    asked_again = {}
    for file in sorted((repository / "tickets").rglob("B3-*.md")):
        ticket = Repository(repository / "tickets").find(file.stem).ticket
        for command in commands_of(ticket, file.read_text("utf-8")):
            asked_again[command] = ticket.fingerprints[0].partition("/")[0]
    assert len(asked_again) == len(probes) // 2 + 1
    for command, probe in asked_again.items():
        words = shlex.split(command)
        assert not [word for word in words if str(repository.parent) in word or word.startswith("/")], command
        again = auditkit(*words[1:], cwd=repository)
        assert (again.code, probe in again.stdout) == (FINDINGS, True), command
