"""Write a commented auditkit.yaml: what was inferred of each target, and what could not be fed and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from auditkit.config.config import Config
from auditkit.config.yaml_reader import NUMBER_TEXT
from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line

_TARGET_KEYS = ("name", "contract", "call", "takes", "finish", "setup", "arguments", "returns", "places")
_EXPLANATIONS = {
    "checkout": "The code under audit, relative to this file; add @REVISION for a revision of it.",
    "python": "The interpreter that runs it. Without this line: its .venv or venv, else the current one.",
    "batch": "Ticket ids: B<batch>-<agent code>-<number>.",
    "exclude": "Paths of the checkout, or patterns of them, whose files are not checked.",
}
_PLAIN = re.compile(r"[A-Za-z_./](?:[\w./@#<>+-]|:(?=[\w#]))*")
"""Text that needs no quotes, if YAML takes it for text."""


def render_config(
    config: Config,
    targets: Sequence[tuple[Target, Sequence[str]]] = (),
    unfed: Iterable[tuple[str, str]] = (),
    elsewhere: str = "",
) -> str:
    """The text of an auditkit.yaml; reading it back gives the same values and targets.

    Paths of `config` are written as they are. Each target has sentences on how its values were found out. `unfed` are
    functions that look like collectors, with the reason why each was not tried with success. `elsewhere` is a checkout
    outside the workspace, which the file may not name.
    """
    lines = ["# Written by `auditkit init`; yours to edit. `auditkit audit` reads it."]
    for key, explanation in _EXPLANATIONS.items():
        value = getattr(config, key)
        if value not in (None, (), ""):
            lines += ["", f"# {explanation}", f"{key}: {_flow(value)}"]
    if elsewhere:
        place = inert_line(elsewhere)
        lines += ["", f"# The code under audit lies outside this file's workspace: auditkit audit {place}"]
    lines += ["", "# One entry for each collector: what to call, with which inputs, and how to read its result."]
    lines += ["# An audit also checks what is not listed here; `discover: false` switches that off."]
    lines += ["targets:" if targets else "targets: []"]
    for target, inferred in targets:
        values = {key: value for key in _TARGET_KEYS if (value := getattr(target, key)) not in (None, "", {}, ())}
        lines += [f"{'    ' if number else '  - '}{key}: {_flow(values[key])}" for number, key in enumerate(values)]
        lines += [f"    # {inert_line(sentence)}" for sentence in inferred]
    listed = [f"#   {inert_line(call)}\n#     {inert_line(why)}" for call, why in unfed]
    head = "# These look like collectors, but could not be fed or read, or were left out:"
    return "\n".join([*lines, *(["", head] if listed else []), *listed]) + "\n"


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
    import yaml

    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_flow(str(key))}: {_flow(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    if not isinstance(value, str):
        return json.dumps(value).replace("Infinity", ".inf").replace("NaN", ".nan")
    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value and not NUMBER_TEXT.fullmatch(value):
        return str(value)
    quoted = json.dumps(str(value), ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
