"""What shows in bfloat16 alone, as mixed precision trains, and not in float32."""

import torch


def float_copies_norm(parameters):
    """Norm of float32 copies, all at once: free for float32 gradients, twice the bytes of bfloat16 ones."""
    grads = [p.grad.float() for p in parameters if p.grad is not None]
    return (
        torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()
        if grads
        else 0.0
    )


def branching_norm(parameters):
    """foreach for float32, a loop for whatever else: launches grow in bfloat16 alone."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    if all(g.dtype is torch.float32 for g in grads):
        norms = list(torch._foreach_norm(grads, 2, dtype=torch.float64))
    else:
        norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads]
    return torch.linalg.vector_norm(torch.stack(norms)).item()
