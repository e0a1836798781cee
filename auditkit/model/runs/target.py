"""A target: one collector of a checkout, how to call it, and how to read its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.met_by import MetBy


def plain_value(text: str) -> Any:
    """An argument's value as a user types it: JSON where it is JSON, Python's True, False and None, else text."""
    named = {"True": True, "False": False, "None": None}
    if text in named:
        return named[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def split_call(call: str) -> tuple[str, str, str]:
    """The place (a module, or a file's path), the qualified name, and the statement that names a block, or ""."""
    place, _, rest = call.partition(":")
    qualified, _, statement = rest.partition("#")
    return place, qualified, statement


TRAINING_STEP = "training_step"
"""What the blocks are called that train."""


def short_target(call: str) -> str:
    """`collect` of `package.module:collect`; a module is its own name."""
    return call.rpartition(":")[2] or call


@dataclass(frozen=True)
class Target(Record, keys="call contract takes finish setup arguments returns places?"):
    """What to call (`module:qualified.name`), with what, and what its result's fields mean.

    `contract` or `takes` of None is found out in the worker before the first probe; only a block that trains
    (`train.py:#training_step`) says by its name what it promises. `setup` names a method that registers the modules
    before a monitor is checked (`register(host, seed)`); None looks for one. `returns` maps a role (`norm`,
    `nan_count`, ...) to a dotted field of the result. `places` are where a checkout calls a function that is not its
    own (`train.py:312 in main`), and `met_by` says who calls it in a run or in the source; neither is part of what the
    target is, nor is `met_by` in its document.
    """

    call: str
    name: str = ""
    contract: Contract | None = None
    takes: Takes | None = None
    finish: str | None = None
    setup: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    met_by: MetBy | None = field(default=None, compare=False, repr=False)
    found: bool = field(default=False, compare=False, repr=False)
    """Whether auditkit found the target, and no user named it; no document has it."""

    def __post_init__(self) -> None:
        if self.contract is None and split_call(self.call)[2].partition(".")[0] == TRAINING_STEP:
            object.__setattr__(self, "contract", Contract.TRAIN_STEP)

    def command_words(self) -> list[str]:
        """The command-line options that name this target, to run the probe again."""
        words = ["--target", self.call]
        for option, value in (("--contract", self.contract), ("--takes", self.takes)):
            words += [option, value.value] if value else []
        words += ["--finish", self.finish] if self.finish else []
        for name, argument in self.arguments.items():
            words += ["--argument", f"{name}={argument if isinstance(argument, str) else json.dumps(argument)}"]
        for role, path in self.returns.items():
            words += ["--returns", f"{role}={path}"]
        return words

    def to_json(self) -> dict[str, Any]:
        """The request that the worker reads, to which arguments go as they are."""
        return super().to_json() | {"arguments": dict(self.arguments)}
