"""Loops whose names speak of the host, of steps and of collating, and say nothing of where the tensors are."""

import torch


def layer_norms_np(model):
    """Norm of each layer."""
    return {n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None}


class StepMeter:
    """The largest norm of a step."""

    @staticmethod
    def _as_number(value):
        return value.item()

    @torch.no_grad()
    def collate_norms(self, parameters):
        largest = 0.0
        for p in parameters:
            if p.grad is not None:
                largest = max(largest, StepMeter._as_number(p.grad.norm()))
        return largest


@torch.no_grad()
def norms_on_cpu(parameters):
    """Norm of each gradient."""
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    if not norms:
        return {}
    read = torch.stack(norms).cpu().numpy()
    return {f"layer{index}": float(value) for index, value in enumerate(read)}
