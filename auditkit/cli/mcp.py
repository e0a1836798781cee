"""`auditkit mcp`: the same jobs for agents, as a server of the Model Context Protocol on standard input and output.

Each verb runs one command of auditkit in a process of its own, so that its exit code, its limits and what it refuses
are the command's. A result is whole, or a page of a list with the offset of the next page. The server ends a command
when its client cancels the request or disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Literal

from auditkit.cli.common import run_or_exit

EXAMPLE = "Example: auditkit mcp"
_GRACE_S = 1.5
"""What a command may take to remove its copies; a client of the SDK kills a server 4 seconds after it disconnects."""
_LONGEST_TALK = 2_000
_LARGEST_ANSWER_BYTES = 64 << 20
"""More than any audit prints or saves."""
_INSTRUCTIONS = (
    "auditkit runs probes against the gradient collectors and training steps of a PyTorch checkout. A finding is what "
    "a probe reproduced; a fix is what the same probe no longer reproduces. Begin with audit; then tickets and ticket; "
    "change the code; then verify. exit_code: 0 nothing found, 1 findings, 2 wrong usage, 3 nothing measured, 4 a "
    "conflict of files, 5 the code could not be loaded. An error or an absence is never a pass."
)


@run_or_exit
def mcp() -> None:
    """Serve agents over standard input and output.

    Seven tools of the Model Context Protocol: audit, answers, probe, tickets, ticket, verify and fix. Needs the extra
    mcp.
    """
    from auditkit.errors import BadInputError

    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise BadInputError(
            "the MCP server needs the package mcp, 2 or later", "in a clone of auditkit: pip install '.[mcp]'"
        ) from None
    from auditkit import __version__

    with tempfile.TemporaryDirectory(prefix="auditkit-mcp-") as folder:
        server = MCPServer("auditkit", instructions=_INSTRUCTIONS, version=__version__, log_level="ERROR")
        verbs = _Verbs(Path(folder))
        for verb in (verbs.audit, verbs.answers, verbs.probe, verbs.tickets, verbs.ticket, verbs.verify, verbs.fix):
            server.tool(structured_output=False)(verb)
        _refuse_unknown_arguments(server)
        server.run("stdio")


def _refuse_unknown_arguments(server: Any) -> None:
    """Make a misspelled argument an error: the SDK drops it, and the verb would run with the argument's default."""
    for tool in server._tool_manager.list_tools():
        model = tool.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"
        model.model_rebuild(force=True)
        tool.parameters["additionalProperties"] = False


class _Verbs:
    """What an agent can call; the runs of its audits are kept in `folder`, as long as the server runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def audit(
        self,
        checkout: str,
        targets: list[str] | None = None,
        probes: list[str] | None = None,
        tickets: str = "",
        python: str = "",
        fresh: bool = False,
    ) -> dict[str, Any]:
        """Audit a checkout (DIR or DIR@REV): its findings, the worst first; `whole` is the file of the whole run.

        `next_offset` is where `answers` continues the list of findings, and null where all are there.

        targets (module:function) and probes narrow it; tickets is a folder to file what reproduced in; python is the
        interpreter that has the checkout's packages. Runs the checkout's code in a copy. Takes seconds where nothing
        changed, else minutes.
        """
        given = [*_options("--target", targets), *_options("--probe", probes), *_options("--python", [python])]
        filed = _options("--tickets", [tickets]) or ["--no-tickets"]
        words = ["audit", f"--checkout={checkout}", *given, *filed, *(["--fresh"] if fresh else [])]
        ended = await self._run([*words, "--json", f"--save={self._new_file()}"])
        if isinstance(ended["answer"], dict) and "findings" in ended["answer"]:  # else an error
            ended["answer"]["next_offset"] = len(ended["answer"]["findings"]) if ended["answer"]["more"] else None
        return ended

    def answers(
        self, whole: str, fingerprint: str = "", probe: str = "", target: str = "", offset: int = 0, limit: int = 10
    ) -> dict[str, Any]:
        """The full results in the file `whole` of an audit, with every measurement, the code and the notes.

        The worst come first. Name a fingerprint, a probe or a target to narrow them; `limit` of them come back from
        `offset` on, and `next_offset` is that of the next page, null on the last one.
        """
        with open(whole, "rb") as file:
            run = json.loads(file.read(_LARGEST_ANSWER_BYTES))
        named = {"fingerprint": fingerprint, "probe": probe, "target": target}
        wanted = {key: value for key, value in named.items() if value}
        found = [result for result in run["results"] if all(result[key] == wanted[key] for key in wanted)]
        found.sort(key=lambda result: result["severity"] or "P9")  # the order of an audit's findings
        return _result(0, _page("answers", found, offset, limit), "")

    async def probe(self, name: str = "") -> dict[str, Any]:
        """What a probe asks, what it cannot see, and what mends what it finds; without a name the list of all."""
        if name:
            return await self._run(["probe", "show", "--", name])
        return await self._run(["probe", "list"])

    async def tickets(
        self, folder: str = "tickets", where: str = "", finished: bool = False, offset: int = 0, limit: int = 100
    ) -> dict[str, Any]:
        """List the open tickets of a folder, with `finished` all; `where` is a condition such as severity=P1.

        `limit` of them come back from `offset` on; `next_offset` is that of the next page, null on the last one.
        """
        more = [*_options("--where", [where]), *(["--all"] if finished else [])]
        ended = await self._run(["ticket", "list", f"--tickets={folder}", "--format=csv", *more])
        rows = list(csv.DictReader(io.StringIO(ended["answer"])))
        return ended | {"answer": _page("tickets", rows, offset, limit)}

    async def ticket(self, ticket_id: str, folder: str = "tickets") -> dict[str, Any]:
        """Show one ticket as Markdown: the evidence, the recommended fix, the reviews and their consensus."""
        return await self._run(["ticket", "show", f"--tickets={folder}", "--", ticket_id])

    async def verify(
        self, ticket_id: str, checkout: str = "", folder: str = "tickets", python: str = ""
    ) -> dict[str, Any]:
        """Ask a ticket's probes again, before and after the fix, and write down what came of it in the ticket."""
        more = [*_options("--checkout", [checkout]), *_options("--python", [python])]
        return await self._run(["ticket", "verify", f"--tickets={folder}", *more, "--json", "--", ticket_id])

    async def fix(
        self, ticket_id: str, checkout: str = "", folder: str = "tickets", mode: Literal["try", "apply"] = "try"
    ) -> dict[str, Any]:
        """Run a ticket's own fix in a copy; `apply` then changes the checkout's files, where it is sufficient."""
        more = [*_options("--checkout", [checkout]), *(["--apply"] if mode == "apply" else [])]
        return await self._run(["ticket", "fix", f"--tickets={folder}", *more, "--json", "--", ticket_id])

    async def _run(self, words: list[str]) -> dict[str, Any]:
        """Run a command and return what it printed; `-P` keeps modules of the current folder from replacing ours."""
        command = [sys.executable, "-P", "-m", "auditkit", *words]
        pipe, environment = subprocess.PIPE, {**os.environ, "NO_COLOR": "1"}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment, process_group=0
        )
        streams = (process.stdout, process.stderr)
        try:
            printed, talk = await asyncio.gather(*(asyncio.to_thread(_read, each, process) for each in streams))
            await asyncio.to_thread(process.wait)
        except asyncio.CancelledError:  # the client has cancelled the request or has disconnected
            threading.Thread(target=_end, args=(process,)).start()
            raise
        try:
            return _result(process.returncode, json.loads(printed), talk)
        except ValueError:
            return _result(process.returncode, printed, talk)

    def _new_file(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.json"


def _options(name: str, values: list[str] | None) -> list[str]:
    return [f"{name}={value}" for value in values or () if value]


def _read(stream: IO[bytes] | None, process: subprocess.Popen[bytes]) -> str:
    """Read what a command prints, and end it if that is too much: code in its sandbox may print without end."""
    assert stream is not None
    with stream:
        data = stream.read(_LARGEST_ANSWER_BYTES)
    if len(data) == _LARGEST_ANSWER_BYTES:
        _end(process)
    return data.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all of its process group, after the time that it takes to clean up."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _page(name: str, rows: list[Any], offset: int, limit: int) -> dict[str, Any]:
    """The rows from `offset` on, at least one and at most `limit`, and where the next page begins."""
    offset, end = max(0, offset), max(0, offset) + max(1, limit)
    return {name: rows[offset:end], "total": len(rows), "next_offset": end if end < len(rows) else None}


def _result(code: int, answer: Any, talk: str) -> dict[str, Any]:
    return {"exit_code": code, "answer": answer, "said": talk[-_LONGEST_TALK:]}
