"""`auditkit-recorded.json`: the structure of the calls that a run made, without values. It is data of a checkout."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from auditkit.model.runs.met_by import MetBy

RECORDED_NAME = "auditkit-recorded.json"
VERSION = 1
MOST_BYTES = 1_000_000
_DEEPEST = 80

_Text = Annotated[str, msgspec.Meta(max_length=300)]
_Few = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=50)]


class RecordedCall(msgspec.Struct, omit_defaults=True, frozen=True):
    """The calls of one target.

    `arguments` has the structure of the first call's arguments by name; it is empty, and `not_recorded` says why, if
    that was too large. `source` is a digest of the target's source, `steps` how many steps went by per call. `when` is
    the day of an earlier run, "" for the day of the file.
    """

    file: _Text
    source: _Text
    calls: int
    calls_per_step: float | None = None
    callers: _Few = ()
    tensors: int | None = None
    dtypes: _Few = ()
    devices: _Few = ()
    layouts: _Few = ()
    arguments: dict[_Text, Any] = {}
    not_recorded: _Text = ""
    when: _Text = ""


class RecordedRun(msgspec.Struct, omit_defaults=True, frozen=True):
    """The calls of a run by their target, `package.module:function` or `file.py:function#statement`."""

    auditkit_recorded: int
    when: _Text
    torch: _Text
    steps: int
    calls: Annotated[dict[_Text, RecordedCall], msgspec.Meta(max_length=2000)]

    def with_earlier(self, earlier: RecordedRun | None, sources: Mapping[str, str]) -> RecordedRun:
        """Return the run with the calls of an earlier one that it lacks and whose source is that of `sources`."""
        if earlier is None:
            return self
        kept = {
            call: msgspec.structs.replace(old, when=old.when or earlier.when)
            for call, old in earlier.calls.items()
            if sources.get(call) == old.source
        }
        return msgspec.structs.replace(self, calls=dict(sorted({**kept, **self.calls}.items())))

    def met_by(self, call: str) -> MetBy | None:
        """Who calls a target, None if the run did not."""
        found = self.calls.get(call)
        if found is None:
            return None
        day = datetime.date.fromisoformat(found.when or self.when)
        return MetBy(
            "run", found.callers, found.calls_per_step, found.tensors, found.dtypes, found.devices, found.layouts,
            f"{day.day} {day:%B}",
        )  # fmt: skip


def read_recorded(text: bytes) -> RecordedRun:
    """Return the recorded run. Raises ValueError for what is not one of this version, is too large or too deep."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has {len(text):,} bytes, not at most {MOST_BYTES:,}")
    try:
        found = msgspec.json.decode(text, type=RecordedRun)
        for day in (found.when, *(call.when for call in found.calls.values() if call.when)):
            datetime.date.fromisoformat(day)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    if found.auditkit_recorded != VERSION:
        raise ValueError(f"it is of version {found.auditkit_recorded}, not {VERSION}")
    if any(_depth(call.arguments) > _DEEPEST for call in found.calls.values()):
        raise ValueError(f"it is more than {_DEEPEST} levels deep")
    return found


def _depth(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict | list):
            waiting += [(one, depth + 1) for one in (each.values() if isinstance(each, dict) else each)]
    return deepest


def written(run: RecordedRun) -> bytes:
    """The file: a line for each argument. Structures that do not fit into it are left out, the largest first."""
    while True:
        text = _text(run)
        if len(text) <= MOST_BYTES:
            return text
        sizes = {call: len(msgspec.json.encode(each.arguments)) for call, each in run.calls.items()}
        largest = max(sizes, key=lambda call: sizes[call])
        why = f"its structure has {sizes[largest]:,} bytes"
        left = msgspec.structs.replace(run.calls[largest], arguments={}, not_recorded=why)
        run = msgspec.structs.replace(run, calls={**run.calls, largest: left})


def _text(run: RecordedRun) -> bytes:
    head = msgspec.to_builtins(run)
    calls = []
    for call, found in head.pop("calls").items():
        arguments = [f"   {json.dumps(name)}: {json.dumps(node)}" for name, node in found.pop("arguments", {}).items()]
        fields = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
        fields += ['  "arguments": {\n' + ",\n".join(arguments) + "\n  }"] if arguments else []
        calls.append(f" {json.dumps(call)}: {{\n" + ",\n".join(fields) + "\n }")
    fields = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    return ("{" + ",\n".join([*fields, '"calls": {\n' + ",\n".join(calls) + "\n}"]) + "}\n").encode()
