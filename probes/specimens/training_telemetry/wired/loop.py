"""One step of training with its telemetry."""

from wired import collect_dual_norms_async, collect_gradients, layer_norms, materialize_dual_norms


def train_step(host, seed, batch, optimizer, log) -> None:
    """Train on one batch and log what its gradients were."""
    optimizer.zero_grad()
    seed(host(batch)).mean().backward()
    host_grads = [p.grad for p in host.parameters() if p.grad is not None]
    seed_grads = [p.grad for p in seed.parameters() if p.grad is not None]
    log("ratio", materialize_dual_norms(collect_dual_norms_async(host_grads, seed_grads)).ratio)
    log("health", collect_gradients(seed.parameters()))
    log("layers", layer_norms(seed.named_parameters()))
    optimizer.step()
