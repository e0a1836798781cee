import torch
from torch.nn import functional


def train(model, batches, lr=1e-3):
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, others = [p for p in trained if p.dim() > 1], [p for p in trained if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}], lr=lr)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(trained)
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
