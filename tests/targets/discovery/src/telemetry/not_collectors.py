"""Nothing here is a collector, whatever it does with gradients."""

import torch


def zero(parameters):
    for p in parameters:
        p.grad = None


def scale_(parameters, factor):
    for p in parameters:
        p.grad.mul_(factor)
    return None


def have_gradients(parameters):
    return all(p.grad is not None for p in parameters)


def count_elements(parameters):
    return sum(p.grad.numel() for p in parameters if p.grad is not None)


def flat_gradients(parameters):
    return torch.cat([p.grad.view(-1) for p in parameters])


def average(grads):
    return torch.stack(grads).mean(dim=0)


def penalty(critic, samples):
    (gradients,) = torch.autograd.grad(critic(samples).sum(), samples)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


class Optimizer:
    def step(self, parameters):
        return sum(p.grad.norm() for p in parameters)


class Function(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grads):
        return sum(g.sum() for g in grads)


def norm_of_weights(model):
    """Reads no .grad, only weights: the comment's p.grad.norm() is not code."""
    return sum(p.norm().item() for p in model.parameters())
