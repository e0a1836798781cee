"""Of our own writing: as much of the library's trainer as a subclass and an adapter meet."""

from transformers.trainer import Trainer
from transformers.training_args import TrainingArguments

__all__ = ["Trainer", "TrainingArguments"]
