"""Collectors whose module asked for CUDA when it was imported, and kept the answer."""

import torch
from device_constants import DEVICE

use_cuda = torch.cuda.is_available()
if use_cuda:
    place = "cuda:0"
else:
    place = "cpu"
Tensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
built = []
answer = built.append(torch.cuda.is_available()) or "cpu"


def norm_on_constant(gradients):
    return torch.stack([gradient.to(DEVICE).norm() for gradient in gradients]).norm().item()


@torch.no_grad()
def norm_on_default(gradients, norm_type=2.0, device="cuda" if use_cuda else "cpu"):
    return torch.stack([gradient.to(device).norm(norm_type) for gradient in gradients]).norm().item()
