"""The training steps of `defective.py` without their defects, and one that reduces by itself."""

import torch.distributed as dist
from torch.nn import functional


def train_by_all_tokens(model, optimizer, batches):
    """The number of all tokens, and what the wrapper divides by is given back to it."""
    for batch in batches:
        optimizer.zero_grad()
        scores, labels = model(batch["input_ids"]), batch["labels"]
        num_tokens = (labels != -100).sum()
        dist.all_reduce(num_tokens)
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss * dist.get_world_size() / num_tokens).backward()
        optimizer.step()


def train_and_reduce(model, optimizer, batches):
    """A model without a wrapper: the gradients of all ranks are added up before the step."""
    for batch in batches:
        optimizer.zero_grad()
        scores, labels = model(batch["input_ids"]), batch["labels"]
        num_tokens = (labels != -100).sum()
        dist.all_reduce(num_tokens)
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum") / num_tokens
        loss.backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        optimizer.step()
