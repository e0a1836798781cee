"""Find the collectors of a checkout and write an auditkit.yaml that says what was inferred."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.config.config import Config, is_in_workspace
from auditkit.config.config_draft import render_config
from auditkit.config.config_file import CONFIG_NAME
from auditkit.errors import BadInputError
from auditkit.files import create_files, write_file
from auditkit.model.enums import Contract, Reason
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import CheckoutSpec, parse_checkout
from auditkit.probing.engine.trials import Trial
from auditkit.probing.find.step_stub import MODULE_NAME, adapters_in, step_stub
from auditkit.probing.run.found_targets import FoundTargets, find_targets, name_target
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.source.files import LeftOut

_Draft = tuple[Target, tuple[str, ...]]
"""A target to write, with sentences on how its values were found out."""


@dataclass(frozen=True)
class Initialised:
    """The file that was written, what it holds, and the words that follow `auditkit audit` to read it.

    `adapter` is the file of training steps for the user to complete.
    """

    path: Path
    found: FoundTargets
    audit_words: str
    adapter: Path | None
    target_count: int


def init(
    checkout: str,
    python: str | None = None,
    output: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Initialised:
    """Write `auditkit.yaml` in the checkout's folder, or at `output`. An existing file is never replaced.

    In the checkout's own folder it also writes `auditkit_step.py`, an adapter for each training step that was found and
    could not be called. Raises BadInputError where the file exists, NothingMeasuredError where no collector can be fed
    and there is no such step.
    """
    spec = parse_checkout(checkout)
    path = output or spec.directory / CONFIG_NAME
    is_empty = path.is_file() and not path.stat().st_size  # as --cage creates it
    if path.exists() and not is_empty:
        raise BadInputError(f"{path} exists already", "edit it, or name another file: --output FILE")
    options = RunOptions(python=python)
    with options.open(spec) as opened:
        setting = options.setting(opened)
        left_out = LeftOut(opened.path)
        found = find_targets(opened, setting, progress=progress, left_out=left_out, libraries=True)
    adapter, text, steps = _adapter(spec, path, found)
    if found.failure is not None and not steps:
        raise found.failure
    revision = f"@{spec.revision}" if spec.revision else ""
    inside, is_here = is_in_workspace(path.parent, spec.directory), spec.directory == path.parent.resolve()
    # The file need not name the folder in which it lies, as that lies.
    where = f"../{spec.directory.name}" if is_here else _relative(spec.directory, path.parent)
    config = Config(
        checkout=where + revision if inside and (revision or not is_here) else None,
        python=_relative(Path(python), path.parent) if python and os.sep in python else python,
        batch=1,
        exclude=(adapter.name,) if steps else (),
    )
    targets = [*_drafts([trial for trial in found.trials if trial.works]), *steps]
    left = [each for each in found.candidates if not each.fed]
    unfed = [(each.call, f"left out: {each.excluded}" if each.excluded else each.why_not) for each in left]
    outside = [] if inside else [str(spec.directory) + revision]
    elsewhere = shlex.join([*outside, "--config", path.name]) if outside else ""
    files = {path: render_config(config, targets, unfed, elsewhere).encode("utf-8")}
    if text:
        files[adapter] = text.encode("utf-8")
    if is_empty:
        write_file(path, files.pop(path))
    create_files(files)
    words = shlex.join([*outside, "--config", str(path)])
    return Initialised(path, found, words, adapter if text else None, len(targets))


def _adapter(spec: CheckoutSpec, path: Path, found: FoundTargets) -> tuple[Path, str, list[_Draft]]:
    """The file of step adapters, its text and its targets; the text is "" if the file is there already.

    Neither where the file could not be imported: at a revision, or beside a configuration elsewhere.
    """
    adapter = spec.directory / f"{MODULE_NAME}.py"
    steps = [
        each
        for each in found.candidates
        if each.contract is Contract.TRAIN_STEP
        and not (each.fed or each.excluded or each.reason is Reason.NOT_PARSED)
        and not (each.reason and each.reason.is_not_loaded)
    ]
    if spec.revision or path.absolute().parent != spec.directory.absolute() or found.files is None:
        return adapter, "", []
    text = "" if adapter.exists() else step_stub(found.files, steps)
    names = adapters_in(text or (adapter.read_text(encoding="utf-8", errors="replace") if adapter.exists() else ""))
    targets = [Target(f"{MODULE_NAME}:{name}", name.replace("_", "-"), Contract.TRAIN_STEP) for name in names]
    return adapter, text, [(each, (f"complete it in {adapter.name}",)) for each in targets]


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(os.path.abspath(path), os.path.abspath(folder))


def _drafts(trials: Sequence[Trial]) -> Iterator[_Draft]:
    """Each target under a name of its own: with its arguments' names, and a number where that is not enough."""
    calls = list(dict.fromkeys(trial.target.call for trial in trials))
    taken: set[str] = set()
    for trial in trials:
        target = name_target(trial.target, calls)
        suffix = "".join(f"-{str(name).replace('_', '-')}" for name in trial.target.arguments)
        names = (target.name, target.name + suffix, *(f"{target.name}{suffix}-{n}" for n in range(2, len(trials) + 2)))
        name = next(each for each in names if each not in taken)
        taken.add(name)
        assert trial.plan is not None
        roles = ", ".join(f"{role}: {entry['path'] or 'the result'}" for role, entry in trial.plan["roles"].items())
        answer = f"returns {trial.plan['answer_kind']}; {roles or 'no field that a probe can judge'}"
        yield replace(target, name=name), (f"{trial.candidate.file}:{trial.candidate.line}", answer)
