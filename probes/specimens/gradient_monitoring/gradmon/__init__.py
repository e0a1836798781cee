"""Gradient telemetry for a training loop: the defective collectors and their sound counterparts."""


def narrowed(model, dtype):
    """The model in 16 bits, as some train it: its gradients are what the collectors get."""
    return model.half() if dtype == "float16" else model.bfloat16()
