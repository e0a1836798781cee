"""Trainers of libraries: the checkout's own class is made to train our model on our batches.

A class is known by the package and the name of one that it is, or inherits from. One that is made here does nothing
beside training: it writes, logs and shows nothing, and runs on the host.
"""

import importlib
import inspect
import tempfile
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

import torch

from ..base.frames import Site, SourceRoots
from ..feeding.guesses import Guess
from . import lightning, roles
from .toy_model import NEXT_TOKENS, loss_of
from .values import LEARNING_RATE, Values

Call = Callable[[], Any]


class Adapter(NamedTuple):
    """How a class of a library is driven: what makes a call of it, the shape of the model's answer, and the targets.

    `samples` alone are handed to a library that does not know what a target is: their weight is its caller's.
    What `needs_object` is driven as an object of the class, whose model and targets are its own.
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
    """The adapter of a class; None for one that is of no library known here."""
    for each in owner.__mro__ if owner is not None else ():
        found = _ADAPTERS.get((each.__module__.partition(".")[0], each.__name__))
        if found is not None:
            return found
    return None


def part_of(owner: Optional[type], roots: SourceRoots) -> Optional[Site]:
    """Where the checkout changes a part of a library's step: the line for what the library itself does with it."""
    for each in owner.__mro__ if owner is not None else ():
        for name, held in vars(each).items():
            code = getattr(inspect.unwrap(held), "__code__", None) if roles.OF_TRAINERS.fullmatch(name) else None
            file = roots.relative(code.co_filename) if code is not None else None
            if code is not None and file is not None:
                return Site(file, code.co_firstlineno, "{}.{}".format(each.__name__, name))
    return None


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
        data_collator=_only_one,
    )

    def train() -> None:
        with scratch:
            trainer.train()

    return train


def _lightning_trainer(owner: Any, values: Values) -> Call:
    """`Trainer.fit` of a module that answers with the mean loss of a batch."""
    package = importlib.import_module(_library_base(owner).__module__.rpartition(".trainer.trainer")[0])

    class Trained(package.LightningModule):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = values.model

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return loss_of(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = values.optimizer
            return optimizer

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    asked = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, **dict.fromkeys(quiet, False)}
    trainer = owner(**asked, **_settings(values, "trainer", _OF_LIGHTNING))
    return lambda: trainer.fit(Trained(), values.loader)


def _lightning_module(made: Any, values: Values) -> Call:
    """What it does by itself is asked with no settings of ours."""
    return lightning.drive(
        made, values, _settings(values, "trainer", _OF_LIGHTNING if made.automatic_optimization else {})
    )


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


def _settings(values: Values, path: str, chosen: Dict[str, str]) -> Dict[str, Any]:
    """What probes choose, told by the path of each setting, and what somebody gave: `--argument args.optim=sgd`."""
    values.read.update({"{}.{}".format(path, name): Guess(words) for name, words in chosen.items()})
    made = {name: values.made(Guess(words), name) for name, words in chosen.items()}
    given = [(name.partition("."), value) for name, value in values.given.items()]
    return {**made, **{name: value for (place, _, name), value in given if place == path}}


def _only_one(items: Any) -> Any:
    return items[0]


def _library_base(owner: type) -> type:
    return next(each for each in owner.__mro__ if (each.__module__.partition(".")[0], each.__name__) in _ADAPTERS)


_OF_LIGHTNING = {"accumulate_grad_batches": roles.ACCUMULATION, "gradient_clip_val": roles.LIMIT}
_MODULE = Adapter(_lightning_module, needs_object=True)
_LIGHTNING = Adapter(_lightning_trainer, "scores", "samples")
_ADAPTERS = {
    ("transformers", "Trainer"): Adapter(_transformers_trainer, "answer", NEXT_TOKENS),
    ("lightning", "Trainer"): _LIGHTNING,
    ("pytorch_lightning", "Trainer"): _LIGHTNING,
    ("lightning", lightning.NAME): _MODULE,
    ("pytorch_lightning", lightning.NAME): _MODULE,
    ("accelerate", "Accelerator"): Adapter(_accelerator, "scores", "samples"),
}
