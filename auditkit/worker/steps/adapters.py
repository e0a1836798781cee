"""Trainers of libraries: the checkout's own class trains our model on our batches.

A class is known by the package and the name of one that it is, or inherits from. A trainer that is made here does
nothing beside training: it writes, logs and shows nothing, and runs on the host. A LightningModule is trained with its
own model, as its constructor makes it. What draws random numbers or depends on the other samples of a batch (dropout,
batch norms) is as in evaluation, so that micro-batches make what one batch makes.
"""

import importlib
import inspect
import tempfile
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

import torch
from torch import nn

from ..base.frames import Site, SourceRoots
from ..base.refusals import CannotFeedError
from ..feed.guesses import Guess
from . import roles, stubs
from .toy_model import NEXT_TOKENS, Batch, loss_of
from .values import LEARNING_RATE, Values

Call = Callable[[], Any]
_MOST_PARAMETERS = 2_500_000
_AS_EVALUATED = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


class Adapter(NamedTuple):
    """How a class of a library is driven: what makes a call of it, the form of the model's result, and the targets.

    A library that does not know what a target is gets `samples`: their weight is its caller's. `needs_object`: the
    class is made first, and its model and targets are its own.
    """

    drive: Callable[[Any, Values], Call]
    returns: str = ""
    task: str = ""
    needs_object: bool = False


class _Stream(torch.utils.data.IterableDataset):
    """The batches in their order, each whole."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Any]:
        for batch in self._values.case.batches:
            self._values.loader.drawn += 1
            yield {"input_ids": batch.inputs, "labels": batch.targets}


def adapter_of(owner: Optional[type]) -> Optional[Adapter]:
    """Return the adapter of a class; None if it is of no known library."""
    found = (_ADAPTERS.get(_key(each)) for each in (owner.__mro__ if owner is not None else ()))
    return next(filter(None, found), None)


def _key(owner: type) -> Any:
    return owner.__module__.partition(".")[0], owner.__name__


def part_of(owner: Optional[type], roots: SourceRoots) -> Optional[Site]:
    """Return where the checkout changes a part of a library's step: the line for what the library itself does."""
    for each in owner.__mro__ if owner is not None else ():
        for name, held in vars(each).items():
            code = getattr(inspect.unwrap(held), "__code__", None) if roles.OF_TRAINERS.fullmatch(name) else None
            file = roots.relative(code.co_filename) if code is not None else None
            if code is not None and file is not None:
                return Site(file, code.co_firstlineno, "{}.{}".format(each.__name__, name))
    return None


def _settings(values: Values, path: str, chosen: Dict[str, str]) -> Dict[str, Any]:
    """Return what probes choose, reported by path, and what the user gave: `--argument args.optim=sgd`."""
    values.read.update({"{}.{}".format(path, name): Guess(words) for name, words in chosen.items()})
    made = {name: values.made(Guess(words), name) for name, words in chosen.items()}
    given = [(name.partition("."), value) for name, value in values.given.items()]
    return {**made, **{name: value for (place, _, name), value in given if place == path}}


def _transformers_trainer(owner: Any, values: Values) -> Call:
    """`Trainer.train` with arguments of its own class; one item of the stream is a whole micro-batch."""
    scratch = tempfile.TemporaryDirectory()
    settings = importlib.import_module("transformers.training_args").TrainingArguments
    chosen = {
        "gradient_accumulation_steps": roles.ACCUMULATION,
        "max_grad_norm": roles.LIMIT,
        "max_steps": roles.STEPS,
    }
    asked = {
        "output_dir": scratch.name,
        "per_device_train_batch_size": 1,
        "learning_rate": LEARNING_RATE,
        "weight_decay": 0.1 if values.case.decays else 0.0,
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        **_settings(values, "args", chosen),
    }
    known = inspect.signature(settings).parameters
    trainer = owner(
        model=values.model,
        args=settings(**{name: value for name, value in asked.items() if name in known}),
        train_dataset=_Stream(values),
        data_collator=lambda items: items[0],
    )

    def train() -> None:
        with scratch:
            trainer.train()

    return train


def _accelerator(owner: Any, values: Values) -> Call:
    """The loop of its documentation."""
    asked = _settings(values, "accelerator", {"gradient_accumulation_steps": roles.ACCUMULATION})
    limit = _settings(values, "clip", {"max_norm": roles.LIMIT})
    accelerator = owner(cpu=True, **asked)
    stream = torch.utils.data.DataLoader(_Stream(values), batch_size=None)
    model, optimizer, batches = accelerator.prepare(values.model, values.optimizer, stream)

    def train() -> None:
        for batch in batches:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model(batch["input_ids"]), batch["labels"]))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), **limit)
                optimizer.step()
                optimizer.zero_grad()

    return train


# --- Lightning -----------------------------------------------------------------------------------------

_OF_LIGHTNING = {"accumulate_grad_batches": roles.ACCUMULATION, "gradient_clip_val": roles.LIMIT}
_QUIET = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
_TRAINER = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, **dict.fromkeys(_QUIET, False)}


def _lightning_trainer(owner: Any, values: Values) -> Call:
    """`Trainer.fit` of a module that returns the mean loss of a batch."""
    base = next(each for each in owner.__mro__ if _key(each) in _ADAPTERS)
    package = importlib.import_module(base.__module__.rpartition(".trainer.trainer")[0])

    class Trained(package.LightningModule):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = values.model

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return loss_of(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = values.optimizer
            return optimizer

    trainer = owner(**{**_TRAINER, **_settings(values, "trainer", _OF_LIGHTNING)})
    return lambda: trainer.fit(Trained(), values.loader)


def _lightning_module(made: Any, values: Values) -> Call:
    """Its parts of a step in the loop of Lightning's Trainer, or of our stub of it.

    A module that steps by itself gets no settings of ours. Raises CannotFeedError for a large module.
    """
    settings = _settings(values, "trainer", _OF_LIGHTNING if made.automatic_optimization else {})
    count = sum(each.numel() for each in made.parameters())
    if count > _MOST_PARAMETERS:
        raise CannotFeedError("its own model has {:,} parameters, which is too many to ask often".format(count))
    for part in made.modules():
        if isinstance(part, _AS_EVALUATED):
            part.eval()
            part.__dict__["train"] = lambda *_, part=part: part
    # Its own model cannot be made to return NaN, so the batch is NaN; token numbers stay the same.
    values.loader.batches = [
        Batch(inputs * float("nan"), targets)
        if index in values.case.poisoned and inputs.is_floating_point()
        else Batch(inputs, targets)
        for index, (inputs, targets) in enumerate(values.case.batches)
    ]
    if isinstance(made, stubs.LightningModule):
        values.read["trainer"] = Guess("a stand-in of ours, as Lightning is not in this interpreter")
        return lambda: stubs.fit(made, values.loader, len(values.case.batches), **settings)
    base = next(each for each in type(made).__mro__ if each.__name__ == stubs.MODULE_NAME)
    package = importlib.import_module(base.__module__.rpartition(".core.")[0])
    return lambda: package.Trainer(**{**_TRAINER, **settings}).fit(made, values.loader)


_MODULE = Adapter(_lightning_module, needs_object=True)
_LIGHTNING = Adapter(_lightning_trainer, "scores", "samples")
_ADAPTERS = {
    ("transformers", "Trainer"): Adapter(_transformers_trainer, "answer", NEXT_TOKENS),
    ("lightning", "Trainer"): _LIGHTNING,
    ("pytorch_lightning", "Trainer"): _LIGHTNING,
    ("lightning", stubs.MODULE_NAME): _MODULE,
    ("pytorch_lightning", stubs.MODULE_NAME): _MODULE,
    ("accelerate", "Accelerator"): Adapter(_accelerator, "scores", "samples"),
}
