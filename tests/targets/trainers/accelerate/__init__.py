"""Of our own writing: as much of the library's accelerator as its loop meets; it forgets to divide."""

import contextlib

import torch


class Accelerator:
    def __init__(self, cpu=False, gradient_accumulation_steps=1):
        self.steps, self.count, self.sync_gradients = gradient_accumulation_steps, 0, True

    def prepare(self, model, optimizer, batches):
        return model, _Optimizer(self, optimizer), batches

    @contextlib.contextmanager
    def accumulate(self, model):
        self.count += 1
        self.sync_gradients = self.count % self.steps == 0
        yield

    def backward(self, loss):
        loss.backward()

    def clip_grad_norm_(self, parameters, max_norm):
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)


class _Optimizer:
    def __init__(self, accelerator, optimizer):
        self.accelerator, self.optimizer = accelerator, optimizer

    def step(self):
        if self.accelerator.sync_gradients:
            self.optimizer.step()

    def zero_grad(self):
        if self.accelerator.sync_gradients:
            self.optimizer.zero_grad()
