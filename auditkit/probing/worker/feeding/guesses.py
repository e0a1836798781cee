"""Values for what a target reads that are no gradients and that nobody gave: guesses by name, each told to the reader.

A finding that hangs on a guess alone is none: `other` is a second value that is as plausible, and that keeps to what
the first one does (a limit that clips ordinary gradients, a step on which something is logged). Where there is no
such value `other` is None: a norm without an order is the 2-norm, which is what the probes ask about.
A value that only the worker can make stands here as the words that the reader is told.
This file imports no torch: reading a checkout's source needs the same table.
"""

import ast
import functools
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

TOTAL_NORM = "the total norm of the gradients"
"""Stands for a value that depends on the gradients of the call: their exact norm, as float32."""
TOTAL_NORM_NUMBER = "the total norm of the gradients as a number"
"""The same for an argument that is declared as a float."""
GROUP_NORMS = "a list of the total norm of the gradients"
"""The norms of all groups of parameters, of which there is one."""
DEVICE = "the device of the gradients"
"""Stands for the device of the call's first gradient."""
DEVICE_NAME = "the name of the gradients' device"
"""The same for an argument that is declared as text."""
FOUND_HOST = "the host, as its program finds it without CUDA"
GROUP = "a process group of world size 1"
BACKEND = "torch.distributed with a process group of world size 1"
MESH = "a device mesh of world size 1"
CONFIG = "an object answering by name"
OBJECT = "an object made without __init__"
OPTIMIZER = "SGD over the parameters"
OPTIMIZERS = "a list of SGD over the parameters"
PARAM_GROUPS = "the groups of SGD over the parameters"
PARAMETER_LISTS = "a list of a list of the parameters"
GRADIENT_LISTS = "a list of a list of the gradients"
MASTER_LISTS = "a list of a list of the parameters in float32"
BUFFER_LISTS = "a list of a list of the gradients, zeros where there is none"
FLAG_LISTS = "a list of a list of True for each parameter"
FLAT_GRADIENT = "the gradients end to end"
LIMITS = "a limit of 1.0 for each parameter"
CLIPS = "torch.nn.utils.clip_grad_norm_"
PAIRS = "pairs of a parameter and its gradient"
SCALER = "a GradScaler that scales by 1"
SCALER_STATES = "the records by optimizer of a GradScaler"
LOGGER = "a logger that prints nothing"
LOSS = "a loss that no parameter reaches"
GIVES_GROUP = "a function giving a process group of world size 1"
NO_INF, SCALE_OF_ONE = "a tensor of 0.0", "a tensor of 1.0"
GIVES_ZERO, GIVES_ONE = "a function giving 0", "a function giving 1"
SAME_VALUE = "a function giving back its argument"

MODULE, MODULES = "the module", "a list of the module"
PARAMETERS, NAMED_PARAMETERS, GRADIENTS = "the parameters", "the named parameters", "the gradients"
CARRIERS = {
    MODULE: "module", MODULES: "modules", PARAMETERS: "parameters", NAMED_PARAMETERS: "named_parameters",
    GRADIENTS: "gradients", OPTIMIZER: "optimizer", OBJECT: "object",
}  # fmt: skip
"""What can bring the gradients of a call, with the word of the command line for it."""

_CALLABLE = (GIVES_GROUP, GIVES_ZERO, GIVES_ONE, SAME_VALUE, CLIPS, LOGGER, MODULE)

OF_ONE_SAMPLE = "the gradient as that of one sample"
OF_ONE_CALL = (
    GRADIENTS, GRADIENT_LISTS, BUFFER_LISTS, MASTER_LISTS, FLAT_GRADIENT, PAIRS, TOTAL_NORM,
    TOTAL_NORM_NUMBER, GROUP_NORMS, OF_ONE_SAMPLE,
)  # fmt: skip
"""What is made of the gradients of a call, and does not follow when others take their place on the parameters."""


class Guess(NamedTuple):
    """A value, and another one that is as plausible; None where there is none."""

    value: Any
    other: Any = None


STEP = Guess(0, 100)
"""What is done every so many steps is done at step 0, and at 100 in most programs."""
STEPS_OF_A_CALL = 1000
"""From one call of a target to its next: what is done every so many steps is done again."""
_SCALES = ("scale", "loss_scale", "grad_scale", "inv_scale", "inverse_scale", "factor", "cur_scale", "combined_scale")
_BY_NAME: Dict[str, Guess] = {
    **dict.fromkeys(_SCALES, Guess(2.0, 4.0)),
    **dict.fromkeys(("norm_type", "norm_order", "grad_norm_type", "clip_norm_type", "ord", "p", "norm"), Guess(2.0)),
    **dict.fromkeys(("eps", "epsilon"), Guess(1e-8, 1e-6)),
    **dict.fromkeys(("num_updates", "batch_idx", "i", "it", "idx"), STEP),
    "noise_multiplier": Guess(1.0, 0.5),
    **dict.fromkeys(("prefix", "tag"), Guess("")),
    **dict.fromkeys(("lr", "learning_rate"), Guess(0.1, 0.01)),
    **dict.fromkeys(("total_norm", "global_norm"), Guess(TOTAL_NORM)),
    **dict.fromkeys(
        ("is_root", "is_main_process", "is_master", "requires_grad", "sync_gradients", "is_active"), Guess(True)
    ),
    "grad_norm": Guess(1.0, 0.5),  # of a configuration; a required argument is the norm itself
    "found_inf": Guess(NO_INF),
    "grad_sample": Guess(OF_ONE_SAMPLE),
    "device": Guess(DEVICE),
    "self": Guess(OBJECT),
}
_LIMIT_WORDS = re.compile(r"clip|clipping|clamp|max|threshold|limit")
_WORDS_OF_A_LIMIT = frozenset(
    "max clip clipping clamp threshold limit grad gradient gradients grads global norm val value abs by".split()  # noqa: SIM905
)
_WORD = r"(?:.*_)?"
_BY_PATTERN: Tuple[Tuple[Any, Guess], ...] = tuple(
    (re.compile(pattern), found)
    for pattern, found in (
        (_WORD + r"(step|iteration|iter|epoch)(_num|_idx)?", STEP),
        (r"check_(for_)?(nan|inf|finite|overflow)\w*", Guess(True)),
        (r"(num|n)_\w+", Guess(1)),
        (r"get_\w*rank", Guess(GIVES_ZERO)),
        (r"get_\w*size", Guess(GIVES_ONE)),
        (_WORD + r"rank", Guess(0)),
        (_WORD + r"device", Guess(DEVICE)),
        (_WORD + r"backend", Guess("gloo")),
        (r"\w*clip\w*_(kwargs|args|cfg|config)", Guess({"max_norm": 1.0}, {"max_norm": 0.5})),
        (
            _WORD + r"(size|len|interval|every|freq|frequency|accumulation_steps|grad_accum|update_freq|ngpus?)",
            Guess(1),
        ),
        (
            r"(use|is|enable|should|do|with|skip|no|has|allow|force|return|log|needs|supports|"
            r"ignore|check|run|apply|compute|track|monitor|overlap|keep|average|normalize)_\w+|\w+_(enabled|only)|"
            r"(fp16|bf16|amp|verbose|debug|foreach|fused|error_if_nonfinite|cpu_offload|offload|shared|"
            r"(tensor_model|sequence|expert)_parallel)",
            Guess(False, True),
        ),
        (_WORD + r"(device_)?mesh", Guess(MESH)),
        (r"get_\w*(group|pg)", Guess(GIVES_GROUP)),
        (r"\w+_(fn|func)", Guess(SAME_VALUE)),
        (
            _WORD
            + r"pg|group|\w*(process|parallel|data|dp|tp|pp|mp|ep|cp|fsdp|tensor|pipeline|expert|world|comm|shard\w*|"
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
)
_BY_ANNOTATION: Dict[str, Guess] = {
    "float": Guess(0.5, 0.25),
    "int": Guess(1, 2),
    "bool": Guess(False, True),
    "Optimizer": Guess(OPTIMIZER),
    "GradScaler": Guess(SCALER),
    "ProcessGroup": Guess(GROUP),
    "DeviceMesh": Guess(MESH),
    "SummaryWriter": Guess(LOGGER),
    "Logger": Guess(LOGGER),
}
_METHODS: Dict[str, Guess] = {
    **dict.fromkeys(
        ("log", "log_dict", "log_scalars", "log_metrics", "print", "info", "warning", "add_scalar", "add_scalars"),
        Guess(LOGGER),
    ),
    **dict.fromkeys(("gather", "all_gather", "all_reduce", "reduce", "unwrap_model"), Guess(SAME_VALUE)),
}
# What optimizers of several precisions keep by group.
_NESTED = (
    (r"fp32_from_\w+_groups", MASTER_LISTS),
    (r"(fp|bf|bit|float)(16|32)_groups", PARAMETER_LISTS),
    (r"averaged_grad\w*", GRADIENT_LISTS),
    (r"\w+_groups_grad(ient)?s", BUFFER_LISTS),
    (r"\w+_groups_has_grad\w*", FLAG_LISTS),
    (r"param(eter)?s_in_\w+", PARAMETER_LISTS),
    (r"grad_(data|buffer)|flat_grads?|grad\w*_flat(_buffer)?", FLAT_GRADIENT),
)
_GROUP_NORMS = re.compile(r"(\w+_)?(norm_groups|norms?_list|group_norms)")
# Of a GradScaler, as torch's own keeps them.
_OF_SCALERS = {"_scale": SCALE_OF_ONE, "_per_optimizer_states": SCALER_STATES}
_LITERAL = re.compile(r"(?:typing\.|t\.)?Literal\[(.*)\]", re.DOTALL)
_OPTIONAL = re.compile(r"(?:typing\.|t\.)?Optional\[(.*)\]|(.*?)\s*\|\s*None", re.DOTALL)
# Parts of a configuration that hold further parts.
_SECTIONS = re.compile(
    r"(\w+_)?(optim|optimizer|optimization|train|training|trainer|model|solver|common|distributed|distributed_training|"
    r"dist|log|logging|parallel|parallelism|checkpoint|data|clip_gradients|fsdp|trainer|dataset|lr_scheduler|"
    r"hyperparameters|general|system|runtime|cfg|config|args|hparams)"
)
_CARRIERS_BY_NAME: Tuple[Tuple[Any, str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"\w*named_\w+", NAMED_PARAMETERS),
        (_WORD + r"(models|modules|model_chunks|model_parts|model_list|chunks|networks|nets|layers)", MODULES),
        (_WORD + r"(params?|parameters?|weights)(_list|_flat\w*|_for_\w+)?|(param|parameter)_list", PARAMETERS),
        (
            _WORD + r"(grads?|gradients?)(_list|_(for|by)_\w+|_flat\w*|_groups?_flat\w*|s)?|\w*fp\d\d_groups|tensors|"
            r"grad_(in|out)puts?",
            GRADIENTS,
        ),
        (
            _WORD + r"(module|model|net|network|backbone|encoder|decoder|policy|layer|actor|critic|generator)",
            MODULE,
        ),
    )
)


def guess(name: str, annotation: str) -> Optional[Guess]:
    """A value for the argument `name`, declared as `annotation` ("" where it is not); None where none is known."""
    if name == "device" and annotation == "str":
        return Guess(DEVICE_NAME)
    if name in ("total_norm", "global_norm", "grad_norm") and _OPTIONAL.fullmatch(annotation) is None:
        return Guess(TOTAL_NORM_NUMBER if annotation == "float" else TOTAL_NORM)
    if holds_group_norms(name):
        return Guess(GROUP_NORMS)
    if name in ("inv_scale", "inverse_scale") and annotation.endswith("Tensor"):
        return Guess(SCALE_OF_ONE)
    if is_limit(name) and re.search(r"\b[dD]ict\b", annotation):
        return Guess({"max_norm": 1.0}, {"max_norm": 0.5})
    declared = _OPTIONAL.fullmatch(annotation)
    plain = annotation if declared is None else next(filter(None, declared.groups()), "")
    plain = plain if plain.startswith(("Literal", "typing.Literal", "t.Literal")) else plain.split(".")[-1]
    if carrier("", annotation):
        return None
    found = known(name) or _BY_ANNOTATION.get(plain) or _of_literal(plain)
    return found or (Guess(None, True) if declared is not None and not carrier(name, annotation) else None)


@functools.lru_cache(maxsize=None)
def known(name: str) -> Optional[Guess]:
    """A value for what is called `name`, an argument or an attribute; None where the name says nothing."""
    word = name.strip("_").lower()
    if name == "clip_grad_norm_":
        return Guess(CLIPS)
    if word in _BY_NAME:
        return _BY_NAME[word]
    if is_limit(name):
        return Guess(1.0, 0.5)
    if word.endswith("s") and is_limit(word[:-1]):
        return Guess(LIMITS)
    return next((found for pattern, found in _BY_PATTERN if pattern.fullmatch(word)), None)


def of_object(name: str) -> Optional[Guess]:
    """A value for an attribute of an object that code belongs to, its methods of logging and reducing too."""
    kind = carrier(name)
    for pattern, words in _NESTED:
        if re.fullmatch(pattern, name):
            return Guess(words)
    if name in _OF_SCALERS:
        return Guess(_OF_SCALERS[name])
    return _METHODS.get(name.strip("_")) or known(name) or (Guess(kind) if kind else None)


def is_callable(found: Optional[Guess]) -> bool:
    """Whether what a guess stands for can be called."""
    return found is not None and found.value in _CALLABLE


def holds_group_norms(name: str) -> bool:
    """Whether an argument of this name is a list of one norm for each group of parameters."""
    return _GROUP_NORMS.fullmatch(name) is not None


def is_limit(name: str) -> bool:
    """Whether a name is that of a limit that gradients are clipped to."""
    words = name.strip("_").lower().split("_")
    return _WORDS_OF_A_LIMIT.issuperset(words) and any(map(_LIMIT_WORDS.fullmatch, words))


@functools.lru_cache(maxsize=None)
def carrier(name: str, annotation: str = "") -> str:
    """Which view of the gradients an argument or an attribute of this name is (`PARAMETERS`, ...); "" for none."""
    word = name.strip("_").lower()
    found = next((kind for pattern, kind in _CARRIERS_BY_NAME if pattern.fullmatch(word)), "")
    if word.startswith(("get_", "set_", "compute_", "zero_", "clip_", "reduce_", "norm_", "num_")) or "_has_" in word:
        found = ""  # a method, what is kept of each, or whether there is one
    if found or "Callable" in annotation:
        return found
    several = "[" in annotation
    if re.search(r"\bModule\b", annotation):
        return MODULES if several else MODULE
    return PARAMETERS if re.search(r"\bParameter\b", annotation) else ""


def in_configuration(name: str) -> Optional[Guess]:
    """A value for an attribute of a configuration, where `optimizer` and `model` are parts of it."""
    word, found = name.strip("_").lower(), known(name)
    is_value = found is not None and not isinstance(found.value, str) and word != "clip_gradients"
    return Guess(CONFIG) if not is_value and _SECTIONS.fullmatch(word) else found


def _of_literal(annotation: str) -> Optional[Guess]:
    """The first two values of a `Literal[...]`."""
    found = _LITERAL.fullmatch(annotation)
    if found is None:
        return None
    try:
        values = ast.literal_eval("({},)".format(found.group(1)))
    except (SyntaxError, ValueError):
        return None
    return Guess(*values[:2])
