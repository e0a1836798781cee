"""The training steps of `defective.py` without their defects, and some in other shapes."""

import torch
from torch.nn import functional


def train_accumulating(model, optimizer, batches, accumulation_steps=4):
    """The mean over the micro-batches of a step."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(batches):
        (functional.cross_entropy(model(inputs), targets) / accumulation_steps).backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_by_token(model, optimizer, batches):
    """One step of all batches, in which every token that has a target counts alike."""
    batches = list(batches)
    count = sum((batch["labels"] != -100).sum() for batch in batches)
    optimizer.zero_grad(set_to_none=False)
    for batch in batches:
        scores = model(batch["input_ids"])
        loss = functional.cross_entropy(scores.flatten(0, 1), batch["labels"].flatten(), reduction="sum") / count
        loss.backward()
    optimizer.step()


def train_and_clip(model, optimizer, batches, accumulation_steps=4, max_norm=1.0):
    """The sum is clipped once, before the step."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(batches):
        (functional.cross_entropy(model(inputs), targets) / accumulation_steps).backward()
        if (index + 1) % accumulation_steps == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()


def train_in_half(model, optimizer, batches, scaler, max_norm=1.0):
    """The limit is held against gradients as they are without the scaler's factor."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(inputs), targets)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()


def train_all(model, batches, lr=1e-3):
    """The optimizer is made of all that trains, in two groups."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, others = [p for p in trained if p.dim() > 1], [p for p in trained if p.dim() <= 1]
    optimizer = torch.optim.SGD([{"params": matrices, "weight_decay": 0.1}, {"params": others}], lr=lr)
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def train_past_nan(model, optimizer, batches):
    """Gradients that are not finite are thrown away, and the parameters stay."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if torch.stack([g.isfinite().all() for g in gradients]).all():
            optimizer.step()


def train_frozen(model, optimizer, batches):
    """The embedding is frozen by taking its gradient away."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        model.embedding.weight.grad = None
        optimizer.step()


def train_and_log(model, optimizer, batches, accumulation_steps=4):
    """The losses are added up where they are, and read once."""
    total = torch.zeros(())
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(batches):
        loss = functional.cross_entropy(model(inputs), targets) / accumulation_steps
        loss.backward()
        total += loss.detach()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    return total.item()


class Trainer:
    """A loop as a class: model and optimizer are its own, a batch comes from outside."""

    def __init__(self, model, optimizer, loss_fn, max_grad_norm=1.0):
        self.model, self.optimizer, self.loss_fn, self.max_grad_norm = model, optimizer, loss_fn, max_grad_norm

    def train_step(self, batch):
        """One step of one batch."""
        inputs, targets = batch
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        return loss.detach()
