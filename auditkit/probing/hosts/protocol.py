"""What travels between the host and a worker: one request, then a message a line until the worker ends.

`worker/server.py`, `worker/jobs.py` and `worker/process/children.py` are the other end. Types alone stand here: a
message is the mapping that JSON makes of its line, told apart by its `type`.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import (
    Any,
    Literal,
    Never,
    NotRequired,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from auditkit.model.enums import Evidence, Reason
from auditkit.model.runs.target import Target


class Feed(TypedDict):
    """Of how a target is fed, what the host reads."""

    takes: str
    setup: str | None


class Role(TypedDict):
    path: str


class TorchCalls(TypedDict):
    """torch's own functions that a target calls, with the arguments they got; the (file, line)s to blame for them."""

    functions: Mapping[str, Mapping[str, Any]]
    lines: Sequence[Sequence[Any]]


class Plan(TypedDict):
    """Of a target's plan what the host reads; the rest goes back to the worker as it came."""

    feed: Feed
    contract: str
    answer_kind: str
    fields: Mapping[str, str]
    roles: Mapping[str, Role]
    clips: NotRequired[bool]
    filled: NotRequired[Mapping[str, Any]]
    device: NotRequired[str]
    others: NotRequired[Mapping[str, Any]]
    torch_calls: NotRequired[TorchCalls | Mapping[str, Never]]


# --- what the host sends ---


class Job(TypedDict):
    """A question for one child process; `kind` is `plan`, `probe` or `selfcheck`, which need what they need.

    `target` is that of a plan in a request without a target; `plan` one that is known already. `imports` are parts of
    torch that are imported before the process is forked.
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
    target: NotRequired[Mapping[str, Any]]
    plan: NotRequired[Plan]
    imports: NotRequired[list[str]]


class BlockRequest(TypedDict):
    """A block of a file: the `tree` of its function, and the `names` that the file has to define; or why not.

    `name` is `function#statement`, without a function at module level.
    """

    file: str
    name: str
    names: NotRequired[list[str]]
    tree: NotRequired[Any]
    missing: NotRequired[str]


class Request(TypedDict):
    """One request to a worker. Without a target each job names its own, or needs none.

    `rungs` are the ways to load the target that are tried in turn; without them those that make sense for it.

    A target travels as the mapping of its fields. `modules` are those that targets of jobs are in.
    `auto_device` lets the worker take CUDA where it finds it; `fresh_imports` has every job import the target.
    `blocks` are the blocks among the targets, by their calls.
    """

    token: str
    target: Target | None
    modules: list[str]
    checkout: str
    import_roots: list[str]
    jobs: list[Job]
    blocks: Mapping[str, BlockRequest]
    auto_device: bool
    time_limit_s: float
    fresh_imports: bool
    rungs: list[str]


# --- what the worker answers: of itself ---


class Bare(TypedDict):
    """`begun`: a Python runs our code. `checked`, of a job: an instrument read its toy. `idle`: all jobs have ended."""

    type: Literal["begun", "idle", "checked"]


class Hello(TypedDict):
    type: Literal["hello"]
    python: str
    torch: str
    executable: str
    platform: str
    cuda: bool


class LoadedBy(TypedDict):
    """How a target was loaded: the rung, what stands in for something absent, and why not as its package.

    Of a worker in which every job imports the target, each plan says it.
    """

    rung: NotRequired[str]
    placeholders: NotRequired[list[str]]
    package_error: NotRequired[str]


class Loaded(LoadedBy):
    """The target is imported; `why` says why this process may not fork, where it may not."""

    type: Literal["loaded"]
    fork_safe: bool
    why: str


class LoadError(TypedDict):
    """torch, or the target's module, cannot be imported; after a `start` it is that of one job.

    `missing` are the modules that it imports and nobody has.
    """

    type: Literal["load_error"]
    reason: Reason
    message: str
    hint: NotRequired[str]
    missing: NotRequired[list[str]]


# --- of one job, between its `start` and its `end` ---


class Start(TypedDict):
    type: Literal["start"]
    job: str


class Planned(LoadedBy):
    type: Literal["plan"]
    plan: Plan


Scalar = float | str | bool | None


class Measured(TypedDict):
    type: Literal["measurement"]
    name: str
    value: Scalar | Sequence[Scalar]
    unit: str
    case: NotRequired[Mapping[str, Scalar | Sequence[Scalar]]]
    evidence: NotRequired[Evidence]


class Place(TypedDict):
    """`folder` is where `file` lies, "" for the checkout."""

    file: str
    line: int
    function: str
    folder: str


class Located(TypedDict):
    type: Literal["location"]
    location: Place | None


class Noted(TypedDict):
    type: Literal["note"]
    text: str


class Device(TypedDict):
    type: Literal["device"]
    name: str


class Took(TypedDict):
    type: Literal["took"]
    seconds: float


class Refused(TypedDict):
    """The probe's question makes no sense for this target, or cannot be asked on this machine."""

    type: Literal["not_applicable", "unavailable"]
    message: str
    reason: NotRequired[Reason | None]


class Failed(TypedDict):
    type: Literal["failed"]
    reason: Reason
    message: str
    hint: NotRequired[str]
    missing: NotRequired[list[str]]


class End(TypedDict):
    """The child has ended; a `status` other than `ok` says with `reason` and `message` how."""

    type: Literal["end"]
    status: str
    reason: NotRequired[Reason | None]
    message: NotRequired[str]
    output_bytes: NotRequired[int]
    output_tail: NotRequired[str]


OfJob = Bare | Planned | Measured | Located | Noted | Device | Took | Refused | Failed | LoadError | End
Message = Hello | Loaded | Start | OfJob


# --- what the host believes ---


def checked(said: Mapping[str, Any]) -> Message | None:
    """The message that a worker sent; None for what is none, as a target may write whatever it likes.

    One whose fields are not what they have to be is a failure of its job.
    """
    kind = _kinds().get(str(said.get("type")))
    if kind is None:
        return None
    misfit = _misfit(said, kind, "")
    if misfit is None:
        return cast("Message", said)
    text = (
        f"the worker sent a message of type {said['type']} that is none{': it has a strange ' * bool(misfit)}{misfit}"
    )
    return {"type": "failed", "reason": Reason.PROTOCOL, "message": text}


@functools.cache
def _kinds() -> dict[str, Any]:
    """The types of messages by what each calls itself."""
    return {name: kind for kind in get_args(Message) for name in get_args(_fields(kind)["type"])}


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _misfit(value: Any, kind: Any, place: str) -> str | None:
    """The place in what JSON said that is not of a type, as far as the types of this file go; None for none."""
    origin, parts = get_origin(kind), get_args(kind)
    inner: Iterable[tuple[Any, Any, str]]
    if is_typeddict(kind):
        if not isinstance(value, dict):
            return place
        inner = ((value.get(name), each, name) for name, each in _fields(kind).items()
                 if name in value or get_origin(each) is not NotRequired)  # fmt: skip
    elif origin is NotRequired:
        inner = ((value, parts[0], place),)
    elif origin in (list, Sequence) and isinstance(value, list):
        inner = ((each, parts[0], place) for each in value)
    elif origin is Mapping and isinstance(value, dict):
        inner = ((each, parts[1], f"{place}.{name}") for name, each in value.items())
    else:
        return None if _fits(value, kind, parts) else place
    found = (_misfit(each, of, name) for each, of, name in inner)
    return next((each for each in found if each is not None), None)


def _fits(value: Any, kind: Any, parts: Sequence[Any]) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in parts
    if get_origin(kind) in (Union, types.UnionType):
        return any(_misfit(value, each, "") is None for each in parts)
    if kind is Any or kind is NoneType or kind is None:
        return kind is Any or value is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return value in kind._value2member_map_
    return isinstance(kind, type) and isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
