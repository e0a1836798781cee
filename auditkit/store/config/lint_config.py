"""The `lint` part of auditkit.yaml: which rules, at which level, and what differs from project to project."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditkit.model.tickets.ticket import Status, parse_status
from auditkit.rules.lint.rule import Level

if TYPE_CHECKING:
    from yaml.nodes import Node

    from auditkit.store.config.yaml_reader import YamlReader

KEYS = (
    "select", "ignore", "levels", "statuses", "domains", "categories", "prefix", "first_commit", "folders", "reviewers",
)  # fmt: skip


@dataclass(frozen=True)
class LintConfig:
    """What auditkit.yaml says of lint; empty where it says nothing.

    `select` and `ignore` are ids of rules or their beginnings. `levels` are those to report rules at.
    `settings` are the fields of LintSettings that the file gives.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    levels: Mapping[str, Level] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_lint(reader: YamlReader, node: Node, known_rules: Collection[str] = ()) -> LintConfig:
    """Read and check the mapping `lint`; problems are noted in `reader`.

    `known_rules` are the ids that may be named; without them any name goes.
    """
    lint = _LintReader(reader, known_rules)
    readers: dict[str, Callable[[Node], Any]] = {
        "select": lambda item: lint.rules(item, "select"),
        "ignore": lambda item: lint.rules(item, "ignore"),
        "levels": lint.levels,
        "statuses": lint.statuses,
        "domains": lambda item: lint.texts(item, "domains"),
        "categories": lambda item: lint.texts(item, "categories"),
        "prefix": lambda item: reader.text_of(item, "prefix"),
        "first_commit": lambda item: reader.date_of(item, "first_commit"),
        "folders": lint.folders,
        "reviewers": lambda item: reader.count_of(item, "reviewers"),
    }
    found = {key: readers[key](item) for (key, _), item in reader.mapping(node, "lint", KEYS)}
    own = {key: found.pop(key) for key in ("select", "ignore", "levels") if key in found}
    return LintConfig(**own, settings={key: value for key, value in found.items() if value is not None})


class _LintReader:
    def __init__(self, reader: YamlReader, known_rules: Collection[str]) -> None:
        self.reader = reader
        self.known_rules = known_rules

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        found = (self.reader.text_of(item, f"an entry of {what}") for item in self.reader.items(node, what))
        return tuple(text for text in found if text is not None)

    def rules(self, node: Node, what: str) -> tuple[str, ...]:
        names = []
        for item in self.reader.items(node, what):
            name = self.reader.text_of(item, f"an entry of {what}")
            if name is not None and self._is_rule(item, name, may_be_start=True):
                names.append(name)
        return tuple(names)

    def levels(self, node: Node) -> dict[str, Level]:
        found = {}
        for (name, key), item in self.reader.mapping(node, "levels"):
            text = self.reader.text_of(item, "a level")
            if text is not None and text not in list(Level):
                self.reader.report_unknown(item, f"unknown level {text!r}", text, [level.value for level in Level])
            elif text is not None and self._is_rule(key, name, may_be_start=False):
                found[name] = Level(text)
        return found

    def statuses(self, node: Node) -> tuple[str, ...]:
        """Spellings that auditkit can read; what a project calls them is its own affair."""
        return tuple(text for item in self.reader.items(node, "statuses") if (text := self._status(item)))

    def folders(self, node: Node) -> dict[str, tuple[str, ...]]:
        """Statuses by folder; files are moved there, so a name must not lead out of the tickets folder."""
        found = {}
        for (name, key), item in self.reader.mapping(node, "folders"):
            if name in ("", ".", "..") or "/" in name:
                self.reader.report(key, f"{name!r} is not a folder's name", "one name, such as fixed, and no path")
            else:
                found[name] = tuple(status.value for text in self.statuses(item) if (status := parse_status(text)))
        return found

    def _status(self, node: Node) -> str | None:
        text = self.reader.text_of(node, "a status")
        if text is None:
            return None
        try:
            parse_status(text)
        except ValueError:
            self.reader.report_unknown(node, f"unknown status {text!r}", text, [status.value for status in Status])
            return None
        return text

    def _is_rule(self, node: Node, name: str, may_be_start: bool) -> bool:
        known = self.known_rules
        folded = name.casefold()
        if not known or name in known or (may_be_start and folded == "all"):
            return True
        if may_be_start and name and any(rule.casefold().startswith(folded) for rule in known):
            return True
        self.reader.report_unknown(node, f"no rule is named {name!r}", name, sorted(known))
        return False
