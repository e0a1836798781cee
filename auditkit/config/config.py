"""auditkit.yaml: which checkout, which targets, where the tickets lie, and which thresholds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from auditkit.config.yaml_reader import YamlReader
from auditkit.model.enums import Contract, Severity, Takes
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.target import Target
from auditkit.model.ticket import AGENT_NAMES

if TYPE_CHECKING:
    from yaml.nodes import Node

KEYS = (
    "checkout", "python", "import_roots", "tickets", "batch", "agent", "targets", "discover", "severity", "policy",
    "probes_dir", "agents", "reviews", "style", "exclude", "cage", "accept",
)  # fmt: skip
_ONLY_NAMED = frozenset({"checkout", "python", "probes_dir", "cage"})
TARGET_KEYS = ("name", "contract", "call", "takes", "finish", "setup", "arguments", "returns", "places")

_Name = TypeVar("_Name", Severity, Contract, Takes)

_WORDS = r"[^\W\d]\w*(\.([^\W\d]\w*|<locals>))*"
_CALL = re.compile(rf"({_WORDS}|(?!/)[^:#]+\.py):({_WORDS}|({_WORDS})?#\w[\w.]*)")
_CODE = re.compile(r"[A-Z][A-Z0-9]{0,15}", re.ASCII)
_NAME = re.compile(r"\w[\w.-]*")
_ACCEPTED = re.compile(r"\w+:[^=]+=.*\S.*")


@dataclass(frozen=True)
class ReviewRules:
    """Which reviews a ticket needs: at least `required`, and one of each role."""

    roles: tuple[str, ...] = ()
    required: int = 1


@dataclass(frozen=True)
class Config:
    """What auditkit.yaml says; None or empty where it says nothing.

    Paths are absolute: those in the file are relative to its folder. `checkout` may end in `@REVISION`;
    `import_roots` are relative to the checkout. `policy` maps threshold names to values. `agents` are names
    by code, ours and the project's own. `catalog` holds the probes that may be named, where they were looked up.
    `style` asks the probes of style in every audit. `exclude` are patterns of paths below the checkout whose files
    are asked nothing. `discover` of False checks `targets` alone. `cage` asks for the sandbox. `accept` are findings
    that `auditkit run` accepts, each `LAW:PLACE=REASON`.
    """

    path: Path | None = None
    checkout: str | None = None
    python: str | None = None
    import_roots: tuple[str, ...] = ()
    tickets: Path | None = None
    batch: int | None = None
    agent: str | None = None
    targets: tuple[Target, ...] = ()
    discover: bool = True
    severity: Mapping[str, Severity] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    probes_dir: tuple[Path, ...] = ()
    agents: Mapping[str, str] = field(default_factory=lambda: dict(AGENT_NAMES))
    reviews: ReviewRules = ReviewRules()
    catalog: Mapping[str, ProbeInfo] = field(default_factory=dict)
    style: bool = False
    exclude: tuple[str, ...] = ()
    cage: bool = False
    accept: tuple[str, ...] = ()


def read_config(
    path: Path,
    catalog_of: Callable[[Sequence[Path]], Mapping[str, ProbeInfo]] | None = None,
    is_named: bool = False,
) -> Config:
    """Read and check an auditkit.yaml.

    A file that the user did not name (`is_named`) may have come with the checkout: it names no program and no place
    outside its own folder. `catalog_of` gives the probes that the file may name, with those of its own folders;
    without it any name goes. Raises BadInputError with every problem of the file at once, each as
    `file:line:column: message` with the line and a hint; names are looked up in a file without other problems.
    """
    reader = YamlReader(path)
    root = reader.root()
    if root is None or root.tag == "tag:yaml.org,2002:null":
        return Config(path=path)
    nodes = _ConfigReader(reader, is_named)
    config = nodes.read(root)
    reader.raise_problems()
    if catalog_of is not None:
        config = replace(config, catalog=catalog_of(config.probes_dir))
        nodes.check_names(config.catalog)
        reader.raise_problems()
    return config


def is_in_workspace(folder: Path, path: str | Path) -> bool:
    """Whether an auditkit.yaml in `folder` may name `path`: with its links resolved, too."""
    absolute, workspace = Path(os.path.abspath(folder / path)), Path(os.path.abspath(folder)).parent
    return absolute.is_relative_to(workspace) and absolute.resolve().is_relative_to(workspace.resolve())


class _ConfigReader:
    def __init__(self, reader: YamlReader, is_named: bool) -> None:
        self.is_named = is_named
        self.reader = reader
        self.folder = Path(os.path.abspath(reader.path)).parent
        self.named: dict[str, list[tuple[str, Node]]] = {"severity": [], "policy": []}

    def check_names(self, catalog: Mapping[str, ProbeInfo]) -> None:
        """Note every probe and threshold that is named and that no probe of the catalogue has."""
        thresholds = sorted({name for probe in catalog.values() for name in probe.policy})
        for what, known in (("severity", list(catalog)), ("policy", thresholds)):
            for name, node in self.named[what]:
                if name not in known:
                    self.reader.report_unknown(node, f"unknown key {name!r} in {what}", name, known)

    def read(self, root: Node) -> Config:
        readers: dict[str, Callable[[Node], Any]] = {
            "checkout": self.checkout,
            "python": self.python,
            "import_roots": self.import_roots,
            "tickets": lambda node: self.path_of(node, "tickets"),
            "batch": lambda node: self.reader.count_of(node, "batch"),
            "agent": self.agent,
            "targets": self.targets,
            "discover": lambda node: self.reader.flag_of(node, "discover"),
            "severity": self.severity,
            "policy": self.policy,
            "probes_dir": self.probes_dir,
            "agents": self.agents,
            "reviews": self.reviews,
            "style": lambda node: self.reader.flag_of(node, "style"),
            "exclude": self.exclude,
            "cage": lambda node: self.reader.flag_of(node, "cage"),
            "accept": self.accept,
        }
        found = {}
        for (key, place), node in self.reader.mapping(root, "auditkit.yaml", KEYS):
            if key in _ONLY_NAMED and not self.is_named:
                hint = f"--config {self.reader.path} allows it, for a file that is yours"
                self.reader.report(place, f"an auditkit.yaml that was found, not named, may not say {key}", hint)
            else:
                found[key] = readers[key](node)
        return Config(path=self.reader.path, **found)

    # Paths.

    def leaves_workspace(self, node: Node, path: str) -> bool:
        """Note a path outside the folder above that of auditkit.yaml; see docs/configuration.md."""
        if self.is_named and is_in_workspace(self.folder, path):
            return False
        if not self.is_named:
            absolute = Path(os.path.abspath(self.folder / path))
            if not os.path.isabs(path) and absolute.resolve().is_relative_to(self.folder.resolve()):
                return False
            self.reader.report(node, f"{path} is not below {self.folder}", f"--config {self.reader.path} allows it")
            return True
        workspace = self.folder.parent
        self.reader.report(
            node,
            f"{path} leaves the workspace {workspace}",
            "move auditkit.yaml nearer, or give the path on the command line, where any is allowed",
        )
        return True

    def path_of(self, node: Node, what: str) -> Path | None:
        text = self.reader.text_of(node, what)
        if text is None or self.is_empty(node, text, what) or self.leaves_workspace(node, text):
            return None
        return Path(os.path.abspath(self.folder / text))

    def is_empty(self, node: Node, text: str, what: str) -> bool:
        if not text.strip():
            self.reader.report(node, f"{what} is empty")
        return not text.strip()

    def checkout(self, node: Node) -> str | None:
        path = self.path_of(node, "checkout")
        return str(path) if path else None

    def python(self, node: Node) -> str | None:
        text = self.reader.text_of(node, "python")
        if text is None or self.is_empty(node, text, "python"):
            return None
        if os.sep not in text:
            return text  # a command, looked up on PATH
        # It may lie anywhere, as one on PATH does; its links stay: a virtual environment's leads to the system's.
        return os.path.abspath(self.folder / text)

    def import_roots(self, node: Node) -> tuple[str, ...]:
        roots = []
        for item in self.reader.items(node, "import_roots"):
            text = self.reader.text_of(item, "an import root")
            if text is None or self.is_empty(item, text, "an import root"):
                continue
            if os.path.isabs(text) or os.path.normpath(text).startswith(".."):
                self.reader.report(item, f"the import root {text} leaves the checkout", "name a folder in it")
                continue
            roots.append(os.path.normpath(text))
        return tuple(roots)

    def exclude(self, node: Node) -> tuple[str, ...]:
        nodes = [node] if node.tag.endswith(":str") else self.reader.items(node, "exclude")
        texts = [(item, self.reader.text_of(item, "a pattern of exclude")) for item in nodes]
        given = [text for item, text in texts if text is not None and not self.is_empty(item, text, "exclude")]
        return tuple(given)

    def accept(self, node: Node) -> tuple[str, ...]:
        texts = [(item, self.reader.text_of(item, "an accepted finding")) for item in self.reader.items(node, "accept")]
        for item, text in texts:
            if text is not None and not _ACCEPTED.fullmatch(text):
                self.reader.report(item, f"{text!r} is not an accepted finding", "LAW:FILE[:LINE]=REASON")
        return tuple(text for _, text in texts if text is not None)

    def probes_dir(self, node: Node) -> tuple[Path, ...]:
        one = node.tag.endswith(":str")
        nodes = [node] if one else self.reader.items(node, "probes_dir")
        paths = (self.path_of(item, "a folder of probes") for item in nodes)
        return tuple(path for path in paths if path)

    # Names and values.

    def agent(self, node: Node) -> str | None:
        text = self.reader.text_of(node, "agent")
        return None if text is None or self.is_empty(node, text, "agent") else text

    def agents(self, node: Node) -> dict[str, str]:
        """Names by code: ours, with those of the file added or in their place."""
        found = dict(AGENT_NAMES)
        for (code, key), item in self.reader.mapping(node, "agents"):
            name = self.reader.text_of(item, "an agent's name")
            if not _CODE.fullmatch(code):
                self.reader.report(key, f"{code!r} is no agent's code", "capitals and digits, as in B7-PT-01")
            elif name is not None and not _NAME.fullmatch(name):
                self.reader.report(item, f"{name!r} is not an agent's name", "letters, digits, dots, dashes")
            elif name is not None and name in (other for known, other in found.items() if known != code):
                self.reader.report(item, f"two agents are named {name!r}")
            elif name is not None:
                found[code] = name
        return found

    def reviews(self, node: Node) -> ReviewRules:
        rules = ReviewRules()
        for (key, _), item in self.reader.mapping(node, "reviews", ("roles", "required")):
            if key == "roles":
                roles = (self.reader.text_of(role, "a role") for role in self.reader.items(item, "roles"))
                rules = replace(rules, roles=tuple(role for role in roles if role))
            else:
                rules = replace(rules, required=self.reader.count_of(item, "required") or 0)
        return rules

    def severity(self, node: Node) -> dict[str, Severity]:
        return {
            probe: severity
            for probe, item in self.names(node, "severity")
            if (severity := self.choice(item, Severity, "severity"))
        }

    def policy(self, node: Node) -> dict[str, Any]:
        found = {}
        for name, item in self.names(node, "policy"):
            value = self.reader.plain(item)
            if isinstance(value, bool | int | float | str):
                found[name] = value
            else:
                self.reader.report(item, f"the threshold {name} must be one value")
        return found

    def choice(self, node: Node, names: type[_Name], what: str) -> _Name | None:
        text = self.reader.text_of(node, what)
        known = [name.value for name in names]
        if text is None or text in known:
            return names(text) if text else None
        self.reader.report_unknown(node, f"unknown {what} {text!r}", text, known)
        return None

    # Targets.

    def targets(self, node: Node) -> tuple[Target, ...]:
        lines: dict[str, int] = {}
        found = []
        for item in self.reader.items(node, "targets"):
            target = self.target(item)
            if target.name in lines:
                self.reader.report(
                    item, f"two targets are named {target.name!r}", f"the first is in line {lines[target.name]}"
                )
            elif target.name:
                lines[target.name] = item.start_mark.line + 1
            found.append(target)
        return tuple(found)

    def target(self, node: Node) -> Target:
        target = Target(call="")
        for (key, _), item in self.reader.mapping(node, "a target", TARGET_KEYS):
            target = replace(target, **{key: self.target_value(key, item)})
        first, last = node.start_mark.line + 1, node.end_mark.line + 1
        if not target.call and not any(first <= problem.line <= last for problem in self.reader.problems):
            self.reader.report(node, "the target does not say what to call", "call: package.module:function")
        return target

    def target_value(self, key: str, node: Node) -> Any:
        match key:
            case "contract":
                return self.choice(node, Contract, "contract")
            case "takes":
                return self.choice(node, Takes, "takes")
            case "call":
                return self.callable_name(node, key) or ""
            case "finish":
                return self.callable_name(node, key)
            case "arguments":
                return {name: self.reader.plain(item) for name, item in self.names(node, "arguments")}
            case "returns":
                texts = {role: self.reader.text_of(item, "a field") for role, item in self.names(node, "returns")}
                return {role: text for role, text in texts.items() if text}
            case "places":
                places = (self.reader.text_of(item, "a place") for item in self.reader.items(node, "places"))
                return tuple(place for place in places if place)
            case "name":
                return self.target_name(node)
            case _:
                return self.reader.text_of(node, key)

    def names(self, node: Node, what: str) -> list[tuple[str, Node]]:
        entries = list(self.reader.mapping(node, what))
        self.named.setdefault(what, []).extend(key for key, _ in entries)
        return [(key, item) for (key, _), item in entries]

    def target_name(self, node: Node) -> str:
        text = self.reader.text_of(node, "a target's name")
        if text is not None and not _NAME.fullmatch(text):
            self.reader.report(node, f"{text!r} is not a target's name", "letters, digits, dots, dashes")
        return text or ""

    def callable_name(self, node: Node, key: str) -> str | None:
        text = self.reader.text_of(node, key)
        if text is not None and not _CALL.fullmatch(text):
            self.reader.report(node, f"{text!r} is not package.module:function", _colon_hint(text))
        return text


def _colon_hint(text: str) -> str:
    module, _, name = text.rpartition(".")
    if module and _CALL.fullmatch(f"{module}:{name}"):
        return f"did you mean {module}:{name}?"
    return "the module as an import statement writes it, a colon, and the function's name in it"
