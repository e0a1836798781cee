"""Collectors that are objects: built with the module they watch, or with two of them."""

import torch


class Watcher:
    """Built with a model, asked for its norm."""

    def __init__(self, model, decay=0.9):
        self.model = model
        self.decay = decay

    def grad_norm(self):
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        return sum(grad.pow(2).sum() for grad in grads).sqrt().item()


class Pair:
    """Built with two modules."""

    def __init__(self, host, seed):
        self.host = host
        self.seed = seed

    def check(self):
        grads = [p.grad for p in self.host.parameters() if p.grad is not None]
        norm = torch.stack([grad.norm() for grad in grads]).norm().item() if grads else 0.0
        other = [p.grad for p in self.seed.parameters() if p.grad is not None]
        return {"host_norm": norm, "seed_tensors": len(other)}


class Curious:
    """Needs something that no gradient case provides."""

    def __init__(self, model, logger, schedule):
        self.model = model
        self.logger = logger
        self.schedule = schedule

    def grad_norm(self):
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        return torch.stack([grad.norm() for grad in grads]).norm().item() * self.schedule.weight()


def flagged(parameters, detailed=False):
    """Returns more where it is asked to."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([grad.norm() for grad in grads]).norm().item()
    if detailed:
        nan_count = sum(int(torch.isnan(grad).sum()) for grad in grads)
        return {"grad_norm": norm, "nan_count": nan_count}
    return {"grad_norm": norm}


def flagged_for_ranks(parameters, detailed=False):
    """Can be called in one of its two ways only, as long as there is one process."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([grad.norm() for grad in grads]).norm().item()
    if detailed:
        assert torch.distributed.is_initialized()
        return {"grad_norm": norm, "ranks": torch.distributed.get_world_size()}
    return {"grad_norm": norm}
