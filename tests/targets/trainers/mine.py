"""Trainers of a project: each changes one part of the library's step."""

import transformers
from transformers import Trainer
from torch.nn import functional


class MeanTrainer(Trainer):
    """The mean of each micro-batch, whatever the number of all targets is."""

    def compute_loss(self, model, inputs, num_items_in_batch=None):
        scores = model(**inputs)["logits"]
        return functional.cross_entropy(scores.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)


class NamedTrainer(transformers.Trainer):
    """Changes nothing of a step."""

    def log(self, logs):
        return logs


class SumTrainer(MeanTrainer):
    """The sum, divided by the number of all targets."""

    def compute_loss(self, model, inputs, num_items_in_batch=None):
        scores, labels = model(**inputs)["logits"].flatten(0, 1), inputs["labels"].flatten()
        return functional.cross_entropy(scores, labels, ignore_index=-100, reduction="sum") / num_items_in_batch
