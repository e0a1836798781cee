"""What names say: values that are gradients, norms of them, and functions that reduce, clip or report them."""

from __future__ import annotations

import ast
import re
from functools import cache

from auditkit.probing.source_code.modules import dotted_name, last_name

REDUCTIONS = frozenset({
    "norm", "vector_norm", "matrix_norm", "get_total_norm", "sum", "nansum", "mean", "nanmean", "std",
    "var", "std_mean", "var_mean", "max", "min", "amax", "amin", "aminmax", "median", "quantile", "isnan",
    "isinf", "isfinite", "any", "all", "count_nonzero", "item", "tolist", "dot", "vdot", "histc", "histogram",
    "cosine_similarity", "logsumexp", "_foreach_norm", "_foreach_max", "_get_total_norm", "corrcoef", "Histogram",
    "add_histogram",
})  # fmt: skip
FINITE_CHECKS = frozenset({"isnan", "isinf", "isfinite", "any", "all", "item", "tolist"})
ABOUT = frozenset({
    "device", "dtype", "shape", "is_cuda", "is_sparse", "ndim", "requires_grad", "layout", "numel", "size",
    "dim", "is_tensor", "len", "isinstance", "type", "id", "data_ptr", "is_contiguous", "element_size", "stride",
    "hasattr", "get_device", "is_floating_point", "nbytes", "is_meta", "range", "callable", "data_parallel_group",
})  # fmt: skip
"""Sizes and places of gradients are not gradients."""

PARTS_OF_TRAINING = frozenset(("step", "backward", "forward", "closure", "zero_grad", "training_step", "main"))
"""Functions that happen to return something: no collectors, and their names say nothing about who calls them."""

_GRADIENT_WORDS = frozenset(("grad", "grads", "gradient", "gradients", "backprops"))
# `clip_grads`, `requires_grad`, `num_grads`: what is done about gradients, and how many there are.
_DEEDS = frozenset((
    "requires", "require", "no", "zero", "clip", "max", "min", "enable", "disable", "set", "is", "has", "have", "use",
    "reduce", "sync", "accumulate", "scale", "unscale", "with", "create", "need", "needs", "allow", "free", "detach",
    "compute", "get", "num", "n", "skip", "log", "check", "average", "return", "retain", "count", "should", "do",
    "can", "ignore", "overlap", "keep", "scatter", "gather", "async", "offload", "copy", "norm", "norms", "none",
    "noise", "add", "apply", "backward", "calc", "calculate", "stop", "update", "print", "watch", "normalize",
    "rescale",
))  # fmt: skip
# `grad_list`, `grads_for_norm`, `grad_groups_flat`: how they are kept. `grad_output` is that of an operation.
_KEPT = frozenset((
    "data", "sample", "samples", "list", "lists", "flat", "flattened", "buffer", "buffers", "shard", "shards", "local",
    "partition", "partitions", "partitioned", "tensor", "tensors", "value", "values", "vec", "vector", "dict", "for",
    "in", "group", "groups", "fp32", "fp16", "bf16", "by", "name", "of", "this", "unscaled", "clipped", "chunk",
    "chunks", "pairs", "norm", "i", "j", "0", "1", "2", "a", "b", "view", "map", "clone", "copy", "averaged", "reduced",
))  # fmt: skip
_LIMITS = frozenset((
    "max", "min", "clip", "limit", "threshold", "type", "fn", "func", "enabled", "log", "use", "eps", "order", "weight",
    "weights", "param", "params", "layer", "rms", "batch", "instance", "skip", "should", "is", "has", "process",
    "dtype", "activation", "update", "input", "inputs", "output", "outputs", "by", "with", "before", "after", "meter",
    "queue",
))  # fmt: skip
_FINITE_WORDS = frozenset((
    "nan", "nans", "inf", "infs", "isnan", "isinf", "isfinite", "finite", "nonfinite", "overflow", "infinite",
))  # fmt: skip
_FIGURES = frozenset(
    ("sum", "mean", "std", "var", "variance", "corr", "correlation", "stats", "statistics", "histogram")
)
_NORM_WORDS = frozenset(("norm", "norms", "l2norm", "norm2", "norm1", "lp", "kurtosis"))
_NO_NORMS = frozenset((
    "layer", "batch", "group", "instance", "rms", "weight", "normalize", "normalized", "to", "clip", "get_norm_layer",
))  # fmt: skip
_CLIPS = re.compile(
    r"_?(?:\w+_)?clip_(?:\w+_)?(?:grad|grads|gradient|gradients)(?:_\w+)?|(?:\w+_)?clip_(?:func|fn)|"
    r"(?:\w*_)?clipper|rescale_grad\w*|clip_tensors_by_\w+|clip_coef_and_\w+"
)
_NO_CLIPS = re.compile(
    r"_?(?:get|create|make|build|set|register|is|has|enable|enables|should|needs|configure|check|use)_"
)
_LOGS = re.compile(
    r"print\w*|log|log_\w+|logkv\w*|info|debug|warn|warning|error|critical|exception|write|report\w*|record\w*|"
    r"add_scalars?|add_histogram|update_scalars?|put_scalars?|append_scalars?|track\w*|emit\w*|validate\w*|verify\w*"
)
_NO_LOGGERS = frozenset(("torch", "math", "np", "numpy", "F"))
_GETTERS = frozenset(("get", "collect", "gather", "fetch", "flatten", "list", "iter", "named", "main", "master", "all"))


@cache
def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_") if word)


@cache
def holds_gradients(name: str) -> bool:
    """Whether a variable, an argument or an attribute of this name holds gradients: `main_grad`, `grads_for_norm`."""
    words = _words(name)
    at = next((index for index, word in enumerate(words) if word in _GRADIENT_WORDS), None)
    if at is None or not _DEEDS.isdisjoint(words[:at]):
        return False
    after = words[at + 1 :]
    return all(word in _KEPT or word in _GRADIENT_WORDS for word in after) and ("norm" not in after or "for" in after)


@cache
def gets_gradients(name: str) -> bool:
    """Whether a function of this name hands out gradients: `get_grads_for_grad_norm`, `master_grads`."""
    words = _words(name)
    if len(words) < 2 or words[0] not in _GETTERS:
        return False
    plural = next((index for index, word in enumerate(words) if word in ("grads", "gradients")), None)
    return plural is not None and ({"norm", "norms"}.isdisjoint(words) or "for" in words[plural:])


@cache
def holds_norm(name: str) -> bool:
    """Whether a value of this name is a norm of gradients that somebody computed: `total_norm`, `norm_groups`."""
    words = _words(name)
    if not {"norm", "norms"} & set(words) or not _LIMITS.isdisjoint(words):
        return False
    return bool({"grad", "grads", "gradient", "gradients", "total", "global"} & set(words)) or name in (
        "norms", "norm_list", "norm_groups", "norm_group", "all_groups_norm", "local_norm", "local_norms",
    )  # fmt: skip


@cache
def holds_norms_of_gradients(name: str) -> bool:
    """Whether what has this name holds a norm for each gradient: `norm_for_param_grads`, `_norm_sample`."""
    words = set(_words(name))
    of_each = words & {"grads", "gradients", "sample", "samples"}
    return bool(words & {"norm", "norms"}) and bool(of_each) and words.isdisjoint({"max", "clip"})


@cache
def gets_norm(name: str) -> bool:
    """Whether a function of this name, whoever defines it, gives the norm of gradients: `get_global_grad_norm`."""
    words = _words(name)
    return words[:1] in (("get",), ("compute",), ("calc",), ("calculate",)) and words[-1] == "norm" and holds_norm(name)


def is_about_figures(name: str) -> bool:
    """Whether a function is named for a figure that is no norm of all gradients: a mean, one for each sample."""
    words = set(_words(name))
    of_each = {"sample", "samples"} & words
    return bool(of_each) or (words.isdisjoint(_NORM_WORDS) and not words.isdisjoint(_FIGURES))


def is_about_norms(name: str) -> bool:
    """Whether a function is named for a norm that it gives: `get_global_norm`."""
    words = set(_words(name))
    return bool(words & {"norm", "norms"}) and words.isdisjoint(_LIMITS | {"group"})


@cache
def reduces(name: str) -> bool:
    """Whether a function of this name, handed gradients, gives statistics of them."""
    words = set(_words(name))
    return name in REDUCTIONS or (bool(words & (_FINITE_WORDS | _NORM_WORDS)) and words.isdisjoint(_NO_NORMS))


@cache
def is_finite_check(name: str) -> bool:
    """Whether a function of this name asks for NaN, infinity or zeros, and answers by a flag or a count."""
    return name in FINITE_CHECKS or not (_FINITE_WORDS | {"zeros"}).isdisjoint(_words(name))


@cache
def clips(name: str) -> bool:
    """Whether a function of this name limits gradients, whoever defines it."""
    return _CLIPS.fullmatch(name) is not None and _NO_CLIPS.match(name) is None


def logs(function: ast.expr) -> bool:
    """Whether what is called reports: prints, logs, or writes to a board."""
    head = dotted_name(function).partition(".")[0]
    return _LOGS.fullmatch(last_name(function)) is not None and head not in _NO_LOGGERS


def is_named_for_clipping(name: str) -> bool:
    """Whether a function says that it limits or rescales gradients."""
    return not {"clip", "clips", "clipped", "clipping", "clamp", "rescale", "normalize"}.isdisjoint(_words(name))


def is_helper_of_collectors(name: str) -> bool:
    """Whether a function of any tensors, which somebody hands gradients, is named for what collectors do."""
    words = set(_words(name))
    if _words(name)[:1] in (("materialize",), ("materialise",), ("finalize",), ("finalise",), ("finish",)):
        return False
    is_asked_for = _words(name)[:1] in (("get",), ("compute",), ("calc",), ("calculate",))
    of_all = bool(words & {"norm", "norms"}) and (bool(words & {"total", "global"}) or is_asked_for)
    return of_all or bool(words & (_GRADIENT_WORDS | _FINITE_WORDS | {"zeros"})) or name.startswith("clip_")


def speaks_of_gradients(name: str) -> bool:
    """Whether a method of this name is told from others of the same name well enough: it names what it is about."""
    words = set(_words(name))
    return bool(words & (_GRADIENT_WORDS | _FINITE_WORDS | _NORM_WORDS | {"zeros"}))
