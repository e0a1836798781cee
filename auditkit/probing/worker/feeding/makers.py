"""What the words of a guess stand for: each is made for one call, of the gradients of its surroundings."""

import functools
import re
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from ..base.torch_internals import new_scaler_states
from ..gradients.gradients import placed, total_norm
from ..simulated.tensor import to_host
from . import groups, guesses
from .given import end_to_end
from .guesses import Guess
from .named_objects import Answering, Quiet

MAKERS: Dict[str, Callable[[Any, str], Any]] = {
    guesses.TOTAL_NORM: lambda around, path: total_norm(around.grads),
    guesses.TOTAL_NORM_NUMBER: lambda around, path: float(to_host(total_norm(around.grads))),
    guesses.GROUP_NORMS: lambda around, path: [total_norm(around.grads)],
    guesses.DEVICE: lambda around, path: _device(around.grads),
    guesses.DEVICE_NAME: lambda around, path: str(_device(around.grads)),
    guesses.GROUP: lambda around, path: groups.world(),
    guesses.BACKEND: lambda around, path: groups.backend(),
    guesses.MESH: lambda around, path: groups.mesh(),
    guesses.GIVES_GROUP: lambda around, path: lambda *_, **__: groups.world(),
    guesses.GIVES_ZERO: lambda around, path: lambda *_, **__: 0,
    guesses.GIVES_ONE: lambda around, path: lambda *_, **__: 1,
    guesses.NO_INF: lambda around, path: placed([torch.zeros(1)], around.device)[0],
    guesses.SCALE_OF_ONE: lambda around, path: placed([torch.ones(1)], around.device)[0],
    guesses.SCALER_STATES: lambda around, path: new_scaler_states(),
    guesses.SAME_VALUE: lambda around, path: lambda value=None, *_, **__: value,
    guesses.CONFIG: lambda around, path: Answering(
        around, path, functools.partial(_in_configuration, around.defaults.get(path, {}))
    ),
    guesses.OBJECT: lambda around, path: _object(around, path),
    guesses.OPTIMIZER: lambda around, path: around.optimizer,
    guesses.OPTIMIZERS: lambda around, path: [around.optimizer],
    guesses.PARAM_GROUPS: lambda around, path: around.optimizer.param_groups,
    guesses.PARAMETER_LISTS: lambda around, path: [list(around.module.parameters())],
    guesses.GRADIENT_LISTS: lambda around, path: [around.view(guesses.GRADIENTS)],
    guesses.BUFFER_LISTS: lambda around, path: [_in_buffers(around)],
    guesses.MASTER_LISTS: lambda around, path: [[_master(each) for each in around.module.parameters()]],
    guesses.FLAG_LISTS: lambda around, path: [[True for _ in around.module.parameters()]],
    guesses.OF_ONE_SAMPLE: lambda around, path: _one_sample(around.grads),
    guesses.FLAT_GRADIENT: lambda around, path: end_to_end(_in_buffers(around)).joined,
    guesses.LIMITS: lambda around, path: [1.0 for _ in around.module.parameters()],
    guesses.CLIPS: lambda around, path: functools.partial(_clip, around),
    # Who makes pairs leaves out what has no gradient.
    guesses.PAIRS: lambda around, path: [
        (each, each.grad) for each in around.module.parameters() if each.grad is not None
    ],
    guesses.SCALER: lambda around, path: _scaler(around.device),
    guesses.LOGGER: lambda around, path: Quiet(around.said),
    guesses.LOSS: lambda around, path: placed([torch.ones(())], around.device)[0].requires_grad_(),
    guesses.MODULE: lambda around, path: around.module,
    guesses.MODULES: lambda around, path: [around.module],
    guesses.PARAMETERS: lambda around, path: list(around.module.parameters()),
    guesses.NAMED_PARAMETERS: lambda around, path: list(around.module.named_parameters()),
    guesses.GRADIENTS: lambda around, path: [grad for grad in around.grads if grad is not None],
}
"""By its words: the value, made of the surroundings and the path that it is read by."""
# Parts of a configuration that hold further parts.
_SECTIONS = re.compile(
    r"(\w+_)?(optim|optimizer|optimization|train|training|trainer|model|solver|common|distributed|distributed_training|"
    r"dist|log|logging|parallel|parallelism|checkpoint|data|clip_gradients|fsdp|trainer|dataset|lr_scheduler|"
    r"hyperparameters|general|system|runtime|cfg|config|args|hparams)"
)


def _object(around: Any, path: str) -> Any:
    made = around.uses.object_at(path) if around.uses is not None else None
    return Answering(around, path, guesses.of_object) if made is None else made


def _in_configuration(defaults: Dict[str, Any], name: str) -> Optional[Guess]:
    """A value for an attribute of a configuration, where `optimizer` and `model` are parts of it."""
    word, found = name.strip("_").lower(), guesses.known(name)
    is_value = found is not None and not isinstance(found.value, str) and word != "clip_gradients"
    if not is_value and _SECTIONS.fullmatch(word):
        return Guess(guesses.CONFIG)
    return found or (Guess(defaults[name]) if name in defaults else None)


def _master(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    """The parameter itself where it is float32, else one of that type."""
    return parameter if parameter.dtype == torch.float32 else torch.nn.Parameter(parameter.detach().float())


def _clip(around: Any, *values: Any, **named: Any) -> torch.Tensor:
    """What a wrapper's method of that name does, with or without the parameters before the limit."""
    limit = next(value for value in (*values, *named.values()) if isinstance(value, (int, float)))
    if limit == 0:  # most wrappers then only measure
        return total_norm(around.grads)
    return torch.nn.utils.clip_grad_norm_(around.module.parameters(), limit)


def _in_buffers(around: Any) -> List[torch.Tensor]:
    """The gradients as a buffer keeps them, which is there before any gradient is."""
    pairs = ((each, each.grad) for each in around.module.parameters())
    return [torch.zeros_like(each.data) if grad is None else grad for each, grad in pairs]


def _one_sample(grads: Sequence[Optional[torch.Tensor]]) -> Optional[torch.Tensor]:
    joined = end_to_end(grads).joined
    return None if joined is None else joined[None]


def _device(grads: Sequence[Optional[torch.Tensor]]) -> torch.device:
    first = next((grad for grad in grads if isinstance(grad, torch.Tensor)), None)
    return torch.device("cpu") if first is None else first.device


def _scaler(device: str) -> Any:
    """A scaler that changes nothing, with the records by optimizer and the tensor that one that scales keeps."""
    made: Any = torch.amp.GradScaler("cpu", enabled=False)
    made._per_optimizer_states = new_scaler_states()
    made.inv_scale = placed([torch.ones(1)], device)[0]
    return made
