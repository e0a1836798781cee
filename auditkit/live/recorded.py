"""Which functions a run records, and the file that an audit builds its inputs from."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from auditkit.live.recording import Recording
from auditkit.model.enums import Contract
from auditkit.model.runs.recorded import VERSION, RecordedCall, RecordedRun
from auditkit.probing.find.blocks.blocks import Block, function_or_block
from auditkit.probing.find.library_calls import library_candidates
from auditkit.probing.find.search import discover
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.run.recorded_file import source_digest

CANDIDATES = "candidates.json"


def find_candidates(folder: Path, root: Path) -> None:
    """Write for the watchers the places of all candidates that reading the source finds."""
    found = discover(root, (), lambda _: True)
    trains = {each.call for each in found.candidates if each.contract_guess is Contract.TRAIN_STEP}
    measures = {each.call for each in found.candidates if each.contract_guess is Contract.GRAD_NORM} - trains
    entries = []
    for call in dict.fromkeys(each.call for each in found.candidates):
        function = function_or_block(found.files, call)
        if function is None:
            continue
        node = function.node
        decorators = [each.lineno for each in getattr(node, "decorator_list", ())]
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        entry = {
            "call": call, "file": function.module.file, "first_line": min([node.lineno, *decorators]),
            "last_line": node.end_lineno, "source": source_digest(function), "trains": call in trains, "names": names,
            "measures": call in measures,
        }  # fmt: skip
        if isinstance(function, Block):
            sets = frozenset[str]().union(*(names_of(each).stores for each in function.statements))
            entry |= {"names": [*names, *function.names], "sets": sorted(sets - {*names})}
        entries.append(entry)
    for each in library_candidates(found.library_calls):
        entries.append({"call": each.call, "file": each.file, "source": "", "trains": False, "is_library": True})
    path = folder / CANDIDATES
    path.with_suffix(".new").write_text(json.dumps({"root": str(root), "candidates": entries}), encoding="utf-8")
    os.replace(path.with_suffix(".new"), path)


def recorded_run(recording: Recording, folder: Path, earlier: RecordedRun | None = None) -> RecordedRun | None:
    """Return the calls of all processes, each target's from the process that called it first; None if there are none.

    What the `earlier` run called and this one did not is kept, unless its source has changed.
    """
    with suppress(OSError, ValueError):
        places = {each["call"]: each for each in json.loads((folder / CANDIDATES).read_text("utf-8"))["candidates"]}
        calls: dict[str, RecordedCall] = {}
        for process in recording.trained:
            for raw in process.data.get("recorded", ()):
                if raw["call"] in places and raw["call"] not in calls:
                    calls[raw["call"]] = _call(raw, places[raw["call"]], process.steps)
        if calls:
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            steps = max(process.steps for process in recording.trained)
            run = RecordedRun(VERSION, today, recording.trained[0].torch, steps, dict(sorted(calls.items())))
            return run.with_earlier(earlier, {call: place["source"] for call, place in places.items()})
    return None


def _call(raw: Mapping[str, Any], place: Mapping[str, Any], steps: int) -> RecordedCall:
    summary = raw.get("summary") or {}
    dtypes, devices, layouts = (_joined(raw, name) for name in ("dtypes", "devices", "layouts"))
    return RecordedCall(
        file=place["file"],
        source=place["source"],
        calls=raw["calls"],
        calls_per_step=_per_step(raw, steps),
        callers=tuple(raw["callers"])[:5],
        tensors=summary.get("tensors"),
        dtypes=dtypes,
        devices=devices,
        layouts=layouts,
        arguments=raw.get("record") or {},
    )


def _joined(raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
    summaries: Sequence[Mapping[str, Any]] = [raw.get("summary") or {}, *raw.get("more", ())]
    return tuple(dict.fromkeys(value for each in summaries for value in each.get(name, ())))[:5]


def _per_step(raw: Mapping[str, Any], steps: int) -> float | None:
    """Calls per step between the first and the last call that was counted; all of them if they were within a step."""
    if raw.get("late"):
        return None
    # The steps of the optimizer that made the most, else those of all optimizers.
    steps_between, turns_between = (last - first for first, last in zip(raw["first"], raw["last"], strict=True))
    between = steps_between or turns_between
    return float((raw["calls"] - 1) / between if between else raw["calls"] / max(1, steps))
