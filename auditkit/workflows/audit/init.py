"""Find the collectors of a checkout and write an auditkit.yaml that says what was inferred."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from auditkit.errors import BadInputError
from auditkit.model.codec import Record
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.probing.hosts.trials import Trial
from auditkit.probing.source_code.files import LeftOut
from auditkit.store.config.config_draft import ConfigDraft, DraftTarget, UnfedCandidate, render_config
from auditkit.store.config.config_file import CONFIG_NAME
from auditkit.store.folder.files import create_file
from auditkit.workflows.audit.found_targets import FoundTargets, find_targets, name_target
from auditkit.workflows.audit.run_options import RunOptions


@dataclass(frozen=True)
class Initialised(Record, keys="path candidates=found.trials"):
    """The file that was written, and what it holds."""

    schema_version: ClassVar[int] = 1

    path: Path
    found: FoundTargets


def init(
    checkout: str,
    python: str | None = None,
    output: Path | None = None,
    progress: Callable[[str], None] | None = None,
    in_place: bool = False,
    exclude: Sequence[str] = (),
) -> Initialised:
    """Write `auditkit.yaml` in the checkout's folder, or at `output`. An existing file is never replaced.

    Raises BadInputError where the file exists, NothingMeasuredError where no collector can be fed.
    """
    spec = parse_checkout(checkout)
    path = output or spec.directory / CONFIG_NAME
    if path.exists():
        raise BadInputError(f"{path} exists already", "edit it, or name another file: --output FILE")
    options = RunOptions(python=python, in_place=in_place)
    with options.open(spec) as opened:
        setting = options.setting(opened)
        left_out = LeftOut(opened.path, exclude)
        found = find_targets(opened, setting, progress=progress, left_out=left_out, libraries=True)
    if found.failure is not None:
        raise found.failure
    beside = spec.directory == path.parent.resolve()
    draft = ConfigDraft(
        checkout=None if beside else _relative(spec.directory, path.parent),
        python=_relative(Path(python), path.parent) if python and os.sep in python else python,
        batch=1,
        exclude=tuple(exclude),
        targets=tuple(_draft(trial, found) for trial in found.trials if trial.works),
        unfed=tuple(UnfedCandidate(t.target.call, (t.message,)) for t in found.trials if not t.works),
    )
    create_file(path, render_config(draft).encode("utf-8"))
    return Initialised(path, found)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(os.path.abspath(path), os.path.abspath(folder))


def _draft(trial: Trial, found: FoundTargets) -> DraftTarget:
    """The target under a name of its own, with what was seen in its source and learnt by trying."""
    assert trial.plan is not None
    calls = [other.target.call for other in found.trials if other.works]
    target = name_target(trial.target, list(dict.fromkeys(calls)))
    if trial.target.arguments:
        suffix = "-".join(str(name).replace("_", "-") for name in trial.target.arguments)
        target = replace(target, name=f"{target.name}-{suffix}")
    roles = ", ".join(f"{role}: {entry['path'] or 'the answer'}" for role, entry in trial.plan["roles"].items())
    learnt = (
        f"{trial.candidate.file}:{trial.candidate.line}",
        *trial.candidate.evidence,
        f"returns {trial.plan['answer_kind']}; {roles or 'no field that a probe can judge'}",
    )
    return DraftTarget(target, learnt)
