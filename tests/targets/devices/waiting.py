"""Collectors that wait inside operators, or look as if they did. Each takes a list of matrices."""

import math

import torch


def largest_singular_value(gradients):
    return torch.stack([torch.linalg.matrix_norm(gradient, ord=2) for gradient in gradients]).max()


def histogram_with_bounds(gradients):
    return torch.histc(torch.stack(torch._foreach_norm(gradients)), 8, 0, 10)


def histogram_without_bounds(gradients):
    return torch.histc(torch.stack(torch._foreach_norm(gradients)), 8)


def compared_with_cleaned(gradients):
    return sum(not torch.equal(gradient, gradient.nan_to_num()) for gradient in gradients)


def norm_of_nonzeros(gradients):
    return torch.stack([gradient[gradient != 0].norm() for gradient in gradients]).norm()


def cleaned_by_number(gradients):
    total = 0
    for gradient in gradients:
        cleaned = gradient.clone()
        cleaned[cleaned.isnan()] = 0.0
        total = total + cleaned.square().sum()
    return total.sqrt()


def cleaned_by_tensor(gradients):
    total = 0
    for gradient in gradients:
        cleaned = gradient.clone()
        cleaned[cleaned.isnan()] = cleaned.new_zeros(())
        total = total + cleaned.square().sum()
    return total.sqrt()


def corner(gradients):
    return torch.stack([gradient.flatten()[[0, -1]].norm() for gradient in gradients]).norm()


def copied_without_blocking(gradients):
    copies = [gradient.norm().to("cpu", non_blocking=True) for gradient in gradients]
    torch.cuda.synchronize()
    return math.hypot(*map(float, copies))


def copied_to_pinned_memory(gradients):
    norms = torch.stack(torch._foreach_norm(gradients))
    copied = torch.empty(norms.shape, pin_memory=True).copy_(norms, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return copied.norm().item()


def without_tied(gradients):
    seen = {gradient.data_ptr(): gradient for gradient in gradients}
    return sum(gradient.square().sum().item() for gradient in seen.values())


def medians(gradients):
    return torch.stack([torch.quantile(gradient, 0.5) for gradient in gradients])
