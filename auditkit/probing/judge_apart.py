"""Run as `python -I -B judge_apart.py`: judge one probe's measurements, from standard input to standard output.

Only the standard library is here, so that a probe file finds nothing of ours in its process.
"""

import importlib.util
import json
import os
import sys
from types import SimpleNamespace
from typing import Any


def main() -> None:
    """Read `{path, measurements, policy}`, answer `{verdict}` or `{error}`; what the probe prints goes nowhere."""
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    try:
        answer = {"verdict": _judge(request)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(answer, default=str))


def _judge(request: dict[str, Any]) -> Any:
    spec = importlib.util.spec_from_file_location("probe", request["path"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.judge([_measurement(raw) for raw in request["measurements"]], request["policy"])


def _measurement(raw: dict[str, Any]) -> SimpleNamespace:
    value = raw["value"]
    if raw["unit"] != "text" and value in ("inf", "-inf", "nan"):
        value = float(value)
    return SimpleNamespace(**{**raw, "value": value})


if __name__ == "__main__":
    main()
