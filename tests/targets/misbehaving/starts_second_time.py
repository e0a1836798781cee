"""Needs something that its first import leaves half done: the second import in the same process passes."""

import first_start


def norm(gradients):
    return sum(float(g.double().square().sum()) for g in gradients) ** 0.5


if not first_start.done:
    first_start.done = True
    raise RuntimeError("the logging backend is not ready")
