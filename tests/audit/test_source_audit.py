"""Source probes in an audit: which modules they ask about, what they file, and how a run of them ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from auditkit.model.schemas import schema
from tests.project_files import ROOT, auditkit
from tests.source_helpers import DEFAULT, EXPORT, LOOP, PRIVATE, UNTESTED, UNUSED, write

pytestmark = pytest.mark.process

FINDINGS, NOTHING = 1, 3
NORMS = "import torch\n\n\ndef norms(grads: list[torch.Tensor]):\n    return [g.norm().item() for g in grads]\n"
PLAIN = "def first(x, limit=33):\n    return x > limit\n\n\ndef second(x, limit=33):\n    return first(x, limit)\n"


def run_json(*words: object) -> tuple[int, dict]:
    """A run's exit code and its document, which holds to the published schema."""
    ended = auditkit(*words, "--json")
    document = json.loads(ended.stdout)
    Draft202012Validator(schema("run")).validate(document)
    return ended.code, document


def found_in(document: dict) -> set[tuple[str, str]]:
    return {(each["probe"], each["target"]) for each in document["results"] if each["outcome"] == "reproduced"}


def test_a_probe_that_reads_needs_no_target_and_asks_about_everything(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/norms.py": NORMS, "pkg/plain.py": PLAIN})
    code, document = run_json("probe", "run", LOOP, DEFAULT, "--checkout", tmp_path)
    assert (code, found_in(document)) == (FINDINGS, {(LOOP, "pkg.norms:norms"), (DEFAULT, "pkg:limit=33")})
    run = document["run"]
    assert (run["device"], run["torch"], run["python"]) == ("source", "", "")


def test_an_audit_asks_about_modules_that_deal_with_gradients(tmp_path: Path) -> None:
    """No collector is found here, and reading answers all the same."""
    touching = PLAIN + "\n\ndef zero(parameter):\n    parameter.grad = None\n"
    write(tmp_path, {"plain.py": PLAIN, "touching.py": touching.replace("33", "44")})
    ended = auditkit("audit", tmp_path, "--probe", DEFAULT, "--json", "--tickets", tmp_path / "tickets")
    assert found_in(json.loads(ended.stdout)) == {(DEFAULT, "touching:limit=44")}


def test_style_is_asked_where_somebody_said_so_and_tracked_where_its_probe_is_named(tmp_path: Path) -> None:
    """By option, by configuration, by name; only a name files a ticket."""
    private = "import torch\n\n\ndef clear(weights):\n    torch._foreach_zero_([w.grad for w in weights])\n"
    code = write(tmp_path / "code", {"norms.py": private})
    style = {DEFAULT, UNTESTED, UNUSED, EXPORT, PRIVATE}

    def audited(*words: object, tickets: Path) -> tuple[set[str], int]:
        document = json.loads(auditkit("audit", code, *words, "--json", "--tickets", tickets).stdout)
        marked = {result["probe"] for result in document["results"] if result.get("style")}
        return marked, len([*tickets.rglob("B1-*.md")])

    assert audited(tickets=tmp_path / "none") == (set(), 0)
    assert audited("--style", tickets=tmp_path / "style") == (style, 0)
    assert audited("--probe", PRIVATE, tickets=tmp_path / "named") == ({PRIVATE}, 1)
    write(code, {"auditkit.yaml": "style: true\n"})
    assert audited(tickets=tmp_path / "configured") == (style, 0)


def test_tickets_are_filed_where_somebody_said_so_and_nowhere_else(tmp_path: Path) -> None:
    """Named, or a folder called tickets that is there; else the audit says how, and leaves no file."""
    checkout = write(tmp_path / "checkout", {"norms.py": NORMS})
    here = tmp_path / "here"
    here.mkdir()
    words = ("audit", checkout, "--probe", LOOP)
    unfiled = auditkit(*words, cwd=here)
    assert (unfiled.code, list(here.iterdir())) == (FINDINGS, [])
    assert "\nNext, add --tickets tickets: " in unfiled.stdout
    (here / "tickets").mkdir()
    assert auditkit(*words, "--no-tickets", cwd=here).code == FINDINGS
    assert list((here / "tickets").iterdir()) == []
    filed = auditkit(*words, cwd=here)
    assert filed.stdout.endswith("  auditkit ticket show B1-PT-01 --tickets tickets\n")
    assert len(list(here.rglob("B1-*.md"))) == 1
    assert sorted(path.name for path in checkout.iterdir()) == ["norms.py"]


def test_a_file_that_does_not_parse_is_no_pass(tmp_path: Path) -> None:
    """Exit 3 without a finding, 1 with one; the file and its line are on the page."""
    write(tmp_path, {"plain.py": "x = 1\n", "broken.py": "x = 1\ndef f(:\n"})
    ended = auditkit("probe", "run", LOOP, "--checkout", tmp_path)
    assert (ended.code, "broken.py:2: invalid syntax" in ended.stdout) == (NOTHING, True)
    write(tmp_path, {"norms.py": NORMS})
    assert auditkit("probe", "run", LOOP, "--checkout", tmp_path).code == FINDINGS


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        ("raise SystemExit(7)\n    yield", "exception", "SystemExit: 7"),
        ("import os\n    os._exit(0)\n    yield", "exception", "SystemExit: os._exit(0)"),
        ("raise ValueError('mine')\n    yield", "exception", "ValueError: mine"),
        ("print('text')\n    yield from ()", "protocol", "the probe examined nothing"),
    ],
    ids=["ends", "ends_at_once", "raises", "prints"],
)
def test_a_probe_of_somebody_else_may_misbehave(body: str, reason: str, message: str, tmp_path: Path) -> None:
    """It costs its own result; our own probe beside it has one."""
    probe = (ROOT / "probes" / f"{LOOP}.py").read_text(encoding="utf-8")
    head, _, rest = probe.partition("def measure(ctx):")
    judge = "def judge" + rest.partition("\ndef judge")[2]
    text = (
        head.replace('"id": "sync_in_loop"', '"id": "mine_is_broken"') + f"def measure(ctx):\n    {body}\n\n\n{judge}"
    )
    write(tmp_path, {"mine_is_broken.py": text, "code/norms.py": NORMS})
    words = ("--checkout", tmp_path / "code")
    code, document = run_json("probe", "run", tmp_path / "mine_is_broken.py", LOOP, *words)
    assert code == FINDINGS
    (broken,) = (each for each in document["results"] if each["probe"] == "mine_is_broken")
    assert (broken["outcome"], broken["reason"]) == ("error", reason)
    assert message in broken["message"]
    assert (LOOP, "norms:norms") in found_in(document)
