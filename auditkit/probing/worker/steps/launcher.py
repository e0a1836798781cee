"""What stands for Accelerate's accelerator, or Lightning's fabric, of one process: the step is all the loop's own."""

import contextlib
from typing import Any, Iterable

import torch


class Launcher:
    """Goes backward, clips and hands back what it is given; it accumulates nothing, and every step is made."""

    num_processes = world_size = 1
    process_index = local_process_index = global_rank = local_rank = 0
    is_main_process = is_local_main_process = is_global_zero = sync_gradients = True
    gradient_accumulation_steps, mixed_precision = 1, "no"
    device = torch.device("cpu")
    _SILENT = frozenset((
        "print", "log", "log_dict", "barrier", "wait_for_everyone", "init_trackers", "end_training", "call", "save",
        "save_state", "seed_everything",
    ))  # fmt: skip

    def backward(self, loss: torch.Tensor, *_: Any, **named: Any) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        torch.nn.utils.clip_grad_value_(parameters, clip_value)

    def clip_gradients(self, module: Any, optimizer: Any, clip_val: Any = None, max_norm: Any = None, **_: Any) -> Any:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if clip_val is not None:
            return self.clip_grad_value_(parameters, clip_val)
        return self.clip_grad_norm_(parameters, max_norm)

    def no_backward_sync(self, *_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()

    accumulate = autocast = no_sync = no_backward_sync

    def unwrap_model(self, model: Any, *_: Any, **__: Any) -> Any:
        return model

    gather = gather_for_metrics = all_gather = all_reduce = reduce = to_device = unwrap_model

    def prepare(self, *values: Any) -> Any:
        return values if len(values) != 1 else values[0]

    setup = setup_dataloaders = prepare

    def __getattr__(self, name: str) -> Any:
        if name in self._SILENT:
            return lambda *_, **__: None
        raise AttributeError(name)


def groups_of(optimizer: torch.optim.Optimizer) -> Iterable[Any]:
    """Its groups, each with what schedules keep beside torch's own entries; another entry that is read is None."""
    return [_Group(group) for group in optimizer.param_groups]


class _Group(dict):
    def __missing__(self, name: str) -> Any:
        word = str(name)
        if word == "initial_lr":
            return self["lr"]
        return 1.0 if any(part in word for part in ("scale", "mult", "factor")) else None
