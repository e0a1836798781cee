"""The import table of the house: the tests hold the source to it, and docs/architecture.md is drawn from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """What one part of the house may import: of ours, of others at import time, of others in functions.

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


_PICTURES = words("jinja2 markupsafe markdown_it nh3")
HOUSE = {
    "__init__": Room(words("")),
    "__main__": Room(words("cli")),
    "errors": Room(words("")),
    "assets": Room(words("errors")),
    "processes": Room(words("errors")),
    "git_process": Room(words("errors processes")),
    "files": Room(words("errors")),
    "sandbox": Room(words("errors assets store")),
    "model": Room(words("model"), words("msgspec")),
    "tickets": Room(words("tickets model errors files git_process rendering"), words("msgspec yaml filelock")),
    "rules": Room(words("rules model")),
    "store": Room(words("store model errors files"), words("yaml")),
    "probing": Room(words("probing model errors assets git_process files processes"), words("platformdirs")),
    "live": Room(words("live model rules errors files git_process probing tickets exporters version")),
    "worker": Room(words(""), words("torch"), words("torch triton")),
    "collectors": Room(words("collectors"), words("torch numpy"), words("triton scipy"), optional=words("triton")),
    "rendering": Room(words("rendering model rules errors assets"), in_functions=_PICTURES),
    "exporters": Room(words("exporters model rules errors assets"), in_functions=_PICTURES),
    "testing": Room(words("testing model errors assets probing live worker"), in_functions=words("torch")),
    "pytest_plugin": Room(words(""), words("pytest"), calls_only=words("testing errors")),
    "workflows": Room(
        words(
            "workflows model errors assets files sandbox git_process rules store tickets probing collectors rendering "
            "exporters version"
        ),
        words("msgspec"),
        # The engines of a sweep that a team has already; neither need be there.
        in_functions=words("ray submitit"),
    ),
    # The words of the model (severities, ids, inert text) belong to the commands' own vocabulary.
    "cli": Room(
        words("cli"),
        words("typer"),
        words("rich mcp"),
        words("workflows live store tickets files errors model version sandbox processes"),
    ),
}
