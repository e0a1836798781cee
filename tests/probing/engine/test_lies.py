"""What a target says in the name of its worker: what is no message is none, and no word of it leads the host astray."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from auditkit.model.enums import Reason
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.engine import fork_servers, protocol
from auditkit.probing.engine.protocol import Failed, decode
from auditkit.probing.source.statements import unit_of
from auditkit.worker.serve.messages import CONTROL
from tests.probing_helpers import OVERFLOW, TARGETS, by_probe, run_probes

GARBAGE = ("[1]", "{", "", "[" * 100_000, '{"type": "note", "text": "\xff"}', f'{{"type": {"9" * 5000}}}',
           '{"type": "nonsense"}', '{"type": ["note"]}', '{"type": "note", "text": "cut')  # fmt: skip
STRANGE: dict[str, tuple[dict[str, Any], ...]] = {
    "hello": ({}, {"pid": "x", "python": "", "torch": "", "executable": "", "platform": "", "cuda": False}),
    "loaded": ({"rung": None}, {"placeholders": [1]}),
    "load_error": ({"reason": "made up", "message": "x"}, {"reason": "exit"}),
    "ended": ({}, {"status": "x"}),
    "start": ({}, {"job": ["x"]}),
    "plan": ({"plan": {}}, {"plan": 5}, {"plan": {"feed": {"takes": 1, "setup": None}}}),
    "measurement": (
        {},
        {"name": 1, "value": {}, "unit": []},
        {"name": "norm", "value": [{}], "unit": "none"},
        {"name": "norm", "value": 1, "unit": "none", "evidence": "sworn"},
        {"name": "norm", "value": 1, "unit": "none", "case": {"dtype": {}}},
    ),
    "location": ({}, {"location": {"file": 5, "line": "x", "function": "", "folder": ""}}),
    "note": ({}, {"text": None}),
    "device": ({"name": 1},),
    "took": ({"seconds": "long"},),
    "not_applicable": ({"message": 5},),
    "unavailable": ({"message": 5}, {"message": "x", "reason": "made up"}),
    "failed": ({"reason": "made up", "message": "x"}, {"reason": "exit", "message": "x", "missing": "torch"}),
    "end": ({}, {"output_bytes": 0, "reason": "made up"}),
    "checked": (),
}
OF_WORKER = ("hello", "loaded", "ended", "start", "end")


@pytest.mark.parametrize("kind", STRANGE)
def test_a_message_with_strange_fields_is_one_failure(kind: str) -> None:
    """One test for each type of message: fields that are missing, of another type, or of no known value."""
    for fields in STRANGE[kind]:
        mark = CONTROL if kind in OF_WORKER else b""
        found = decode(mark + json.dumps({"type": kind, **fields}).encode())
        assert isinstance(found, Failed), (kind, fields)
        assert found.reason is Reason.PROTOCOL
        assert "sent an invalid message" in found.message


@pytest.mark.parametrize("line", GARBAGE)
def test_a_line_that_is_no_message_is_one_failure(line: str) -> None:
    found = decode(line.encode("latin-1"))
    assert isinstance(found, Failed)
    assert found.reason is Reason.PROTOCOL


def test_every_message_is_tried_with_strange_fields() -> None:
    assert set(STRANGE) == {kind.__struct_config__.tag for kind in get_args(protocol.Message)}


def ask(folder: Path, said: list[Any], when: str = "call", token: bool = True, forever: bool = False) -> ProbeResult:
    shutil.copy(TARGETS / "escapes" / "lies.py", folder)
    lies = {"said": said, "when": when, "token": token, "forever": forever}
    (folder / "lies.json").write_text(json.dumps(lies))
    return by_probe(run_probes(folder, "lies:collect", [OVERFLOW], time_limit_s=20.0))[OVERFLOW]


@pytest.mark.process
@pytest.mark.parametrize("when", ["call", "import"])
def test_garbage_is_one_error_that_says_so(tmp_path: Path, when: str) -> None:
    """Without the token it is nothing, which is the control; with it no result of that worker is believed."""
    assert ask(tmp_path, list(GARBAGE), when, token=False).outcome == "reproduced"
    result = ask(tmp_path, list(GARBAGE), when)
    assert (result.outcome, result.reason) == ("error", "protocol")


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
    assert unit_of(folder, Location(file, 1, folder=base if way == "by a link" else "")) is None


@pytest.mark.process
def test_a_flood_of_messages_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them was a sign of life, so that the silence that ends a worker never came."""
    monkeypatch.setattr(fork_servers, "_MOST_RESULT_BYTES", 8 << 20)
    result = ask(tmp_path, [], "import", forever=True)
    assert (result.outcome, result.reason) == ("error", "timeout")


@pytest.mark.process
def test_a_job_cannot_speak_for_its_worker(tmp_path: Path) -> None:
    """It begins no other job and ends no worker; the control is a message of a job."""
    assert ask(tmp_path, [{"type": "device", "name": "x"}]).outcome == "reproduced"
    said = [{"type": "start", "job": "made up"}, {"type": "ended", "status": 0}]
    result = ask(tmp_path, said)
    assert (result.outcome, result.reason) == ("error", "protocol")
