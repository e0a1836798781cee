"""auditkit.yaml: which checkout, which targets, where the tickets lie, and which thresholds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    config = _checked(file, file.convert(Config, "auditkit.yaml"), is_named)
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


def _checked(file: YamlFile, config: Config, is_named: bool) -> Config:
    """Return the configuration with absolute paths. Raises BadInputError for what a type cannot say of a value."""
    folder = Path(os.path.abspath(file.path)).parent

    def placed(place: str, path: str | Path) -> Path:
        """Return a path as an absolute one; see docs/configuration.md for where it may lead."""
        absolute = Path(os.path.abspath(folder / path))
        if is_named and not is_in_workspace(folder, path):
            hint = "move auditkit.yaml nearer, or give the path on the command line, where any is allowed"
            raise file.error(place, f"{path} leaves the workspace {folder.parent}", hint)
        if not is_named and (os.path.isabs(path) or not absolute.resolve().is_relative_to(folder.resolve())):
            raise file.error(place, f"{path} is not below {folder}", f"--config {file.path} allows it")
        return absolute

    for place, told, hint in _problems(file, config, is_named):
        raise file.error(place, told, hint)
    python = config.python
    if python and os.sep in python:
        # It may lie anywhere, as one on PATH does; its links stay: a virtual environment's leads to the system's.
        python = os.path.abspath(folder / python)
    return replace(
        config,
        path=file.path,
        python=python,
        checkout=str(placed("$.checkout", config.checkout)) if config.checkout else None,
        tickets=placed("$.tickets", config.tickets) if config.tickets else None,
        probes_dir=tuple(placed(f"$.probes_dir[{n}]", each) for n, each in enumerate(config.probes_dir)),
        import_roots=tuple(map(os.path.normpath, config.import_roots)),
        agents={**AGENT_NAMES, **config.agents},
    )


def _problems(file: YamlFile, config: Config, is_named: bool) -> Iterator[tuple[str, str, str | None]]:
    """Yield the place, the message and the hint of each value that is not valid."""
    for key in _ONLY_NAMED:
        if not is_named and key in (file.value or ()):
            told = f"an auditkit.yaml that was found, not named, may not set {key}"
            yield f"$.{key}?", told, f"--config {file.path} allows it, for a file that is yours"
    for number, text in enumerate(config.import_roots):
        if os.path.isabs(text) or os.path.normpath(text).startswith(".."):
            yield f"$.import_roots[{number}]", f"the import root {text} leaves the checkout", "name a folder in it"
    for number, text in enumerate(config.accept):
        if not _ACCEPTED.fullmatch(text):
            yield f"$.accept[{number}]", f"{text!r} is not an accepted finding", "LAW:FILE[:LINE]=REASON"
    for code, name in config.agents.items():
        if not _CODE.fullmatch(code) or not _NAME.fullmatch(name):
            hint = "a code has capitals and digits, as in B7-PT-01, a name letters, digits, dots and dashes"
            yield f"$.agents.{code}", f"{code}: {name!r} is not an agent", hint
        if name in (other for known, other in {**AGENT_NAMES, **config.agents}.items() if known != code):
            yield f"$.agents.{code}", f"two agents are named {name!r}", None
    first: dict[str, str] = {}
    for number, target in enumerate(config.targets):
        place = f"$.targets[{number}]"
        if target.name and not _NAME.fullmatch(target.name):
            yield f"{place}.name", f"{target.name!r} is not a target's name", "letters, digits, dots, dashes"
        for key in ("call", "finish"):
            text = getattr(target, key)
            if text is not None and not _CALL.fullmatch(text):
                yield f"{place}.{key}", f"{text!r} is not package.module:function", _colon_hint(text)
        if target.name in first:
            hint = f"the first is in line {file.line_of(first[target.name])}"
            yield place, f"two targets are named {target.name!r}", hint
        if target.name:
            first[target.name] = place


def _colon_hint(text: str) -> str:
    module, _, name = text.rpartition(".")
    if module and _CALL.fullmatch(f"{module}:{name}"):
        return f"did you mean {module}:{name}?"
    return "the module as an import statement writes it, a colon, and the function's name in it"
