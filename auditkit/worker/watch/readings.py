"""One pass over tensors: numbers that show whether a tensor changed, read back from the device at once.

`torch.hash_tensor` is an XOR over elements: all-ones has the hash of all-twos, and a permutation has the hash of the
original. Norm, sum and sampled elements distinguish those, so readings are compared as a whole.
"""

from __future__ import annotations

import math
import struct
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Iterator, Sequence

import torch

SAMPLES = 64


@contextmanager
def quietly() -> Iterator[None]:
    """Run torch's operators as plain functions: no gradients, no function modes of the program."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        yield


def local(tensor: Any) -> Any:
    """Return the local shard of a DTensor; another tensor as it is."""
    shard = getattr(tensor, "_local_tensor", None)
    return tensor if shard is None else shard


def flat(tensor: Any) -> Any:
    """Return all stored elements of a tensor in one dimension, as a view if the layout allows it."""
    tensor = local(tensor).detach()
    if tensor.layout != torch.strided:
        tensor = tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not tensor.is_contiguous() and torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
    return tensor.reshape(-1)


def sampled(tensor: Any, count: int = SAMPLES) -> Any:
    """Return a copy of at most `count` evenly spread elements, as float32."""
    tensor = local(tensor)
    if tensor.dtype == torch.float32 and tensor.layout == torch.strided and tensor.is_contiguous():
        # A fast path of two operators: an inspected step samples hundreds of tensors.
        stride = max(1, tensor.numel() // count)
        size = min(count, -(-tensor.numel() // stride))
        return tensor.as_strided((size,), (stride,), tensor.storage_offset()).detach().clone()
    elements = flat(tensor)
    stride = max(1, elements.numel() // count)
    picked = elements[::stride][:count]
    return picked.clone() if picked.dtype == torch.float32 else picked.float()


class Reading:
    """The result of one pass over one tensor."""

    __slots__ = ("hash", "norm", "sample", "total")

    def __init__(self, hash_: int, norm: float, total: float, sample: Any) -> None:
        self.hash, self.norm, self.total, self.sample = hash_, norm, total, sample

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.norm) or math.isfinite(self.total)

    def kept(self) -> tuple:
        """Return a digest, norm and sum, which are small enough to keep for the whole run."""
        return self.digest(), struct.pack("2f", self.norm, self.total)

    def digest(self) -> str:
        """Return twelve hexadecimal digits of the bits, without sums, whose order differs between machines."""
        packed = struct.pack("<Q%df" % self.sample.numel(), self.hash % 2**64, *self.sample.tolist())
        return blake2b(packed, digest_size=6).hexdigest()


def on_host(samples: list) -> list:
    """Return the samples on the CPU, with one copy per device; None stays None."""
    found = list(samples)
    by_device: dict = {}
    for place, sample in enumerate(samples):
        if sample is not None and sample.device.type not in ("cpu", "meta"):
            by_device.setdefault(sample.device, []).append((place, sample))
    for entries in by_device.values():
        pieces = torch.cat([sample for _, sample in entries]).cpu().split([sample.numel() for _, sample in entries])
        for (place, _), piece in zip(entries, pieces):
            found[place] = piece
    return found


def equal(one: Any, other: Any) -> bool:
    """Return whether two samples have the same bits; NaN equals NaN."""
    if one.shape != other.shape:
        return False
    return bool(torch.equal(one.view(torch.int32), other.view(torch.int32)))


def read_all(tensors: Sequence[Any]) -> list:
    """Return a reading for each tensor, None for an empty one or None; each device is read back once."""
    readings: list = [None] * len(tensors)
    by_device: dict = {}
    for place, tensor in enumerate(tensors):
        elements = flat(tensor) if tensor is not None else None
        if elements is None or not elements.numel() or elements.device.type == "meta":
            continue
        numbers = elements if elements.is_floating_point() else elements.float()
        total = torch.sum(numbers, dtype=torch.float32)
        entry = (place, torch.hash_tensor(elements), _norm(numbers), total, sampled(elements))
        by_device.setdefault(elements.device, []).append(entry)
    for entries in by_device.values():
        hashes = torch.stack([entry[1].view(torch.int64) for entry in entries]).tolist()
        floats = torch.stack([each for entry in entries for each in entry[2:4]]).tolist()
        samples = on_host([entry[4] for entry in entries])
        for number, entry in enumerate(entries):
            readings[entry[0]] = Reading(hashes[number], floats[2 * number], floats[2 * number + 1], samples[number])
    return readings


def _norm(elements: Any) -> Any:
    """Return the norm as float32, computed in float64 for float64."""
    wide = elements.dtype == torch.float64
    return torch.linalg.vector_norm(elements, dtype=None if wide else torch.float32).float()


def norms(tensors: Sequence[Any]) -> list:
    """Return the float32 norm of each tensor's local elements; each device is read back once."""
    parts = [flat(tensor) for tensor in tensors]
    found = [_norm(each).reshape(1) if each.numel() and each.device.type != "meta" else None for each in parts]
    return [0.0 if each is None else each.item() for each in on_host(found)]


def plain_number(value: Any) -> Any:
    """What a function returned as a number; None for anything else. A DTensor's would need a collective."""
    if getattr(value, "device_mesh", None) is not None:
        return None
    if isinstance(value, torch.Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def statistics_of(gradients: Sequence[Any], parameter_count: int) -> Any:
    """The numbers that a collector may return of gradients; None if it was given none, or a part of sharded ones."""
    if not (gradients or parameter_count) or any(hasattr(each, "device_mesh") for each in gradients):
        return None
    with quietly():
        parts = [flat(each) for each in gradients]
        parts = [each for each in parts if each.numel() and each.device.type != "meta"]
        largest = max((float(each.abs().max()) for each in parts), default=0.0)
        total = sum(float(torch.linalg.vector_norm(each.float(), 1)) for each in parts)
        found = norms(parts)
    return {
        "norm": combined(found), "largest": largest, "sum": total, "norms": sum(found),
        "elements": sum(each.numel() for each in parts), "tensors": len(parts),
    }  # fmt: skip


def combined(values: Sequence[float]) -> float:
    """Return the total norm from the norms of parts, in float64."""
    return math.sqrt(sum(value * value for value in values))
