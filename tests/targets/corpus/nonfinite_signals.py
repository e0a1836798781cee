"""Every way to say that gradients are not finite, ways to promise nothing of it, and ways to hide it."""

import enum
import math

import torch


class Verdict(enum.Enum):
    STABLE = "stable"
    DIVERGED = "diverged"


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


def _finite_norm(grads):
    """Norm of the finite elements, in float64: finite whatever the gradients hold."""
    if not grads:
        return 0.0
    clean = [torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0) for g in grads]
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(clean, 2, dtype=torch.float64))).item()


def _bad(grads):
    """Non-finite elements, as one tensor on the device."""
    return torch.stack([(~torch.isfinite(g)).sum() for g in grads]).sum() if grads else torch.zeros(())


def float_flag(parameters):
    """As the metrics logger wants it: floats only."""
    grads = _grads(parameters)
    return {"norm": _finite_norm(grads), "found_inf": float(_bad(grads).item() > 0)}


def scalar_tensor_flag(parameters):
    """found_inf as a 0-d tensor, the way torch.amp keeps it."""
    grads = _grads(parameters)
    return {"norm": _finite_norm(grads), "found_inf": (_bad(grads) > 0).float()}


def one_element_flag(parameters):
    """found_inf with one element, as torch._amp_foreach_non_finite_check_and_unscale_ fills it."""
    grads = _grads(parameters)
    return _finite_norm(grads), (_bad(grads) > 0).float().reshape(1)


def none_norm(parameters) -> "float | None":
    """No number is the honest answer for a broken step."""
    grads = _grads(parameters)
    return None if _bad(grads).item() else _finite_norm(grads)


def text_state(parameters):
    """A word for the progress bar."""
    grads = _grads(parameters)
    return {"norm": _finite_norm(grads), "state": "DIVERGED" if _bad(grads).item() else "stable"}


def enum_state(parameters):
    grads = _grads(parameters)
    return _finite_norm(grads), (Verdict.DIVERGED if _bad(grads).item() else Verdict.STABLE)


def bad_layer_names(named_parameters):
    """Which layers to look at, by name."""
    named = [(name, p.grad) for name, p in named_parameters if p.grad is not None]
    bad = torch.stack([(~torch.isfinite(g)).any() for _, g in named]).tolist() if named else []
    return {
        "norm": _finite_norm([g for _, g in named]),
        "suspects": [name for (name, _), is_bad in zip(named, bad) if is_bad],
    }


def quarantined_count(parameters):
    """How many elements were left out of the norm, under a name of its own."""
    grads = _grads(parameters)
    return {"norm": _finite_norm(grads), "quarantined": int(_bad(grads).item())}


def kept_count(parameters):
    """How many elements went into the norm: it falls where others rise."""
    grads = _grads(parameters)
    return {"norm": _finite_norm(grads), "kept": sum(g.numel() for g in grads) - int(_bad(grads).item())}


def raising_norm(parameters):
    """Refuses to report a broken step."""
    grads = _grads(parameters)
    if _bad(grads).item():
        raise FloatingPointError("gradients are not finite")
    return _finite_norm(grads)


def zero_share(grads: list):
    """Share of dead gradient elements: a counter, no promise about the others."""
    elements = sum(g.numel() for g in grads)
    zeros = torch.stack([(g == 0).sum() for g in grads]).sum().item() if grads else 0
    return {"zero_fraction": zeros / elements if elements else 0.0}


def sign_balance(grads: list):
    """How many elements point up, and how many down."""
    if not grads:
        return {"up": 0, "down": 0}
    up, down = torch.stack([torch.stack([(g > 0).sum(), (g < 0).sum()]) for g in grads]).sum(0).tolist()
    return {"up": up, "down": down}


def exponent_histogram(grads: list):
    """Bins of log10 |g| between 1e-8 and 1e2; what falls outside is in no bin."""
    bins = torch.zeros(10)
    for g in grads:
        bins += torch.histc(g.detach().float().abs().clamp_min(1e-30).log10(), bins=10, min=-8, max=2).cpu()
    return {"bins": bins.tolist()}


def untouched_health(parameters):
    """A health score made of comparisons beside an honest count: every comparison with NaN is false."""
    grads = _grads(parameters)
    if not grads:
        return {"nonfinite": 0, "health": 1.0}
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
    health = 1.0
    if norm < 1e-7:
        health -= 0.5
    if math.isfinite(norm) and norm > 1e3:
        health -= 0.5
    return {"nonfinite": int(_bad(grads).item()), "health": health, "scale": math.frexp(_finite_norm(grads))[0]}


def masked_norm(parameters):
    """Leaves NaN and Inf out, and tells nobody."""
    return {"grad_norm": _finite_norm(_grads(parameters))}


def exploding_flag(parameters):
    """An alarm that compares: NaN is not above anything, and the norm has been cleaned before."""
    norm = _finite_norm(_grads(parameters))
    return {"norm": norm, "exploding": norm > 1e6, "vanishing": norm < 1e-12}


def nan_only_count(parameters):
    """Counts NaN, and lets Inf pass as a gradient of norm zero."""
    grads = _grads(parameters)
    nans = torch.stack([torch.isnan(g).sum() for g in grads]).sum().item() if grads else 0
    return {"norm": _finite_norm(grads), "nan_count": nans}
