import torch
from torch.nn import functional


def train_step(model, optimizer, batches):
    batches = list(batches)
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    for inputs, targets in batches:
        optimizer.zero_grad()
        (functional.cross_entropy(model(inputs), targets) / len(batches)).backward()
        for parameter, total in zip(parameters, sums, strict=True):
            if parameter.grad is not None:
                total += parameter.grad
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total.to(parameter.dtype)
    optimizer.step()
