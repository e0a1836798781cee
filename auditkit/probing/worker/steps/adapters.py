"""Trainers of libraries: the checkout's own class is made to train our model on our batches.

A class is known by the package and the name of one that it is, or inherits from. One that is made here does nothing
beside training: it writes, logs and shows nothing, and runs on the host.
"""

import importlib
import inspect
import tempfile
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch

from ..feeding import guesses
from ..feeding.guesses import Guess
from . import roles
from .toy_model import loss_of
from .values import LEARNING_RATE, Values

Call = Callable[[], Any]


class Adapter(NamedTuple):
    """How a class of a library is driven: what makes a call of it, the shape of the model's answer, and the targets.

    `samples` alone are handed to a library that does not know what a target is: their weight is its caller's.
    """

    drive: Callable[[Any, Values], Call]
    returns: str
    task: str


class _Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """The batches in their order, each whole."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Any]:
        for batch in self._values.case.batches:
            self._values.loader.drawn += 1
            yield {"input_ids": batch.inputs, "labels": batch.targets}


def adapter_of(owner: Optional[type]) -> Optional[Adapter]:
    """The adapter of a class; None for one that is of no library known here."""
    for each in owner.__mro__ if owner is not None else ():
        found = _ADAPTERS.get((each.__module__.partition(".")[0], each.__name__))
        if found is not None:
            return found
    return None


def _transformers_trainer(owner: Any, values: Values) -> Call:
    """`Trainer.train` with arguments of its own class; one item of the stream is a whole micro-batch."""
    case, scratch = values.case, tempfile.TemporaryDirectory()
    settings = importlib.import_module("transformers.training_args").TrainingArguments
    asked = {
        "output_dir": scratch.name,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": _per_step(values),
        "max_grad_norm": case.limit,
        "max_steps": max(1, len(case.batches) // _per_step(values)),
        "learning_rate": LEARNING_RATE,
        "weight_decay": 0.1 if case.decays else 0.0,
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "remove_unused_columns": False,
    }
    known = inspect.signature(settings).parameters
    trainer = owner(
        model=values.model,
        args=settings(**{name: value for name, value in asked.items() if name in known}),
        train_dataset=_Stream(values),
        data_collator=_only_one,
    )

    def train() -> None:
        with scratch:
            trainer.train()

    return train


def _lightning_trainer(owner: Any, values: Values) -> Call:
    """`Trainer.fit` of a module that answers with the mean loss of a batch."""
    package = importlib.import_module(_library_base(owner).__module__.rpartition(".trainer.trainer")[0])

    class Trained(package.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = values.model

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return loss_of(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = values.optimizer
            return optimizer

    trainer = owner(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        accumulate_grad_batches=_per_step(values),
        gradient_clip_val=values.case.limit,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    return lambda: trainer.fit(Trained(), values.loader)


def _accelerator(owner: Any, values: Values) -> Call:
    """The loop of its documentation."""
    accelerator = owner(cpu=True, gradient_accumulation_steps=_per_step(values))
    stream = torch.utils.data.DataLoader(_Stream(values), batch_size=None)
    model, optimizer, batches = accelerator.prepare(values.model, values.optimizer, stream)

    def train() -> None:
        for batch in batches:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model(batch["input_ids"]), batch["labels"]))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), values.case.limit)
                optimizer.step()
                optimizer.zero_grad()

    return train


def _only_one(items: Any) -> Any:
    return items[0]


def _library_base(owner: type) -> type:
    return next(each for each in owner.__mro__ if (each.__module__.partition(".")[0], each.__name__) in _ADAPTERS)


def _per_step(values: Values) -> int:
    """How many micro-batches a step has, told with what else is handed over."""
    read = (("model", guesses.MODULE), ("batches", roles.BATCHES), ("limit", roles.LIMIT))
    values.read.update({name: Guess(words) for name, words in (*read, ("accumulation", roles.ACCUMULATION))})
    return values.case.accumulate or len(values.case.batches)


_LIGHTNING = Adapter(_lightning_trainer, "scores", "samples")
_ADAPTERS = {
    ("transformers", "Trainer"): Adapter(_transformers_trainer, "answer", "tokens"),
    ("lightning", "Trainer"): _LIGHTNING,
    ("pytorch_lightning", "Trainer"): _LIGHTNING,
    ("accelerate", "Accelerator"): Adapter(_accelerator, "scores", "samples"),
}
