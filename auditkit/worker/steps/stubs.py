"""Stubs of libraries that a training step uses: progress bars, meters, loggers, Accelerate, Lightning."""

import contextlib
import inspect
import re
import sys
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Iterator, List

import torch
from torch import nn

from ..base.namespaces import replace_held
from ..feed.stub import Quiet
from ..serve import placeholders

_BARS = re.compile(r"(tqdm|rich\.progress|progressbar|alive_progress|fastprogress)\b.*|.*\.(tqdm|trange|track)")
_METERS = re.compile(r"torchmetrics\..*|.*\.\w*(Meter|Averag\w*|Metric|SmoothedValue)\w*")
_LOGS = re.compile(r"(wandb|loguru|mlflow|comet_ml|tensorboardX)\b.*|.*\.(SummaryWriter|logger)")
MODULE_NAME = "LightningModule"


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


# --- Lightning -----------------------------------------------------------------------------------------


def derive_from_stub(owner: type) -> None:
    """Where Lightning is absent, let the class derive from our LightningModule in the place of its empty base."""
    for each in owner.__mro__[:-1]:
        is_absent = [base.__name__ == MODULE_NAME and not issubclass(base, nn.Module) for base in each.__bases__]
        if any(is_absent):
            bases = zip(each.__bases__, is_absent, strict=True)
            each.__bases__ = tuple(LightningModule if absent else base for base, absent in bases)


class _HyperParameters(SimpleNamespace):
    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class LightningModule(nn.Module):
    """What modules use of Lightning while they train; it logs nothing. Its classes are known as Lightning's."""

    __module__ = "lightning"
    automatic_optimization = True
    current_epoch = global_step = global_rank = local_rank = 0
    device, logger = torch.device("cpu"), Quiet({})
    trainer: Any = None

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.hparams = _HyperParameters()
        self.optimizers_: List[Any] = []

    def save_hyperparameters(self, *given: Any, **_: Any) -> None:
        """Keep what the constructor was called with."""
        for one in given:
            vars(self.hparams).update(one if isinstance(one, dict) else {})
        names = {name: value for name, value in sys._getframe(1).f_locals.items() if name not in ("self", "__class__")}
        vars(self.hparams).update(names)

    def optimizers(self, *_: Any, **__: Any) -> Any:
        return self.optimizers_ if len(self.optimizers_) > 1 else self.optimizers_[0]

    def lr_schedulers(self) -> Any:
        return Quiet({})

    def backward(self, loss: torch.Tensor, *_: Any, **named: Any) -> None:
        loss.backward(**named)

    manual_backward = backward

    def optimizer_step(self, _epoch: int, _index: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, _epoch: int, _index: int, optimizer: Any) -> None:
        optimizer.zero_grad()

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        pass

    def clip_gradients(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        if gradient_clip_val is not None:
            limit = {"clip_val" if gradient_clip_algorithm == "value" else "max_norm": gradient_clip_val}
            Launcher().clip_gradients(self, optimizer, **limit)

    def configure_gradient_clipping(self, *given: Any, **named: Any) -> None:
        self.clip_gradients(*given, **named)

    def toggle_optimizer(self, optimizer: Any) -> None:
        """Leave gradients only to the parameters of this optimizer."""
        own = {id(each) for group in optimizer.param_groups for each in group["params"]}
        self._toggled = [each for each in self.parameters() if each.requires_grad and id(each) not in own]
        for each in self._toggled:
            each.requires_grad_(False)

    def untoggle_optimizer(self, _: Any) -> None:
        for each in self._toggled:
            each.requires_grad_(True)

    @contextlib.contextmanager
    def toggled_optimizer(self, optimizer: Any, *_: Any) -> Iterator[None]:
        self.toggle_optimizer(optimizer)
        yield
        self.untoggle_optimizer(optimizer)

    def log(self, *_: Any, **__: Any) -> None:
        pass

    log_dict = print = log


def fit(
    made: LightningModule,
    batches: Iterable[Any],
    count: int,
    accumulate_grad_batches: int = 1,
    gradient_clip_val: Any = None,
) -> None:
    """Train one epoch as Lightning's documentation describes its loop."""
    made.trainer = Quiet({"estimated_stepping_batches": count, "max_epochs": 1, "num_training_batches": count})
    made.optimizers_ = _optimizers(made.configure_optimizers())  # type: ignore[operator]
    training_step: Callable[..., Any] = made.training_step  # type: ignore[assignment]
    takes = len(inspect.signature(training_step).parameters)
    made.train()
    for index, batch in enumerate(batches):

        def closure(index: int = index, batch: Any = batch) -> Any:
            answer = training_step(*(batch, index)[:takes])
            loss = answer["loss"] if isinstance(answer, dict) else answer
            if index % accumulate_grad_batches == 0:
                made.optimizer_zero_grad(0, index, made.optimizers_[0])
            if loss is not None:
                made.backward(loss / accumulate_grad_batches)
            return loss

        def and_clip(closure: Any = closure) -> Any:
            loss = closure()
            made.on_before_optimizer_step(made.optimizers_[0])
            made.configure_gradient_clipping(made.optimizers_[0], gradient_clip_val, None)
            return loss

        if not made.automatic_optimization:
            training_step(*(batch, index)[:takes])
        elif (index + 1) % accumulate_grad_batches and index + 1 < len(batches):  # type: ignore[arg-type]
            closure()
        else:
            made.optimizer_step(0, index, made.optimizers_[0], and_clip)


def _optimizers(found: Any) -> List[Any]:
    """Return the optimizers from all the forms in which `configure_optimizers` may return them."""
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], list):
        found = found[0]
    many = found if isinstance(found, (list, tuple)) else [found]
    return [each["optimizer"] if isinstance(each, dict) else each for each in many]
