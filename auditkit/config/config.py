"""auditkit.yaml: which checkout, which targets, where the tickets lie, and which thresholds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from auditkit.config.yaml_reader import YamlFile
from auditkit.model.enums import Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.target import Target
from auditkit.model.ticket import AGENT_NAMES

_ONLY_NAMED = ("checkout", "python", "probes_dir", "cage")
_WORDS = r"[^\W\d]\w*(\.([^\W\d]\w*|<locals>))*"
_CALL = re.compile(rf"({_WORDS}|(?!/)[^:#]+\.py):({_WORDS}|({_WORDS})?#\w[\w.]*)")
_CODE = re.compile(r"[A-Z][A-Z0-9]{0,15}", re.ASCII)
_NAME = re.compile(r"\w[\w.-]*")
_ACCEPTED = re.compile(r"\w+:[^=]+=.*\S.*")
_Count = Annotated[int, Meta(ge=0)]
_INTERNAL = {"internal": True}


@dataclass(frozen=True)
class ReviewRules:
    """Which reviews a ticket needs: at least `required`, and one of each role."""

    roles: tuple[str, ...] = ()
    required: _Count = 1


@dataclass(frozen=True)
class Config:
    """The contents of auditkit.yaml; a missing key is None or empty.

    Paths are absolute: those in the file are relative to its folder. `checkout` may end in `@REVISION`; `import_roots`
    are relative to the checkout. `policy` maps threshold names to values. `agents` are names by code, ours and the
    project's own. `catalog` holds the probes that may be named, where they were looked up. `style` runs the probes of
    style in every audit. `exclude` are patterns of paths below the checkout whose files are not checked. `discover` of
    False checks `targets` alone. `cage` runs commands in the sandbox. `accept` are findings that `auditkit run`
    accepts, each `LAW:PLACE=REASON`.
    """

    path: Path | None = field(default=None, metadata=_INTERNAL)
    checkout: str | None = None
    python: str | None = None
    import_roots: tuple[str, ...] = ()
    tickets: Path | None = None
    batch: _Count | None = None
    agent: str | None = None
    targets: tuple[Target, ...] = ()
    discover: bool = True
    severity: Mapping[str, Severity] = field(default_factory=dict)
    policy: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    probes_dir: tuple[Path, ...] = ()
    agents: Mapping[str, str] = field(default_factory=lambda: dict(AGENT_NAMES))
    reviews: ReviewRules = ReviewRules()
    catalog: Mapping[str, Any] = field(default_factory=dict, metadata=_INTERNAL)
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
    outside its own folder. `catalog_of` returns the probes that the file may name, with those of its own folders;
    without it any name is valid. Raises BadInputError for the first problem, as `file:line:column: message` with the
    line and a hint.
    """
    file = YamlFile(path)
    for key in ("exclude", "probes_dir"):
        file.as_list(key)
    config = _Checks(file, is_named).checked(file.convert(Config, "auditkit.yaml"))
    if catalog_of is not None:
        config = replace(config, catalog=catalog_of(config.probes_dir))
        thresholds = sorted({name for probe in config.catalog.values() for name in probe.policy})
        known = {"severity": list(config.catalog), "policy": thresholds}
        for what, name in ((kind, each) for kind in known for each in getattr(config, kind)):
            if name not in known[what]:
                raise file.unknown(f"$.{what}.{name}?", f"unknown key {name!r} in {what}", name, known[what])
    return config


def is_in_workspace(folder: Path, path: str | Path) -> bool:
    """Whether an auditkit.yaml in `folder` may name `path`: with its links resolved, too."""
    absolute, workspace = Path(os.path.abspath(folder / path)), Path(os.path.abspath(folder)).parent
    return absolute.is_relative_to(workspace) and absolute.resolve().is_relative_to(workspace.resolve())


class _Checks:
    """What a type cannot say of the values of one file. Every check raises BadInputError."""

    def __init__(self, file: YamlFile, is_named: bool) -> None:
        self.file, self.is_named = file, is_named
        self.folder = Path(os.path.abspath(file.path)).parent

    def checked(self, config: Config) -> Config:
        """Return the configuration with absolute paths."""
        for key in self.file.value or () if not self.is_named else ():
            if key in _ONLY_NAMED:
                hint = f"--config {self.file.path} allows it, for a file that is yours"
                told = f"an auditkit.yaml that was found, not named, may not set {key}"
                raise self.file.error(f"$.{key}?", told, hint)
        for number, text in enumerate(config.import_roots):
            if os.path.isabs(text) or os.path.normpath(text).startswith(".."):
                place = f"$.import_roots[{number}]"
                raise self.file.error(place, f"the import root {text} leaves the checkout", "name a folder in it")
        for number, text in enumerate(config.accept):
            if not _ACCEPTED.fullmatch(text):
                place = f"$.accept[{number}]"
                raise self.file.error(place, f"{text!r} is not an accepted finding", "LAW:FILE[:LINE]=REASON")
        self._targets(config.targets)
        python = config.python
        if python and os.sep in python:
            # It may lie anywhere, as one on PATH does; its links stay: a virtual environment's leads to the system's.
            python = os.path.abspath(self.folder / python)
        return replace(
            config,
            path=self.file.path,
            python=python,
            checkout=str(self._path("$.checkout", config.checkout)) if config.checkout else None,
            tickets=self._path("$.tickets", config.tickets) if config.tickets else None,
            probes_dir=tuple(self._path(f"$.probes_dir[{n}]", each) for n, each in enumerate(config.probes_dir)),
            import_roots=tuple(map(os.path.normpath, config.import_roots)),
            agents=self._agents(config.agents),
        )

    def _path(self, place: str, path: str | Path) -> Path:
        """Return a path as an absolute one; see docs/configuration.md for where it may lead."""
        absolute = Path(os.path.abspath(self.folder / path))
        if self.is_named and not is_in_workspace(self.folder, path):
            hint = "move auditkit.yaml nearer, or give the path on the command line, where any is allowed"
            raise self.file.error(place, f"{path} leaves the workspace {self.folder.parent}", hint)
        if not self.is_named and (os.path.isabs(path) or not absolute.resolve().is_relative_to(self.folder.resolve())):
            hint = f"--config {self.file.path} allows it"
            raise self.file.error(place, f"{path} is not below {self.folder}", hint)
        return absolute

    def _agents(self, agents: Mapping[str, str]) -> dict[str, str]:
        """Return names by code: ours, with those of the file added or in their place."""
        found = dict(AGENT_NAMES)
        for code, name in agents.items():
            if not _CODE.fullmatch(code) or not _NAME.fullmatch(name):
                hint = "a code has capitals and digits, as in B7-PT-01, a name letters, digits, dots and dashes"
                raise self.file.error(f"$.agents.{code}", f"{code}: {name!r} is not an agent", hint)
            if name in (other for known, other in found.items() if known != code):
                raise self.file.error(f"$.agents.{code}", f"two agents are named {name!r}")
            found[code] = name
        return found

    def _targets(self, targets: Sequence[Target]) -> None:
        first: dict[str, str] = {}
        for number, target in enumerate(targets):
            place = f"$.targets[{number}]"
            if target.name and not _NAME.fullmatch(target.name):
                hint = "letters, digits, dots, dashes"
                raise self.file.error(f"{place}.name", f"{target.name!r} is not a target's name", hint)
            for key in ("call", "finish"):
                text = getattr(target, key)
                if text is not None and not _CALL.fullmatch(text):
                    told = f"{text!r} is not package.module:function"
                    raise self.file.error(f"{place}.{key}", told, _colon_hint(text))
            if target.name in first:
                hint = f"the first is in line {self.file.line_of(first[target.name])}"
                raise self.file.error(place, f"two targets are named {target.name!r}", hint)
            if target.name:
                first[target.name] = place


def _colon_hint(text: str) -> str:
    module, _, name = text.rpartition(".")
    if module and _CALL.fullmatch(f"{module}:{name}"):
        return f"did you mean {module}:{name}?"
    return "the module as an import statement writes it, a colon, and the function's name in it"
