"""Write a commented auditkit.yaml: what was inferred of each target, and what could not be fed and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auditkit.config.config import Config
from auditkit.config.yaml_reader import NUMBER_TEXT, keys_of
from auditkit.model.runs.target import Target

_TARGET_KEYS = ("name", "contract", "call", "takes", "finish", "setup", "arguments", "returns", "places")
_EXPLANATIONS = {
    "checkout": "The code under audit, relative to this file; add @REVISION for a revision of it.",
    "python": "The interpreter that runs it. Without this line: its .venv or venv, else the current one.",
    "batch": "Ticket ids: B<batch>-<agent code>-<number>.",
    "exclude": "Paths of the checkout, or patterns of them, whose files are not checked.",
}


@dataclass(frozen=True)
class DraftTarget:
    """A target to write, and sentences on how each of its values was found out."""

    target: Target
    inferred: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnfedCandidate:
    """A function that looks like a collector but could not be tried with success: written as a comment."""

    call: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class ConfigDraft:
    """A config to write. Paths are as they shall stand in the file: relative to its folder.

    `elsewhere` is a checkout outside the workspace, which the file may not name.
    """

    checkout: str | None = None
    python: str | None = None
    batch: int | None = None
    exclude: tuple[str, ...] = ()
    elsewhere: str = ""
    targets: tuple[DraftTarget, ...] = ()
    unfed: tuple[UnfedCandidate, ...] = ()


def render_config(draft: ConfigDraft) -> str:
    """The text of an auditkit.yaml; reading it back gives the same values and targets."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: ConfigDraft) -> Iterator[str]:
    yield "# Written by `auditkit init`; yours to edit. `auditkit audit` reads it."
    for key in keys_of(Config):
        value = getattr(draft, key, None)
        if key in _EXPLANATIONS and value not in (None, (), ""):
            yield f"\n# {_EXPLANATIONS[key]}"
            yield f"{key}: {_flow(list(value) if isinstance(value, tuple) else value)}"
    if draft.elsewhere:
        yield f"\n# The code under audit lies outside this file's workspace: auditkit audit {_comment(draft.elsewhere)}"
    yield "\n# One entry for each collector: what to call, with which inputs, and how to read its result."
    yield "# An audit also checks what is not listed here; `discover: false` switches that off."
    yield "targets:" if draft.targets else "targets: []"
    for entry in draft.targets:
        yield from _target(entry)
    if draft.unfed:
        yield "\n# These look like collectors, but could not be fed or read, or were left out:"
    for candidate in draft.unfed:
        yield f"#   {_comment(candidate.call)}"
        yield from (f"#     {_comment(reason)}" for reason in candidate.reasons)


def _target(entry: DraftTarget) -> Iterator[str]:
    values = {key: value for key in _TARGET_KEYS if (value := getattr(entry.target, key)) not in (None, "", {}, ())}
    dash = "  - "
    for key, value in values.items():
        plain = dict(value) if isinstance(value, Mapping) else list(value) if key == "places" else str(value)
        yield f"{dash}{key}: {_flow(plain)}"
        dash = "    "
    yield from (f"    # {_comment(sentence)}" for sentence in entry.inferred)


def _comment(text: str) -> str:
    """One line of a comment: a line break in it would make the rest a line of YAML."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes text such as 1e-8, which our reader takes for a number, and escapes odd line breaks."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = '"' if NUMBER_TEXT.fullmatch(text) or not text.isprintable() else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    text: str = yaml.dump(
        value, Dumper=Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return text.removesuffix("\n").removesuffix("\n...")
