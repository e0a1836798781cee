"""Which targets a job is about: named on the command line, configured, or found in the checkout and tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from auditkit.errors import NothingMeasuredError, TargetNotLoadedError
from auditkit.model.enums import Reason
from auditkit.model.target import Target
from auditkit.probing.checkout import OpenCheckout
from auditkit.probing.discovery import Discovery, discover
from auditkit.probing.results import Setting
from auditkit.probing.trials import Trial, try_candidates

_NOT_LOADED = (Reason.IMPORT_ERROR, Reason.NO_TORCH, Reason.NO_INTERPRETER)


@dataclass(frozen=True)
class FoundTargets:
    """What discovery came to: targets to audit, and sentences on what was passed over."""

    targets: tuple[Target, ...]
    trials: tuple[Trial, ...]
    discovery: Discovery
    notes: tuple[str, ...]


def find_targets(
    opened: OpenCheckout,
    setting: Setting,
    configured_roots: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> FoundTargets:
    """Read the checkout for collectors and try each of them.

    Of several ways to call one function (a flag that returns more) the one with the richest answer is
    audited. Raises NothingMeasuredError where no candidate can be fed, with the
    reasons, and TargetNotLoadedError where none can even be imported.
    """
    found = discover(opened.path, configured_roots)
    trials = tuple(try_candidates(found.candidates, setting, progress))
    best: dict[str, Trial] = {}
    for trial in trials:
        if trial.works and _richness(trial) > _richness(best.get(trial.target.call)):
            best[trial.target.call] = trial
    notes = [f"{problem.path}:{problem.line}: {problem.message}" for problem in found.problems]
    notes += [f"not audited: {trial.target.call}: {trial.message}" for trial in trials if not trial.works]
    notes = list(dict.fromkeys(notes))
    if not best:
        imports_fail = bool(trials) and all(trial.reason in _NOT_LOADED for trial in trials)
        error = TargetNotLoadedError if imports_fail else NothingMeasuredError
        raise error(_nothing_found(found, notes), "name one: --target package.module:function")
    targets = tuple(name_target(trial.target, best) for trial in best.values())
    return FoundTargets(targets, trials, found, tuple(notes))


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
