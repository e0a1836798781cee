"""Run as `python -I -B caged_probe.py` by `foreign_probes`: run one probe's file.

A request with `measurements` and `policy` is answered with `{verdict}`; one with `checkout`, `import_roots` and
`modules` with `{messages}` or `{not_applicable}`; both with `{error}`. A judging probe finds nothing of ours in
its process: the package is loaded for those that read source, and nothing that lies beside it.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


def main() -> None:
    """Answer the request on standard input; what the probe prints goes nowhere."""
    request = json.loads(sys.stdin.buffer.read())
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    try:
        answer = _measured(request) if "checkout" in request else {"verdict": _judged(request)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(answer, default=str))


def _judged(request: dict[str, Any]) -> Any:
    measurements = [_measurement(raw) for raw in request["measurements"]]
    return _loaded("probe", Path(request["path"])).judge(measurements, request["policy"])


def _measurement(raw: dict[str, Any]) -> SimpleNamespace:
    value = raw["value"]
    if raw["unit"] != "text" and value in ("inf", "-inf", "nan"):
        value = float(value)
    return SimpleNamespace(**{**raw, "value": value})


def _measured(request: dict[str, Any]) -> dict[str, Any]:
    _loaded("auditkit", Path(request["package"], "__init__.py"), [request["package"]])
    from auditkit.probing.source_code.index import SourceIndex
    from auditkit.probing.source_probes.context import NotApplicable, SourceContext

    modules = set(request["modules"])
    index = SourceIndex(Path(request["checkout"]), request["import_roots"])
    context = SourceContext(index, lambda module: module.file in modules)
    try:
        return {"messages": list(_loaded("probe", Path(request["path"])).measure(context))}
    except NotApplicable as error:
        return {"not_applicable": str(error)}


def _loaded(name: str, file: Path, folders: list[str] | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if folders is not None:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
