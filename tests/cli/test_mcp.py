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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from auditkit.cli import mcp
from auditkit.model.enums import Outcome
from tests.probing_helpers import is_alive
from tests.project_files import ROOT, auditkit, our_environment
from tests.sweep_helpers import wait_for

_NEEDS_SDK = pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="mcp is not installed: the extra mcp")
VERBS = {"audit", "results", "probe", "tickets", "ticket", "verify", "fix"}
PROBE = "sync_in_loop"  # it reads the source, so that no audit waits for a worker
TARGET = "stats:grad_norm"
COLLECTOR = """def grad_norm(parameters):
    return sum(p.grad.norm().item() ** 2 for p in parameters if p.grad is not None) ** 0.5
"""


class Session:
    """What a client saw: the tools, and the result or the error of each call."""

    def __init__(self, folder: Path, *calls: tuple[str, dict[str, Any]]) -> None:
        self.results: list[Any] = []
        self.errors: list[str] = []
        self.tools: dict[str, Any] = {}
        asyncio.run(asyncio.wait_for(self._call(folder, calls), 240))

    async def _call(self, folder: Path, calls: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Make each call in turn; `WHOLE` stands for the last `whole`."""
        from mcp import Client, StdioServerParameters

        arguments = ["-P", "-m", "auditkit", "mcp"]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=our_environment(), cwd=folder)
        async with Client(server) as client:
            self.tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            whole = ""
            for verb, given in calls:
                given = {name: whole if value == "WHOLE" else value for name, value in given.items()}
                ended = await client.call_tool(verb, given)
                if ended.is_error:
                    self.errors.append(ended.content[0].text)
                    continue
                self.results.append(json.loads(ended.content[0].text))
                result = self.results[-1]["result"]
                whole = result.get("whole", whole) if isinstance(result, dict) else whole


@_NEEDS_SDK
@pytest.mark.process
def test_an_agent_audits_reads_and_finds_the_ticket(tmp_path: Path) -> None:
    (tmp_path / "stats.py").write_text(COLLECTOR)
    session = Session(
        tmp_path,
        ("audit", {"checkout": ".", "targets": [TARGET], "probes": [PROBE], "tickets": "tickets"}),
        ("results", {"whole": "WHOLE", "probe": PROBE, "outcome": "reproduced"}),
        ("tickets", {}),
        ("ticket", {"ticket_id": "B1-PT-01"}),
        ("probe", {"name": PROBE}),
        ("verify", {"ticket_id": "B1-PT-01", "checkout": "."}),
    )
    assert session.errors == []
    audited, results, listed, ticket, probe, verified = session.results
    assert session.tools.keys() == VERBS
    (finding,) = audited["result"]["findings"]
    assert audited["exit_code"] == 1
    assert audited["result"]["next_cursor"] is None
    assert (finding["probe"], finding["target"], finding["ticket"]) == (PROBE, TARGET, "B1-PT-01")
    (result,) = results["result"]["results"]
    assert result["fingerprint"] == finding["fingerprint"]
    assert result["measurements"]
    assert [row["id"] for row in listed["result"]["tickets"]] == ["B1-PT-01"]
    assert ticket["result"].startswith("---\nid: B1-PT-01\n")
    assert probe["result"].startswith(f"{PROBE}, version ")
    assert verified["exit_code"] == 1  # nothing was fixed
    assert all(len(json.dumps(one)) < 30_000 for one in (audited, listed, ticket, probe, verified))
    assert all(
        set(tool.input_schema["properties"]) <= {*mcp._ARGUMENTS, "tickets", "probe"} for tool in session.tools.values()
    )
    hints = {name: tool.annotations for name, tool in session.tools.items()}
    assert {name for name, each in hints.items() if each.read_only_hint} == {"results", "probe", "tickets", "ticket"}
    assert {name for name, each in hints.items() if each.destructive_hint} == {"fix"}
    assert {name for name, each in hints.items() if each.open_world_hint} == {"audit", "verify", "fix"}


@_NEEDS_SDK
@pytest.mark.process
def test_what_is_wrong_is_a_tool_error_with_a_hint(tmp_path: Path) -> None:
    """Also an argument that the schema refuses: a misspelled `probes` would run all of them."""
    session = Session(
        tmp_path,
        ("audit", {"checkout": "nowhere"}),
        ("ticket", {"ticket_id": "B1-PT-01"}),
        ("results", {"whole": "gone.json"}),
        ("audit", {"checkout": "nowhere", "probe_ids": [PROBE]}),
        ("ticket", {"ticket_id": "--help"}),
        ("results", {"whole": "run.json", "limit": 0}),
        ("results", {"whole": "run.json", "outcome": "good"}),
        ("fix", {"ticket_id": "B1-PT-01", "mode": "force"}),
        ("probe", {}),
    )
    assert len(session.errors) == 8
    nowhere, ticket, run, *refused = session.errors
    assert "no such directory: nowhere" in nowhere
    assert "hint: " in ticket
    assert "hint: pass the `whole` of an audit" in run
    for word, error in zip(("probe_ids", "ticket_id", "limit", "outcome", "mode"), refused, strict=True):
        assert word in error
    (listed,) = session.results
    assert listed["exit_code"] == 0
    assert listed["result"] == auditkit("probe", "list").stdout  # whole
    for tool in session.tools.values():
        assert tool.input_schema["additionalProperties"] is False
    properties = session.tools["results"].input_schema["properties"]
    assert (properties["limit"]["minimum"], properties["limit"]["maximum"]) == (1, 500)
    assert properties["outcome"]["enum"][1:] == [one.value for one in Outcome]
    assert session.tools["fix"].input_schema["properties"]["mode"]["enum"] == ["try", "apply"]


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
    wanted = {"whole": str(run), "limit": 2}
    session = Session(tmp_path, *(("results", wanted | {"cursor": cursor}) for cursor in ("", "2", "4", "6")))
    pages = [page["result"] for page in session.results]
    assert [page["next_cursor"] for page in pages] == ["2", "4", None]
    assert [page["total"] for page in pages] == [5, 5, 5]
    assert [one for page in pages for one in page["results"]] == [results[at] for at in (2, 3, 1, 0, 4)]
    assert "leave the cursor out to begin again" in session.errors[0]


CLIENT = """import asyncio, os, sys
from mcp import Client, StdioServerParameters

async def progressed(progress, total, message):
    with open(sys.argv[2], "a") as file:
        print(message, file=file)

async def audit():
    arguments = ["-P", "-m", "auditkit", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ), cwd=sys.argv[1])
    async with Client(server) as client:
        given = {"checkout": ".", "targets": ["stats:grad_norm"], "fresh": True}
        given["probes"] = ["norm_overflows_on_finite_grads"]
        await client.call_tool("audit", given, progress_callback=progressed)

asyncio.run(audit())
"""


@_NEEDS_SDK
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the test finds processes in /proc")
def test_an_audit_ends_when_its_client_is_killed(tmp_path: Path) -> None:
    """The module that the audit imports sleeps for minutes; until then its client hears that it runs."""
    checkout, workers, progress = (tmp_path / name for name in ("checkout", "workers", "progress"))
    checkout.mkdir()
    late = f"import os, time\nwith open({str(workers)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
    (checkout / "stats.py").write_text(f"{late}time.sleep(300)\n{COLLECTOR}")
    (tmp_path / "client.py").write_text(CLIENT)
    mark = f"AUDITKIT_TEST_CLIENT={tmp_path}"
    environment = our_environment() | dict([mark.split("=", 1)])
    client = subprocess.Popen([sys.executable, tmp_path / "client.py", checkout, progress], env=environment)
    try:
        wait_for(lambda: workers.exists() and progress.exists(), 120)
        assert progress.read_text().startswith("auditkit audit has run for ")
        started = [*_marked(mark), *map(int, workers.read_text().split())]
        assert len(started) >= 4  # the client, the server, the audit and a worker
        client.kill()
        client.wait()
        wait_for(lambda: not any(map(is_alive, started)), 60)
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


@pytest.mark.process
def test_without_the_package_one_line_says_what_to_install() -> None:
    """In an interpreter whose search finds no mcp, whether it is installed or not."""
    hide = "import sys; sys.modules['mcp'] = None; from auditkit.cli.main import main; sys.argv[1:] = ['mcp']; main()"
    command = [sys.executable, "-c", hide]
    ended = subprocess.run(command, capture_output=True, text=True, env=our_environment(), cwd=ROOT, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "error: the MCP server needs the package mcp, 2 or later",
        "hint: in a clone of auditkit: pip install '.[mcp]'",
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


def test_the_skill_is_short() -> None:
    """1,200 tokens by either plain count, and every command that it shows exists."""
    text = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    assert max(len(text) / 4, len(text.split()) * 1.4) <= 1200
    commands = {line.split("#")[0].split()[1] for line in text.splitlines() if line.startswith("auditkit ")}
    assert commands <= {"audit", "run", "probe", "ticket", "compare"}
    verbs = {line.split()[2] for line in text.splitlines() if line.startswith("auditkit ticket ")}
    assert verbs == {"next", "list", "show", "status", "edit", "fix", "verify", "resolve"}
