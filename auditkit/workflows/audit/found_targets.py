"""Which targets a job is about: named on the command line, configured, or found in the checkout and tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from auditkit.errors import AuditkitError, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.runs.target import Target
from auditkit.probing.checkouts.checkout import OpenCheckout, import_roots
from auditkit.probing.discovery.search import Discovery, discover
from auditkit.probing.hosts.sandbox import Setting
from auditkit.probing.hosts.trials import Trial, try_candidates
from auditkit.probing.source_code.import_effects import import_effects
from auditkit.probing.source_code.python_files import PythonFiles, garbage_collection_paused


@dataclass(frozen=True)
class FoundTargets:
    """The targets to audit; `found` where reading the source found them, and nobody named them.

    `failure` says why none can be fed; `likeliest` is then the collector that is asked all the same, so that every
    probe has a result that says why there is no answer. `notes` are sentences on what was passed over.
    """

    targets: tuple[Target, ...] = ()
    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    failure: AuditkitError | None = None
    likeliest: tuple[Target, ...] = ()
    found: bool = False

    @property
    def asked(self) -> tuple[Target, ...]:
        """What the probes are asked about."""
        return self.targets or self.likeliest


def find_targets(
    opened: OpenCheckout,
    setting: Setting,
    configured_roots: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    others: Sequence[Setting] = (),
    noted: Callable[[str], None] = lambda _: None,
) -> FoundTargets:
    """Read the checkout for collectors and try each of them, also in the interpreters of `others`.

    A candidate that can be fed in one interpreter is a target in all. Of several ways to call one
    function (a flag that returns more) the one with the richest answer is audited. Where none can be fed, the
    failure is a NothingMeasuredError with the reasons, a TargetNotLoadedError where none can even be imported.
    """
    found = discover(opened.path, configured_roots)
    candidates = [each for each in found.candidates if not is_specimen(opened.path, each.file)]
    effects = notes_on_imports(opened, configured_roots, [each.call for each in candidates], noted)
    interpreters = {each.interpreter: each for each in (setting, *others)}
    everywhere = [try_candidates(candidates, each, progress) for each in interpreters.values()]
    # Of one candidate's trials in several interpreters: the first that works, else the first.
    trials = tuple(next((one for one in tried if one.works), tried[0]) for tried in zip(*everywhere, strict=True))
    best: dict[str, Trial] = {}
    for trial in trials:
        if trial.works and _richness(trial) > _richness(best.get(trial.target.call)):
            best[trial.target.call] = trial
    notes = [f"{problem.path}:{problem.line}: {problem.message}" for problem in found.problems]
    notes += [f"not audited: {trial.target.call}: {trial.message}" for trial in trials if not trial.works]
    notes = list(dict.fromkeys(notes))
    if not best:
        imports_fail = bool(trials) and all(trial.reason and trial.reason.is_not_loaded for trial in trials)
        error = TargetNotLoadedError if imports_fail else NothingMeasuredError
        failure = error(_nothing_found(found, notes), "name one: --target package.module:function")
        likeliest = tuple(candidate.as_target() for candidate in candidates[:1])
        return FoundTargets((), trials, (*effects, failure.message), failure, likeliest, found=True)
    targets = tuple(name_target(trial.target, best) for trial in best.values())
    return FoundTargets(targets, trials, (*effects, *notes), found=True)


def notes_on_imports(
    opened: OpenCheckout, configured_roots: Sequence[str], calls: Sequence[str], noted: Callable[[str], None]
) -> list[str]:
    """What the files of `calls` do when they are imported, beyond defining things; `noted` hears it at once."""
    with garbage_collection_paused():
        found = import_effects(PythonFiles(opened.path, import_roots(opened.path, configured_roots)), calls)
    notes = [effect.describe() for effect in found]
    for note in notes:
        noted(note)
    return notes


def is_specimen(checkout: Path, file: str) -> bool:
    """Whether a file lies in a folder `specimens` beside probes: a defect that is there on purpose.

    Not where the checkout itself is a specimen: then it is what was asked about.
    """
    folders = PurePosixPath(file).parts[:-1]
    places = (checkout.joinpath(*folders[:depth]) for depth, name in enumerate(folders) if name == "specimens")
    return any(map(_holds_probes, places))


def _holds_probes(folder: Path) -> bool:
    files = (path for path in folder.glob("*.py") if path.is_file())
    return any(re.search(rb"^PROBE = \{", path.read_bytes(), re.MULTILINE) for path in files)


def _richness(trial: Trial | None) -> tuple[int, int]:
    if trial is None or trial.plan is None:
        return (-1, -1)
    return len(trial.plan["roles"]), len(trial.plan["fields"])


def name_target(target: Target, taken: Sequence[str] | dict[str, Trial]) -> Target:
    """The target with a short name: the function's, with its class where two functions share one."""
    qualified = target.call.partition(":")[2]
    short = qualified.rpartition(".")[2]
    shared = sum(call.partition(":")[2].rpartition(".")[2] == short for call in taken) > 1
    name = target.call.replace(":", ".") if shared else short
    return replace(target, name=name.replace("_", "-").strip("-"))


def _nothing_found(found: Discovery, notes: Sequence[str]) -> str:
    if not found.candidates:
        return f"no gradient collector was found in {found.file_count} Python files"
    return "no gradient collector could be fed:\n  " + "\n  ".join(notes)
