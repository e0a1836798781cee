"""A LightningModule by itself: its parts of a step in the loop of Lightning's Trainer, or in a stand-in of it.

The model is the checkout's own, as its constructor makes it. What draws random numbers or depends on the other samples
of a batch (dropout, batch norms) is as in evaluation, so that micro-batches make what one batch makes.
"""

import contextlib
import importlib
import inspect
import sys
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List

import torch
from torch import nn

from ..base.refusals import CannotFeedError
from ..feeding.guesses import Guess
from ..feeding.stub import Quiet
from .launcher import Launcher
from .toy_model import Batch, NamedBatch
from .values import Values

NAME = "LightningModule"
_MOST_PARAMETERS = 2_500_000
_AS_EVALUATED = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


def prepare(owner: type) -> None:
    """Where Lightning is absent, let the class derive from a stand-in of ours in the place of its empty base."""
    for each in owner.__mro__[:-1]:
        is_absent = [base.__name__ == NAME and not issubclass(base, nn.Module) for base in each.__bases__]
        if any(is_absent):
            bases = zip(each.__bases__, is_absent, strict=True)
            each.__bases__ = tuple(LightningModule if absent else base for base, absent in bases)


def drive(made: Any, values: Values, settings: Dict[str, Any]) -> Callable[[], Any]:
    """The training of a module; the settings are the Trainer's. Raises CannotFeedError for a model that is large."""
    count = sum(each.numel() for each in made.parameters())
    if count > _MOST_PARAMETERS:
        raise CannotFeedError("its own model has {:,} parameters, which is too many to ask often".format(count))
    for part in made.modules():
        if isinstance(part, _AS_EVALUATED):
            part.eval()
            part.__dict__["train"] = lambda *_, part=part: part
    batches = list(values.loader.items)
    for index in values.case.poisoned:
        batches[index : index + 1] = [_poisoned(each) for each in batches[index : index + 1]]
    values.loader.items = batches
    if isinstance(made, LightningModule):
        values.read["trainer"] = Guess("a stand-in of ours, as Lightning is not in this interpreter")
        return lambda: _fit(made, values, **settings)
    base = next(each for each in type(made).__mro__ if each.__name__ == NAME)
    package = importlib.import_module(base.__module__.rpartition(".core.")[0])
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    asked = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, **dict.fromkeys(quiet, False)}
    return lambda: package.Trainer(**asked, **settings).fit(made, values.loader)


def _poisoned(item: Any) -> Any:
    """A batch whose features are NaN; of token numbers the same."""
    if isinstance(item, torch.Tensor):
        return item * float("nan") if item.is_floating_point() else item
    if isinstance(item, dict):
        return NamedBatch(Batch(_poisoned(item["input_ids"]), item["labels"]))
    return (_poisoned(item[0]), *item[1:])


def _fit(made: Any, values: Values, accumulate_grad_batches: int = 1, gradient_clip_val: Any = None, **_: Any) -> None:
    """One epoch, as Lightning's documentation tells its loop."""
    steps = values.case.batches
    made.trainer = Quiet(
        {"estimated_stepping_batches": len(steps), "max_epochs": 1, "num_training_batches": len(steps)}
    )
    made.optimizers_ = _optimizers(made.configure_optimizers())
    takes = len(inspect.signature(made.training_step).parameters)
    made.train()
    for index, batch in enumerate(values.loader):

        def closure(index: int = index, batch: Any = batch) -> Any:
            answer = made.training_step(*(batch, index)[:takes])
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
            made.training_step(*(batch, index)[:takes])
        elif (index + 1) % accumulate_grad_batches and index + 1 < len(values.loader):
            closure()
        else:
            made.optimizer_step(0, index, made.optimizers_[0], and_clip)


def _optimizers(found: Any) -> List[Any]:
    """The optimizers in all the forms in which `configure_optimizers` may return them."""
    if isinstance(found, dict):
        return [found["optimizer"]]
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], list):
        found = found[0]
    many = found if isinstance(found, (list, tuple)) else [found]
    return [one for each in many for one in ([each["optimizer"]] if isinstance(each, dict) else [each])]


class _HyperParameters(SimpleNamespace):
    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class LightningModule(nn.Module):
    """What modules ask of Lightning while they train; it logs nothing. Its classes are known as Lightning's."""

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
        """Keeps what the constructor was called with."""
        for one in given:
            vars(self.hparams).update(one if isinstance(one, dict) else {})
        names = {name: value for name, value in sys._getframe(1).f_locals.items() if name not in ("self", "__class__")}
        vars(self.hparams).update(names)

    def optimizers(self, *_: Any, **__: Any) -> Any:
        return self.optimizers_ if len(self.optimizers_) > 1 else self.optimizers_[0]

    def lr_schedulers(self) -> Any:
        return Quiet({})

    def manual_backward(self, loss: torch.Tensor, *_: Any, **named: Any) -> None:
        loss.backward(**named)

    def backward(self, loss: torch.Tensor, *_: Any, **__: Any) -> None:
        loss.backward()

    def optimizer_step(self, _epoch: int, _index: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, _epoch: int, _index: int, optimizer: Any) -> None:
        optimizer.zero_grad()

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        pass

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def clip_gradients(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        if gradient_clip_val is not None:
            limit = {"clip_val" if gradient_clip_algorithm == "value" else "max_norm": gradient_clip_val}
            Launcher().clip_gradients(self, optimizer, **limit)

    def toggle_optimizer(self, optimizer: Any) -> None:
        """Gradients for the parameters of this optimizer alone."""
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
