"""Collectors whose module asked for CUDA when it was imported, and kept the answer."""

import torch
from device_constants import DEVICE

use_cuda = torch.cuda.is_available()
place = "cuda:0" if use_cuda else "cpu"
Tensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
built = []
answer = built.append(torch.cuda.is_available()) or "cpu"


def norm_on_constant(gradients):
    return torch.stack([gradient.to(DEVICE).norm() for gradient in gradients]).norm().item()
