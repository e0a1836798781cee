"""The import table: the tests hold the source to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """What one layer may import: of ours, of others at import time, of others in functions.

    `calls_only` are parts of ours that may be imported inside functions only; `optional` are packages
    that may be imported at import time where they need not be there.
    """

    ours: frozenset[str]
    others: frozenset[str] = frozenset()
    in_functions: frozenset[str] = frozenset()
    calls_only: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYERS = {
    "__init__": Layer(words("")),
    "__main__": Layer(words("cli")),
    "errors": Layer(words("")),
    "assets": Layer(words("errors")),
    "processes": Layer(words("errors")),
    "git_process": Layer(words("errors processes")),
    "files": Layer(words("errors")),
    "cache_folder": Layer(words("")),
    "model": Layer(words("model"), words("msgspec")),
    "config": Layer(words("config model errors"), words("yaml msgspec")),
    "sandbox": Layer(words("errors"), calls_only=words("config cache_folder")),
    "worker": Layer(words(""), words("torch"), words("torch triton")),
    "collectors": Layer(words("collectors"), words("torch numpy"), words("triton scipy"), optional=words("triton")),
    "probing": Layer(
        words("probing worker model config errors assets git_process files processes sandbox version"),
        words("msgspec platformdirs libcst"),
        words("vulture"),
    ),
    "tickets": Layer(words("tickets model errors files git_process"), words("msgspec yaml filelock")),
    "reports": Layer(
        words("reports tickets probing model errors assets files version"), in_functions=words("markdown_it")
    ),
    "trials": Layer(words("trials reports tickets probing config model errors assets files"), words("msgspec")),
    "live": Layer(words("live reports tickets probing model errors files git_process version")),
    "audit": Layer(
        words("audit trials reports tickets probing config model errors assets files sandbox collectors version"),
        words("msgspec"),
    ),
    "sweep": Layer(
        words("sweep audit reports tickets probing config cache_folder model errors files git_process sandbox version"),
        words("msgspec"),
        # The engines of a sweep that a team has already; neither need be there.
        in_functions=words("ray submitit"),
    ),
    "testing": Layer(words("testing probing worker model errors assets live"), in_functions=words("torch")),
    "pytest_plugin": Layer(words(""), words("pytest"), calls_only=words("testing errors")),
    # An audit has loaded all of it when its report is printed.
    "cli/runs": Layer(words("cli audit reports tickets probing errors model"), words("typer"), words("rich")),
    # The words of the model (severities, ids, inert text) belong to the commands' own vocabulary.
    "cli": Layer(
        words("cli errors"),
        words("typer"),
        words("mcp msgspec pydantic"),
        words("audit sweep trials reports live tickets probing config files model version sandbox processes"),
    ),
}
