"""Measures several sets of gradients together and keeps their records on each device until they are read.

Legend: T gradients of a group, M numbers of its record (see records).

To torch.compile a measurement is one operator of our own, which it does not look into: what runs is what runs
without it. Why: docs/design/collectors.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple, get_args

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
    norm_of_norms,
    norms_on_device,
    shifts_for,
)
from .sharding import gather_records
from .sources import GradientSet, GroupKey
from .statistics import GradientStats, NormThresholds, summarize
from .triton_pass import measure_with_triton, runs_on_triton

Backend = Literal["auto", "torch", "triton"]
"""What measures CUDA gradients: ordinary operators, the Triton kernels, or ("auto") the kernels where they run."""


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
    _names: Sequence[Sequence[str]]  # the same
    _measured: Sequence[_Measured]
    _buffers: Mapping[torch.device, tuple[Tensor, Sequence[_RecordLayout]]]

    def __repr__(self) -> str:
        # The values lie on a device: to show them would wait for it.
        return " and ".join(f"{len(counts)} gradients" for counts in self._element_counts) + ", not read"

    def total_norm(self, set_index: int) -> Tensor:
        """Return the total norm of a set, 0-d and float64, on its first device that is not the CPU."""
        known = [measured.measures for measured in self._measured if measured.set_index == set_index]
        norm_here = combine_measures(list(chain.from_iterable(known))).norm
        with torch.no_grad():
            parts = [
                norms_on_device(record, layout.shifts, len(layout.positions)).view(-1)
                for buffer, layouts in self._buffers.values()
                for record, layout in zip(buffer.split_with_sizes([x.length for x in layouts]), layouts, strict=True)
                if layout.set_index == set_index
            ]
            if not parts:
                return torch.tensor(norm_here, dtype=torch.float64, device="cpu")
            first = next((part for part in parts if part.device.type != "cpu"), parts[0])
            # new_full: the number is the argument of a kernel. A copy from the host would wait.
            parts.append(first.new_full((1,), norm_here))
            return norm_of_norms(torch.cat([part.to(first.device, non_blocking=True) for part in parts]))

    def materialize(self, thresholds: NormThresholds) -> list[GradientStats]:
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
        described = zip(measures, self._element_counts, self._names, strict=True)
        return [summarize(*one, thresholds) for one in described]


def measure_sets(gradient_sets: Sequence[GradientSet], backend: Backend = "auto") -> PendingSets:
    """Start measuring the gradients of each set; nothing is read back from a device."""
    if backend not in get_args(Backend):
        raise ValueError(f"backend is {backend!r}: expected 'auto', 'torch' or 'triton'")
    with torch.no_grad():
        records: dict[torch.device, list[Tensor]] = {}
        layouts: dict[torch.device, list[_RecordLayout]] = {}
        measured: list[_Measured] = []
        for set_index, gradients in enumerate(gradient_sets):
            for key, (positions, tensors) in gradients.groups.items():
                if _reads_now(key) and not key.shard_groups and not torch.compiler.is_compiling():
                    measured.append(_Measured(set_index, positions, measure_on_cpu(tensors)))
                    continue
                record, shifts = _measure(key, tensors, backend)
                layout = _RecordLayout(set_index, positions, shifts, record.numel())
                records.setdefault(key.device, []).append(record)
                layouts.setdefault(key.device, []).append(layout)
        return PendingSets(
            [gradients.element_counts for gradients in gradient_sets],
            [gradients.names for gradients in gradient_sets],
            measured,
            {device: (_join(records[device]), layouts[device]) for device in records},
        )


def _join(records: Sequence[Tensor]) -> Tensor:
    return records[0] if len(records) == 1 else torch.cat(list(records))


def _reads_now(key: GroupKey) -> bool:
    return key.device.type == "cpu"


def _measure(key: GroupKey, tensors: list[Tensor], backend: Backend) -> tuple[Tensor, tuple[int, ...]]:
    """Return the record of `tensors`, of every rank that holds a part of them, and its shifts."""
    reads_now = _reads_now(key)
    shifts = NARROW_SHIFTS if reads_now else shifts_for(key.dtype)
    measure = torch.ops.auditkit.gradient_record if torch.compiler.is_compiling() else _record
    return gather_records(measure(tensors, reads_now, shifts, backend), key.shard_groups), shifts


def _record(tensors: list[Tensor], reads_now: bool, shifts: Sequence[int], backend: str) -> Tensor:
    """Return the record of tensors of one device and dtype: float64, shape (K * T,)."""
    if reads_now:
        return torch.tensor(encode_record(measure_on_cpu(tensors)), dtype=torch.float64, device="cpu")
    uses_kernels = backend != "torch" and runs_on_triton(tensors, is_required=backend == "triton")
    measure = measure_with_triton if uses_kernels else measure_on_device
    return measure(tensors, tuple(shifts))


def _shape_of_record(tensors: list[Tensor], reads_now: bool, shifts: Sequence[int], backend: str) -> Tensor:  # noqa: ARG001
    """Return what the compiler works with in place of a record."""
    return tensors[0].new_empty((COUNT_ROWS + len(shifts)) * len(tensors), dtype=torch.float64)


# Not torch.library.custom_op, whose layers for autograd took 0.1 ms of the 0.5 ms of 8 gradients.
_OPERATOR = "auditkit::gradient_record"
if not hasattr(torch.ops.auditkit, "gradient_record"):  # torch keeps operators where a notebook reloads modules
    torch.library.define(_OPERATOR, "(Tensor[] tensors, bool reads_now, int[] shifts, str backend) -> Tensor")
    torch.library.impl(_OPERATOR, "CompositeExplicitAutograd", _record)
    torch.library.register_fake(_OPERATOR, _shape_of_record)


def _decode_ranks(values: Sequence[float], layout: _RecordLayout) -> list[GradientMeasure]:
    """Return the T measures of a record, combined over the ranks that it was gathered from."""
    record_length = (COUNT_ROWS + len(layout.shifts)) * len(layout.positions)
    per_rank = [
        decode_record(values[start : start + record_length], layout.shifts)
        for start in range(0, len(values), record_length)
    ]
    return [combine_measures(parts) for parts in zip(*per_rank, strict=True)]
