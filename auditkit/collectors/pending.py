"""Measures several sets of gradients together and keeps their records on each device until they are read.

Legend: T gradients of a group, M numbers of its record (see records).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .cpu_pass import measure_on_cpu
from .device_pass import measure_on_device
from .records import (
    COUNT_ROWS,
    NARROW_SHIFTS,
    GradientMeasure,
    combine_measures,
    decode_record,
    encode_record,
    shifts_for,
)
from .sharding import gather_records
from .sources import GradientSource, GroupKey, select_gradients
from .statistics import GradientStats, summarize
from .triton_pass import measure_with_triton, runs_on_triton


@dataclass(frozen=True, slots=True)
class _RecordLayout:
    """Which gradients a record of `length` numbers describes: T of one set, once per rank."""

    set_index: int
    positions: Sequence[int]
    shifts: tuple[int, ...]
    length: int


class _Measured(NamedTuple):
    """Measures that are known already: of gradients in host memory, no part of which lies elsewhere."""

    set_index: int
    positions: Sequence[int]
    measures: Sequence[GradientMeasure]


@dataclass(frozen=True, slots=True)
class PendingSets:
    """The records of several sets of gradients, one after the other in one buffer per device."""

    _element_counts: Sequence[Sequence[int]]  # per set, per gradient
    _measured: Sequence[_Measured]
    _buffers: Mapping[torch.device, tuple[Tensor, Sequence[_RecordLayout]]]

    def materialize(self) -> list[GradientStats]:
        """Return the statistics of each set: one device-to-host copy per device."""
        no_measure = GradientMeasure(0.0, 0, 0, 0)
        measures = [[no_measure] * len(counts) for counts in self._element_counts]
        for set_index, positions, known in self._measured:
            for position, measure in zip(positions, known, strict=True):
                measures[set_index][position] = measure
        for buffer, layouts in self._buffers.values():
            values = buffer.cpu().tolist()
            start = 0
            for layout in layouts:
                decoded = _decode_ranks(values[start : start + layout.length], layout)
                start += layout.length
                for position, measure in zip(layout.positions, decoded, strict=True):
                    measures[layout.set_index][position] = measure
        return [summarize(*pair) for pair in zip(measures, self._element_counts, strict=True)]


def collect_sets(sources: Sequence[GradientSource]) -> PendingSets:
    """Start measuring the gradients of each source; nothing is read back from a device."""
    with torch.no_grad():
        gradient_sets = [select_gradients(source) for source in sources]
        records: dict[torch.device, list[Tensor]] = {}
        layouts: dict[torch.device, list[_RecordLayout]] = {}
        measured: list[_Measured] = []
        for set_index, gradients in enumerate(gradient_sets):
            for key, (positions, tensors) in gradients.groups.items():
                if _reads_now(key) and not key.shard_groups:
                    measured.append(_Measured(set_index, positions, measure_on_cpu(tensors)))
                    continue
                record, shifts = _measure(key, tensors)
                layout = _RecordLayout(set_index, positions, shifts, record.numel())
                records.setdefault(key.device, []).append(record)
                layouts.setdefault(key.device, []).append(layout)
        return PendingSets(
            [gradients.element_counts for gradients in gradient_sets],
            measured,
            {device: (_join(records[device]), layouts[device]) for device in records},
        )


def _join(records: Sequence[Tensor]) -> Tensor:
    return records[0] if len(records) == 1 else torch.cat(list(records))


def _reads_now(key: GroupKey) -> bool:
    # While Dynamo traces, CPU values cannot be branched on; the device pass has no branch on values.
    return key.device.type == "cpu" and not torch.compiler.is_compiling()


def _measure(key: GroupKey, tensors: Sequence[Tensor]) -> tuple[Tensor, tuple[int, ...]]:
    """Return the record of `tensors`, of every rank that holds a part of them, and its shifts."""
    if _reads_now(key):
        shifts: tuple[int, ...] = NARROW_SHIFTS
        record = torch.tensor(encode_record(measure_on_cpu(tensors)), dtype=torch.float64, device="cpu")
    else:
        shifts = shifts_for(key.dtype)
        measure = measure_with_triton if runs_on_triton(tensors) else measure_on_device
        record = measure(tensors, shifts)
    return gather_records(record, key.shard_groups), shifts


def _decode_ranks(values: Sequence[float], layout: _RecordLayout) -> list[GradientMeasure]:
    """Return the T measures of a record, combined over the ranks that it was gathered from."""
    record_length = (COUNT_ROWS + len(layout.shifts)) * len(layout.positions)
    per_rank = [
        decode_record(values[start : start + record_length], layout.shifts)
        for start in range(0, len(values), record_length)
    ]
    return [combine_measures(parts) for parts in zip(*per_rank, strict=True)]
