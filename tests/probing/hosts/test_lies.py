"""What a target says in the name of its worker: what is no message is none, and no word of it leads the host astray."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.hosts import sandbox
from auditkit.probing.hosts.protocol import checked
from auditkit.probing.source_code.statements import Sources
from auditkit.probing.worker.process.jsonlines import Reader
from tests.probing_helpers import GRAPHS, LAUNCHES, MUTATES, OVERFLOW, RETAINED, SYNCS, TARGETS, by_probe, run_probes

GARBAGE = ("null", "5", "[1]", "{", "", "[" * 100_000, '{"type": "note", "text": "\xff"}', f'{{"type": {"9" * 5000}}}')
STRANGE = (
    {"type": "measurement"},
    {"type": "measurement", "name": 1, "value": {}, "unit": []},
    {"type": "measurement", "name": "norm", "value": [{}], "unit": "none"},
    {"type": "measurement", "name": "norm", "value": 1, "unit": "none", "evidence": "sworn"},
    {"type": "location", "location": {"file": 5, "line": "x", "function": "", "folder": ""}},
    {"type": "failed", "reason": "made up", "message": "x"},
    {"type": "unavailable", "message": 5},
    {"type": "plan", "plan": {}},
    {"type": "plan", "plan": 5},
    {"type": "took", "seconds": "long"},
    {"type": "loaded"},
    {"type": "end"},
    {"type": "note", "text": None},
    {"type": "start", "job": ["x"]},
)
HONEST = (
    {"type": "measurement", "name": "norm", "value": "inf", "unit": "none", "case": {"dtype": "float32", "count": 5}},
    {"type": "location", "location": None},
    {"type": "end", "status": "ok", "output_bytes": 0, "output_tail": ""},
    {"type": "unavailable", "message": "no", "reason": None},
    {"type": "loaded", "fork_safe": True, "why": ""},
    {"type": "idle"},
)


@pytest.mark.parametrize("said", STRANGE)
def test_a_message_with_strange_fields_is_a_failure_of_its_job(said: dict[str, Any]) -> None:
    found = checked(said)
    assert found is not None
    assert found["type"] == "failed"
    assert f"a message of type {said['type']} that is none" in found["message"]


@pytest.mark.parametrize("said", HONEST)
def test_a_message_is_passed_on_as_it_is(said: dict[str, Any]) -> None:
    assert checked(said) is said


@pytest.mark.parametrize("said", [{}, {"type": "nonsense"}, {"type": ["note"]}, {"type": None}])
def test_what_is_of_no_type_is_dropped(said: dict[str, Any]) -> None:
    assert checked(said) is None


def test_lines_that_are_no_messages_are_dropped() -> None:
    reader = Reader("token")
    lines = "".join(f"\ntoken {line}\n" for line in (*GARBAGE, '{"type": "idle"}'))
    assert reader.feed(lines.encode("latin-1")) == [{"type": "idle"}]


def ask(folder: Path, said: list[Any], when: str = "call", token: bool = True, forever: bool = False) -> ProbeResult:
    shutil.copy(TARGETS / "escapes" / "lies.py", folder)
    lies = {"said": said, "when": when, "token": token, "forever": forever}
    (folder / "lies.json").write_text(json.dumps(lies))
    return by_probe(run_probes(folder, "lies:collect", [OVERFLOW], time_limit_s=20.0))[OVERFLOW]


FORGED = {"type": "measurement", "name": "forged", "value": 1.0, "unit": "none", "case": {}}


@pytest.mark.process
@pytest.mark.parametrize("when", ["call", "import"])
def test_garbage_ends_nobodys_run(tmp_path: Path, when: str) -> None:
    assert ask(tmp_path, list(GARBAGE), when).outcome == "reproduced"


@pytest.mark.process
def test_only_who_finds_the_token_can_speak_for_the_worker(tmp_path: Path) -> None:
    """The control is what is not held: a target can find it, in its own process."""
    names = [
        {each.name for each in ask(tmp_path, [FORGED], token=token).measurements} & {"forged"}
        for token in (False, True)
    ]
    assert names == [set(), {"forged"}]


@pytest.mark.process
@pytest.mark.parametrize("way", ["above", "elsewhere", "by a link"])
def test_no_file_outside_is_shown_as_the_place_of_a_finding(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (tmp_path / "secret.py").write_text("KEY = 1\n")
    (folder / "link.py").symlink_to(tmp_path / "secret.py")
    file, base = {"above": ("../secret.py", ""), "elsewhere": ("secret.py", str(tmp_path))}.get(way, ("link.py", ""))
    place = {"file": file, "line": 1, "function": "collect", "folder": base}
    result = ask(folder, [{"type": "location", "location": place}])
    assert result.outcome == "reproduced"
    assert result.excerpt is None or "KEY" not in "".join(result.excerpt.lines)
    if way != "by a link":  # whose place is in the checkout
        assert result.location != Location(file, 1, "collect")
    assert Sources(folder).unit(file, 1, base if way == "by a link" else "") is None


@pytest.mark.process
def test_a_flood_of_messages_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them was a sign of life, so that the silence that ends a worker never came."""
    monkeypatch.setattr(sandbox, "_MOST_RESULT_BYTES", 8 << 20)
    result = ask(tmp_path, [], "import", forever=True)
    assert (result.outcome, result.reason) == ("error", "timeout")


@pytest.mark.process
@pytest.mark.parametrize("where", ["call", "import"])
def test_a_flood_of_output_ends(tmp_path: Path, where: str) -> None:
    """8 MB are ignored, which is the control; 12 MB end the process."""
    program = (
        "import os\nflood = [b'x' * (1 << 20)] * {}\n{}\ndef norm(parameters):\n    {}\n"
        "    return sum(p.grad.double().pow(2).sum().item() for p in parameters if p.grad is not None) ** 0.5\n"
    )
    prints = "while flood: os.write(1, flood.pop())"  # once in each process
    found = {}
    for megabytes in (8, 12):
        lines = (prints, "pass") if where == "import" else ("", prints)
        (tmp_path / f"floods{megabytes}.py").write_text(program.format(megabytes, *lines))
        found[megabytes] = by_probe(run_probes(tmp_path, f"floods{megabytes}:norm", [OVERFLOW]))[OVERFLOW]
    assert (found[8].outcome, found[12].outcome) == ("not_reproduced", "error")
    assert "printed more than 10 MB" in found[12].message


@pytest.mark.process
def test_jobs_that_nobody_asked_for_are_not_heard_of(tmp_path: Path) -> None:
    said = [{"type": "start", "job": "made up"}, {"type": "device", "name": "x"}]
    assert ask(tmp_path, said).outcome == "reproduced"


@pytest.mark.process
def test_a_target_that_replaces_torchs_functions_is_said_to(tmp_path: Path) -> None:
    """What it puts back before it returns is not seen: nothing in its process can be held against it."""
    shutil.copy(TARGETS / "escapes" / "patches.py", tmp_path)
    notes = {
        name: by_probe(run_probes(tmp_path, f"patches:{name}", [OVERFLOW]))[OVERFLOW].notes
        for name in ("at_import", "in_the_call", "undone")
    }
    word = ": what is measured with them is its own word"
    assert notes["at_import"] == notes["undone"] == (f"the target has replaced torch.isfinite{word}",)
    assert notes["in_the_call"] == (f"the target has replaced torch.Tensor.isinf, torch.isfinite{word}",)


@pytest.mark.process
def test_an_honest_target_has_replaced_nothing(tmp_path: Path) -> None:
    """With every instrument of ours at work, the compiler and the simulated device among them."""
    shutil.copy(TARGETS / "escapes" / "lies.py", tmp_path)
    (tmp_path / "lies.json").write_text(json.dumps({"said": [], "when": "", "token": False}))
    run = run_probes(tmp_path, "lies:collect", [OVERFLOW, SYNCS, LAUNCHES, MUTATES, RETAINED, GRAPHS])
    assert len(run.results) == 6
    assert [note for result in run.results for note in result.notes if "replaced" in note] == []
