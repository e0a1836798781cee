"""`auditkit mcp`: the same jobs for agents, as a server of the Model Context Protocol on standard input and output.

Each verb runs one command of auditkit in a process of its own, so that its exit code, its limits and what it refuses
are the command's. An answer is small; what is large lies in a file whose path it names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from auditkit.cli.common import run_or_exit

EXAMPLE = "Example: auditkit mcp"
_LARGEST_BYTES = 20_000
_LONGEST_TALK = 2_000
_INSTRUCTIONS = (
    "auditkit runs probes against the gradient collectors and training steps of a PyTorch checkout. A finding is what "
    "a probe reproduced; a fix is what the same probe no longer reproduces. Begin with audit; then tickets and ticket; "
    "change the code; then verify. exit_code: 0 nothing found, 1 findings, 2 wrong usage, 3 nothing measured, 4 a "
    "conflict of files, 5 the code could not be loaded. An error or an absence is never a pass."
)
_COLUMNS = "id,severity,status,assignee,title"


@run_or_exit
def mcp() -> None:
    """Serve agents over standard input and output.

    Seven verbs of the Model Context Protocol: audit, answers, probe, tickets, ticket, verify and fix. Needs the extra
    auditkit[mcp].
    """
    from auditkit.errors import BadInputError

    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise BadInputError("the MCP server needs the package mcp, 2 or later", "pip install 'auditkit[mcp]'") from None
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
    """What an agent can ask for; large answers are kept in `folder`, as long as the server runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def audit(
        self,
        checkout: str,
        targets: list[str] | None = None,
        probes: list[str] | None = None,
        tickets: str = "",
        python: str = "",
        fresh: bool = False,
    ) -> dict[str, Any]:
        """Audit a checkout (DIR or DIR@REV): its findings, the worst first; `whole` is the file of the whole run.

        targets (module:function) and probes narrow it; tickets is a folder to file what reproduced in; python is the
        interpreter that has the checkout's packages. Runs the checkout's code in a copy. Takes seconds where nothing
        changed, else minutes.
        """
        given = [*_options("--target", targets), *_options("--probe", probes), *_options("--python", [python])]
        filed = _options("--tickets", [tickets]) or ["--no-tickets"]
        words = ["audit", f"--checkout={checkout}", *given, *filed, *(["--fresh"] if fresh else [])]
        return self._run([*words, "--json", f"--save={self._new_file()}"])

    def answers(self, whole: str, fingerprint: str = "", probe: str = "", target: str = "") -> dict[str, Any]:
        """The full answers in the file `whole` of an audit, with every measurement, the code and the notes.

        Name a fingerprint, a probe or a target; at most ten answers come back.
        """
        run = json.loads(Path(whole).read_text(encoding="utf-8"))
        named = {"fingerprint": fingerprint, "probe": probe, "target": target}
        wanted = {key: value for key, value in named.items() if value}
        found = [result for result in run["results"] if all(result[key] == wanted[key] for key in wanted)]
        return self._told(0, {"answers": found[:10], "more": max(0, len(found) - 10)}, "")

    def probe(self, name: str = "") -> dict[str, Any]:
        """What a probe asks, what it cannot see, and what mends what it finds; without a name the list of all."""
        if name:
            return self._run(["probe", "show", "--", name])
        return self._run(["probe", "list"])

    def tickets(self, folder: str = "tickets", text: str = "", finished: bool = False) -> dict[str, Any]:
        """The tickets of a folder as CSV, open ones unless `finished`; only those with `text`."""
        more = [*_options("--text", [text]), *(["--all"] if finished else ["--open"])]
        return self._run(["ticket", "list", f"--tickets={folder}", "--format=csv", f"--columns={_COLUMNS}", *more])

    def ticket(self, ticket_id: str, folder: str = "tickets") -> dict[str, Any]:
        """One ticket as Markdown: the evidence, the recommended fix, the reviews."""
        return self._run(["ticket", "show", f"--tickets={folder}", "--raw", "--", ticket_id])

    def verify(self, ticket_id: str, checkout: str = "", folder: str = "tickets", python: str = "") -> dict[str, Any]:
        """Ask a ticket's probes again, before and after the fix, and write down what came of it in the ticket."""
        more = [*_options("--checkout", [checkout]), *_options("--python", [python])]
        return self._run(["ticket", "verify", f"--tickets={folder}", *more, "--json", "--", ticket_id])

    def fix(
        self, ticket_id: str, checkout: str = "", folder: str = "tickets", mode: Literal["try", "apply"] = "try"
    ) -> dict[str, Any]:
        """Run a ticket's own fix in a copy; `apply` then changes the checkout's files, where it is sufficient."""
        place = [checkout] if checkout else []
        more = ["--apply"] if mode == "apply" else []
        return self._run(["ticket", "fix", f"--tickets={folder}", *more, "--json", "--", ticket_id, *place])

    def _run(self, words: list[str]) -> dict[str, Any]:
        """What a command printed; `-P` keeps the modules of the current folder from standing for ours."""
        command = [sys.executable, "-P", "-m", "auditkit", *words]
        environment = {**os.environ, "NO_COLOR": "1"}
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False)
        said, talk = (stream.decode("utf-8", "replace") for stream in (ended.stdout, ended.stderr))
        try:
            return self._told(ended.returncode, json.loads(said), talk)
        except ValueError:
            return self._told(ended.returncode, said, talk)

    def _told(self, code: int, answer: Any, talk: str) -> dict[str, Any]:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        told = {"exit_code": code, "answer": answer, "said": talk[-_LONGEST_TALK:]}
        if len(text) > _LARGEST_BYTES:
            file = self._new_file()
            file.write_text(text, encoding="utf-8")
            told |= {"answer": text[:_LARGEST_BYTES], "cut_off": True, "whole": str(file)}
        return told

    def _new_file(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.json"


def _options(name: str, values: list[str] | None) -> list[str]:
    return [f"{name}={value}" for value in values or () if value]
