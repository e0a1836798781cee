"""The vocabulary: values for names that a target reads, if the user gave none.

A finding must not depend on a guess, so `other` is a second plausible value with the same effect (a limit that clips
ordinary gradients, a step on which something is logged). If there is none, `other` is None: a norm without an order is
the 2-norm, which the probes check. A value that only the worker can create is given as the words that a report shows.
This file imports no torch: reading a checkout's source needs the same table.
"""

import functools
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

TOTAL_NORM = "the total norm of the gradients"
TOTAL_NORM_NUMBER = "the total norm of the gradients as a number"
GROUP_NORMS = "a list of the total norm of the gradients"
DEVICE, DEVICE_NAME = "the device of the gradients", "the name of the gradients' device"
GROUP = "a process group of world size 1"
BACKEND = "torch.distributed with a process group of world size 1"
CONFIG, OBJECT = "an object answering by name", "an object made without __init__"
OPTIMIZER, OPTIMIZERS = "SGD over the parameters", "a list of SGD over the parameters"
PARAM_GROUPS = "the groups of SGD over the parameters"
PARAMETER_LISTS = "a list of a list of the parameters"
GRADIENT_LISTS = "a list of a list of the gradients"
MASTER_LISTS = "a list of a list of the parameters in float32"
BUFFER_LISTS = "a list of a list of the gradients, zeros where there is none"
FLAG_LISTS = "a list of a list of True for each parameter"
FLAT_GRADIENT = "the gradients end to end"
LIMITS, CLIPS = "a limit of 1.0 for each parameter", "torch.nn.utils.clip_grad_norm_"
PAIRS = "pairs of a parameter and its gradient"
SCALER, SCALER_STATES = "a GradScaler that scales by 1", "the records by optimizer of a GradScaler"
SILENT = "an object whose methods do nothing"
LOGGER, LOSS = "a logger that prints nothing", "a loss that no parameter reaches"
NO_INF, SCALE_OF_ONE = "a tensor of 0.0", "a tensor of 1.0"
GIVES_GROUP = "a function giving a process group of world size 1"
GIVES_ZERO, GIVES_ONE = "a function giving 0", "a function giving 1"
SAME_VALUE = "a function giving back its argument"
OF_ONE_SAMPLE = "the gradient as that of one sample"
MODULE, MODULES = "the module", "a list of the module"
PARAMETERS, NAMED_PARAMETERS, GRADIENTS = "the parameters", "the named parameters", "the gradients"
CARRIERS = {
    MODULE: "module", MODULES: "modules", PARAMETERS: "parameters", NAMED_PARAMETERS: "named_parameters",
    GRADIENTS: "gradients", OPTIMIZER: "optimizer", OBJECT: "object",
}  # fmt: skip
"""What can carry the gradients of a call, with the command line's word for it."""
OF_ONE_CALL = (
    GRADIENTS, GRADIENT_LISTS, BUFFER_LISTS, MASTER_LISTS, FLAT_GRADIENT, PAIRS, TOTAL_NORM,
    TOTAL_NORM_NUMBER, GROUP_NORMS, OF_ONE_SAMPLE,
)  # fmt: skip
"""Values computed from the gradients of a call, which do not change when the parameters get others."""
_CALLABLE = (GIVES_GROUP, GIVES_ZERO, GIVES_ONE, SAME_VALUE, CLIPS, LOGGER, MODULE, SILENT)
STEPS_OF_A_CALL = 1000
"""The distance between the steps of two calls, so that periodic work runs in both."""


class Guess(NamedTuple):
    """A value, and another plausible one; None if there is none."""

    value: Any
    other: Any = None


STEP = Guess(0, 100)
"""Periodic work runs at step 0, and in most programs at step 100."""
POWER = Guess(2.0)
"""The order of a norm."""
_CLIP = Guess(1.0, 0.5)
_CLIP_OPTIONS = Guess({"max_norm": 1.0}, {"max_norm": 0.5})
_WORD = r"(?:.*_)?"
_OF_A_LIMIT = r"max|clip|clipping|clamp|threshold|limit"
_LIMIT = r"(?:(?:{0}|{1})_)*(?:{0})(?:_(?:{0}|{1}))*".format(
    _OF_A_LIMIT, r"grad|gradient|gradients|grads|global|norm|val|value|abs|by"
)
_Patterns = Tuple[Tuple[str, Any], ...]
_BY_NAME: _Patterns = (
    (r"((loss|grad|inv|inverse|cur|combined)_)?scale|factor", Guess(2.0, 4.0)),
    (r"((grad|clip)_)?norm_type|norm_order|ord|p|norm", POWER),
    (r"eps|epsilon", Guess(1e-8, 1e-6)),
    (r"num_updates|batch_idx|i|it|idx", STEP),
    (r"noise_multiplier", Guess(1.0, 0.5)),
    (r"prefix|tag", Guess("")),
    (r"lr|learning_rate", Guess(0.1, 0.01)),
    (r"(total|global)_norm", Guess(TOTAL_NORM)),
    (r"is_root|is_main_process|is_master|requires_grad|sync_gradients|is_active", Guess(True)),
    (r"grad_norm", _CLIP),  # of a configuration; a required argument is the norm itself
    (r"found_inf", Guess(NO_INF)),
    (r"grad_sample", Guess(OF_ONE_SAMPLE)),
    (r"self", Guess(OBJECT)),
    (_LIMIT, _CLIP),
    (_LIMIT + "s", Guess(LIMITS)),
    (_WORD + r"(step|iteration|iter|epoch)(_num|_idx)?", STEP),
    (r"check_(for_)?(nan|inf|finite|overflow)\w*", Guess(True)),
    (r"(num|n)_\w+", Guess(1)),
    (r"get_\w*rank", Guess(GIVES_ZERO)),
    (r"get_\w*size", Guess(GIVES_ONE)),
    (_WORD + r"rank", Guess(0)),
    (_WORD + r"device", Guess(DEVICE)),
    (_WORD + r"backend", Guess("gloo")),
    (r"\w*clip\w*_(kwargs|args|cfg|config)", _CLIP_OPTIONS),
    (_WORD + r"(size|len|interval|every|freq|frequency|accumulation_steps|grad_accum|update_freq|ngpus?)", Guess(1)),
    (
        r"(use|is|enable|should|do|with|skip|no|has|allow|force|return|log|needs|supports|ignore|check|run|apply|"
        r"compute|track|monitor|overlap|keep|average|normalize)_\w+|\w+_(enabled|only)|fp16|bf16|amp|verbose|debug|"
        r"foreach|fused|error_if_nonfinite|cpu_offload|offload|shared|(tensor_model|sequence|expert)_parallel",
        Guess(False, True),
    ),
    (r"get_\w*(group|pg)", Guess(GIVES_GROUP)),
    (r"\w+_(fn|func)", Guess(SAME_VALUE)),
    (
        _WORD + r"pg|group|\w*(process|parallel|data|dp|tp|pp|mp|ep|cp|fsdp|tensor|pipeline|expert|world|comm|shard\w*|"
        r"replica\w*|reduc\w*|model|moe)\w*_group",
        Guess(GROUP),
    ),
    (_WORD + r"(cfg|configs?|conf|args|hparams|hps|opts?|options|settings|flags|configuration)", Guess(CONFIG)),
    (_WORD + r"(optimizer|optim|optim_wrapper|optimizer_wrapper)", Guess(OPTIMIZER)),
    (_WORD + r"optimizers", Guess(OPTIMIZERS)),
    (_WORD + r"param(eter)?_groups", Guess(PARAM_GROUPS)),
    (r"\w*(param\w*_and_grad\w*|param\w*_grad\w*_(pairs|tuples)|grads_and_vars)", Guess(PAIRS)),
    (_WORD + r"scaler", Guess(SCALER)),
    (
        _WORD + r"(writer|logger|tb|wandb|tensorboard|tracker|experiment|pbar|progress_bar|message_hub|recorder)",
        Guess(LOGGER),
    ),
    (_WORD + r"timers?", Guess(SILENT)),
    (_WORD + r"scale", Guess(2.0, 4.0)),
    (_WORD + r"(window|patience|steps)", Guess(1)),
    (_WORD + r"tolerance|weight_decay", Guess(0.0)),
    (_WORD + r"loss", Guess(LOSS)),
    (
        _WORD + r"(trainer|engine|runner|learner|accelerator|strategy|fabric|parallel_context|mpu|parallel_dims|"
        r"parallel_state)",
        Guess(OBJECT),
    ),
)
"""Arguments and attributes; the first matching pattern counts."""
_BY_ANNOTATION: Dict[str, Guess] = {
    "float": Guess(0.5, 0.25), "int": Guess(1, 2), "bool": Guess(False, True), "Optimizer": Guess(OPTIMIZER),
    "GradScaler": Guess(SCALER), "ProcessGroup": Guess(GROUP),
    "SummaryWriter": Guess(LOGGER), "Logger": Guess(LOGGER),
}  # fmt: skip
_OF_OBJECTS: _Patterns = (
    # State by group of optimizers of several precisions, and of GradScalers.
    (r"fp32_from_\w+_groups", Guess(MASTER_LISTS)),
    (r"(fp|bf|bit|float)(16|32)_groups|param(eter)?s_in_\w+", Guess(PARAMETER_LISTS)),
    (r"averaged_grad\w*", Guess(GRADIENT_LISTS)),
    (r"\w+_groups_grad(ient)?s", Guess(BUFFER_LISTS)),
    (r"\w+_groups_has_grad\w*", Guess(FLAG_LISTS)),
    (r"grad_(data|buffer)|flat_grads?|grad\w*_flat(_buffer)?", Guess(FLAT_GRADIENT)),
    (r"_scale", Guess(SCALE_OF_ONE)),
    (r"_per_optimizer_states", Guess(SCALER_STATES)),
    (r"_*(log|log_dict|log_scalars|log_metrics|print|info|warning|add_scalars?)_*", Guess(LOGGER)),
    (r"_*(gather|all_gather|all_reduce|reduce|unwrap_model)_*", Guess(SAME_VALUE)),
)
"""Attributes and methods of objects only."""
_GROUP_NORMS = re.compile(r"(\w+_)?(norm_groups|norms?_list|group_norms)")
_OPTIONAL = re.compile(r"(?:typing\.|t\.)?Optional\[(.*)\]|(.*?)\s*\|\s*None", re.DOTALL)
# Sections of a configuration, which have further parts.
_SECTIONS = re.compile(
    r"(\w+_)?(optim|optimizer|optimization|train|training|trainer|model|solver|common|distributed|distributed_training|"
    r"dist|log|logging|parallel|parallelism|checkpoint|data|clip_gradients|fsdp|trainer|dataset|lr_scheduler|"
    r"hyperparameters|general|system|runtime|cfg|config|args|hparams)"
)
_CARRIERS_BY_NAME: _Patterns = (
    # a method, a list with one item each, a flag
    (r"(get|set|compute|prepare|zero|clip|reduce|norm|num)_\w*|\w*_has_\w*", ""),
    (r"\w*named_\w+", NAMED_PARAMETERS),
    (_WORD + r"(models|modules|model_chunks|model_parts|model_list|chunks|networks|nets|layers)", MODULES),
    (_WORD + r"(params?|parameters?|weights)(_list|_flat\w*|_for_\w+)?|(param|parameter)_list", PARAMETERS),
    (
        _WORD + r"(grads?|gradients?)(_list|_(for|by)_\w+|_flat\w*|_groups?_flat\w*|s)?|\w*fp\d\d_groups|tensors|"
        r"grad_(in|out)puts?",
        GRADIENTS,
    ),
    (_WORD + r"(module|model|net|network|backbone|encoder|decoder|policy|layer|actor|critic|generator)", MODULE),
)


_compiled = functools.lru_cache(maxsize=None)(re.compile)


def _first(table: _Patterns, word: str) -> Any:
    return next((found for pattern, found in table if _compiled(pattern).fullmatch(word)), None)


def guess(name: str, annotation: str) -> Optional[Guess]:
    """Return a guess for the argument `name`, declared as `annotation` ("" for none); None if there is none."""
    if name == "device" and annotation == "str":
        return Guess(DEVICE_NAME)
    if name in ("total_norm", "global_norm", "grad_norm") and _OPTIONAL.fullmatch(annotation) is None:
        return Guess(TOTAL_NORM_NUMBER if annotation == "float" else TOTAL_NORM)
    if holds_group_norms(name):
        return Guess(GROUP_NORMS)
    if name in ("inv_scale", "inverse_scale") and annotation.endswith("Tensor"):
        return Guess(SCALE_OF_ONE)
    if is_limit(name) and re.search(r"\b[dD]ict\b", annotation):
        return _CLIP_OPTIONS
    if carrier("", annotation):
        return None
    declared = _OPTIONAL.fullmatch(annotation)
    plain = annotation if declared is None else next(filter(None, declared.groups()), "")
    found = known(name) or _BY_ANNOTATION.get(plain.split(".")[-1])
    return found or (Guess(None, True) if declared is not None and not carrier(name, annotation) else None)


@functools.lru_cache(maxsize=None)
def known(name: str) -> Optional[Guess]:
    """Return a guess for an argument or attribute `name`; None if the name is not known."""
    found: Optional[Guess] = _first(_BY_NAME, name.strip("_").lower())
    return Guess(CLIPS) if name == "clip_grad_norm_" else found


@functools.lru_cache(maxsize=None)
def of_object(name: str) -> Optional[Guess]:
    """Return a guess for an attribute or method of an object."""
    kind = carrier(name)
    return _first(_OF_OBJECTS, name) or known(name) or (Guess(kind) if kind else None)


def is_callable(found: Optional[Guess]) -> bool:
    """Return whether a guessed value can be called."""
    return found is not None and found.value in _CALLABLE


def holds_group_norms(name: str) -> bool:
    """Return whether an argument of this name is a list of one norm for each group of parameters."""
    return _GROUP_NORMS.fullmatch(name) is not None


def is_limit(name: str) -> bool:
    """Return whether a name is that of a limit that gradients are clipped to."""
    return re.fullmatch(_LIMIT, name.strip("_").lower()) is not None


@functools.lru_cache(maxsize=None)
def carrier(name: str, annotation: str = "") -> str:
    """Return which view of the gradients a name means (`PARAMETERS`, ...); "" for none."""
    found = _first(_CARRIERS_BY_NAME, name.strip("_").lower()) or ""
    if found or "Callable" in annotation:
        return str(found)
    if re.search(r"\bModule\b", annotation):
        return MODULES if "[" in annotation else MODULE
    return PARAMETERS if re.search(r"\bParameter\b", annotation) else ""


def last_name(path: str) -> str:
    """Return the last name of a path; of a getter, the name of its result."""
    name = path.rpartition(".")[2].partition("[")[0].partition("(")[0]
    return re.sub(r"^(get_)?(compute_)?", "", name)


def in_configuration(name: str) -> Optional[Guess]:
    """Return a guess for an attribute of a configuration, whose `optimizer` and `model` are sections."""
    word, found = name.strip("_").lower(), known(name)
    is_value = found is not None and not isinstance(found.value, str) and word != "clip_gradients"
    return Guess(CONFIG) if not is_value and _SECTIONS.fullmatch(word) else found
