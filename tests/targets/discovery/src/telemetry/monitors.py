"""Monitors: modules are registered first, and asked about later."""

from torch import nn


class Monitor:
    def __init__(self, threshold: float = 1e-6):
        self.threshold = threshold
        self._host = []
        self._seed = []

    def reset(self):
        self._host.clear()

    def attach(self, host: nn.Module, seed: nn.Module):
        self._host = list(host.parameters())
        self._seed.extend(seed.parameters())

    def check(self):
        host = sum(p.grad.pow(2).sum() for p in self._host if p.grad is not None)
        return {"host": host.sqrt().item(), "isolated": host.item() < self.threshold}


class BoundMonitor:
    def __init__(self, model: nn.Module):
        self.model = model

    def norm(self) -> float:
        return sum(p.grad.norm().item() for p in self.model.parameters())


class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model = model

    def grad_norm(self) -> float:
        return sum(p.grad.norm().item() for p in self.model.parameters())

    @property
    def last_norm(self) -> float:
        return max(p.grad.norm().item() for p in self.model.parameters())

    @staticmethod
    def static_norm(model: nn.Module) -> float:
        return max(p.grad.norm().item() for p in model.parameters())

    def train(self, batch) -> float:
        self.model(batch).sum().backward()
        norm = sum(p.grad.norm().item() for p in self.model.parameters())
        self.optimizer.step()
        return norm
