"""A target: one collector of a checkout, how it is fed, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.enums import Contract, Takes


@dataclass(frozen=True)
class Target:
    """What to call (`module:qualified.name`), with what, and what its answer's fields mean.

    `contract` or `takes` of None is found out in the worker before the first probe. `setup` names a
    method that registers the modules before a monitor is asked (`register(host, seed)`); None looks
    for one. `returns` maps a role (`norm`, `nan_count`, ...) to a dotted field of the answer.
    """

    call: str
    name: str = ""
    contract: Contract | None = None
    takes: Takes | None = None
    finish: str | None = None
    setup: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, str] = field(default_factory=dict)

    @property
    def qualified_name(self) -> str:
        """The name that fingerprints and reports use: never a line, never a file."""
        return self.call

    def command_words(self) -> list[str]:
        """The command-line options that name this target, so that anybody can ask again."""
        words = ["--target", self.call]
        for option, value in (("--contract", self.contract), ("--takes", self.takes)):
            words += [option, value.value] if value else []
        for option, text in (("--finish", self.finish), ("--setup", self.setup)):
            words += [option, text] if text else []
        for name, argument in self.arguments.items():
            words += ["--argument", f"{name}={argument if isinstance(argument, str) else json.dumps(argument)}"]
        for role, path in self.returns.items():
            words += ["--returns", f"{role}={path}"]
        return words

    def to_json(self) -> dict[str, Any]:
        """The request that the worker reads."""
        return {
            "call": self.call,
            "contract": self.contract.value if self.contract else None,
            "takes": self.takes.value if self.takes else None,
            "finish": self.finish,
            "setup": self.setup,
            "arguments": dict(self.arguments),
            "returns": dict(self.returns),
        }
