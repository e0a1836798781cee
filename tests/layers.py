"""The import table: the tests hold the source to it, and docs/architecture.md is drawn from it."""

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


_PAGES = words("markdown_it")
LAYERS = {
    "__init__": Layer(words("")),
    "__main__": Layer(words("cli")),
    "errors": Layer(words("")),
    "assets": Layer(words("errors")),
    "processes": Layer(words("errors")),
    "git_process": Layer(words("errors processes")),
    "files": Layer(words("errors")),
    "sandbox": Layer(words("errors assets store")),
    "model": Layer(words("model"), words("msgspec")),
    "tickets": Layer(words("tickets model errors files git_process rendering"), words("msgspec yaml filelock")),
    "rules": Layer(words("rules model")),
    "store": Layer(words("store model errors files"), words("yaml")),
    "probing": Layer(
        words("probing model errors assets git_process files processes"),
        words("msgspec platformdirs libcst"),
        words("vulture"),
    ),
    "live": Layer(words("live model rules errors files git_process probing tickets exporters version")),
    "worker": Layer(words(""), words("torch"), words("torch triton")),
    "collectors": Layer(words("collectors"), words("torch numpy"), words("triton scipy"), optional=words("triton")),
    "rendering": Layer(words("rendering model rules errors assets"), in_functions=_PAGES),
    "exporters": Layer(words("exporters model rules errors assets")),
    "testing": Layer(words("testing model errors assets probing live worker"), in_functions=words("torch")),
    "pytest_plugin": Layer(words(""), words("pytest"), calls_only=words("testing errors")),
    "workflows": Layer(
        words(
            "workflows model errors assets files sandbox git_process rules store tickets probing collectors rendering "
            "exporters version"
        ),
        words("msgspec"),
        # The engines of a sweep that a team has already; neither need be there.
        in_functions=words("ray submitit"),
    ),
    # The words of the model (severities, ids, inert text) belong to the commands' own vocabulary.
    "cli": Layer(
        words("cli"),
        words("typer"),
        words("rich mcp"),
        words("workflows live store tickets files errors model version sandbox processes"),
    ),
}
