"""Run somebody else's source probe in a process of its own: it may hang, print or end its process.

Run as a program, this file reads `{path, checkout, import_roots, modules}` from standard input, and answers
`{messages}`, `{not_applicable}` or `{error}` on standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from auditkit.model.enums import Reason
from auditkit.probing.catalog import load_module, read_probe

if TYPE_CHECKING:
    from auditkit.model.probe import ProbeInfo
    from auditkit.probing.source.context import SourceContext


class ApartFailedError(Exception):
    """The probe's process gave no answer; `reason` says what happened to it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def measured_apart(probe: ProbeInfo, context: SourceContext, time_limit_s: float) -> list[dict[str, Any]]:
    """What the probe yields. Raises NotApplicable where it says so, ApartFailedError where it gives no answer."""
    request = {
        "path": str(Path(probe.path).resolve()),
        "checkout": str(context.index.root),
        "import_roots": [str(root) for root in context.index.import_roots],
        "modules": [module.file for module in context.modules],
    }
    try:
        done = subprocess.run(
            [sys.executable, "-B", __file__],
            input=json.dumps(request).encode("utf-8"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=time_limit_s,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ApartFailedError(Reason.TIMEOUT, f"no answer within {time_limit_s:g} s") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        text = f"the probe's process ended with status {done.returncode} and without an answer"
        raise ApartFailedError(Reason.EXIT, text) from None
    if "not_applicable" in answer:
        raise context.NotApplicable(answer["not_applicable"])
    if "error" in answer:
        raise ApartFailedError(Reason.EXCEPTION, str(answer["error"]))
    messages: list[dict[str, Any]] = answer["messages"]
    return messages


def main() -> None:
    """Answer the request on standard input; what the probe prints goes nowhere."""
    from auditkit.probing.source.context import NotApplicable, SourceContext
    from auditkit.probing.source.index import SourceIndex

    request = json.loads(sys.stdin.buffer.read())
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    modules = set(request["modules"])
    index = SourceIndex(Path(request["checkout"]), request["import_roots"])
    context = SourceContext(index, lambda module: module.file in modules)
    answer: dict[str, Any]
    try:
        answer = {"messages": list(load_module(read_probe(Path(request["path"]))).measure(context))}
    except NotApplicable as error:
        answer = {"not_applicable": str(error)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(answer, default=str))


if __name__ == "__main__":
    main()
