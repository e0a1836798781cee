"""Names of arguments of targets of spectra and of shard plans. Discovery uses this, too: no torch here."""

import re
from typing import Sequence, Set

_LEFT = re.compile(r"left|^u(_|$|s$)|(^|_)u$", re.IGNORECASE)
_RIGHT = re.compile(r"right|^v(_|$|s$)|(^|_)vh?$", re.IGNORECASE)
_SVALS = re.compile(r"sval|singular_val|sigma|^s(_|$)", re.IGNORECASE)
_MEAN = re.compile(r"mean|ref|avg|average|target", re.IGNORECASE)
_SVD = re.compile(r"svd|factors|decomp|bases|aligned", re.IGNORECASE)
_WORLD = re.compile(
    r"world|num_(shards|ranks|workers|replicas|parts)|n_(shards|ranks|parts)|(shard|rank)_count|"
    r"total_(shards|ranks)|^(shards|ranks|parts)$",
    re.IGNORECASE,
)
_RANK = re.compile(r"rank|shard_(id|index)|worker|^(shard|index|part|owner)$", re.IGNORECASE)
_COUNT = re.compile(r"^n$|count|num_|n_|length|total", re.IGNORECASE)
SVDS, MEAN, MEAN_SVD = "svds", "mean", "mean_svd"


def is_factors(slot: str) -> bool:
    """Return whether an argument is a whole decomposition (U, S, V) by its name."""
    return bool(_SVD.search(slot))


def matrix_kind(slot: str) -> str:
    """Return `left`, `right`, `svals`, `svds`, `mean`, `mean_svd` or `batch`; "" for an unknown name."""
    if _MEAN.search(slot):
        return MEAN_SVD if _SVD.search(slot) else MEAN
    for kind, pattern in (("left", _LEFT), ("right", _RIGHT), ("svals", _SVALS), (SVDS, _SVD)):
        if pattern.search(slot):
            return kind
    return "batch" if re.search("grad|replica", slot, re.IGNORECASE) else ""


def shard_kind(slot: str) -> str:
    """Return `rank`, `world_size`, or `keys` for anything else."""
    if _WORLD.search(slot):
        return "world_size"
    return "rank" if _RANK.search(slot) else "keys"


def is_count(slot: str) -> bool:
    """Return whether an argument is the number of keys."""
    return bool(_COUNT.search(slot))


def is_shard_word(slot: str) -> bool:
    """Return whether an argument is a rank or a number of ranks."""
    return shard_kind(slot) != "keys"


def is_known(slot: str) -> bool:
    """Return whether the name shows what an argument of these targets is."""
    return is_shard_word(slot) or is_count(slot) or bool(matrix_kind(slot))


def looks_like_matrices(slots: Sequence[str]) -> bool:
    """Return whether these are the arguments of a function of replica gradients or of their factors."""
    kinds: Set[str] = {matrix_kind(slot) for slot in slots}
    return bool(slots) and "" not in kinds and not kinds <= {MEAN, MEAN_SVD, "svals"} and len(kinds) == len(slots)
