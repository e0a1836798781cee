"""Stubs of libraries that a training step uses: progress bars, meters, loggers, Accelerate, Lightning."""

import contextlib
import re
import sys
from typing import Any, Iterable, Iterator

import torch

from ..base.namespaces import replace_held
from ..feed.stub import Quiet
from ..serve import placeholders

_BARS = re.compile(r"(tqdm|rich\.progress|progressbar|alive_progress|fastprogress)\b.*|.*\.(tqdm|trange|track)")
_METERS = re.compile(r"torchmetrics\..*|.*\.\w*(Meter|Averag\w*|Metric|SmoothedValue)\w*")
_LOGS = re.compile(r"(wandb|loguru|mlflow|comet_ml|tensorboardX)\b.*|.*\.(SummaryWriter|logger)")


class Bar(Quiet):
    """A progress bar that shows nothing and passes its items on."""

    def __init__(self, items: Iterable[Any] = (), *_: Any, **__: Any) -> None:
        super().__init__({})
        self.__dict__["_items"] = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Meter(Quiet):
    """A meter that measures nothing."""

    val = avg = sum = count = global_avg = value = 0.0

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__({})


def put_stub(path: str) -> bool:
    """Put a harmless stub in the place of a placeholder that a loop touched; return False if none is known for it."""
    kinds = ((_BARS, Bar), (_METERS, Meter), (_LOGS, Quiet({})))
    found = next((kind for pattern, kind in kinds if pattern.fullmatch(path)), None)
    if found is None:
        return False
    place, _, name = path.rpartition(".")
    parent = sys.modules.get(place)
    if isinstance(parent, placeholders.Placeholder):
        vars(parent)[name] = found
    replace_held(placeholders.Placeholder, lambda value: found if vars(value)["_path"] == path else value)
    placeholders.forget()
    return True


class Launcher:
    """Accelerate's accelerator, or Lightning's fabric, of one process: it accumulates nothing and makes every step."""

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
