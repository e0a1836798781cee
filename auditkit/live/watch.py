"""One watched run: start the program, read what it recorded, judge every law, and make a run of the results."""

from __future__ import annotations

import datetime
import platform
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit import __version__
from auditkit.errors import AuditkitError, BadInputError, nearest_names
from auditkit.files import write_below
from auditkit.git_process import run_git
from auditkit.live.command import Ended, prepare, run_command
from auditkit.live.laws import LAWS, Broken, Law, NotShown, merged, named_ranks, replicas_drift, statistic
from auditkit.live.recorded import find_candidates, recorded_run
from auditkit.live.recording import Place, Recording, read_recording
from auditkit.model.enums import Evidence, Outcome, Reason
from auditkit.model.runs.measurement import Location, Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.recorded import RECORDED_NAME, written
from auditkit.model.runs.run import Environment, ProbeResult, Run, fingerprint
from auditkit.model.text import counted
from auditkit.probing.run.recorded_file import recorded_in

TARGET = "run"
"""What a law is about, where a probe has a function."""
_VERSION = 1
_MOST_READING_S = 1.0


@dataclass(frozen=True)
class Accepted:
    """A finding that the user accepts: `--accept LAW:PLACE=REASON`; `place` is a file, or a file and its line."""

    law: str
    place: str
    reason: str

    def covers(self, result: ProbeResult) -> bool:
        at = result.location
        files = (f"/{at.file}", f"/{at.file}:{at.line}") if at is not None else ()
        return result.probe == self.law and any(file.endswith(f"/{self.place}") for file in files)


@dataclass(frozen=True)
class Watched:
    """A finished run: what its processes recorded, the results by law, and how the program ended."""

    recording: Recording
    run: Run
    ended: Ended
    accepted: tuple[tuple[ProbeResult, str], ...] = ()

    @property
    def findings(self) -> list[ProbeResult]:
        """The findings, the worst first."""
        found = [result for result in self.run.results if result.outcome is Outcome.REPRODUCED]
        return sorted(found, key=lambda result: (str(result.severity), result.probe))


def read_accepted(text: str, origin: str = "--accept") -> Accepted:
    """`LAW:PLACE=REASON`. Raises BadInputError for a law that is none, or a part that is missing."""
    head, separator, reason = text.partition("=")
    law, colon, place = head.partition(":")
    if not separator or not colon or not reason.strip() or not place:
        raise BadInputError(f"{origin} {text}: not of the form LAW:PLACE=REASON", "replicas_drift:train.py:88=a test")
    if law not in {each.id for each in LAWS}:
        near = nearest_names(law, [each.id for each in LAWS])
        raise BadInputError(f"{origin} {text}: no law is called {law}", f"did you mean {near[0]}?" if near else None)
    return Accepted(law, place, reason.strip())


def watch(
    command: Sequence[str],
    settings: Mapping[str, object],
    shared: Path | None = None,
    accepted: Sequence[Accepted] = (),
) -> Watched:
    """Run the program and judge what it did. Raises BadInputError for a command that cannot be started.

    The watchers read the settings: `steps` ends the program, and each `every`-th step is inspected, or as many as the
    `budget` allows, a share of the time. They write into the `shared` folder, or a temporary one.
    """
    folder = shared or Path(tempfile.mkdtemp(prefix="auditkit-run-"))
    try:
        prepare(folder, settings)
        root = project_root(Path.cwd())
        finding = threading.Thread(target=_find, args=(folder, root), daemon=True)
        finding.start()
        finding.join(_MOST_READING_S)  # a longer reading goes on while the program imports torch
        drifts = Drifts(folder, root)
        ended = run_command(command, folder, drifts.look)
        revision = _git(root, "rev-parse", "--verify", "HEAD")
        dirty = bool(revision and _git(root, "status", "--porcelain", "-uno"))
        recording = replace(read_recording(folder, root), revision=revision, dirty=dirty)
        calls = recorded_run(recording, folder, recorded_in(root)[0])
        if calls is not None:
            kept = sum(bool(each.when) for each in calls.calls.values())
            text = f"recorded {counted(len(calls.calls) - kept, 'function')} in {RECORDED_NAME}, "
            text += f"beside {kept} of earlier runs, " if kept else ""
            text += "from which auditkit audit builds inputs"
            try:
                write_below(root, RECORDED_NAME, written(calls))
            except (AuditkitError, OSError) as error:  # The report of a long run is worth more.
                text = f"the functions that the program called were not recorded: {error}"
            recording = replace(recording, reasons=(*recording.reasons, text))
    finally:
        if shared is None:
            shutil.rmtree(folder, ignore_errors=True)
    return judge(recording, ended, accepted, drifts)


def _find(folder: Path, root: Path) -> None:
    with suppress(Exception):  # what cannot be read is not recorded
        find_candidates(folder, root)


class Drifts:
    """The ranks compared while the run goes on: with many ranks, only a new drift shows which parameter was first."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.found: dict[str, Broken] = {}
        self._read_at = self._next = 0.0

    def look(self) -> None:
        """Compare the files that are there if one is new; this takes at most a twentieth of one core."""
        began = time.monotonic()
        if began < self._next:
            return
        with suppress(Exception):  # the judgement at the end names what is wrong with a file
            written = [path.stat().st_mtime for path in self.folder.glob("process-*.json")]
            if len(written) > 1 and max(written) > self._read_at:
                self._read_at = max(written)
                for each in replicas_drift(read_recording(self.folder, self.root)):
                    self.found.setdefault(each.about, each)
        self._next = time.monotonic() + max(3.0, 20 * (time.monotonic() - began))

    def first(self, found: Sequence[Broken]) -> list[Broken]:
        """Each drift as it was first seen, if it named fewer parameters then than at the end."""
        last = {each.about: each for each in found}
        for about, early in self.found.items():
            late = last.get(about)
            if late is None or 0 < early.measured[0][1] < late.measured[0][1]:
                last[about] = early if late is None else replace(early, ranks=late.ranks)
        return merged(last.values())


def judge(
    recording: Recording, ended: Ended, accepted: Sequence[Accepted] = (), drifts: Drifts | None = None
) -> Watched:
    """Check every law against a recording."""
    results: list[ProbeResult] = []
    if recording.trained:
        for law in LAWS:
            results += results_of(law, recording, drifts)
    covered = [(each, by.reason) for each in results for by in accepted if by.covers(each)]
    gone = {each.fingerprint for each, _ in covered}
    kept = tuple(each for each in results if each.fingerprint not in gone)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    run = Run(f"{stamp}-{secrets.token_hex(3)}", _environment(recording), kept, notes=tuple(_notes(recording)))
    return Watched(recording, run, ended, tuple(covered))


def results_of(law: Law, recording: Recording, drifts: Drifts | None = None) -> list[ProbeResult]:
    """The result of one law: its findings, or why there is none. An error of an instrument is never a pass.

    A finding's fingerprint has the law, the file and the function, and an ordinal by line if there are more; never a
    line or a step, so that the next run of the same program, and of one whose lines moved, has the same.
    """
    device = recording.main.device[0]
    outcome, message = Outcome.NOT_REPRODUCED, "passed in every inspected step"
    found: list[Broken] = []
    try:
        found = law.broken(recording)
        found = drifts.first(found) if drifts is not None and law.of_run is replicas_drift else found
    except NotShown as why:
        outcome, message = Outcome.NOT_APPLICABLE, str(why)
    except Exception as error:
        outcome, message = Outcome.ERROR, f"{type(error).__name__}: {error}"
    if not found:
        for each in recording.trained:
            for name in {*law.instruments} & {*each.errors}:
                outcome, message = Outcome.ERROR, f"the {name} instrument failed: {each.errors[name]['reason']}"
        reason, name = Reason.EXCEPTION if outcome is Outcome.ERROR else None, fingerprint(law.id, TARGET)
        return [ProbeResult(law.id, _VERSION, TARGET, outcome, message, name, reason=reason, device=device)]
    results, counts = [], Counter[str]()
    for broken in sorted(found, key=lambda each: (each.place, each.about)):
        place = location(broken.place, recording.root)
        target = f"{TARGET}:{identity(place)}" if place is not None else TARGET
        case = {"since_step": broken.since}
        measured = [Measurement(name, value, unit, case, broken.evidence) for name, value, unit in broken.measured]
        measured.append(Measurement("first_step", broken.since, "count", {}, Evidence.MEASURED))
        notes = (f"since step {broken.since}", *([named_ranks(broken.ranks)] if recording.world > 1 else []))
        result = ProbeResult(
            law.id, _VERSION, TARGET, Outcome.REPRODUCED, broken.message,
            fingerprint(law.id, target, counts[target]), severity=broken.severity, evidence=broken.evidence,
            device=device, location=place, measurements=tuple(measured), notes=notes,
        )  # fmt: skip
        results.append(result)
        counts[target] += 1
    return results


def identity(place: Location) -> str:
    """`trainer/loop.py:Trainer.step`: where it happens, on every machine; an installed one from its package."""
    _, _, installed = place.file.rpartition("-packages/")
    function = (place.function or "").replace("<locals>.", "")
    return f"{installed}:{function}" if function else installed


def location(place: Place, root: Path) -> Location | None:
    """A line below the project's root by its path from there, another by its whole path."""
    file, line, function = place
    if not file:
        return None
    path = Path(file)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    return Location(shown, line, function)


def _git(folder: Path, *words: str) -> str:
    """What git prints; nothing outside of a repository."""
    try:
        return run_git(folder, *words).stdout.strip()
    except (BadInputError, OSError):
        return ""


def project_root(folder: Path) -> Path:
    """The top of the git repository that holds `folder`; the folder itself outside of one."""
    return Path(_git(folder, "rev-parse", "--show-toplevel") or folder)


def _environment(recording: Recording) -> Environment:
    checkout = str(recording.root), recording.revision, recording.dirty
    if not recording.loaded:
        python = platform.python_version()
        return Environment(*checkout, python, "", "", "", "", "", __version__)
    process = (*recording.trained, *recording.loaded)[0]
    device, name = process.device
    return Environment(
        *checkout, process.python, process.torch, device, name, process.executable, process.platform, __version__
    )


def _notes(recording: Recording) -> Iterable[str]:
    yield from recording.reasons
    for process in recording.loaded:
        for name, kept in process.data.get("errors", {}).items():
            yield f"rank {process.rank}: the {name} instrument failed: {kept['reason']}"
    equal = []
    for each in recording.trained[0].data.get("recorded", ()) if recording.trained else ():
        found = {statistic(one) for one in each.get("returned", ()) if one["norm"]}
        equal += [f"{each['call']} ({name})" for name in found if name and len(found) == 1]
    if equal:
        yield f"collectors that return what the law computes of their gradients: {', '.join(sorted(equal))}"


def catalog() -> Mapping[str, ProbeInfo]:
    """The laws as probes, for reports and tickets."""
    return {
        law.id: ProbeInfo(
            law.id,
            _VERSION,
            law.title,
            law.severity,
            categories=("Correctness bug",),
            agent="PT",
            scope="target",
            instrument=", ".join(law.instruments),
            motivation=f"{law.title}.",
            method="`auditkit run` inspects the steps of a real training run.",
            remediation=f"{law.remedy}.",
            devices=("cpu", "cuda"),
        )
        for law in LAWS
    }
