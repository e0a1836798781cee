"""`auditkit mcp` as an agent meets it: the SDK's own client over standard input and output, one real audit."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project_files import ROOT, auditkit, our_environment

_NEEDS_SDK = pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="mcp is not installed: auditkit[mcp]")
VERBS = {"audit", "answers", "probe", "tickets", "ticket", "verify", "fix"}
PROBE = "norm_overflows_on_finite_grads"
TARGET = "stats:grad_norm"
COLLECTOR = """def grad_norm(parameters):
    return sum(p.grad.pow(2).sum() for p in parameters if p.grad is not None) ** 0.5
"""


def _calls(folder: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[set[str], list[dict[str, Any]]]:
    """The names of the server's verbs, and the answer to each call in turn; `WHOLE` stands for the last file named."""
    from mcp import Client, StdioServerParameters

    async def ask() -> tuple[set[str], list[dict[str, Any]]]:
        arguments = ["-P", "-m", "auditkit", "mcp"]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=our_environment(), cwd=folder)
        async with Client(server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            told: list[dict[str, Any]] = []
            for verb, given in calls:
                whole = next((one["answer"]["whole"] for one in reversed(told) if "whole" in one["answer"]), "")
                given = {name: whole if value == "WHOLE" else value for name, value in given.items()}
                ended = await client.call_tool(verb, given)
                assert not ended.is_error, ended.content
                told.append(json.loads(ended.content[0].text))
        return names, told

    return asyncio.run(asyncio.wait_for(ask(), 240))


@_NEEDS_SDK
@pytest.mark.process
def test_an_agent_audits_reads_and_finds_the_ticket(tmp_path: Path) -> None:
    (tmp_path / "stats.py").write_text(COLLECTOR)
    asked = {"checkout": ".", "targets": [TARGET], "probes": [PROBE], "tickets": "tickets"}
    names, (audited, answers, listed, ticket, probe, verified) = _calls(
        tmp_path,
        ("audit", asked),
        ("answers", {"whole": "WHOLE", "probe": PROBE}),
        ("tickets", {}),
        ("ticket", {"ticket_id": "B1-PT-01"}),
        ("probe", {"name": PROBE}),
        ("verify", {"ticket_id": "B1-PT-01", "checkout": "."}),
    )
    assert names == VERBS
    assert len(names) <= 7
    (finding,) = audited["answer"]["findings"]
    assert audited["exit_code"] == 1
    assert (finding["probe"], finding["target"], finding["ticket"]) == (PROBE, TARGET, "B1-PT-01")
    (answer,) = answers["answer"]["answers"]
    assert answer["fingerprint"] == finding["fingerprint"]
    assert answer["measurements"]
    assert [row["id"] for row in listed["answer"]["tickets"]] == ["B1-PT-01"]
    assert ticket["answer"].startswith("---\nid: B1-PT-01\n")
    assert "Why" in probe["answer"] or "overflow" in probe["answer"]
    assert verified["exit_code"] == 1  # nothing was mended
    assert all(len(json.dumps(one)) < 30_000 for one in (audited, listed, ticket, probe, verified))


@_NEEDS_SDK
@pytest.mark.process
def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    _, (wrong, option, listed) = _calls(
        tmp_path,
        ("audit", {"checkout": "nowhere"}),
        ("ticket", {"ticket_id": "--help"}),
        ("probe", {}),
    )
    assert (wrong["exit_code"], wrong["answer"]["error"]) == (2, "no such directory: nowhere")
    assert option["exit_code"] == 2  # a ticket that is not there, not the page of options
    assert "Usage" not in str(option["answer"])
    assert listed["exit_code"] == 0
    assert listed["answer"] == auditkit("probe", "list").stdout  # whole


@_NEEDS_SDK
@pytest.mark.process
def test_an_unknown_argument_is_an_error(tmp_path: Path) -> None:
    """A misspelled `probes` would ask all of them."""
    with pytest.raises(BaseExceptionGroup) as refused:
        _calls(tmp_path, ("audit", {"checkout": "nowhere", "probe_ids": [PROBE]}))
    told = "".join(traceback.format_exception(refused.value))
    assert "probe_ids" in told


@_NEEDS_SDK
@pytest.mark.process
def test_a_list_is_paged_and_a_page_is_never_cut(tmp_path: Path) -> None:
    """Each result has 30,000 characters; the worst come first, and no page loses or repeats one."""
    severities = [None, "P3", "P0", "P2", None]
    results = [
        {"fingerprint": str(number), "probe": PROBE, "target": TARGET, "severity": severity, "notes": ["x" * 30_000]}
        for number, severity in enumerate(severities)
    ]
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"results": results}))
    asked = {"whole": str(run), "limit": 2}
    _, pages = _calls(tmp_path, *(("answers", asked | {"offset": offset}) for offset in (0, 2, 4)))
    answers = [page["answer"] for page in pages]
    assert [answer["next_offset"] for answer in answers] == [2, 4, None]
    assert [answer["total"] for answer in answers] == [5, 5, 5]
    assert [one for answer in answers for one in answer["answers"]] == [results[at] for at in (2, 3, 1, 0, 4)]


CLIENT = """import asyncio, os, sys
from mcp import Client, StdioServerParameters

async def audit():
    arguments = ["-P", "-m", "auditkit", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ), cwd=sys.argv[1])
    async with Client(server) as client:
        await client.call_tool("audit", {"checkout": ".", "targets": ["stats:grad_norm"], "fresh": True})

asyncio.run(audit())
"""


@_NEEDS_SDK
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the test finds processes in /proc")
def test_an_audit_ends_when_its_client_is_killed(tmp_path: Path) -> None:
    """The module that the audit imports sleeps for minutes."""
    checkout, workers = tmp_path / "checkout", tmp_path / "workers"
    checkout.mkdir()
    late = f"import os, time\nwith open({str(workers)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
    (checkout / "stats.py").write_text(f"{late}time.sleep(300)\n{COLLECTOR}")
    (tmp_path / "client.py").write_text(CLIENT)
    mark = f"AUDITKIT_TEST_CLIENT={tmp_path}"
    environment = our_environment() | dict([mark.split("=", 1)])
    client = subprocess.Popen([sys.executable, tmp_path / "client.py", checkout], env=environment)
    try:
        _wait_for(workers.exists, 120)
        started = [*_marked(mark), *map(int, workers.read_text().split())]
        assert len(started) >= 4  # the client, the server, the audit and a worker
        client.kill()
        client.wait()
        _wait_for(lambda: not any(map(_lives, started)), 10)
        assert _marked(mark) == []
    finally:
        for pid in [*_marked(mark), *(map(int, workers.read_text().split()) if workers.exists() else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        client.wait()


def _marked(mark: str) -> list[int]:
    """The living processes with `mark` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(condition: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.process
def test_without_the_package_one_line_says_what_to_install() -> None:
    """In an interpreter whose search finds no mcp, whether it is installed or not."""
    hide = "import sys; sys.modules['mcp'] = None; from auditkit.cli.main import main; sys.argv[1:] = ['mcp']; main()"
    command = [sys.executable, "-c", hide]
    ended = subprocess.run(command, capture_output=True, text=True, env=our_environment(), cwd=ROOT, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "error: the MCP server needs the package mcp, 2 or later",
        "hint: pip install 'auditkit[mcp]'",
    ]
    assert ended.stdout == ""


@pytest.mark.process
def test_a_saved_run_is_whole_and_what_is_printed_small(tmp_path: Path) -> None:
    from tests.test_schema import document_of

    (tmp_path / "stats.py").write_text(COLLECTOR)
    words = ["probe", "run", PROBE, "--checkout", tmp_path, "--target", TARGET, "--json"]
    ended = auditkit(*words, "--save", tmp_path / "run.json")
    brief, whole = document_of("brief", ended), json.loads((tmp_path / "run.json").read_text())
    assert (ended.code, ended.stderr) == (1, "")
    assert brief["run"] == whole["run"]
    assert brief["whole"] == str(tmp_path / "run.json")
    assert [one["fingerprint"] for one in brief["findings"]] == [one["fingerprint"] for one in whole["results"]]
    refused = auditkit(*words, "--save", tmp_path)
    assert refused.code == 2
