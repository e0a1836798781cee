"""The values of a training step in one run, created by the words of `roles.py`, which reports show."""

import contextlib
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import torch

from ..base.namespaces import replace_held
from ..base.refusals import CannotFeedError
from ..feed import guesses
from ..feed.guesses import Guess
from ..feed.stub import COMMON, Quiet, Recorder, Silent, Stub, no_value
from ..serve import placeholders
from . import roles
from .host import INITIAL_SCALE
from .toy_model import Batch, Criterion, ToyModel, batches_as, loss_of

NO_LIMIT = 1e9
LEARNING_RATE = 1e-3
_RARELY = 1_000_000
_MOST_ROUNDS = MOST_PASSES = 4
_SILENT = re.compile(
    r"(tqdm|rich\.progress|progressbar|alive_progress|fastprogress|wandb|loguru|mlflow|comet_ml|tensorboardX)\b.*|"
    r"torchmetrics\..*|.*\.(tqdm|trange|track|SummaryWriter|logger|\w*(Meter|Averag\w*|Metric|SmoothedValue)\w*)"
)


class EnoughBatches(BaseException):
    """The loop repeatedly takes more batches than there are: the run ends here."""


class LossScaler:
    """A scaler with the interface of timm's: called with the loss, it does the rest of a step, without any scaling."""

    def __call__(
        self, loss: Any, optimizer: Any, clip_grad: Any = None, parameters: Any = None, create_graph: bool = False,
        need_update: bool = True, update_grad: bool = True, **_: Any,
    ) -> Any:  # fmt: skip
        """Return the norm of the gradients, None for an incomplete accumulation."""
        loss.backward(create_graph=create_graph)
        if not (need_update and update_grad):
            return None
        norm = torch.nn.utils.clip_grad_norm_(list(parameters or ()), NO_LIMIT if clip_grad is None else clip_grad)
        optimizer.step()
        return norm

    def state_dict(self) -> Dict[str, Any]:
        return {}


def put_stub(path: str) -> bool:
    """Replace a stub that a loop used by a silent object; return False if none is known for it."""
    if not _SILENT.fullmatch(path):
        return False
    place, _, name = path.rpartition(".")
    parent = sys.modules.get(place)
    if isinstance(parent, placeholders.Placeholder):
        vars(parent)[name] = Silent()
    replace_held(placeholders.Placeholder, lambda value: Silent() if vars(value)["_path"] == path else value)
    placeholders.forget()
    return True


class Case(NamedTuple):
    """One run: the batches, and the settings of the model, the optimizer and the options.

    `accumulate` of 0 means all batches; `decays` adds momentum and weight decay. `scales` enables every GradScaler,
    also an optional one; otherwise all are disabled. `calls` is the number of epochs with these batches: the step reads
    it, or is called so often.
    """

    batches: List[Batch]
    accumulate: int = 0
    limit: float = NO_LIMIT
    gain: float = 1.0
    poisoned: List[int] = []  # noqa: RUF012
    decays: bool = False
    scales: bool = False
    calls: int = 1


def unpacked(source: str) -> int:
    """Return how many names a step unpacks a batch into, as in `x, y, state = next(loader)`; 0 if it does not."""
    found = re.search(r"^ *\(?(\w+(?:, \w+)+)\)? = (?:next\(|\w+\.next_batch\()", source, re.MULTILINE)
    return len(found.group(1).split(", ")) if found is not None else 0


class Loader:
    """Batches as a loader, an iterator or a list; `drawn` counts those that were taken."""

    def __init__(self, form: str, batches: List[Batch], source: str) -> None:
        self.batches = list(batches)
        self._form = form
        self._width = unpacked(source)
        self.items = self._fresh()
        self.drawn = self.passes = 0
        self._rest: Iterator[Any] = iter(self.items)
        self.dataset, self.batch_size, self.sampler = self.items, 3, Quiet({})
        self.batch_sampler = self.sampler

    def _fresh(self) -> List[Any]:
        items = batches_as(self._form, self.batches)
        return [(*each, *[None] * (self._width - len(each))) if isinstance(each, tuple) else each for each in items]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        self.drawn = max(1, self.drawn)
        return self.items[index]

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        if self.passes > MOST_PASSES:
            raise EnoughBatches
        self.items = self._fresh()  # The previous epoch may have changed its batches.
        self._rest = iter(self.items)
        return self

    def __next__(self) -> Any:
        if not self.passes:  # An iterator from before the loop never ends.
            self._rest = iter([self.items[self.drawn % len(self.items)]])
            if self.drawn > _MOST_ROUNDS * len(self.items):
                raise EnoughBatches
        item = next(self._rest)
        self.drawn += 1
        return item

    def next_batch(self, *_: Any, **__: Any) -> Any:
        """Return the next item, as loaders that are not iterators do."""
        return next(self)


class Values(Recorder):
    """The values of one run. `read` has all values that auditkit made, by path."""

    has_none = True

    def __init__(self, given: Dict[str, Any], case: Case, returns: str, form: str, source: str = "") -> None:
        super().__init__(given)
        self.case, self.source = case, source
        self.model = ToyModel(returns, case.gain, case.poisoned)
        # The optimizer gets the frozen parameter, too, as in most programs.
        momentum, weight_decay = (0.9, 0.1) if case.decays else (0.0, 0.0)
        parameters = self.model.parameters()
        self.optimizer: Any = _Optimizer(parameters, LEARNING_RATE, momentum, weight_decay=weight_decay)
        self.loader = Loader(form, case.batches, source)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=INITIAL_SCALE, enabled=case.scales)
        self.batch: Any = None
        self._optimizer_name = ""

    @property
    def drawn(self) -> Batch:
        """The batch that the loop took last."""
        return self.case.batches[(self.loader.drawn - 1) % len(self.case.batches)]

    @property
    def module(self) -> ToyModel:
        """The model, by the name that `uninitialized` uses."""
        return self.model

    def filled(self, path: str, found: Optional[Guess]) -> Any:
        """Return the value that a step reads at a path; a name of a training step outweighs `found`."""
        if path in self.given:
            return self.given[path]
        if found is None or found.value != guesses.CONFIG:
            found = roles.known(path.rpartition(".")[2]) or found
        if found is None and path.startswith("self.") and path.count(".") == 1:
            found = Guess(None)
        if found is None:
            raise no_value(path)
        self.read[path] = found
        return self.made(found.value, path)

    def silences(self, name: str) -> bool:
        """Return whether a constructor would save or profile with it."""
        return roles.known(name) == Guess(roles.SILENT)

    def _refuse_a_second_optimizer(self, name: str) -> None:
        """Raise CannotFeedError: two optimizers of the same parameters would step twice with one gradient."""
        self._optimizer_name = self._optimizer_name or name
        if name != self._optimizer_name:
            text = "it takes several optimizers ({}, {}), and auditkit does not know the parameters of each"
            raise CannotFeedError(text.format(self._optimizer_name, name))

    def made(self, value: Any, path: str = "") -> Any:
        """Return the value in this run that a word means; other values stay as they are."""
        if value == guesses.OPTIMIZER:
            self._refuse_a_second_optimizer(path.rpartition(".")[2])
        return super().made(value, path)


class _Group(Dict[str, Any]):
    """A group of parameters; a key that only the program's own optimizer has is None."""

    def __missing__(self, key: str) -> Any:
        return self["lr"] if key == "initial_lr" else None  # a schedule of torch sets it


class _Optimizer(torch.optim.SGD):
    """An optimizer that a program may have wrapped: `step_and_update_lr` steps."""

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        super().add_param_group(param_group)
        self.param_groups[-1] = _Group(self.param_groups[-1])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("step_"):
            return self.step
        raise AttributeError(name)


class _Schedule(torch.optim.lr_scheduler.LambdaLR):
    """A constant rate; methods of other libraries' schedules do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _object(values: Values, path: str) -> Any:
    """Return a configuration or an object whose unknown attributes are None."""
    return Stub(values, path, roles.of_settings)


def _per_step(values: Values) -> int:
    return values.case.accumulate or len(values.case.batches)


Values.fakes = {
    **COMMON,
    guesses.SCALER: lambda values, _: values.scaler,
    guesses.DEVICE: lambda values, _: torch.device("cpu"),
    guesses.DEVICE_NAME: lambda values, _: "cpu",
    guesses.CONFIG: _object,
    guesses.OBJECT: _object,
    guesses.CLIPS: lambda values, _: torch.nn.utils.clip_grad_norm_,
    roles.BATCHES: lambda values, _: values.loader,
    roles.GIVES_RATE: lambda values, _: lambda *_, **__: LEARNING_RATE,
    roles.GIVES_LOADER: lambda values, _: lambda *_, **__: values.loader,
    roles.GIVES_BATCH: lambda values, _: lambda *_, **__: next(values.loader),
    roles.BATCH: lambda values, _: values.batch,
    roles.LOSS_SCALER: lambda values, _: LossScaler(),
    roles.BATCH_LOSS: lambda values, _: loss_of(values.model(values.drawn.inputs), values.drawn.targets),
    roles.INPUTS: lambda values, _: values.drawn.inputs,
    roles.TARGETS: lambda values, _: values.drawn.targets,
    roles.CRITERION: lambda values, _: Criterion(),
    roles.SCHEDULER: lambda values, _: _Schedule(values.optimizer, lambda _: 1.0),
    roles.ACCUMULATION: lambda values, _: _per_step(values),
    roles.LIMIT: lambda values, _: values.case.limit,
    roles.STEPS: lambda values, _: max(1, len(values.case.batches) // _per_step(values)),
    roles.SAMPLES: lambda values, _: max(len(each.inputs) for each in values.case.batches),
    roles.RARELY: lambda values, _: _RARELY,
    roles.EPOCHS: lambda values, _: values.case.calls,
    roles.MIXED: lambda values, _: values.case.scales,
    roles.NOTHING: lambda values, _: None,
    roles.NO_CONTEXT: lambda values, _: contextlib.nullcontext(),
}  # fmt: skip
