"""Collectors of many forms that take gradients of any device and dtype, and leave them where they are."""

import random

import torch


def _norms(gradients):
    norms = torch._foreach_norm(gradients, 2, dtype=torch.float64)
    return torch.stack([norm.to(norms[0].device) for norm in norms])


def norm_as_tensor(gradients):
    return torch.linalg.vector_norm(_norms(gradients))


def squared_norm(gradients):
    return _norms(gradients).square().sum().item()


def largest_element(gradients):
    return max(gradient.abs().max().item() for gradient in gradients)


def mean_layer_norm(gradients):
    return {"mean_norm": _norms(gradients).mean().item()}


def rms(gradients):
    elements = sum(gradient.numel() for gradient in gradients)
    return (_norms(gradients).square().sum() / elements).sqrt().item()


def layer_list(gradients):
    return {"grad_norm": torch.linalg.vector_norm(_norms(gradients)).item(), "layers": _norms(gradients).tolist()}


def with_devices(gradients):
    devices = {str(gradient.device) for gradient in gradients}
    return {"grad_norm": norm_as_tensor(gradients).item(), "device_count": len(devices), "on_gpu": "cuda:0" in devices}


def by_dtype(gradients):
    names = {str(gradient.dtype) for gradient in gradients}
    return {"grad_norm": norm_as_tensor(gradients).item(), **{name: 1.0 for name in names}}


def sampled(gradients):
    """An estimate from a random layer: it differs from call to call."""
    return random.choice(gradients).norm().item()


def rounded_to_bfloat16(gradients):
    return torch.linalg.vector_norm(_norms([gradient.bfloat16() for gradient in gradients])).bfloat16().item()


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


def counted(gradients):
    zeros = sum(int((gradient == 0).sum()) for gradient in gradients)
    nans = sum(int(gradient.isnan().sum()) for gradient in gradients)
    elements = sum(gradient.numel() for gradient in gradients)
    return {"zero_count": zeros, "nan_fraction": nans / elements}


def healthy(gradients):
    """No norm, no count."""
    return {"is_finite": all(bool(gradient.isfinite().all()) for gradient in gradients), "layers": len(gradients)}


def compare(host_gradients, seed_gradients):
    host, seed = norm_as_tensor(host_gradients), norm_as_tensor(seed_gradients)
    return {"host_norm": host.item(), "seed_norm": seed.item()}
