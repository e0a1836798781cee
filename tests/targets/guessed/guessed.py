"""Collectors with required arguments that nobody gave: what hangs on the guess, and what does not."""

import torch


def _norms(grads):
    return [torch.linalg.vector_norm(grad.double()) for grad in grads]


def checked(grads, error_if_nonfinite: bool):
    """Calls everything healthy, unless it is told to raise."""
    norm = torch.linalg.vector_norm(torch.stack(_norms(grads))).item()
    if error_if_nonfinite and norm - norm != 0:
        raise ValueError("the gradients are not finite")
    return {"grad_norm": min(norm, 1e300), "healthy": True}


def on_its_device(grads, device):
    """Adds up where it is told to."""
    return torch.linalg.vector_norm(torch.stack([norm.to(device) for norm in _norms(grads)]))


def at_a_step(grads, step: int):
    """Reads each tensor at every step."""
    return {"grad_norm": sum(norm.item() ** 2 for norm in _norms(grads)) ** 0.5, "step": step}


def squared_total(grads):
    """The root of the sum of squares, which overflows in float32."""
    return {"layers": len(grads), "total": sum((grad * grad).sum() for grad in grads).sqrt().item()}


def squared_norm(grads):
    return squared_total(grads)["total"]


class Wrapper:
    """An optimizer's wrapper, which some trainer makes."""

    def __init__(self, engine):
        self.engine = engine.wrapped

    def norm_of_pairs(self, param_gradient_pairs):
        """The norm of the gradients of pairs that its caller made."""
        return torch.linalg.vector_norm(torch.stack(_norms(grad.data for _, grad in param_gradient_pairs))).item()


def checked_by_kind(parameters, check: "str | None"):
    """The norm of what is finite; raises where `check` names what to do about the rest, and they are not."""
    return checked(parameters, check is not None)


class Held:
    """Keeps the list of gradients that its caller fills anew for each step."""

    def __init__(self, gradients):
        self.gradients = gradients

    def norm(self):
        return torch.linalg.vector_norm(torch.stack(_norms(self.gradients))).item()
