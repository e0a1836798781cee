"""The commands that the boxes of a ticket hold as code, and what each of them asks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line

CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_PROGRAM = re.compile(
    r"(?:\$ +)?(?=(?:auditkit|python[\d.]*|pytest|tox|nox|uv|make|bash|sh|git|ruff|mypy|torchrun)(?: |$))"
)


@dataclass(frozen=True)
class BoxCommand:
    """One command, word by word; `targets` are those that it describes."""

    words: tuple[str, ...]
    targets: tuple[Target, ...] = ()

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes that it runs, where it names them: by id, or by file; () for all, and for what runs none."""
        named: list[str] = []
        if self.words[:3] == ("auditkit", "probe", "run"):
            is_option = [word.startswith("-") for word in self.words]
            named += self.words[3 : is_option.index(True) if True in is_option else None]
        if self.words[:2] == ("auditkit", "audit"):
            named += self._values("--probe")
        return tuple(Path(name).stem if name.endswith(".py") else name for name in named)

    @property
    def revision(self) -> str:
        """The revision of its `--checkout DIR@REV`, "" for the files as they lie."""
        return self.option("--checkout").partition("@")[2]

    def option(self, name: str) -> str:
        """The value that it gives an option, "" for none."""
        return next(iter(self._values(name)), "")

    def _values(self, name: str) -> list[str]:
        return [value for option, value in pairwise(self.words) if option == name]

    def __str__(self) -> str:
        return inert_line(" ".join(self.words))


def commands_in(text: str) -> tuple[BoxCommand, ...]:
    """The commands that a text holds as code."""
    codes = (code.strip() for _, code in CODE.findall(text))
    return tuple(_command(code[found.end() :]) for code in codes if (found := _PROGRAM.match(code)))


def names_in(text: str) -> frozenset[str]:
    """What a text holds as code beside its commands."""
    return frozenset(code.strip() for _, code in CODE.findall(text) if not _PROGRAM.match(code.strip()))


def _command(code: str) -> BoxCommand:
    try:
        words = tuple(_apart(shlex.split(code)))
        return BoxCommand(words, _targets(words) if words[0] == "auditkit" else ())
    except ValueError:  # not shell words, or no words of ours
        return BoxCommand(tuple(code.split()))


def _apart(words: Sequence[str]) -> Iterator[str]:
    """`--option=value` as the two words that it stands for."""
    for word in words:
        option, equals, value = word.partition("=")
        yield from (option, value) if word.startswith("--") and equals else (word,)


def _targets(words: Sequence[str]) -> tuple[Target, ...]:
    one = Target.from_command_words(words)
    calls = [value for option, value in pairwise(words) if option == "--target"]
    return tuple(replace(one, call=call) for call in calls) if one is not None else ()
