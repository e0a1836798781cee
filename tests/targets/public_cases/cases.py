"""Small functions with the defects that audits and public reports describe, one each; tests/probes/severity_cases.yaml."""

import torch
import torch.distributed as dist


def _grads(parameters):
    return [p.grad for p in parameters if p.grad is not None]


# --- the seeds ---


def sum_of_squares(parameters):
    """Seed 003: squares of float32 are summed in float32."""
    return sum(grad.float().square().sum() for grad in _grads(parameters)).sqrt().item()


def mask_counts(parameters):
    """Seeds 000 and 001: all gradients as one tensor, whose mask is summed as int64."""
    flat = torch.cat([grad.reshape(-1) for grad in _grads(parameters)])
    return {"grad_norm": torch.linalg.vector_norm(flat, dtype=torch.float64).item(), "zeros": (flat == 0).sum().item()}


def wait_for_each(parameters):
    """Seed 000: one read of the device for each tensor."""
    return sum(grad.double().norm().item() ** 2 for grad in _grads(parameters)) ** 0.5


def stacked_norms(parameters):
    """Seed 000: norms of all devices in one stack."""
    return torch.stack(torch._foreach_norm(_grads(parameters), 2, dtype=torch.float64)).norm().item()


# --- public reports ---


def clip_twice_read(parameters, max_norm=1.0):
    """pytorch/torchtitan#1258: the second pass over the generator finds nothing to clip."""
    norm = torch.nn.utils.get_total_norm(_grads(parameters))
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def clip_by_own_shard(parameters, max_norm=1.0):
    """areal-project/AReaL#312: every rank clips by the norm of its own shard."""
    grads = _grads(parameters)
    local = [grad.to_local() if hasattr(grad, "to_local") else grad for grad in grads]
    norm = torch.linalg.vector_norm(torch.stack([grad.double().norm() for grad in local]))
    for grad in local:
        grad.mul_((max_norm / norm).clamp(max=1.0).to(grad.dtype))
    return norm


def plain_among_sharded(parameters):
    """kvcache-ai/ktransformers#2145: one plain tensor in a list of sharded ones."""
    norms = torch._foreach_norm([*_grads(parameters), torch.zeros(4)], 2, dtype=torch.float64)
    return torch.stack(norms).norm().item()


def squares_in_own_dtype(parameters, max_norm=1.0):
    """facebookresearch/fairscale#263: squares of float16 gradients in float16, and clipping by them."""
    grads = _grads(parameters)
    norm = sum(grad.pow(2).sum() for grad in grads).sqrt()
    for grad in grads:
        grad.mul_((max_norm / norm).clamp(max=1.0))
    return norm


def every_gradient(parameters):
    """SeanNaren/deepspeech.pytorch#20: a parameter without a gradient has no norm."""
    return torch.stack([p.grad.double().norm() for p in parameters]).norm().item()


def wide_copies(parameters):
    """NVIDIA-NeMo/RL#1138: copies of all gradients in a wider type, alive together."""
    wide = [grad.double() for grad in _grads(parameters)]
    return torch.stack([grad.norm() for grad in wide]).norm().item()


def device_loop(parameters):
    """pytorch/pytorch#38605: gradients of two devices of one process."""
    total = 0.0
    for grad in _grads(parameters):
        total = total + grad.double().pow(2).sum()
    return total.sqrt().item()


def clamped_values(parameters):
    """allenai/allennlp#2312: sparse gradients have no such operator."""
    return torch.stack([grad.double().abs().max() for grad in _grads(parameters)]).max().item()


def scaled_to_one(parameters):
    """microsoft/dion#24: gradients that are all zero are divided by their norm."""
    grads = _grads(parameters)
    norm = torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)).norm()
    for grad in grads:
        grad.div_(norm.to(grad.dtype))
    return norm.item()


def squares_over_all_ranks(parameters):
    """NVIDIA-NeMo/RL#3788: replicated gradients are counted once for each rank."""
    local = [grad.to_local() if hasattr(grad, "to_local") else grad for grad in _grads(parameters)]
    total = sum(grad.double().square().sum() for grad in local)
    if dist.is_initialized():
        dist.all_reduce(total)
    return total.sqrt().item()
