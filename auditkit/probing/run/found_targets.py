"""The targets of a job: named on the command line, configured, or found in the checkout and tried."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from auditkit.errors import AuditkitError, NothingMeasuredError, TargetNotLoadedError, nearest_names
from auditkit.model.enums import Contract, Reason
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.target import Target, split_call
from auditkit.model.text import counted
from auditkit.probing.checkout.checkout import OpenCheckout, parse_checkout
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.trials import Trial, try_candidates
from auditkit.probing.find.blocks.blocks import function_or_block
from auditkit.probing.find.candidates import Candidate
from auditkit.probing.find.library_calls import library_candidates
from auditkit.probing.find.search import Discovery, discover
from auditkit.probing.run.found_candidates import not_asked_lines, told
from auditkit.probing.run.recorded_file import recorded_notes
from auditkit.probing.source.files import LeftOut
from auditkit.probing.source.modules import Function, Module, SourceProblem, source_bytes
from auditkit.probing.source.python_files import PythonFiles, slow_imports
from auditkit.worker.serve.placeholders import distributions

_MOST_NAMED = 3


@dataclass(frozen=True)
class FoundTargets:
    """The targets to audit: those that the user named, then the `found_count` that discovery found.

    If no target can be fed, `failure` says why, and `likeliest` is the collector that the probes run on nevertheless,
    so that every probe has a result with the reason. `notes` say what was left out; `candidates` are all that discovery
    found; `files` are the files that were read.
    """

    targets: tuple[Target, ...] = ()
    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    failure: AuditkitError | None = None
    likeliest: tuple[Target, ...] = ()
    found_count: int = 0
    candidates: tuple[FoundCandidate, ...] = ()
    files: PythonFiles | None = field(default=None, compare=False)

    @property
    def found(self) -> tuple[Target, ...]:
        """The targets that discovery found."""
        return self.targets[len(self.targets) - self.found_count :]

    @property
    def asked(self) -> tuple[Target, ...]:
        """The targets that the probes run on."""
        return self.targets or self.likeliest


def find_targets(
    opened: OpenCheckout,
    setting: Setting,
    configured_roots: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    others: Sequence[Setting] = (),
    *,
    left_out: LeftOut | None = None,
    libraries: bool = False,
    configured: Sequence[Target] = (),
    only: Callable[[Target, PythonFiles], bool] | None = None,
) -> FoundTargets:
    """Read the checkout for collectors and try each of them, also in the interpreters of `others`.

    Return the `configured` targets first; discovery does not try them again. A candidate that can be fed in one
    interpreter is a target in all. If a function can be called in several ways (a flag that returns more), choose the
    one that returns most. `libraries` adds torch's functions that the checkout calls. Files of `left_out` and targets
    that `only` rejects are not checked. The failure is a TargetNotLoadedError if no candidate could be imported, else a
    NothingMeasuredError.
    """
    recorded = setting.recorded.calls if setting.recorded is not None else {}
    found = discover(opened.path, configured_roots, recorded.__contains__)
    left_out = left_out or LeftOut(opened.path)
    called = library_candidates(call for call in found.library_calls if not left_out.place_of(call.file))
    known = [*found.candidates, *(called if libraries else ())]
    known = [each for each in known if not is_specimen(opened.path, each.file)]
    if only is not None:
        known = [each for each in known if only(each.as_target(), found.files)]
    own = Configured(configured, found.files)
    candidates = [each for each in known if not (left_out.place_of(each.file) or own.has(each))]
    calls = [*own.calls, *(each.call for each in candidates)]
    imports = slow_imports(found.files, calls)
    interpreters = {each.interpreter: each for each in (setting, *others)}
    everywhere = [try_candidates(candidates, each, progress, imports) for each in interpreters.values()]
    # Of one candidate's trials in several interpreters, take the first that works, else the first.
    trials = tuple(next((one for one in tried if one.works), tried[0]) for tried in zip(*everywhere, strict=True))
    best: dict[str, Trial] = {}
    for trial in trials:
        # A library's function is checked once for each set of arguments that the checkout calls it with.
        key = repr((trial.target.call, trial.target.arguments)) if trial.target.places else trial.target.call
        key += " as a step" if trial.target.contract is Contract.TRAIN_STEP else ""
        if trial.works and _richness(trial) > _richness(best.get(key)):
            best[key] = trial
    # A private helper is audited through its caller.
    asked_anyway = {*best, *own.calls}
    callers = {
        key: [call for call in trial.candidate.covered_by if call in asked_anyway] for key, trial in best.items()
    }
    best = {key: trial for key, trial in best.items() if not callers[key]}
    listed = told(trials, [each for each in known if left_out.place_of(each.file)], left_out)
    listed = tuple(replace(each, why_not=_through(callers.get(each.call))) if each.fed else each for each in listed)
    listed += tuple(_unread(problem) for problem in found.files.problems if not left_out.place_of(problem.path))
    if only is None:
        untried = [each for each in found.untried_loops if not (left_out.place_of(each.file) or own.has(each))]
        listed += tuple(map(_untried, untried))
        passed = [each for each in found.passed_over if not left_out.place_of(each.file)]
        listed += tuple(each for each in passed if not is_specimen(opened.path, each.file))
    notes = recorded_notes(opened.source, lambda: found.files) if only is None else []
    notes += left_out.sentences([each.file for each in known])
    notes += _needed(trials, setting.interpreter)
    if not best and not configured and (candidates or only is None):
        failure = _failure(opened.label, found, trials, [*notes, *map(str.strip, not_asked_lines(listed))])
        likeliest = (_likeliest(trials).target,) if trials else ()
        return FoundTargets((), trials, (), failure, likeliest, len(likeliest), listed, found.files)
    asked = list(dict.fromkeys([*own.calls, *(trial.target.call for trial in best.values())]))
    targets = [name_target(trial.target, asked) for trial in best.values()]
    return FoundTargets(
        (*configured, *targets), trials, tuple(notes), found_count=len(best), candidates=listed, files=found.files
    )


class Configured:
    """The targets of auditkit.yaml, which discovery must not report again."""

    def __init__(self, targets: Sequence[Target], files: PythonFiles) -> None:
        self.calls = [target.call for target in targets]
        self._named = [(target, _function(files, target.call)) for target in targets]
        self._adapted = " ".join(_docstring(each) for target, each in self._named if _is_step(target)).split()

    def has(self, candidate: Candidate) -> bool:
        """Return whether auditkit.yaml names this candidate, under any name of the same function.

        A function that collects and trains is two candidates; so is a library's function called with two sets of
        arguments. The docstring of a step adapter names the step that it covers.
        """
        return candidate.call in self._adapted or any(
            _is_step(target) == (candidate.contract_guess is Contract.TRAIN_STEP)
            and (not candidate.places or target.arguments == candidate.arguments)
            and (target.call == candidate.call or (function is not None and _is_at(function, candidate)))
            for target, function in self._named
        )


def _is_step(target: Target) -> bool:
    return target.contract is Contract.TRAIN_STEP


def _docstring(function: Function | None) -> str:
    return (ast.get_docstring(function.node) or "") if function is not None else ""


def _function(files: PythonFiles, call: str) -> Function | None:
    """Return the function or block that a call names, also if its module only imports the function."""
    found = function_or_block(files, call)
    module = files.module_of(call)
    if found is None and isinstance(module, Module):
        handed_on = files.resolve(module, split_call(call)[1])
        return handed_on if isinstance(handed_on, Function) else None
    return found


def _is_at(function: Function, candidate: Candidate) -> bool:
    return (function.module.file, function.node.lineno) == (candidate.file, candidate.line)


def is_specimen(checkout: Path, file: str) -> bool:
    """Return whether a file lies in a folder `specimens` beside probes: its defects are intended.

    If the checkout itself is a specimen, return False.
    """
    folders = PurePosixPath(file).parts[:-1]
    places = (checkout.joinpath(*folders[:depth]) for depth, name in enumerate(folders) if name == "specimens")
    return any(map(_holds_probes, places))


def _holds_probes(folder: Path) -> bool:
    files = (path for path in folder.glob("*.py") if path.is_file())
    return any(re.search(rb"^PROBE = \{", source_bytes(path), re.MULTILINE) for path in files)


def _unread(problem: SourceProblem) -> FoundCandidate:
    """List a file that cannot be parsed as not checked."""
    why = f"line {problem.line}: {problem.message}"
    return FoundCandidate(problem.path, problem.path, problem.line, why_not=why, reason=Reason.NOT_PARSED)


def _through(callers: Sequence[str] | None) -> str:
    return f"checked through {callers[0]}, which calls it" if callers else ""


def _richness(trial: Trial | None) -> tuple[int, int]:
    if trial is None or trial.plan is None:
        return (-1, -1)
    return len(trial.plan["roles"]), len(trial.plan["fields"])


def name_target(target: Target, taken: Sequence[str]) -> Target:
    """Return the target with a short name: the function's or statement's, with its place if two share a name."""
    short = _short_name(target.call)
    shared = sum(_short_name(call) == short for call in taken) > 1
    name = re.sub(r"[^\w.]+", ".", target.call) if shared else short
    return replace(target, name=name.replace("_", "-").strip("-."))


def _short_name(call: str) -> str:
    _, qualified, statement = split_call(call)
    return statement or qualified.rpartition(".")[2]


def _untried(loop: Candidate) -> FoundCandidate:
    """A training loop that only --target checks."""
    return FoundCandidate(loop.call, loop.file, loop.line, loop.contract_guess, why_not=loop.obstacles[0])


def _needed(trials: Sequence[Trial], interpreter: str) -> list[str]:
    """Name the missing packages of all candidates, and the pip command for them."""
    names = sorted({name for trial in trials for name in trial.missing}, key=str.lower)
    if not names:
        return []
    return [f"this checkout needs: {', '.join(names)} ({interpreter} -m pip install {' '.join(distributions(names))})"]


def _failure(checkout: str, found: Discovery, trials: Sequence[Trial], notes: Sequence[str]) -> AuditkitError:
    """Return the error that says why there is no target, and what to do next."""
    if not trials and not found.untried_loops:
        text = f"no gradient collector was found in {counted(found.files.read_count, 'Python file')}"
        source = f"source probes need no collector: auditkit probe run sync_in_loop --checkout {shlex.quote(checkout)}"
        step = source if found.files.read_count else "see the findings of the bundled specimen: auditkit audit"
        hint = f"{step}; name a collector that auditkit does not find with --target package.module:function"
        return NothingMeasuredError("\n  ".join([text, *notes]), hint)
    reasons = {trial.reason for trial in trials}
    if trials and reasons <= {Reason.NO_TORCH, Reason.NO_INTERPRETER}:
        return TargetNotLoadedError(trials[0].message)
    steps = [trial for trial in trials if trial.target.contract is Contract.TRAIN_STEP]
    if trials and all(map(_lacks_modules, trials)):
        hint = "install what is missing, or name the interpreter that has it: --python VENV/bin/python"
    elif steps or found.untried_loops:
        hint = "watch a real run: auditkit run -- python YOUR_SCRIPT.py; or complete a step adapter: auditkit init"
    else:
        hint = f"give its arguments: --target {_likeliest(trials).target.call} --argument NAME=VALUE"
    if trials and all(reason and reason.is_not_loaded for reason in reasons):
        return TargetNotLoadedError("\n  ".join(["no gradient collector could be imported:", *notes]))
    return NothingMeasuredError("\n  ".join(["no gradient collector could be fed:", *notes]), hint)


def _likeliest(trials: Sequence[Trial]) -> Trial:
    """Return the first collector without missing modules, else the first: naming its arguments may be enough."""
    return next((trial for trial in trials if not _lacks_modules(trial)), trials[0])


def _lacks_modules(trial: Trial) -> bool:
    return bool(trial.missing) or (trial.reason is not None and trial.reason.is_not_loaded)


def calls_like(name: str, checkout: str, roots: Sequence[str] = ()) -> list[str]:
    """Return the collectors of a checkout with the names nearest to `name`, else the likeliest."""
    found = discover(parse_checkout(checkout).directory, roots)
    calls = list(dict.fromkeys(candidate.call for candidate in found.candidates))
    functions = {call.rpartition(":")[2]: call for call in reversed(calls)}
    near = [functions[each] for each in nearest_names(name.rpartition(".")[2], functions)]
    return list(dict.fromkeys((*near, *nearest_names(name, calls), *calls)))[:_MOST_NAMED]
