"""Probes of others: what they find in the cage, whichever of their functions is run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import Policy, ProbeInfo
from auditkit.probing.hosts.catalog import read_probe
from auditkit.probing.hosts.judgement import JudgingFailedError, judge
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_probes.runner import run_source_probes
from tests.project_files import ROOT
from tests.source_helpers import LOOP, write

pytestmark = pytest.mark.process

TELLS = """
    import importlib.util, os, sys
    told = {told}
"""
FINDS = """{
        "secret": os.environ.get("SECRET_TOKEN"),
        "beside": importlib.util.find_spec("beside") is not None,
        "cage": importlib.util.find_spec("cage") is not None,
        "input": os.read(0, 1),
    }"""
NOTHING = "{'secret': None, 'beside': False, 'cage': False, 'input': b''}"


def judging(folder: Path, told: str) -> str:
    """What a caged `judge` says that `told` is."""
    judged = f"{TELLS.format(told=told)}    return {{'outcome': 'reproduced', 'message': repr(told)}}\n"
    try:
        return judge(probe_with(folder, "", judged), [Measurement("norm", 1.0, "norm")], {}, 5.0).message
    except JudgingFailedError as error:
        return str(error)


def measuring(folder: Path, told: str) -> str:
    """What a caged `measure` of source says that `told` is."""
    measured = f"{TELLS.format(told=told)}    yield ctx.measurement('', 'told', repr(told), 'text')\n"
    judged = "    return {'outcome': 'not_reproduced', 'message': measurements[0].value}\n"
    index = SourceIndex(write(folder / "code", {"norms.py": "x = 1\n"}))
    probe = probe_with(folder, measured, judged)
    (result,) = run_source_probes([probe], index, lambda _: True, Policy(), 5.0, lambda _: None)
    return result.message


def probe_with(folder: Path, measure: str, judge_body: str) -> ProbeInfo:
    ours = (ROOT / "probes" / f"{LOOP}.py").read_text("utf-8")
    head = ours.partition("def measure(ctx):")[0].replace(f'"id": "{LOOP}"', '"id": "theirs"')
    path = folder / "theirs.py"
    path.write_text(
        f"{head}def measure(ctx):\n{measure or '    yield'}\n\ndef judge(measurements, policy):\n{judge_body}", "utf-8"
    )
    return read_probe(path)


@pytest.mark.parametrize("ask", [judging, measuring])
def test_a_caged_probe_finds_no_secret_no_module_beside_us_and_no_input(
    ask: Callable[[Path, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the environment holds, also as PYTHONPATH, and whatever lies in the current folder or beside us."""
    (tmp_path / "beside.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([".", str(tmp_path), str(ROOT)]))
    assert ask(tmp_path, FINDS) == NOTHING


@pytest.mark.parametrize("ask", [judging, measuring])
def test_what_a_caged_probe_started_ends_with_its_time(ask: Callable[[Path, str], str], tmp_path: Path) -> None:
    """A process that it forked, which would hold our pipe and go on, ends with it."""
    told = f"os.fork() and None, __import__('time').sleep(8), open({str(tmp_path / 'lives')!r}, 'w').close()"
    assert " within 5 s" in ask(tmp_path, told)
    time.sleep(4)
    assert not (tmp_path / "lives").exists()
