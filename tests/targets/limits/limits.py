"""A collector that writes down how much address space its process may have, and whether it can reserve some."""

import mmap
import resource

import torch

# More than a machine has: a CUDA process reserves address space for all memory of host and devices.
RESERVED_BYTES = 1 << 40


def total_norm(gradients, log, naive_limit_bytes=0):
    """Total gradient norm; `naive_limit_bytes` limits the process as a worker might, to bound a target's memory."""
    if naive_limit_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (naive_limit_bytes, resource.RLIM_INFINITY))
    with open(log, "a") as lines:
        print(_limit(), _can_reserve(), file=lines)
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2))).item()


def _limit():
    with open("/proc/self/limits") as limits:
        return next(line.split()[3] for line in limits if line.startswith("Max address space"))


def _can_reserve():
    """Address space that nobody may touch takes no memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        mmap.mmap(-1, RESERVED_BYTES, flags=flags, prot=0).close()
    except OSError:
        return "refused"
    return "reserved"
