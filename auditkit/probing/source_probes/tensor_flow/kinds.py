"""What a value is as far as waiting for a device goes: a tensor, things made of tensors, or on the host.

A kind is a text (`TENSOR`, `HOST`, ...), a tuple for things made of others, or None for what is not known.
Reading a HOST value is free: numbers, sizes, and tensors that were copied to the host once.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from auditkit.probing.source.modules import dotted_name, is_constant

Kind = Any
"""TENSOR, HOST, NONE, MODULE, GROUP, or ("items", kind), ("row", kinds), ("table", kind); None: not known."""

TENSOR = "tensor"
HOST = "host"
NONE = "none"
MODULE = "module"
GROUP = "group"


def items(kind: Kind) -> Kind:
    """A list, tuple, set, iterator or generator of `kind`."""
    return ("items", kind)


def row(kinds: Iterable[Kind]) -> Kind:
    """A tuple of values of their own kinds, such as a name and a parameter."""
    return ("row", tuple(kinds))


def table(kind: Kind) -> Kind:
    """A mapping from keys on the host to `kind`."""
    return ("table", kind)


PARAMETERS = items(TENSOR)
NAMED_PARAMETERS = items(row((HOST, TENSOR)))


def shape(kind: Kind) -> str:
    return kind[0] if isinstance(kind, tuple) else ""


def element(kind: Kind) -> Kind:
    """What a loop over `kind` gives: a tensor's rows are tensors, a mapping's keys are on the host."""
    if kind in (TENSOR, MODULE, HOST):
        return kind
    match shape(kind):
        case "items":
            return kind[1]
        case "row":
            return join_all(kind[1])
        case "table":
            return HOST
    return None


def holds_tensors(kind: Kind) -> bool:
    """Whether taking `kind` apart gives tensors. An optimiser's groups are few, however many parameters they have."""
    if kind in (TENSOR, MODULE):
        return True
    match shape(kind):
        case "row":
            return any(map(holds_tensors, kind[1]))
        case "items" | "table":
            return holds_tensors(kind[1])
    return False


def is_of_host(kind: Kind) -> bool:
    """Whether a kind is known to its ground, and nothing in it is a tensor: numbers, lists and mappings of numbers."""
    if shape(kind) == "row":
        return all(map(is_of_host, kind[1]))
    return is_of_host(kind[1]) if shape(kind) in ("items", "table") else kind in (HOST, NONE)


def join(first: Kind, second: Kind) -> Kind:
    """What a name holds after two branches; a tensor in one and a number in the other is not known."""
    if first == second or second == NONE:
        return first
    if first == NONE:
        return second
    if HOST in (first, second):
        return None
    if shape(first) == shape(second) == "items":
        return items(join(first[1], second[1]))
    return first if second is None else second if first is None else None


def join_all(kinds: Iterable[Kind]) -> Kind:
    found: Kind = NONE
    for kind in kinds:
        found = join(found, kind)
    return found


def result_of(kinds: Iterable[Kind]) -> Kind:
    """What an operator makes of its operands: a tensor where one is, on the host where all are."""
    known = list(kinds)
    if any(kind == TENSOR for kind in known):
        return TENSOR
    return HOST if all(kind in (HOST, NONE) for kind in known) else None


# --- what a parameter is, by its annotation and by its name ------------------------------------------

_TENSOR_TYPES = frozenset(("Tensor", "Parameter", "FloatTensor", "Variable"))
_HOST_TYPES = frozenset(("float", "int", "bool", "str", "bytes", "complex", "ndarray", "Path", "Number"))
_SEQUENCES = frozenset((
    "list", "List", "tuple", "Tuple", "Sequence", "Iterable", "Iterator", "Generator", "set", "Set", "deque",
    "Collection", "ParameterList",
))  # fmt: skip
_MAPPINGS = frozenset(("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "ParameterDict"))
_ALIASES = {"_tensor_or_tensors": items(TENSOR), "_params_t": items(TENSOR), "ParamsT": items(TENSOR)}
_OF_CPU = re.compile(r"(^|_)(cpu|numpy|np|pinned)(_|$|\d)", re.IGNORECASE)
_STATE_STEPS = re.compile(r"(state_)?steps?(_t)?")
_CHECKPOINT = re.compile(r"(\w+_)?(state_dict|checkpoint|ckpt)s?")
_NAMED = (
    (re.compile(r"(\w+_)?(grads|gradients|tensors)"), items(TENSOR)),
    (re.compile(r"(\w+_)?(grad|gradient|tensor)"), TENSOR),
    (re.compile(r"(\w+_)?(model|module|net|network)"), MODULE),
)


@functools.lru_cache(maxsize=100_000)
def lies_on_host(name: str) -> bool:
    """Whether a value that nothing else is known of lies in host memory by its name: `cpu_grads`, `checkpoint`.

    A checkpoint is copied to the host because it goes to a file, and torch's optimizers keep `state["step"]` there
    unless they are captured. The name of a function or a file says nothing.
    """
    last = name.rpartition(".")[2]
    return _OF_CPU.search(last) is not None or any(each.fullmatch(last) for each in (_STATE_STEPS, _CHECKPOINT))


def of_parameter(name: str, annotation: ast.expr | None) -> Kind:
    """What is passed for a parameter, as far as its annotation or else its name says."""
    if lies_on_host(name):
        return HOST
    if annotation is not None:
        return of_annotation(annotation)
    return next((kind for pattern, kind in _NAMED if pattern.fullmatch(name)), None)


def of_annotation(node: ast.expr) -> Kind:
    """The kind that an annotation names; a union of tensors and numbers is not known."""
    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=str(text)):
            try:
                return of_annotation(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=value, slice=inner):
            return _of_generic(dotted_name(value).rpartition(".")[2], inner)
    name = dotted_name(node).rpartition(".")[2]
    if name in _TENSOR_TYPES:
        return TENSOR
    if name in _HOST_TYPES:
        return HOST
    if name in _ALIASES:
        return _ALIASES[name]
    return MODULE if name == "Module" or name.endswith("Module") else None


def _of_generic(name: str, inner: ast.expr) -> Kind:
    parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if name in ("Optional", "Union"):
        return _union(parts)
    if name in _MAPPINGS:
        return table(of_annotation(parts[-1]))
    if name in _SEQUENCES:
        kinds = [of_annotation(part) for part in parts if not is_constant(part, ...)]
        if name in ("tuple", "Tuple") and len(kinds) > 1:
            return row(kinds)
        return items(kinds[0] if kinds else None)
    return None


def _union(parts: list[ast.expr]) -> Kind:
    kinds = [kind for kind in map(of_annotation, parts) if kind != NONE]
    if TENSOR in kinds and len(kinds) > 1:
        # "a tensor or several of them" is taken apart as several.
        return next((kind for kind in kinds if shape(kind) == "items" and kind[1] == TENSOR), None)
    return join_all(kinds)


# --- what functions and methods of torch give back, by name ------------------------------------------

HOST_READS = frozenset(("item", "tolist", "cpu", "numpy", "is_nonzero", "equal", "allclose", "__bool__"))
"""Methods of a tensor that wait for the device and bring values to the host."""

HOST_ATTRIBUTES = frozenset((
    "shape", "ndim", "device", "dtype", "layout", "requires_grad", "is_leaf", "is_cuda", "is_cpu", "is_sparse",
    "is_meta", "is_mps", "is_quantized", "is_nested", "itemsize", "nbytes", "names", "grad_fn", "name", "index",
    "type", "training",
))  # fmt: skip
HOST_METHODS = frozenset((
    "size", "dim", "numel", "nelement", "ndimension", "stride", "element_size", "data_ptr", "get_device",
    "storage_offset", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_pinned", "is_shared",
    "is_inference", "type", "untyped_storage", "storage", "register_hook", "backward", "requires_grad_",
    "is_coalesced", "sparse_dim", "dense_dim", "has_names",
))  # fmt: skip
WAITING = frozenset(("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"))
"""Functions and methods that read back how large their result is, which stays on the device."""

_TENSOR_ATTRIBUTES = frozenset(("grad", "data", "T", "H", "mT", "mH", "real", "imag"))
_SEVERAL = frozenset(("split", "chunk", "unbind", "tensor_split", "hsplit", "vsplit", "unsafe_split", "unsafe_chunk"))
# What else a tensor gives back as a tensor, in place or not, a DTensor as well. A method with another name is the
# checkout's own: what it gives is not known.
_TENSOR_METHODS = frozenset(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all amax amin aminmax angle any
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere as_strided as_strided_scatter
    asin asinh atan atan2 atanh baddbmm bernoulli bfloat16 bincount bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor bmm bool broadcast_to byte cauchy ccol_indices cdouble ceil cfloat
    chalf char cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min clip clone coalesce col_indices
    conj conj_physical contiguous copy copysign corrcoef cos cosh count_nonzero cov cross crow_indices cuda cummax
    cummin cumprod cumsum deg2rad dequantize det detach diag diag_embed diagflat diagonal diagonal_scatter diff
    digamma dist div divide dot double dsplit eq erf erfc erfinv exp exp2 expand expand_as expm1 exponential fill
    fill_diagonal fix flatten flip fliplr flipud float float_power floor floor_divide fmax fmin fmod frac frexp
    full_tensor gather gcd ge geometric geqrf ger greater greater_equal gt half hardshrink hash_tensor heaviside
    histc histogram hypot i0 igamma igammac index_add index_copy index_fill index_put index_reduce index_select
    indices inner int int_repr inverse ipu isclose isfinite isinf isnan isneginf isposinf isreal istft kron kthvalue
    lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 log_normal log_softmax logaddexp logaddexp2
    logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp long lt lu lu_solve
    masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max maximum mean median min minimum mm
    mode moveaxis movedim msort mtia mul multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile
    nansum narrow narrow_copy ne neg negative new_empty new_empty_strided new_full new_ones new_tensor new_zeros
    nextafter nonzero_static norm normal not_equal orgqr ormqr outer permute pin_memory pinverse polygamma positive
    pow prelu prod put qr quantile rad2deg random ravel reciprocal redistribute relu remainder renorm repeat
    repeat_interleave reshape reshape_as resize resize_as resize_as_sparse resolve_conj resolve_neg roll rot90 round
    row_indices rsqrt scatter scatter_add scatter_reduce select select_scatter sgn short sigmoid sign signbit sin
    sinc sinh slice_inverse slice_scatter smm softmax sort sparse_mask split_with_sizes sqrt square squeeze sspaddmm
    std stft sub subtract sum sum_to_size svd swapaxes swapdims t take take_along_dim tan tanh tile to to_dense
    to_local to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc
    to_sparse_csr topk trace transpose triangular_solve tril triu true_divide trunc type_as unflatten unfold uniform
    unique unique_consecutive unsafe_split_with_sizes unsqueeze values var vdot view view_as wait where xlogy xpu
    zero
""".split()  # noqa: SIM905
)
_FACTORIES = frozenset((
    "tensor", "as_tensor", "zeros", "ones", "full", "empty", "arange", "linspace", "logspace", "eye", "rand",
    "randn", "randint", "randperm", "from_numpy", "scalar_tensor", "range", "tril_indices", "triu_indices",
))  # fmt: skip
READ_FUNCTIONS = frozenset(("equal", "allclose", "is_nonzero"))
_NO_TENSORS = frozenset((
    "numel", "is_tensor", "is_storage", "is_complex", "is_floating_point", "is_grad_enabled", "result_type",
    "promote_types", "can_cast", "device", "dtype", "load", "save", "compile", "manual_seed", "seed", "no_grad",
    "enable_grad", "set_grad_enabled", "inference_mode", "get_default_dtype", "set_default_dtype", "finfo",
    "iinfo", "typename", "get_num_threads", "set_num_threads", "initial_seed", "get_rng_state", "autocast",
    "broadcast_shapes", "is_inference_mode_enabled", "set_printoptions", "vmap", "cond", "while_loop",
))  # fmt: skip
# Parts of torch whose functions compute on tensors; what else lives below torch gives no tensors to read.
_COMPUTING = frozenset(("torch", "torch.linalg", "torch.special", "torch.fft", "torch.nn.functional", "torch.Tensor"))
_CLIPPING = frozenset(("clip_grad_norm_", "clip_grad_norm", "get_total_norm", "_get_total_norm"))
_OF_MODULES = {
    "parameters": PARAMETERS,
    "buffers": PARAMETERS,
    "named_parameters": NAMED_PARAMETERS,
    "named_buffers": NAMED_PARAMETERS,
    "modules": items(MODULE),
    "children": items(MODULE),
    "named_modules": items(row((HOST, MODULE))),
    "named_children": items(row((HOST, MODULE))),
}
"""Methods that only modules have: what they give, whatever they are called on."""


def of_function(name: str, given: Sequence[Kind], keywords: Mapping[str, Kind], has_device: bool) -> Kind:
    """What the torch function `name` (`torch.linalg.norm`) gives back; None where that is not known.

    A tensor made without `device=` lies on the host.
    """
    part, _, last = name.rpartition(".")
    if last in _CLIPPING:
        return TENSOR
    if name == "torch.nn.Parameter":
        return TENSOR
    if last[:1].isupper():
        return MODULE if name.startswith("torch.nn.") else None
    if last.startswith("_foreach_") or name == "torch.autograd.grad":
        return items(TENSOR)
    if part not in _COMPUTING or last in _NO_TENSORS:
        return None
    if last.startswith("is_"):
        return HOST  # torch.is_same_size() and its like ask for what the host knows
    kinds = [*given, *keywords.values()]
    if last in _FACTORIES:
        return TENSOR if has_device or TENSOR in given else HOST
    flat = [kind[1] if shape(kind) == "items" else kind for kind in kinds]
    made = result_of(flat)
    # An operator of torch on a value of unknown kind: it would not be called on anything but a tensor.
    made = TENSOR if made is None and flat and flat[0] is None else made
    return items(made) if last in _SEVERAL else made


def of_method(base: Kind, name: str, given: Sequence[Kind]) -> Kind:
    """What the method `name` of a value of kind `base` gives back."""
    if name in _OF_MODULES and base not in (HOST, TENSOR):
        return _OF_MODULES[name]
    if name == "state_dict":
        return table(HOST)  # a checkpoint: copying it to the host is what it is for
    if base == TENSOR:
        if name in HOST_METHODS:
            return HOST
        if name in _SEVERAL:
            return items(TENSOR)
        return TENSOR if name.rstrip("_") in _TENSOR_METHODS else None
    if base == HOST:
        return TENSOR if name == "cuda" else HOST
    match shape(base):
        case "table":
            return _of_mapping(base[1], name, given)
        case "items" | "row":
            return base[1] if shape(base) == "items" and name in ("pop", "popleft") else None
    return None


def _of_mapping(value: Kind, name: str, given: Sequence[Kind]) -> Kind:
    match name:
        case "items":
            return items(row((HOST, value)))
        case "values":
            return items(value)
        case "keys":
            return items(HOST)
        case "get" | "pop" | "setdefault":
            return join(value, given[1]) if len(given) > 1 else value
        case "copy":
            return table(value)
    return None


def of_attribute(base: Kind, name: str) -> Kind:
    """What the attribute `name` of a value of kind `base` is."""
    if name == "grad":
        return HOST if base == HOST else TENSOR
    if name == "param_groups":
        return items(GROUP)
    if name in HOST_ATTRIBUTES and base != MODULE:
        return HOST
    if base == TENSOR:
        return TENSOR if name in _TENSOR_ATTRIBUTES else None
    if base == MODULE:
        if name in ("weight", "bias"):
            return TENSOR
        return HOST if name == "training" else MODULE
    return HOST if base == HOST else None
