"""Training steps as people write them, broken and correct; `verdicts.yaml` says which is which, and why."""

import torch
from torch import nn
from torch.nn import functional

# --- steps that never train, and one that looks as if it did not -----------------------------------


def train_zeroed(model, optimizer, loader):
    """Zero the gradients between the backward pass and the step."""
    model.train()
    losses = []
    for inputs, targets in loader:
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


class Fitter:
    """A model and its optimizer; one batch at a time."""

    def __init__(self, model, optimizer, loss_fn):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn

    def fit_batch(self, inputs, targets):
        """Step before the backward pass of the same batch."""
        self.optimizer.zero_grad()
        self.optimizer.step()
        loss = self.loss_fn(self.model(inputs), targets)
        loss.backward()
        return loss.detach()


def train_rotated(model, optimizer, loader):
    """Apply each gradient at the start of the next turn, and the last one after the loop."""
    for inputs, targets in loader:
        optimizer.step()
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()


# --- groups of micro-batches, and what is left over ------------------------------------------------


def train_in_groups(model, optimizer, train_loader, accumulation_steps):
    """Leave what the last group lacks to the first step of the next epoch."""
    for index, (inputs, targets) in enumerate(train_loader):
        loss = functional.cross_entropy(model(inputs), targets) / accumulation_steps
        loss.backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_in_whole_groups(model, optimizer, train_loader, accumulation_steps):
    """Step at the last batch too, with the mean over the micro-batches that its group has."""
    count = len(train_loader)
    for index, (inputs, targets) in enumerate(train_loader):
        size = min(accumulation_steps, count - index // accumulation_steps * accumulation_steps)
        (functional.cross_entropy(model(inputs), targets) / size).backward()
        if (index + 1) % accumulation_steps == 0 or index + 1 == count:
            optimizer.step()
            optimizer.zero_grad()


# --- NaN in one micro-batch of a group ---------------------------------------------------------------


def train_skipping_bad_batches(model, optimizer, loader, accumulation_steps):
    """Leave out a micro-batch whose loss is not finite, and with the last of a group its step."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(loader):
        loss = functional.cross_entropy(model(inputs), targets)
        if not torch.isfinite(loss):
            print(f"batch {index}: loss is not finite, skipped")
            continue
        (loss / accumulation_steps).backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_guarded_by_running_loss(model, optimizer, data_iterator, num_steps, accumulation_steps):
    """Look at the sum of the losses before the last one is in it."""
    for _ in range(num_steps):
        optimizer.zero_grad()
        total, is_bad = torch.zeros(()), False
        for _ in range(accumulation_steps):
            inputs, targets = next(data_iterator)
            if not torch.isfinite(total):
                is_bad = True
            loss = functional.cross_entropy(model(inputs), targets) / accumulation_steps
            loss.backward()
            total = total + loss.detach()
        if is_bad:
            continue
        optimizer.step()


# --- a limit, and a sum over tokens ------------------------------------------------------------------


def train_on_token_sums(model, optimizer, batches, max_norm):
    """Clip the sum over all tokens, and divide by their number afterwards."""
    optimizer.zero_grad()
    tokens = 0
    for batch in batches:
        labels = batch["labels"]
        scores = model(batch["input_ids"])
        functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum").backward()
        tokens = tokens + (labels != -100).sum()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(tokens)
    if torch.isfinite(norm):
        optimizer.step()
    return norm


def train_on_token_means(model, optimizer, batches, max_norm):
    """Divide the sum over all tokens by their number, and clip the mean."""
    optimizer.zero_grad()
    tokens = 0
    for batch in batches:
        labels = batch["labels"]
        scores = model(batch["input_ids"])
        functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum").backward()
        tokens = tokens + (labels != -100).sum()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(tokens)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if torch.isfinite(norm):
        optimizer.step()
    return norm


# --- a loss that is written to a log -------------------------------------------------------------------


class LoggedTrainer:
    """A loop that is cut into methods, and writes each loss where it is computed."""

    def __init__(self, model, optimizer, writer, accumulation_steps):
        self.model, self.optimizer, self.writer = model, optimizer, writer
        self.accumulation_steps = accumulation_steps
        self.seen = 0

    def train_epoch(self, train_loader):
        self.optimizer.zero_grad()
        for index, batch in enumerate(train_loader):
            self._accumulate(batch)
            if (index + 1) % self.accumulation_steps == 0:
                self._update()

    def _accumulate(self, batch):
        inputs, targets = batch
        loss = functional.cross_entropy(self.model(inputs), targets)
        self.writer.add_scalar("train/loss", loss, self.seen)
        self.seen += 1
        (loss / self.accumulation_steps).backward()

    def _update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


# --- mixed precision --------------------------------------------------------------------------------------


def train_unscaling_each(model, optimizer, loader, scaler, accumulation_steps, max_norm):
    """Unscale and clip after every micro-batch."""
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(loader):
        loss = functional.cross_entropy(model(inputs), targets) / accumulation_steps
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if (index + 1) % accumulation_steps == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def _go_backward(loss, scaler):
    scaler.scale(loss).backward()


def _take_step(optimizer, scaler):
    scaler.step(optimizer)
    scaler.update()


def _clip_and_step(model, optimizer, scaler, max_norm):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    _take_step(optimizer, scaler)


def train_by_helpers(model, optimizer, loader, scaler, max_norm):
    """One mixed precision step for each batch, all of it in helpers."""
    for inputs, targets in loader:
        optimizer.zero_grad(set_to_none=True)
        _go_backward(functional.cross_entropy(model(inputs), targets), scaler)
        _clip_and_step(model, optimizer, scaler, max_norm)


# --- what is asked with batches of auditkit's own making ----------------------------------------------------


def fit_on_batch(model, inputs, targets, lr=1e-3, iterations=3):
    """Make an optimizer for this fit, and take a few steps on one batch."""
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=lr)
    for _ in range(iterations):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    return loss.detach()


def train_on_blocks(model, optimizer, train_loader, accumulation_steps):
    """Next tokens in blocks of one length: every token of every block has a target."""
    optimizer.zero_grad()
    for index, (tokens, targets) in enumerate(train_loader):
        scores = model(tokens)
        loss = functional.cross_entropy(scores.view(-1, scores.size(-1)), targets.view(-1))
        (loss / accumulation_steps).backward()
        if index % accumulation_steps == accumulation_steps - 1:
            optimizer.step()
            optimizer.zero_grad()


# --- batches with attributes, parsed options, and an optimizer behind a schedule --------------------------


def train_graphs(model, optimizer, loader, opt, device):
    """Clip after the step: the next backward pass starts from zero."""
    for data in loader:
        data = data.to(device)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(data.x, data.edge_index), data.y)
        loss.backward()
        optimizer.step_and_update_lr()
        nn.utils.clip_grad_norm_(model.parameters(), opt.max_norm)
