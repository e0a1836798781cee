import torch
import torch.distributed as dist
from torch.nn import functional


def training_step(model, optimizer, batches, max_norm=1.0):
    batches = list(batches)
    count, ranks = sum((targets != -100).sum() for _, targets in batches), 1
    if dist.is_initialized():
        ranks = dist.get_world_size()
        dist.all_reduce(count)  # the targets of all ranks
    optimizer.zero_grad()
    for inputs, targets in batches:
        scores = model(inputs)
        loss = functional.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction="sum")
        (loss * ranks / count).backward()  # DDP and FSDP divide by the number of ranks
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if norm.isfinite():  # else the step is left out, and the next one starts from zero
        optimizer.step()
    return norm
