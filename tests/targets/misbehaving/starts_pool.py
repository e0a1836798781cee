"""Starts an OpenMP pool while it is imported; a fork of it would hang in its first parallel region."""

import torch

torch.set_num_threads(2)
torch.ones(1 << 20).sum()


def norm(gradients):
    torch.set_num_threads(2)
    torch.ones(1 << 20).sum()
    return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))))
