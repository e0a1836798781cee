"""Collectors of many forms that take gradients of any device and dtype, and leave them where they are."""

import torch


def _norms(gradients):
    norms = torch._foreach_norm(gradients, 2, dtype=torch.float64)
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def norm_as_tensor(gradients):
    return torch.linalg.vector_norm(_norms(gradients))


def largest_values(gradients):
    """A fixed number of elements may be looked at on the host."""
    top = torch.cat([gradient.abs().double().reshape(-1).topk(5).values.to("cpu") for gradient in gradients])
    return {"grad_norm": norm_as_tensor(gradients).item(), "median_of_largest": top.median().item()}


def saved_copies(gradients):
    """The gradients themselves, for a dump: what is moved is the answer."""
    return {"grad_norm": norm_as_tensor(gradients).item(), "saved": [gradient.cpu() for gradient in gradients]}


def block_norms(gradients):
    """One number for each thousand elements comes to the host."""
    blocks = [block for gradient in gradients for block in gradient.reshape(-1).split(1024)]
    return torch.linalg.vector_norm(torch.tensor(_norms(blocks).tolist(), dtype=torch.float64)).item()
