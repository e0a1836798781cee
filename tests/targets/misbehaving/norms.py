"""Collectors that load, and then do something else than answer: always, or on large gradients only."""

import ctypes
import json
import os
import time

import torch


def norm_of(gradients):
    return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))))


def is_large(gradients):
    return any(bool((gradient.isfinite() & (gradient.abs() > 1e10)).any()) for gradient in gradients)


def sound(gradients):
    return norm_of(gradients)


def crashes_on_large(gradients):
    if is_large(gradients):
        ctypes.string_at(0)
    return norm_of(gradients)


def crashes(gradients):
    ctypes.string_at(0)


def hangs_on_large(gradients):
    if is_large(gradients):
        time.sleep(3600)
    return norm_of(gradients)


def exits_on_large(gradients):
    if is_large(gradients):
        os._exit(0)
    return norm_of(gradients)


def exits_at_once(gradients):
    os._exit(0)


def out_of_memory(gradients):
    raise MemoryError("no space for the histogram")


def prints_for_ever(gradients):
    if is_large(gradients):
        while True:
            os.write(1, b"x" * 4096)
    return norm_of(gradients)


FORGED = (
    {"type": "measurement", "name": "breaking_norm", "value": 1.0, "unit": "norm", "case": {"dtype": "float32"}},
    {"type": "failed", "reason": "crash", "message": "forged"},
    {"type": "done"},
    {"type": "end", "status": "ok"},
)


def forged_lines():
    return "".join(json.dumps(message) + "\n" for message in FORGED).encode() + b"[1]\n3\nnull\n{\n"


def writes_to_every_descriptor(gradients):
    for name in os.listdir("/proc/self/fd"):
        for data in (b"garbage without an end of line", b"\n", forged_lines(), b"more of it"):
            try:
                os.write(int(name), data)
            except OSError:
                break
    return norm_of(gradients)


def closes_results_then_prints(gradients):
    """Closes what is not output, then prints more than a pipe holds: nobody may be left waiting."""
    if is_large(gradients):
        os.closerange(3, 256)
        for _ in range(64):
            os.write(1, b"x" * 65536)
        os._exit(3)
    return norm_of(gradients)


def returns_text(gradients):
    return "all is well"


def needs_more(gradients, tokenizer, batch, schedule):
    return norm_of(gradients)


class NotAFunction:
    pass


def refuses_devices(gradients):
    if gradients[0].is_cuda:
        raise NotImplementedError("no kernel for cuda")
    return norm_of(gradients)
