"""Operators that make the host wait inside, and some that only look so. Answers stay on the device."""

import torch


def _matrices(parameters):
    return [
        p.grad.detach().float().reshape(p.grad.shape[0] if p.grad.ndim > 1 else 1, -1)
        for p in parameters
        if p.grad is not None
    ]


def spectral_norms(parameters):
    """Spectral norm of every layer: matrix_norm of order 2 is an SVD, whose info the host checks."""
    return {"spectral": torch.stack([torch.linalg.matrix_norm(m, ord=2) for m in _matrices(parameters)])}


def singular_energy(parameters):
    """Sum of singular values of every layer, by torch.linalg.svdvals."""
    return {"nuclear": torch.stack([torch.linalg.svdvals(m).sum() for m in _matrices(parameters)])}


def top_curvature(parameters):
    """Largest eigenvalue of every layer's Gram matrix, by torch.linalg.eigvalsh."""
    return {"top": torch.stack([torch.linalg.eigvalsh(m @ m.mT)[-1] for m in _matrices(parameters)])}


def bounded_histogram(parameters):
    """Histogram of every layer between fixed bounds: nothing of it is needed on the host."""
    return {"bins": torch.stack([torch.histc(m, bins=8, min=-1, max=1) for m in _matrices(parameters)])}


def free_histogram(parameters):
    """Histogram of every layer between its own extremes, which histc reads on the host."""
    return {"bins": torch.stack([torch.histc(m, bins=8) for m in _matrices(parameters)])}


def nonzero_positions(parameters):
    """Number of live elements by .nonzero(), whose size the host has to know."""
    return {"live": sum(m.nonzero().shape[0] for m in _matrices(parameters))}


def masked_mean(parameters):
    """Mean of the live elements of every layer, by a mask, whose size the host has to know."""
    means = [m[m != 0].double().sum() / (m != 0).sum().clamp_min(1) for m in _matrices(parameters)]
    return {"mean_live": torch.stack(means)}


def counted_nonzero(parameters):
    """Number of live elements by torch.count_nonzero: stays on the device."""
    return {"live": torch.stack([torch.count_nonzero(m) for m in _matrices(parameters)]).sum()}


def selected_mean(parameters):
    """Mean of the live elements by torch.where with three arguments: the same without a wait."""
    means = [torch.where(m != 0, m, 0).double().sum() / (m != 0).sum().clamp_min(1) for m in _matrices(parameters)]
    return {"mean_live": torch.stack(means)}


def distinct_values(parameters):
    """Distinct gradient values of every layer, by torch.unique, whose size the host has to know."""
    return {"distinct": sum(torch.unique(m).numel() for m in _matrices(parameters))}


# The same with one number as the answer: what a probe cannot read it does not judge.


def spectral_norm(parameters):
    """The largest spectral norm of any layer, by torch.linalg.matrix_norm of order 2."""
    norms = [torch.linalg.matrix_norm(m, ord=2) for m in _matrices(parameters)]
    return torch.stack(norms).max() if norms else torch.zeros(())


def nuclear_norm(parameters):
    """The sum of all layers' singular values, by torch.linalg.svdvals."""
    norms = [torch.linalg.svdvals(m).sum() for m in _matrices(parameters)]
    return torch.stack(norms).sum() if norms else torch.zeros(())


def sharpest_direction(parameters):
    """The largest eigenvalue of any layer's Gram matrix, by torch.linalg.eigvalsh."""
    tops = [torch.linalg.eigvalsh(m @ m.mT)[-1] for m in _matrices(parameters)]
    return torch.stack(tops).max() if tops else torch.zeros(())


def small_elements(parameters):
    """Elements between -0.5 and 0.5, by a histogram with bounds."""
    counts = [torch.histc(m, bins=1, min=-0.5, max=0.5).sum() for m in _matrices(parameters)]
    return {"small": torch.stack(counts).sum() if counts else torch.zeros(())}


def fullest_bin(parameters):
    """The largest bin of any layer's histogram between its own extremes."""
    counts = [torch.histc(m, bins=8).max() for m in _matrices(parameters)]
    return {"fullest": torch.stack(counts).max() if counts else torch.zeros(())}


def live_mean(parameters):
    """The sum of the layers' mean live magnitudes, by a mask."""
    means = [m[m != 0].double().abs().mean() for m in _matrices(parameters)]
    return {"live": torch.stack(means).sum() if means else torch.zeros((), dtype=torch.float64)}


def selected_live_mean(parameters):
    """The same by torch.where: nothing waits."""
    means = [
        torch.where(m != 0, m, 0).double().abs().sum() / (m != 0).sum().clamp_min(1) for m in _matrices(parameters)
    ]
    return {"live": torch.stack(means).sum() if means else torch.zeros((), dtype=torch.float64)}
