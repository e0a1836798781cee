"""Training steps, each with one defect that the loops of public trainers had."""

import torch
from torch.nn import functional


def train_on_sums(model, optimizer, batches, accumulation_steps=4):
    """The losses of the micro-batches are added and never divided by how many there are."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(batches):
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_on_means(model, optimizer, batches, accumulation_steps=4):
    """Every micro-batch counts alike, however many tokens of it have a target."""
    optimizer.zero_grad()
    for index, batch in enumerate(batches):
        loss = model(**batch).loss / accumulation_steps
        loss.backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_and_clip(model, optimizer, batches, max_norm=1.0):
    """The gradients are clipped after the step that was to use them."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)


def train_and_clip_each(model, optimizer, batches, accumulation_steps=4, max_norm=1.0):
    """The sum is clipped after each micro-batch: what came first is made smaller again and again."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(batches):
        (functional.cross_entropy(model(inputs), targets) / accumulation_steps).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_in_half(model, optimizer, batches, scaler, max_norm=1.0):
    """The limit is held against gradients that the scaler has multiplied."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(inputs), targets)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()


def train_weights(model, batches, lr=1e-3):
    """The optimizer is made of the matrices alone: no bias is ever trained."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad and p.dim() > 1], lr=lr)
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def train_last_micro_batch(model, optimizer, batches, accumulation_steps=4):
    """The gradients are zeroed before every micro-batch, and the step sees the last one alone."""
    for index, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        (functional.cross_entropy(model(inputs), targets) / accumulation_steps).backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()


def train_without_zeroing(model, optimizer, batches):
    """No step forgets the gradients of the one before."""
    for inputs, targets in batches:
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def train_past_nan(model, optimizer, batches):
    """A loss that is no number is counted, and its gradients are used all the same."""
    skipped = torch.zeros((), dtype=torch.long)
    for inputs, targets in batches:
        loss = functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        skipped += torch.isnan(loss)
        optimizer.step()
    return skipped


def train_unfrozen(model, optimizer, batches):
    """The embedding is frozen by a gradient of zero, which weight decay and momentum do not heed."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        model.embedding.weight.grad.zero_()
        optimizer.step()


def train_in_bfloat16(model, optimizer, batches, accumulation_steps=4):
    """The sums of many micro-batches are kept in bfloat16, where a small term is lost beside a large sum."""
    sums = [torch.zeros_like(p, dtype=torch.bfloat16) for p in model.parameters()]
    for index, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        (functional.cross_entropy(model(inputs), targets) / accumulation_steps).backward()
        for parameter, total in zip(model.parameters(), sums, strict=True):
            if parameter.grad is not None:
                total += parameter.grad
                parameter.grad = total.to(parameter.dtype)
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            torch._foreach_zero_(sums)


def train_and_log(model, optimizer, batches, accumulation_steps=4):
    """The loss of every micro-batch is read while the device still works on it."""
    total = 0.0
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(batches):
        loss = functional.cross_entropy(model(inputs), targets) / accumulation_steps
        loss.backward()
        total += loss.item()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    return total
