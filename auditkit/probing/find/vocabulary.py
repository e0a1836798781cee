"""The meaning of names as data: words, methods and patterns. `gradient_names` reads the words."""

from __future__ import annotations

import re

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
"""Sizes and locations of gradients are not gradients."""
GRADIENT_WORDS = frozenset(("grad", "grads", "gradient", "gradients", "backprops"))
# Words before "grad" that make it an action or a count: `clip_grads`, `requires_grad`, `num_grads`.
DEEDS = frozenset((
    "requires", "require", "no", "zero", "clip", "max", "min", "enable", "disable", "set", "is", "has", "have", "use",
    "reduce", "sync", "accumulate", "scale", "unscale", "with", "create", "need", "needs", "allow", "free", "detach",
    "compute", "get", "num", "n", "skip", "log", "check", "average", "return", "retain", "count", "should", "do",
    "can", "ignore", "overlap", "keep", "scatter", "gather", "async", "offload", "copy", "norm", "norms", "none",
    "noise", "add", "apply", "backward", "calc", "calculate", "stop", "update", "print", "watch", "normalize",
    "rescale",
))  # fmt: skip
# Words after "grad" that say how gradients are stored: `grad_list`, `grads_for_norm`, `grad_groups_flat`.
KEPT = frozenset((
    "data", "sample", "samples", "list", "lists", "flat", "flattened", "buffer", "buffers", "shard", "shards", "local",
    "partition", "partitions", "partitioned", "tensor", "tensors", "value", "values", "vec", "vector", "dict", "for",
    "in", "group", "groups", "fp32", "fp16", "bf16", "by", "name", "of", "this", "unscaled", "clipped", "chunk",
    "chunks", "pairs", "norm", "i", "j", "0", "1", "2", "a", "b", "view", "map", "clone", "copy", "averaged", "reduced",
))  # fmt: skip
LIMITS = frozenset((
    "max", "min", "clip", "limit", "threshold", "type", "fn", "func", "enabled", "log", "use", "eps", "order", "weight",
    "weights", "param", "params", "layer", "rms", "batch", "instance", "skip", "should", "is", "has", "process",
    "dtype", "activation", "update", "input", "inputs", "output", "outputs", "by", "with", "before", "after", "meter",
    "queue",
))  # fmt: skip
FINITE_WORDS = frozenset((
    "nan", "nans", "inf", "infs", "isnan", "isinf", "isfinite", "finite", "nonfinite", "overflow", "infinite",
))  # fmt: skip
FIGURES = frozenset(
    ("sum", "mean", "std", "var", "variance", "corr", "correlation", "stats", "statistics", "histogram")
)
NORM_WORDS = frozenset(("norm", "norms", "l2norm", "norm2", "norm1", "lp", "kurtosis"))
NO_NORMS = frozenset((
    "layer", "batch", "group", "instance", "rms", "weight", "normalize", "normalized", "to", "clip", "get_norm_layer",
))  # fmt: skip
CLIPS = re.compile(
    r"_?(?:\w+_)?clip_(?:\w+_)?(?:grad|grads|gradient|gradients)(?:_\w+)?|(?:\w+_)?clip_(?:func|fn)|"
    r"(?:\w*_)?clipper|rescale_grad\w*|clip_tensors_by_\w+|clip_coef_and_\w+"
)
NO_CLIPS = re.compile(
    r"_?(?:get|create|make|build|set|register|is|has|enable|enables|should|needs|configure|check|use)_"
)
LOGS = re.compile(
    r"print\w*|log|log_\w+|logkv\w*|info|debug|warn|warning|error|critical|exception|write|report\w*|record\w*|"
    r"add_scalars?|add_histogram|update_scalars?|put_scalars?|append_scalars?|track\w*|emit\w*|validate\w*|verify\w*"
)
NO_LOGGERS = frozenset(("torch", "math", "np", "numpy", "F"))
GETTERS = frozenset(("get", "collect", "gather", "fetch", "flatten", "list", "iter", "named", "main", "master", "all"))

# Methods and functions that change tensors.

SCALES = frozenset((
    "mul_", "div_", "copy_", "multiply_", "divide_", "_foreach_mul_", "_foreach_div_", "set_", "lerp_",
))  # fmt: skip
CLAMPS = frozenset((
    "clamp_", "clip_", "clamp_min_", "clamp_max_", "_foreach_clamp_min_", "_foreach_clamp_max_",
))  # fmt: skip
BOUNDS = frozenset(("clamp", "clip", "clamp_tensor", "clip_by_value", "hardtanh"))
POWERS = frozenset(("sqrt", "einsum", "square", "pow"))
"""Reductions in a function named for a norm."""
WITHOUT_RESULT = frozenset(("_amp_foreach_non_finite_check_and_unscale_", "amp_non_finite_check_and_unscale_"))
"""They check their arguments, and write the result into one of them."""
CONTAINER_METHODS = frozenset(("append", "extend", "add", "update", "insert", "appendleft", "setdefault"))
FILLS = frozenset((
    "fill_", "logical_or_", "copy_", "add_", "bitwise_or_", "set_", "scatter_add_", "index_add_",
))  # fmt: skip
COLLECTIVES = frozenset(("gather", "all_gather", "all_gather_into_tensor", "reduce_scatter", "all_gather_object"))


# torch's own functions are separate targets.
LIBRARY = frozenset(("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "get_total_norm"))
# A factor such as 1 / world_size averages or unscales; these words, or a statistic, make it a limit.
LIMIT_WORDS = re.compile(r"clip|coef|max_norm|max_grad|clamp")
TELLS = re.compile(r"print|log|writer|info|debug|warn|add_scalar|report|record|wandb|pbar|progress|meter")
OF_PARAMETERS = re.compile(r"param|weights")
LOOP_PARAMETER = re.compile(r"p|par|param\w*|\w+_params?|weight|w")

# Calls without side effects.

PLAIN_CALLS = frozenset({
    "list", "tuple", "dict", "set", "filter", "map", "zip", "enumerate", "sorted", "float", "int", "bool", "len",
    "max", "min", "sum", "abs", "range", "any", "all", "isinstance", "hasattr", "getattr", "next", "iter",
    "parameters", "named_parameters", "children", "named_children", "modules", "named_modules", "values", "items",
    "keys", "get", "defaultdict", "detach", "item", "double", "sqrt", "pow", "append",
})  # fmt: skip
PLAIN_MODULES = frozenset(("torch", "math", "itertools", "functools", "collections", "numpy", "operator"))
SETS_UP = re.compile(r"param|grad|norm|clip|coef")


AUTOGRAD = re.compile(r"(.*_)?(backward|forward)(_.*)?|(.*_)?(fwd|bwd)(_.*)?")
NOT_CALLED = frozenset(("property", "cached_property", "setter", "overload", "abstractmethod", "fixture"))
CHANGES = frozenset(("add_", "sub_", "mul_", "div_", "addcmul_", "addcdiv_", "lerp_", "copy_"))
PARAMETER = re.compile(r"(\w+_)?(p|params?|parameters?|weights?)")
FINISH_NAME = re.compile(r"(materiali[sz]e|finali[sz]e|finish|resolve|reali[sz]e|to_python|to_host|to_cpu|sync)(_.*)?")
COLLECT_WORDS = re.compile(r"^(collect|compute|get|gather|measure)_|_async$")


TRAINING_METHODS = frozenset(("backward", "step", "zero_grad"))
PARTS_OF_TRAINING = TRAINING_METHODS | {"forward", "closure", "training_step", "main"}
"""Functions that may return a statistic by the way: not collectors, and their names do not identify callers."""
STEPPED = re.compile(r"(.*\.)?\w*(opt|optim\w*|optimizer\w*|scaler)\w*(\[.*\])?", re.IGNORECASE)
LOSS = re.compile(r"(\w*_)?loss(es)?")
