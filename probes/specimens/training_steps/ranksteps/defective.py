"""Training steps over ranks, in which some targets count more than others."""

import torch.distributed as dist
from torch.nn import functional


def train_by_own_tokens(model, optimizer, batches):
    """Every rank divides by its own number of tokens, and the wrapper averages the ranks."""
    for batch in batches:
        optimizer.zero_grad()
        scores, labels = model(batch["input_ids"]), batch["labels"]
        num_tokens = (labels != -100).sum()
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum") / num_tokens
        loss.backward()
        optimizer.step()


def train_by_all_tokens(model, optimizer, batches):
    """Every rank divides by the number of all tokens, and the wrapper by the number of ranks once more."""
    for batch in batches:
        optimizer.zero_grad()
        scores, labels = model(batch["input_ids"]), batch["labels"]
        num_tokens = (labels != -100).sum()
        dist.all_reduce(num_tokens)
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum") / num_tokens
        loss.backward()
        optimizer.step()
