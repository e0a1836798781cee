"""What the collectors are measured against: each takes gradients, and returns its norm, or norms, if it has any.

The audited versions are the few lines that a finding ticket is about: B7-PT-03, a concatenation of all
gradients, and B7-PT-01, a sum of float32 squares, each as it was, as recommended, and as fixed.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from auditkit.collectors import collect_gradients

Collector = Callable[[Sequence[Tensor]], float | Sequence[Tensor] | None]

OURS, BASELINE = "auditkit.collectors, all statistics", "_foreach_norm float32, norms only"
PURE_READ = "pure read: sum of each gradient"


def gpt2_shapes() -> list[tuple[int, ...]]:
    """The 148 parameters of GPT-2 small, 124 million elements."""
    block: list[tuple[int, ...]] = [(768,), (768,), (768, 2304), (2304,), (768, 768), (768,)]
    block += [(768,), (768,), (768, 3072), (3072,), (3072, 768), (768,)]
    return [(50257, 768), (1024, 768), *(block * 12), (768,), (768,)]


def ours(gradients: Sequence[Tensor]) -> float | None:
    return collect_gradients(gradients).materialize().total_norm


def foreach_float32(gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    return torch._foreach_norm(gradients)


def foreach_float64(gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    return torch._foreach_norm(gradients, 2, dtype=torch.float64)


def torch_total_norm(gradients: Sequence[Tensor]) -> float | None:
    return float(nn.utils.get_total_norm(gradients))


def concatenated_original(gradients: Sequence[Tensor]) -> float | None:
    all_grads = torch.cat([g.view(-1) for g in gradients])
    _ = (all_grads == 0).float().mean().item(), torch.isnan(all_grads).sum().item(), torch.isinf(all_grads).sum().item()
    return None


def counted_recommendation(gradients: Sequence[Tensor]) -> float | None:
    nan_count = inf_count = 0
    for gradient in gradients:
        flat = gradient.view(-1)
        nan_count += torch.isnan(flat).sum().item()
        inf_count += torch.isinf(flat).sum().item()
    return None


def squares_original(gradients: Sequence[Tensor]) -> float | None:
    return float(sum((g.float() * g.float()).sum() for g in gradients).sqrt().item())


def foreach_recommendation(gradients: Sequence[Tensor]) -> float | None:
    return float(torch.stack(torch._foreach_norm(gradients, ord=2)).pow(2).sum().sqrt().item())


def double_fix(gradients: Sequence[Tensor]) -> float | None:
    norms = torch._foreach_norm([g.double() for g in gradients], ord=2)
    return torch.linalg.vector_norm(torch.stack(norms)).item()


def pure_read(gradients: Sequence[Tensor]) -> float | None:
    for gradient in gradients:
        gradient.sum()
    return None


COLLECTORS: dict[str, Collector] = {
    OURS: ours,
    BASELINE: foreach_float32,
    "_foreach_norm float64, norms only": foreach_float64,
    "torch.nn.utils.get_total_norm": torch_total_norm,
    "B7-PT-03 original: torch.cat, counts only": concatenated_original,
    "B7-PT-03 recommended: counts by gradient": counted_recommendation,
    "B7-PT-01 original: float32 squares": squares_original,
    "B7-PT-01 recommended: _foreach_norm": foreach_recommendation,
    "B7-PT-01 fix: copies in float64": double_fix,
    PURE_READ: pure_read,
}
