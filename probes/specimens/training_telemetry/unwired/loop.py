"""One step of training with its telemetry."""

import torch

from unwired.collector import collect_gradients
from unwired.dual import materialize_dual_norms
from unwired.norms import layer_norms, stacked_norms


def train_step(host, seed, batch, optimizer, log) -> None:
    """Train on one batch and log what its gradients were."""
    optimizer.zero_grad()
    seed(host(batch)).mean().backward()
    host_grads = [p.grad for p in host.parameters() if p.grad is not None]
    seed_grads = [p.grad for p in seed.parameters() if p.grad is not None]
    pending = {
        "host_squared": stacked_norms(host_grads).pow(2).sum() if host_grads else torch.zeros(()),
        "host_size": sum(grad.numel() for grad in host_grads),
        "seed_squared": stacked_norms(seed_grads).pow(2).sum() if seed_grads else torch.zeros(()),
        "seed_size": sum(grad.numel() for grad in seed_grads),
    }
    log("ratio", materialize_dual_norms(pending).ratio)
    log("health", collect_gradients(seed.parameters()))
    log("layers", layer_norms(seed.named_parameters()))
    optimizer.step()
