"""What a plan's YAML says: checkouts, and the lists that are crossed with them; every problem with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditkit.config.yaml_reader import YamlReader
from auditkit.errors import BadInputError
from auditkit.model.enums import DeviceChoice
from auditkit.sweep.repositories import is_url, short_name

if TYPE_CHECKING:
    from auditkit.config.yaml_reader import Node

KEYS = (
    "checkouts", "torch", "pythons", "interpreters", "devices", "probes", "requirements", "torch_index",
    "exclude", "without", "time_limit", "probe_time_limit", "memory_mb", "style",
)  # fmt: skip
CHECKOUT_KEYS = ("path", "url", "name", "revisions", "requirements", "exclude", "config", "targets")
LEFT_OUT_KEYS = ("checkout", "revision", "torch", "python", "interpreter", "device")
_VERSION = re.compile(r"\d+(\.\d+){0,3}([a-z]+\d+)?(\+\w+)?")
_NAME = re.compile(r"[\w.+-][\w.+ -]*")


@dataclass(frozen=True)
class Checkout:
    """A repository and the revisions of it that are asked, none for the newest; `place` is where the plan names it."""

    repository: str
    name: str
    revisions: tuple[str, ...] = ()
    requirements: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    config: str = ""
    targets: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class PlanFile:
    """Checkouts, and what each is crossed with: every torch with every Python, every interpreter, every device.

    `without` leaves out what all of a mapping's words name.
    `memory_mb` of None is what the probes declare. Times are seconds.
    """

    checkouts: tuple[Checkout, ...] = ()
    torch: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    devices: tuple[DeviceChoice, ...] = (DeviceChoice.AUTO,)
    probes: tuple[str, ...] = ()
    requirements: tuple[str, ...] | None = None
    torch_index: str = ""
    exclude: tuple[str, ...] = ()
    without: tuple[tuple[tuple[str, str], ...], ...] = ()
    time_limit: float = 3600.0
    probe_time_limit: float = 120.0
    memory_mb: int | None = None
    style: bool = False


def read_plan_file(path: Path) -> PlanFile:
    """Read and check a plan's YAML.

    Raises BadInputError with every problem at once, each as `file:line:column: message` with the line and a hint.
    """
    reader = YamlReader(path, "a plan of few checkouts is words: auditkit sweep plan CHECKOUT@REVISION --torch 2.13")
    root = reader.root()
    nodes = _PlanReader(reader)
    plan = nodes.read(root) if root is not None else PlanFile()
    reader.raise_problems()
    if not plan.checkouts:
        raise BadInputError(f"{path}:1:1: no checkouts", "checkouts: a list of folders, DIR@REVISION, or URLs")
    return plan


def checkout_of(text: str, folder: Path = Path()) -> Checkout:
    """A checkout in one word: a URL or a folder, either with `@REVISION`. Relative paths begin in `folder`."""
    repository, revision = _split(text, folder)
    return Checkout(repository, short_name(repository), (revision,) if revision else ())


def named_apart(checkouts: Iterable[Checkout]) -> tuple[Checkout, ...]:
    """The checkouts, of which no two have one name: that is a row of the matrix. Raises BadInputError."""
    first: dict[str, Checkout] = {}
    for one in checkouts:
        other = first.setdefault(one.name, one)
        if other is not one and other.repository == one.repository and not one.place:
            # The same folder at two revisions, on the command line.
            first[one.name] = replace(other, revisions=tuple(dict.fromkeys((*other.revisions, *one.revisions))))
        elif other is not one:
            said = f"a second checkout is called {one.name}: {one.repository} as well as {other.repository}"
            place = f"{one.place}: " if one.place else ""
            raise BadInputError(f"{place}{said}", "in a plan, give one of them a name: of its own")
    return tuple(first.values())


def _split(text: str, folder: Path) -> tuple[str, str]:
    """The repository and the revision after an `@`; one in an address (`git@host:`) or in a folder's name is none."""
    at = text.rfind("@")
    head, revision = (text[:at], text[at + 1 :]) if at > 0 else (text, "")
    if is_url(text):
        is_address = not is_url(head) or "/" not in (head.partition("://")[2] or head.partition(":")[2])
        return (text, "") if at <= 0 or is_address else (head, revision)
    whole = _absolute(text, folder)
    if revision and not os.path.isdir(whole):
        return _absolute(head, folder), revision
    return whole, ""


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(folder / Path(path).expanduser())


class _PlanReader:
    def __init__(self, reader: YamlReader) -> None:
        self.reader = reader
        self.folder = Path(os.path.abspath(reader.path)).parent

    def read(self, root: Node) -> PlanFile:
        readers: dict[str, Callable[[Node], Any]] = {
            "checkouts": self.checkouts,
            "torch": lambda node: self.versions(node, "torch"),
            "pythons": lambda node: self.versions(node, "pythons"),
            "interpreters": lambda node: tuple(self.path(text) for text in self.texts(node, "interpreters")),
            "devices": self.devices,
            "probes": lambda node: self.texts(node, "probes"),
            "requirements": lambda node: self.texts(node, "requirements"),
            "torch_index": lambda node: self.reader.text_of(node, "torch_index") or "",
            "exclude": lambda node: self.texts(node, "exclude"),
            "without": self.without,
            "time_limit": lambda node: float(self.reader.count_of(node, "time_limit") or 0),
            "probe_time_limit": lambda node: float(self.reader.count_of(node, "probe_time_limit") or 0),
            "memory_mb": lambda node: self.reader.count_of(node, "memory_mb"),
            "style": lambda node: self.reader.flag_of(node, "style"),
        }
        found = {key: readers[key](node) for (key, _), node in self.reader.mapping(root, "a sweep's plan", KEYS)}
        plan = PlanFile(**found)
        return replace(plan, checkouts=named_apart(plan.checkouts))

    def checkouts(self, node: Node) -> tuple[Checkout, ...]:
        return tuple(self.checkout(item) for item in self.reader.items(node, "checkouts"))

    def checkout(self, node: Node) -> Checkout:
        place = f"{self.reader.path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        if node.tag.endswith(":str"):
            text = self.reader.text_of(node, "a checkout") or "."
            return replace(checkout_of(text, self.folder), place=place)
        found: dict[str, Any] = {}
        for (key, _), value in self.reader.mapping(node, "a checkout", CHECKOUT_KEYS):
            if key in ("revisions", "requirements", "exclude", "targets"):
                found[key] = self.texts(value, key)
            else:
                found[key] = self.reader.text_of(value, key) or ""
        path, url = found.pop("path", ""), found.pop("url", "")
        if bool(path) == bool(url):
            self.reader.report(node, "a checkout has a path or a url, and not both", "path: ../trainer")
        elif url and not is_url(url):
            self.reader.report(node, f"{url} is no URL of a repository", "a folder is a path:")
        name = found.get("name", "")
        if name and not _NAME.fullmatch(name):
            self.reader.report(node, f"{name!r} is no name of a checkout", "letters, digits, and . _ + -")
        whole = checkout_of(url or path or ".", self.folder)
        revisions = tuple(found.pop("revisions", ())) or whole.revisions
        if found.get("config"):
            found["config"] = self.path(found["config"])
        found["name"] = name or whole.name
        return Checkout(repository=whole.repository, revisions=revisions, place=place, **found)

    def without(self, node: Node) -> tuple[tuple[tuple[str, str], ...], ...]:
        return tuple(
            tuple((key, self.scalar(value)) for (key, _), value in self.reader.mapping(item, "without", LEFT_OUT_KEYS))
            for item in self.reader.items(node, "without")
        )

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """A list of texts; a revision such as 1.10 or 3498231 is one, too."""
        return tuple(self.scalar(item) for item in self.reader.items(node, what))

    def scalar(self, node: Node) -> str:
        if node.tag.rpartition(":")[2] in ("int", "float") and isinstance(node.value, str):
            return node.value
        return self.reader.text_of(node, "a value") or ""

    def versions(self, node: Node, what: str) -> tuple[str, ...]:
        """Versions as they are written: 3.10 is not 3.1, with quotes or without."""
        items = list(self.reader.items(node, what))
        for item in items:
            if not _VERSION.fullmatch(self.scalar(item)):
                self.reader.report(item, f"{self.scalar(item)!r} is no version", "such as 2.9 or 3.12")
        return tuple(dict.fromkeys(map(self.scalar, items)))

    def devices(self, node: Node) -> tuple[DeviceChoice, ...]:
        known = {one.value: one for one in DeviceChoice}
        found = []
        for item in self.reader.items(node, "devices"):
            text = self.scalar(item)
            if text in known:
                found.append(known[text])
            else:
                self.reader.report_unknown(item, f"unknown word {text!r} in devices", text, list(known))
        return tuple(found)

    def path(self, text: str) -> str:
        return _absolute(text, self.folder)
