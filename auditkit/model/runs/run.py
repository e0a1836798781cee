"""One invocation: its environment, its revision, and every requested probe with its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from auditkit.model.codec import Record, converted, number_again
from auditkit.model.enums import Evidence, Outcome, Reason, Severity
from auditkit.model.runs.baseline import Baseline
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.cause import Siblings, Statement
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.met_by import MetBy
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.severity import Breaks, Occurs, in_words
from auditkit.model.runs.target import Target

FINGERPRINT_SCHEME = 1
BUNDLED = "bundled specimen"
"""What stands for the checkout where auditkit's own specimen was audited."""
SOURCE_DEVICE = "source"
"""What stands for a device where the checkout's source was read and nothing was run."""


def fingerprint(probe_id: str, target: str, ordinal: int = 0) -> str:
    """What makes two findings the same one: probe, scheme and target; never a line, never a message."""
    suffix = f"#{ordinal}" if ordinal else ""
    return f"{probe_id}/{FINGERPRINT_SCHEME}/{target}{suffix}"


@dataclass(frozen=True)
class Environment(Record):
    """Where a run was made: two runs are comparable only where these agree.

    `checkout` is the path as the user named it, `revision` the full commit or "" outside git.
    `sandbox` is the one that the command ran in, or `none`.
    """

    checkout: str
    revision: str
    dirty: bool
    python: str
    torch: str
    device: str
    device_name: str
    interpreter: str = ""
    platform: str = ""
    auditkit: str = ""
    sandbox: str = "none"

    @property
    def sandbox_in_words(self) -> str:
        """`in bubblewrap 0.11.0`, or `no sandbox`."""
        return "no sandbox" if self.sandbox == "none" else f"in {self.sandbox}"


@dataclass(frozen=True)
class RunHead(Record, keys="id **environment"):
    """Which run it is, and where it was made."""

    id: str
    environment: Environment


@dataclass(frozen=True)
class ArmOutcome(
    Record, keys="arm python=environment.python torch=environment.torch device outcome severity law message"
):
    """What the same probe said of the same target in one arm: under one interpreter on one device.

    `arm` is the arm's label, such as `torch 2.9.1 on cpu`; `environment` where it ran.
    """

    arm: str
    environment: Environment
    outcome: Outcome
    severity: Severity | None
    message: str
    law: str = ""
    device: str = ""

    @property
    def answer(self) -> str:
        """What is compared between arms, as the cell of a table: `P3 reproduced (3n+1)`.

        The message is left out, and the law of what did not reproduce: measured figures may differ a
        little without meaning anything.
        """
        severity = f"{self.severity.value} " if self.severity else ""
        law = f" ({self.law})" if self.law and self.outcome is Outcome.REPRODUCED else ""
        return f"{severity}{self.outcome.value.replace('_', ' ')}{law}"


@dataclass(frozen=True)
class ProbeResult(
    Record,
    keys="probe probe_version target outcome severity evidence reason device message law fingerprint ticket "
    "ticket_action location measurements notes duration_s siblings? excerpt? statement? arm? arms? breaks? occurs? "
    "owner? style? remembered? ignored? met_by? lowered? copy_of?",
):
    """The result of one probe on one target.

    `device` is where this probe's numbers come from (`cpu`, `cuda`, `simulated`, `source`); `law` the fitted
    growth law ("3n+1"), where the probe fits one; `reason` why there is no result, where there is none;
    `loaded` whether the target's interpreter, torch and module could be loaded at all. `arms` holds
    every arm's outcome if there are several interpreters or devices; the other fields are then those
    of the arm that `arm` names. `statement` is what a finding's line belongs to, None where that line only
    defines a function; `siblings` are places like it, None where none were looked for. `breaks` and `occurs` are
    what a finding's severity follows from, where its probe says so; `owner` is whose defect it is where it is not
    the checkout's, such as `torch 2.13.0: torch.nn.utils.clip_grad_norm_`. `style` is its probe's. `remembered`
    marks a cached result of the same bytes; `evidence` and `duration_s` are of that time. `ignored` is
    the reason in the source's own `# auditkit: ignore[PROBE] reason`. `met_by` says who calls the target in a
    recorded run, or in the source.
    """

    probe: str
    probe_version: int
    target: str
    outcome: Outcome
    message: str
    fingerprint: str
    severity: Severity | None = None
    evidence: Evidence | None = None
    reason: Reason | None = None
    device: str = ""
    law: str = ""
    location: Location | None = None
    excerpt: CodeExcerpt | None = None
    measurements: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    ticket: str | None = None
    ticket_action: str = ""
    loaded: bool = True
    arm: str = ""
    arms: tuple[ArmOutcome, ...] = ()
    statement: Statement | None = None
    siblings: Siblings | None = None
    breaks: Breaks | None = None
    occurs: Occurs | None = None
    owner: str = ""
    style: bool = False
    remembered: bool = False
    ignored: str = ""
    copy_of: Statement | None = None
    """The statement that a finding's statement is a copy of: they are one cause."""
    lowered: tuple[str, ...] = ()
    """Why a finding's severity is lower than its probe says."""
    met_by: MetBy | None = None

    @property
    def place(self) -> str:
        """`src/stats.py:18`; the target if no line is known."""
        return f"{self.location.file}:{self.location.line}" if self.location else self.target

    @property
    def why(self) -> str:
        """Why a finding has its severity, in one phrase, with what lowered it; "" where that is not known."""
        return "; ".join(filter(None, (in_words(self.breaks, self.occurs), *self.lowered)))

    @property
    def is_of_source(self) -> bool:
        """Whether it comes from reading the source: about a function, a module or a file, not a target."""
        return self.device == SOURCE_DEVICE

    def is_read_in(self, statement: Statement) -> bool:
        """Whether one of the lines that reading found is in a statement: of a loop a probe blames one line."""
        read = self.statement
        lines = [measured.value for measured in self.measurements if measured.unit == "line"]
        is_inside = any(statement.first <= line <= statement.last for line in lines)
        return read == statement or (read is not None and read.file == statement.file and is_inside)

    @property
    def arms_differ(self) -> bool:
        """Whether some arm's outcome, severity or law is not the others'."""
        return len({arm.answer for arm in self.arms}) > 1

    def arms_in_words(self) -> str:
        """`P1 reproduced with torch 2.9.1; not reproduced with torch 2.15.0`, this result's own arm first."""
        groups: dict[str, list[str]] = {arm.answer: [] for arm in self.arms if arm.arm == self.arm}
        for arm in self.arms:
            groups.setdefault(arm.answer, []).append(arm.arm)
        return "; ".join(f"{answer} with {' and '.join(labels)}" for answer, labels in groups.items())

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"duration_s": round(self.duration_s, 3)}

    @classmethod
    def from_json(cls, document: Any) -> ProbeResult:
        """Return one result of a run's document, without the environments of its arms. Raises ValueError."""
        return converted(_fields_of_result({**document, "arms": ()}, {}), cls)


@dataclass(frozen=True)
class Finding:
    """A reproduced result with everything a ticket contains about it.

    `source` is the checkout's directory without a revision, from the top of its repository ("" for that itself):
    where the probe can run again.
    `asked_as` is what names the probe on the command line where its id does not (a file); `options` are
    further words of that command, such as `--config FILE`. `fix` is the fix that was run, or None: then `no_fix` is
    the reason, "" before any search. `reproduction` is the text of the ticket's section
    Reproduce: a script that was run, with its output; `no_reproduction` the reason for none.
    """

    probe: ProbeInfo
    result: ProbeResult
    environment: Environment
    run_id: str
    target: Target | None = None
    source: str = ""
    asked_as: str = ""
    options: tuple[str, ...] = ()
    fix: Fix | None = None
    no_fix: str = ""
    reproduction: str = ""
    no_reproduction: str = ""

    @property
    def severity(self) -> Severity:
        """The judged one, else the probe's."""
        return self.result.severity or self.probe.severity

    @property
    def is_of_module(self) -> bool:
        """Whether it is what reading the source found in a whole module, of which its location is an example."""
        return self.probe.scope == "source" and ":" not in self.result.target


@dataclass(frozen=True)
class TargetReading(Record, keys="name=target.name **target answer roles found rung placeholders"):
    """A target as it was fed and read: what was configured, and what trying it showed.

    `roles` maps `norm`, `zero`, `nan`, `inf` to the field of the result that behaves so; `found` says
    that reading the checkout's source found the target. `rung` is how it was loaded: its `package` as it is, or
    `cut_out` of its file, with `placeholders` for what is absent; "" where it was not.
    `plan` is the worker's plan for calling the target; no document has it.
    """

    target: Target
    roles: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    found: bool = False
    rung: str = ""
    placeholders: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class NoTarget:
    """Why no target has a result: none was found, or none of them could be used.

    `hint` is what to do next; `is_import` is true if none could be imported.
    """

    message: str
    hint: str = ""
    is_import: bool = False


@dataclass(frozen=True)
class Run(
    Record,
    keys="run targets discovery_off? candidates? results ignored? fixes? no_fix? summary notes matrix? baseline? "
    "changed?",
):
    """The whole of one invocation, as `--json` prints it, but for `no_target`, whose message is among the notes.

    With several arms, `matrix` holds the run of each one; `results` then has one entry for each target and
    probe over all arms (see docs/design/matrix.md) and `environment` is the first arm's. `candidates` are what reading
    the source found, where the command named no target; `discovery_off` says that auditkit.yaml has `discover: false`.
    `fixes` are those that were run and suffice, `no_fix` says of the fingerprints without one why. `baseline` compares
    its findings with tickets, with --new-only. `scripts` are the texts of the section Reproduce by fingerprint,
    and `no_script` the reasons for none; only tickets have them. `ignored` are findings that a comment in the source
    suppresses; `results` lacks them. `changed` says what a run with --changed was restricted to.
    """

    schema_version: ClassVar[int] = 1

    id: str
    environment: Environment
    results: tuple[ProbeResult, ...]
    targets: tuple[TargetReading, ...] = ()
    notes: tuple[str, ...] = ()
    matrix: tuple[Arm, ...] = ()
    no_target: NoTarget | None = None
    discovery_off: bool = False
    candidates: tuple[FoundCandidate, ...] = ()
    fixes: tuple[Fix, ...] = ()
    no_fix: Mapping[str, str] = field(default_factory=dict)
    baseline: Baseline | None = None
    scripts: Mapping[str, str] = field(default_factory=dict)
    no_script: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[ProbeResult, ...] = ()
    changed: str = ""

    def environment_of(self, result: ProbeResult) -> Environment:
        """Where the figures of `result` were taken: its own arm's environment, where there are several."""
        return next((arm.environment for arm in result.arms if arm.arm == result.arm), self.environment)

    @property
    def run(self) -> RunHead:
        return RunHead(self.id, self.environment)

    @property
    def summary(self) -> dict[str, int]:
        """How many results there are of each outcome, every outcome named."""
        counts = Counter(result.outcome for result in self.results)
        return {outcome.value: counts[outcome] for outcome in Outcome}

    @classmethod
    def from_json(cls, document: Any) -> Run:
        """Return the run that `to_json` wrote. Raises ValueError with the place for anything else."""
        if not isinstance(document, dict) or document.get("schema_version") != cls.schema_version:
            version = document.get("schema_version") if isinstance(document, dict) else None
            raise ValueError(f"schema_version is {version!r}, not {cls.schema_version}")
        try:
            return converted(_fields_of(document), cls)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"a part of it is missing or of the wrong type: {error}") from None


def _fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's document with a key for each field, where `to_json` has put some in another place."""
    head = document["run"]
    return {
        **document,
        "id": head["id"],
        "environment": head,
        "targets": [{**raw, "target": raw} for raw in document.get("targets", ())],
        "results": [_fields_of_result(raw, head) for raw in document["results"]],
        "ignored": [_fields_of_result(raw, head) for raw in document.get("ignored", ())],
        "matrix": [{"label": raw["arm"], "run": _fields_of(raw)} for raw in document.get("matrix", ())],
    }


def _fields_of_result(raw: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """Of an arm's environment a document has the versions and the device; the rest is the run's."""
    reason, found = raw.get("reason"), dict(raw)
    found["loaded"] = not (reason and Reason(reason).is_not_loaded)
    found["measurements"] = [{**one, "value": number_again(one["value"], one["unit"])} for one in raw["measurements"]]
    if "siblings" in raw:
        found["siblings"] = {"places": [{"location": place} for place in raw["siblings"]]}
    own = ("python", "torch", "device")
    found["arms"] = [{**arm, "environment": {**head, **{key: arm[key] for key in own}}} for arm in raw.get("arms", ())]
    return found


@dataclass(frozen=True)
class Arm(Record, keys="arm=label **run"):
    """One column of a matrix: the run under one interpreter on one device, and what tells it from the others."""

    label: str
    run: Run
