import torch
import torch.distributed as dist
from torch.nn import functional


def training_step(model, optimizer, batches, max_norm=1.0, scaler=None):
    batches = list(batches)
    # One mean over all targets of the step, however many each micro-batch and each rank has.
    count, ranks = sum((targets != -100).sum() for _, targets in batches), 1
    if dist.is_initialized():
        ranks = dist.get_world_size()  # DDP and FSDP divide by it
        dist.all_reduce(count)
    optimizer.zero_grad()
    for inputs, targets in batches:
        scores = model(inputs)
        loss = functional.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction="sum") * ranks / count
        (loss if scaler is None else scaler.scale(loss)).backward()
    if scaler is not None:
        scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if scaler is not None:
        scaler.step(optimizer)
        scaler.update()
    elif norm.isfinite():  # else the step is left out, and the next one starts from zero
        optimizer.step()
    return norm
