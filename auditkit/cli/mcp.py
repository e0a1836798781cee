"""`auditkit mcp`: serve agents over the Model Context Protocol on standard input and output.

Each tool runs one command of auditkit in its own process, so that the exit code, the limits and the checks of arguments
are the command's. A long list comes in pages with a cursor. The server ends a command when its client cancels the
request or disconnects.
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
import time
import uuid
from collections.abc import Iterable
from typing import IO, Any, Literal, NoReturn

from auditkit.cli.common import run_or_exit
from auditkit.errors import BadInputError

EXAMPLE = "Example: auditkit mcp"
_GRACE_S = 1.5
"""How long a command may take to remove its copies; a client of the SDK kills a server 4 s after it disconnects."""
_PROGRESS_S = 2.0
"""Between two progress notifications."""
_LONGEST_TALK = 2_000
_LARGEST_OUTPUT_BYTES = 64 << 20
"""More than any audit prints or saves."""
_INSTRUCTIONS = (
    "auditkit runs probes on the gradient collectors and training steps of a PyTorch checkout. A finding is a defect "
    "that a probe reproduced; a fix is a change after which the same probe no longer reproduces it. Begin with audit, "
    "then tickets and ticket; change the code; then verify. exit_code: 0 nothing found, 1 findings, 3 nothing measured."
    " A call that fails is a tool error with a hint. An error or a missing result is never a pass."
)
_TOOLS = {  # changes nothing, may overwrite, repeating it changes nothing more, runs the checkout's code
    "audit": (False, False, True, True),
    "results": (True, False, True, False),
    "probe": (True, False, True, False),
    "tickets": (True, False, True, False),
    "ticket": (True, False, True, False),
    "verify": (False, False, False, True),
    "fix": (False, True, False, True),
}
"""The annotations of each tool: readOnlyHint, destructiveHint, idempotentHint and openWorldHint."""
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "checkout": {"description": "A folder, or FOLDER@REVISION."},
    "targets": {"description": "Functions to check, as module:function. Default: all."},
    "probes": {"description": "Ids of probes to run. Default: all that apply."},
    "python": {"description": "The interpreter that has the checkout's packages."},
    "fresh": {"description": "Run every probe again instead of reading cached results."},
    "whole": {"description": "The file `whole` of an audit, or one that `--save` wrote.", "min_length": 1},
    "fingerprint": {"description": "Only the result with this fingerprint."},
    "target": {"description": "Only results of this target."},
    "outcome": {"description": "Only results with this outcome."},
    "name": {"description": "The id of a probe.", "pattern": r"^\w*$"},
    "folder": {"description": "The folder of the tickets.", "min_length": 1},
    "where": {"description": "A condition such as severity=P1."},
    "finished": {"description": "List finished tickets, too."},
    "ticket_id": {"description": "Such as B7-PT-01.", "pattern": r"^\w[\w.-]*$"},
    "mode": {"description": "try: run the fix in a copy; apply: write it, too, if the result is sufficient."},
    "cursor": {"description": "The `next_cursor` of the page before.", "pattern": r"^\d{0,12}$"},
    "limit": {"description": "The most rows of a page.", "ge": 1, "le": 500},
}
"""Of each argument what the schema states beside its type: pydantic refuses every other value."""


@run_or_exit
def mcp() -> None:
    """Serve agents over standard input and output.

    Seven tools of the Model Context Protocol: audit, results, probe, tickets, ticket, verify and fix. Needs the extra
    mcp.
    """
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise BadInputError(
            "the MCP server needs the package mcp, 2 or later", "in a clone of auditkit: pip install '.[mcp]'"
        ) from None
    from auditkit import __version__

    with tempfile.TemporaryDirectory(prefix="auditkit-mcp-") as folder:
        verbs = _Verbs(folder)
        tools = [_tool(getattr(verbs, name), *hints) for name, hints in _TOOLS.items()]
        MCPServer("auditkit", instructions=_INSTRUCTIONS, version=__version__, log_level="CRITICAL", tools=tools).run(
            "stdio"
        )


def _tool(verb: Any, reads: bool, overwrites: bool, repeats: bool, runs: bool) -> Any:
    """A tool with its annotations and a strict schema: an unknown or misspelled argument is an error."""
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import ToolAnnotations
    from pydantic import Field

    hints = ToolAnnotations(
        read_only_hint=reads, destructive_hint=overwrites, idempotent_hint=repeats, open_world_hint=runs
    )
    tool = Tool.from_function(verb, context_kwarg="context", annotations=hints, structured_output=False)
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    for name, field in model.model_fields.items():
        stated = Field(**_ARGUMENTS[name]) if name in _ARGUMENTS else field
        field.metadata, field.description = list(stated.metadata), stated.description
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


class _Verbs:
    """The tools. `folder` keeps the runs of the audits as long as the server runs."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    async def audit(
        self,
        context: Any,
        checkout: str,
        targets: tuple[str, ...] = (),
        probes: tuple[str, ...] = (),
        tickets: str = "",
        python: str = "",
        fresh: bool = False,
    ) -> dict[str, Any]:
        """Audit a checkout: its findings, the worst first. `whole` is the file of the whole run.

        `next_cursor` continues the list of findings in `results`; it is null if all are there. With `tickets`, file
        the findings in that folder. Runs the checkout's code in a copy. Takes minutes; seconds if nothing changed.
        """
        given = [*_options("--target", targets), *_options("--probe", probes), *_options("--python", [python])]
        filed = _options("--tickets", [tickets]) or ["--no-tickets"]
        words = [
            "audit",
            *given,
            *filed,
            *["--fresh"] * fresh,
            "--json",
            f"--save={self._folder}/{uuid.uuid4().hex}.json",
        ]
        ended = await self._run(context, [*words, "--", checkout])
        result = ended["result"]
        if isinstance(result, dict):
            result["next_cursor"] = str(len(result["findings"])) if result["more"] else None
        return ended

    def results(
        self,
        context: Any,  # noqa: ARG002 - every tool has it
        whole: str,
        fingerprint: str = "",
        probe: str = "",
        target: str = "",
        outcome: Literal["", "reproduced", "not_reproduced", "not_applicable", "unavailable", "error"] = "",
        cursor: str = "",
        limit: int = 10,
    ) -> dict[str, Any]:
        """The full results in the file `whole` of an audit, the worst first, with measurements, code and notes.

        Name a fingerprint, probe, target or outcome to narrow them. `next_cursor` is null on the last page.
        """
        try:
            with open(whole, "rb") as file:
                rows = json.loads(file.read(_LARGEST_OUTPUT_BYTES))["results"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            _fail(f"cannot read a run from {whole}: {error}", "pass the `whole` of an audit")
        named = {"fingerprint": fingerprint, "probe": probe, "target": target, "outcome": outcome}
        wanted = {key: value for key, value in named.items() if value}
        found = [result for result in rows if all(result[key] == wanted[key] for key in wanted)]
        found.sort(key=lambda result: result["severity"] or "P9")  # the order of an audit's findings
        return _result(0, _page("results", found, cursor, limit), "")

    async def probe(self, context: Any, name: str = "") -> dict[str, Any]:
        """Show what a probe checks, what it cannot see and how to fix its findings; without a name, list all."""
        return await self._run(context, ["probe", "show", "--", name] if name else ["probe", "list"])

    async def tickets(
        self,
        context: Any,
        folder: str = "tickets",
        where: str = "",
        finished: bool = False,
        cursor: str = "",
        limit: int = 100,
    ) -> dict[str, Any]:
        """List the open tickets of a folder, the worst first. `next_cursor` is null on the last page."""
        more = [*_options("--where", [where]), *["--all"] * finished]
        ended = await self._run(context, ["ticket", "list", f"--tickets={folder}", "--format=csv", *more])
        rows = list(csv.DictReader(io.StringIO(ended["result"])))
        return ended | {"result": _page("tickets", rows, cursor, limit)}

    async def ticket(self, context: Any, ticket_id: str, folder: str = "tickets") -> dict[str, Any]:
        """Show one ticket as Markdown: the evidence, the recommended fix, the reviews and their consensus."""
        return await self._run(context, ["ticket", "show", f"--tickets={folder}", "--", ticket_id])

    async def verify(
        self, context: Any, ticket_id: str, checkout: str = "", folder: str = "tickets", python: str = ""
    ) -> dict[str, Any]:
        """Run a ticket's probes before and after the fix, and write the result in the ticket."""
        more = [*_options("--checkout", [checkout]), *_options("--python", [python])]
        return await self._run(context, ["ticket", "verify", f"--tickets={folder}", *more, "--json", "--", ticket_id])

    async def fix(
        self,
        context: Any,
        ticket_id: str,
        checkout: str = "",
        folder: str = "tickets",
        mode: Literal["try", "apply"] = "try",
    ) -> dict[str, Any]:
        """Run a ticket's own fix in a copy. `apply` also changes the checkout's files, if the fix is sufficient."""
        more = [*_options("--checkout", [checkout]), *["--apply"] * (mode == "apply")]
        return await self._run(context, ["ticket", "fix", f"--tickets={folder}", *more, "--json", "--", ticket_id])

    async def _run(self, context: Any, words: list[str]) -> dict[str, Any]:
        """Run a command and return its output; `-P` keeps modules of the current folder from replacing ours."""
        command, pipe = [sys.executable, "-P", "-m", "auditkit", *words], subprocess.PIPE
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, process_group=0)
        streams = (process.stdout, process.stderr)
        reading = asyncio.gather(*(asyncio.to_thread(_read, each, process) for each in streams))
        begun = time.monotonic()
        try:
            while not (await asyncio.wait([reading], timeout=_PROGRESS_S))[0]:
                passed = time.monotonic() - begun
                await context.report_progress(passed, message=f"auditkit {words[0]} has run for {passed:.0f} s")
            printed, talk = reading.result()
            await asyncio.to_thread(process.wait)
        except BaseException:  # the client has cancelled the request or has disconnected
            threading.Thread(target=_end, args=(process,)).start()
            raise
        try:
            result = json.loads(printed)
        except ValueError:
            result = printed
        if process.returncode > 1 and isinstance(result, dict) and "error" in result:
            _fail(result["error"], result["hint"])
        if process.returncode not in (0, 1) and not isinstance(result, dict):
            _fail(talk[-_LONGEST_TALK:].strip().removeprefix("error: ") or f"exit code {process.returncode}", None)
        return _result(process.returncode, result, talk)


def _options(name: str, values: Iterable[str]) -> list[str]:
    return [f"{name}={value}" for value in values if value]


def _fail(message: str, hint: str | None) -> NoReturn:
    """End a call as a tool error that states what to do."""
    from mcp.server.mcpserver.exceptions import ToolError

    raise ToolError(f"{message}\nhint: {hint}" if hint else message)


def _read(stream: IO[bytes] | None, process: subprocess.Popen[bytes]) -> str:
    """Read what a command prints, and end it if that is too much: code in its sandbox may print without end."""
    assert stream is not None
    with stream:
        data = stream.read(_LARGEST_OUTPUT_BYTES)
    if len(data) == _LARGEST_OUTPUT_BYTES:
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


def _page(name: str, rows: list[Any], cursor: str, limit: int) -> dict[str, Any]:
    """At most `limit` rows from the cursor on, and the cursor of the next page."""
    start = int(cursor or 0)
    if start and start >= len(rows):
        _fail(f"no row at the cursor {cursor}: the list has {len(rows)}", "leave the cursor out to begin again")
    end = start + limit
    return {name: rows[start:end], "total": len(rows), "next_cursor": str(end) if end < len(rows) else None}


def _result(code: int, result: Any, talk: str) -> dict[str, Any]:
    return {"exit_code": code, "result": result, "messages": talk[-_LONGEST_TALK:]}
