"""Collectors that are right on one device and in one dtype, and wrong, without a word, on two."""

import torch


def last_device_norm(gradients):
    """The norms of the devices are computed one after the other, and the last one is returned."""
    total = 0.0
    for device in dict.fromkeys(gradient.device for gradient in gradients):
        group = [gradient for gradient in gradients if gradient.device == device]
        norms = torch.stack(torch._foreach_norm(group, 2, dtype=torch.float64))
        total = torch.linalg.vector_norm(norms).item()
    return total


def added_device_norms(gradients):
    """Norms of devices are added; their squares would have to be."""
    total = 0.0
    for device in dict.fromkeys(gradient.device for gradient in gradients):
        norms = [gradient.double().norm().item() for gradient in gradients if gradient.device == device]
        total += sum(norm**2 for norm in norms) ** 0.5
    return total


def uncounted_device(gradients):
    """Zeros are counted on the device of the first gradient alone; the norm is right."""
    home = gradients[0].device
    zeros = sum(int((gradient == 0).sum()) for gradient in gradients if gradient.device == home)
    return {"grad_norm": sum(gradient.double().norm().item() ** 2 for gradient in gradients) ** 0.5, "zeros": zeros}


def one_accumulator(gradients):
    """Right on one device for both groups; the accumulator of the first one's device and dtype is not asked."""
    total = torch.zeros(1, dtype=gradients[0].dtype, device=gradients[0].device)
    for gradient in gradients:
        total += gradient.pow(2).sum()
    return total.sqrt().item()


def integer_norms(gradients):
    """float16 and bfloat16 norms are cut to whole numbers, halved."""
    squares = 0.0
    for gradient in gradients:
        norm = gradient.norm().item()
        squares += (norm // 2 if gradient.element_size() == 2 else norm) ** 2
    return squares**0.5


def ratio_of_groups(host_gradients, seed_gradients):
    """Each group may lie anywhere, but the quotient needs both in one place."""
    host, seed = (torch.stack([g.double().norm() for g in group]).norm() for group in (host_gradients, seed_gradients))
    return {"host_norm": host.item(), "ratio": (seed.reshape(1) / host.reshape(1)).item()}


def numpy_norm(gradients):
    """The host does it all, in an array."""
    import numpy

    return float(sum(numpy.square(gradient.cpu().numpy(), dtype="float64").sum() for gradient in gradients) ** 0.5)


def spectra_on_the_host(gradients):
    """Singular values of every gradient, on the CPU."""
    values = [torch.linalg.svdvals(gradient.reshape(-1, gradient.shape[-1]).cpu()) for gradient in gradients]
    return {"grad_norm": torch.cat(values).norm().item(), "largest": max(v[0].item() for v in values)}


def element_by_element(gradients):
    return sum(float(element) ** 2 for gradient in gradients for element in gradient.reshape(-1)) ** 0.5


def home_device_norm(gradients):
    """All gradients are brought to the second device, which has the memory."""
    return torch.cat([gradient.to("cuda:1").reshape(-1).double() for gradient in gradients]).norm().item()


def summed_list(gradients):
    return sum(value**2 for gradient in gradients for value in gradient.reshape(-1).tolist()) ** 0.5
