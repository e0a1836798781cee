"""The arguments of targets of spectra and of shard plans: one form for each argument, found by trying.

A `Feed` names the `forms` in the order of its `slots`. The only item of the first group is the case that a form is made
from: a batch of replicas as (R, N, M), or a `ShardCase`.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch

from ..base.nested import map_leaves
from . import slot_names
from .matrices import Svd, aligned

FACTORS, KEYS, GRADIENTS = "factors", "keys", "gradients"


def _device_svd(grads: torch.Tensor) -> Svd:
    """Decompose in the gradients' own precision if SVD supports it, else in float32, rounded back."""
    wide = grads if grads.dtype in (torch.float32, torch.float64) else grads.float()
    left, svals, right_rows = torch.linalg.svd(wide, full_matrices=False)
    return Svd(*(part.to(grads.dtype) for part in (left, svals, right_rows.mT)))


def _aligned_factors(grads_RNM: torch.Tensor) -> Svd:
    raw = _device_svd(grads_RNM)
    return aligned(raw, Svd(*(part[0] for part in raw)))


class WideBatch(NamedTuple):
    """A 16-bit batch whose forms are passed in float32: the same values, with a result in float32."""

    batch: torch.Tensor

    @property
    def shape(self) -> torch.Size:
        return self.batch.shape


_MATRIX_FORMS: Dict[str, Callable[[torch.Tensor], Any]] = {
    "batch": lambda grads: grads,
    "list": lambda grads: list(grads.unbind(0)),
    "mapping": lambda grads: {"layers.0.weight": grads},
    "mean": lambda grads: grads.mean(0),
    "svds": lambda grads: tuple(_device_svd(grads)),
    "mean_svd": lambda grads: tuple(_device_svd(grads.mean(0))),
    "aligned": lambda grads: tuple(_aligned_factors(grads)),
    "left": lambda grads: _aligned_factors(grads).left,
    "svals": lambda grads: _aligned_factors(grads).svals,
    "right": lambda grads: _aligned_factors(grads).right,
}


class ShardCase(NamedTuple):
    """Keys to divide, the rank, and the number of ranks. `salt` only changes the keys' hashes."""

    key_count: int
    rank: int
    world_size: int
    salt: int = 0


class SaltedText(str):
    """A string with a hash of its own, so that sets order it differently in each process."""

    salt = 0

    def __hash__(self) -> int:
        return hash((self.salt, str(self)))

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented


def names(case: ShardCase) -> List[SaltedText]:
    """Return the keys as names of parameters, in a fixed order that is not alphabetical."""
    made = []
    for index in range(case.key_count):
        name = SaltedText("layers.{}.{}.weight".format(index // 4, ("query", "key", "mlp", "norm")[index % 4]))
        name.salt = case.salt
        made.append(name)
    return made


def work(index: int) -> int:
    """Return the number of elements of the matrix of a key; these differ by a factor of up to 16."""
    return (64, 64, 1024, 128)[index % 4]


def _tuples(case: ShardCase) -> List[Tuple[SaltedText, int]]:
    return [(name, index // 4) for index, name in enumerate(names(case))]


_KEY_FORMS: Dict[str, Callable[[ShardCase], Any]] = {"texts": names, "tuples": _tuples}
_OTHER_FORMS: Dict[str, Callable[[ShardCase], Any]] = {
    "rank": lambda case: case.rank,
    "world_size": lambda case: case.world_size,
}


def combinations(slots: Sequence[str], contract: str) -> List[Tuple[str, ...]]:
    """Return combinations of forms to try for the arguments of a contract, likeliest first.

    Spectral echoes get aligned factors. The arguments of a shard plan are its keys, rank and world size.
    """
    if contract != "shard":
        factors = "aligned" if contract == "spectral_echo" else "svds"
        if len(slots) == 1:
            whole: List[Tuple[str, ...]] = [("batch",), ("list",), ("mapping",)]
            return [*([(factors,)] if slot_names.is_factors(slots[0]) else []), *whole]
        kinds = [slot_names.matrix_kind(slot) for slot in slots]
        return [tuple(factors if kind == slot_names.SVDS else kind for kind in kinds)] if all(kinds) else []
    kinds = [slot_names.shard_kind(slot) for slot in slots]
    if kinds.count("keys") != 1 or len(set(kinds)) != len(kinds):
        return []
    place = kinds.index("keys")
    return [(*kinds[:place], form, *kinds[place + 1 :]) for form in _KEY_FORMS]


def identity(key: Any, case: ShardCase) -> Any:
    """Return the index of a returned key in any form, or `key` itself if it is unknown."""
    if isinstance(key, bool):
        return key
    if isinstance(key, int):
        return key if 0 <= key < case.key_count else "index {}".format(key)
    if isinstance(key, tuple) and key and isinstance(key[0], str):
        key = key[0]
    known = {str(name): index for index, name in enumerate(names(case))}
    return known.get(str(key), key) if isinstance(key, str) else key


_FORMS: Dict[str, Callable[[Any], Any]] = {**_MATRIX_FORMS, **_KEY_FORMS, **_OTHER_FORMS}


def takes_of(forms: Sequence[str]) -> str:
    """Return what a target takes, in the command line's word."""
    if set(forms) & set(_KEY_FORMS):
        return KEYS
    return GRADIENTS if {"batch", "mapping"} & set(forms) or set(forms) == {"list"} else FACTORS


def arguments_of(slots: Sequence[str], forms: Sequence[str], case: Any) -> Dict[str, Any]:
    """Return the values of the arguments, by name, for one case."""
    made = case.batch if isinstance(case, WideBatch) else case
    values = {slot: _FORMS[form](made) for slot, form in zip(slots, forms, strict=True)}
    return map_leaves(_wide, values) if isinstance(case, WideBatch) else values


def _wide(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, torch.Tensor) else leaf
