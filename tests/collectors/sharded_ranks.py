"""One rank of test_sharding: measures DTensors and compares them with the whole gradients.

    python sharded_ranks.py RANK WORLD_SIZE RENDEZVOUS_FILE

Exits 0 where every comparison holds.
"""

import dataclasses
import math
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from auditkit.collectors import GradientStats, clip_gradients, collect_gradients, pending
from auditkit.collectors.spectral.ranks import gather_replicas


def whole_gradients() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    dirty = values(6, 2).float()
    dirty[5, 0], dirty[0, 0] = math.nan, 0.0  # NaN on the last rank, zero on the first
    return [values(5, 4).float(), values(1, 3).float(), values(7) * 1e300, values(7) * 1e-300, dirty]


def as_partial(whole: torch.Tensor, mesh: DeviceMesh) -> DTensor:
    return DTensor.from_local(whole / mesh.size(), mesh, [Partial()])


def assert_same(actual: GradientStats, expected: GradientStats, case: str) -> None:
    for name, value in dataclasses.asdict(expected).items():
        mine: Any = getattr(actual, name)
        pairs = zip(mine, value, strict=True) if isinstance(value, tuple) else [(mine, value)]
        for left, right in pairs:
            same = left == right or (math.isnan(left) and math.isnan(right))
            close = isinstance(right, float) and math.isclose(left, right, rel_tol=1e-6)
            assert same or close, f"{case}: {name} is {mine}, not {value}"


def assert_clipped(gradients: list[Any], wholes: list[torch.Tensor], case: str) -> None:
    """Every rank scales its part by the coefficient of the whole."""
    mine = [gradient.clone() for gradient in gradients]
    norm = clip_gradients(mine, 0.5)
    assert math.isclose(norm.item(), torch.nn.utils.get_total_norm(wholes).item(), rel_tol=1e-6), case
    expected = [whole * (0.5 / norm).float() for whole in wholes]
    for left, right in zip(mine, expected, strict=True):
        torch.testing.assert_close(left.full_tensor() if isinstance(left, DTensor) else left, right, msg=case)


def check(mesh: DeviceMesh) -> None:
    wholes = whole_gradients()
    expected = collect_gradients(wholes).materialize()
    flat_mesh = mesh["shard"]
    cases: dict[str, list[Any]] = {
        "Shard": [distribute_tensor(g, flat_mesh, [Shard(0)]) for g in wholes],
        "Replicate": [distribute_tensor(g, flat_mesh, [Replicate()]) for g in wholes],
        "Partial": [as_partial(g, flat_mesh) for g in wholes],
        "Replicate, Shard": [distribute_tensor(g, mesh, [Replicate(), Shard(0)]) for g in wholes],
        "Shard beside plain": [distribute_tensor(g, flat_mesh, [Shard(0)]) for g in wholes[:2]] + wholes[2:],
    }
    for case, gradients in cases.items():
        found = collect_gradients(gradients)
        assert_same(found.materialize(), expected, case)
        assert math.isnan(found.total_norm.item()), case
    for case, gradients in cases.items():
        assert_clipped(gradients[:2], wholes[:2], case)
    local_only = collect_gradients([g.to_local() for g in cases["Shard"]]).materialize()
    assert local_only.element_count != expected.element_count  # control: a local part is not the gradient


def check_gather(rank: int, world_size: int) -> None:
    """The owner receives the replicas of all ranks bit for bit, in the order of the ranks, in chunks of any size."""
    generator = torch.Generator().manual_seed(0)
    counts = [2 + other for other in range(world_size)]  # uneven: the last chunk of rank 0 is shorter
    for dtype in (torch.bfloat16, torch.float64):
        whole_RNM = torch.randn(sum(counts), 3, 5, generator=generator).to(dtype)
        mine_RNM = whole_RNM.split(counts)[rank]
        for owner in range(world_size):
            for chunk_bytes in (7, 2**20):
                found = gather_replicas(mine_RNM, owner, chunk_bytes=chunk_bytes)
                case = f"{dtype} to {owner} in chunks of {chunk_bytes}"
                if rank != owner:
                    assert found is None, case
                    continue
                assert found is not None, case
                assert torch.equal(found, whole_RNM), case
                assert not torch.equal(found, whole_RNM.flip(0)), case  # control: the order counts


def main() -> None:
    rank, world_size, rendezvous = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size)
    mesh = init_device_mesh("cpu", (1, world_size), mesh_dim_names=("replicate", "shard"))
    check(mesh)
    check_gather(rank, world_size)
    pending._reads_now = lambda key: False  # takes the device pass, on the same CPU tensors
    check(mesh)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
