"""Messages between the host and a worker: a request, then one message per line until the worker ends.

`worker/serve/messages.py` is the other end. `decode` validates a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import msgspec

from auditkit.model.enums import Evidence, Reason
from auditkit.model.runs.measurement import Location
from auditkit.worker.serve.messages import CONTROL

Plan = Mapping[str, Any]
"""How a target is fed, found by the worker and sent back to it unchanged. The host reads only `PlanFields`."""


class TorchCalls(TypedDict):
    """torch's own functions that a target calls, with their arguments, and the (file, line)s that call them."""

    functions: Mapping[str, Mapping[str, Any]]
    lines: Sequence[Sequence[Any]]


class Job(TypedDict):
    """A job for one child process; `kind` is `plan`, `probe` or `selfcheck`, with different fields.

    `plan` is an earlier one. `imports` are parts of torch to import before the fork.
    """

    id: str
    kind: str
    path: NotRequired[str]
    forms: NotRequired[str]
    instrument: NotRequired[str]
    device: NotRequired[str]
    devices: NotRequired[list[str]]
    contracts: NotRequired[list[str]]
    options: NotRequired[Mapping[str, Any]]
    target: NotRequired[Mapping[str, Any] | None]
    plan: NotRequired[Plan]
    imports: NotRequired[list[str]]


class BlockRequest(TypedDict):
    """A block of a file: the `text` of its function, and the `names` that the file must define; or why there is none.

    `places` are the positions in the file of the nodes of that text, in the order of `ast.walk`; `has_epochs` means
    that a loop is around its loop over batches; `context` are lines before it that show the model. `name` is
    `function#statement`, without a function at module level.
    """

    file: str
    name: str
    names: NotRequired[list[str]]
    text: NotRequired[str]
    places: NotRequired[list[tuple[int, int, int, int]]]
    has_epochs: NotRequired[bool]
    context: NotRequired[str]
    missing: NotRequired[str]


class Request(TypedDict):
    """One request to a worker: `modules` are loaded once, and then `jobs` run.

    `is_audit` separates the jobs of one target from trials. `blocks` are the blocks among the targets, by their calls.
    `auto_device` lets the worker use CUDA if it finds it. `rungs` are the ways to load a module, tried in turn; the
    worker chooses them if there are none.
    """

    is_audit: bool
    modules: list[str]
    checkout: str
    import_roots: list[str]
    jobs: list[Job]
    blocks: Mapping[str, BlockRequest]
    auto_device: bool
    time_limit_s: float
    rungs: list[str]
    recorded: Mapping[str, Any]


Scalar = int | float | str | bool | None


class _Message(msgspec.Struct, tag_field="type"):
    """A message; its tag is the value of `type`."""


class Hello(_Message, tag="hello"):
    """The first message of a worker, with torch imported."""

    pid: int
    python: str
    torch: str
    executable: str
    platform: str
    cuda: bool


class LoadedBy(msgspec.Struct, kw_only=True):
    """The way in which a target was loaded, the stubs of missing modules, and why its package did not load."""

    rung: str = ""
    placeholders: tuple[str, ...] = ()
    package_error: str = ""

    def describe(self) -> list[str]:
        """Return phrases on what differs from a plain import of the target; empty if nothing does."""
        named = ", ".join(self.placeholders)
        return [
            *(["cut out of its file, of which nothing else ran"] if self.rung == "cut_out" else []),
            *([f"empty stubs were imported for missing modules: {named}"] if named else []),
        ]


class Loaded(LoadedBy, tag_field="type", tag="loaded"):
    """The modules are loaded."""


class Failure(msgspec.Struct):
    """Why there is no result; `missing` are the modules that the target needs and that are not installed."""

    reason: Reason
    message: str
    hint: str = ""
    missing: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the message with its hint."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class LoadError(Failure, tag_field="type", tag="load_error"):
    """torch or a target's module cannot be loaded."""


class Failed(Failure, tag_field="type", tag="failed"):
    """A job reported that it failed."""


class Ended(_Message, tag="ended"):
    """The worker has ended with an exit code; a negative one is a signal."""

    status: int


class Start(_Message, tag="start"):
    job: str


class Planned(LoadedBy, tag_field="type", tag="plan"):
    plan: dict[str, Any]

    def __post_init__(self) -> None:
        msgspec.convert(self.plan, PlanFields)


class Measured(_Message, tag="measurement"):
    name: str
    value: Scalar | list[Scalar]
    unit: str
    case: dict[str, Scalar | list[Scalar]] = {}
    evidence: Evidence = Evidence.MEASURED


class Located(_Message, tag="location"):
    location: Location | None


class Noted(_Message, tag="note"):
    text: str


class Device(_Message, tag="device"):
    name: str


class Took(_Message, tag="took"):
    seconds: float


class Checked(_Message, tag="checked"):
    """An instrument read its toy."""


class NotApplicable(_Message, tag="not_applicable"):
    """The probe does not apply to this target."""

    message: str


class Unavailable(_Message, tag="unavailable"):
    """The probe cannot run on this machine."""

    message: str
    reason: Reason | None = None


class End(_Message, tag="end"):
    """The child of a job has ended; a `reason` means that it did not end by itself."""

    output_bytes: int
    reason: Reason | None = None
    message: str = ""


OfJob = (
    Planned | Measured | Located | Noted | Device | Took | Checked | NotApplicable | Unavailable | Failed | LoadError
)  # fmt: skip
OfWorker = Hello | Loaded | Ended | Start | End
Message = OfWorker | OfJob


class _Feed(msgspec.Struct):
    takes: str
    setup: str | None


class _Role(msgspec.Struct):
    path: str


class PlanFields(msgspec.Struct):
    """The types of the fields that the host reads of a plan."""

    feed: _Feed
    contract: str
    answer_kind: str
    fields: dict[str, str]
    roles: dict[str, _Role]
    clips: bool = False
    filled: dict[str, Any] = {}
    device: str = "cpu"
    others: dict[str, Any] = {}
    torch_calls: dict[str, Any] = {}


_OF_JOB: msgspec.json.Decoder[OfJob] = msgspec.json.Decoder(OfJob)
_OF_WORKER: msgspec.json.Decoder[OfWorker] = msgspec.json.Decoder(OfWorker)


def decode(line: bytes) -> Message:
    """Return the message in a worker's line; for an invalid one, a failure of the current job."""
    try:
        return _OF_WORKER.decode(line[1:]) if line.startswith(CONTROL) else _OF_JOB.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Failed(reason=Reason.PROTOCOL, message=f"the worker sent an invalid message: {str(error)[:200]}")
