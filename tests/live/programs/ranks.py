"""Two ranks train: first correctly, for hashes of 50 steps; then the wrong way that the argument names."""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.set_num_threads(1)
WORLD = int(os.environ.get("WORLD", "2"))


def train(wrong: str, steps: int, rank: int) -> str:
    torch.manual_seed(3)
    inner = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 4))
    model = nn.parallel.DistributedDataParallel(inner, find_unused_parameters=wrong == "replaced")
    if wrong == "replaced":  # the wrapper synchronizes the parameters that the model had when it was wrapped
        inner[2].weight = nn.Parameter(inner[2].weight.detach().clone())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(3 if wrong == "data" else rank)
    digest = hashlib.sha256()
    for _ in range(steps):
        optimizer.zero_grad()
        # The wrapper synchronizes gradients only if its own forward ran.
        forward = inner if wrong == "bypass" else model
        loss = F.cross_entropy(forward(torch.randn(4, 8)), torch.randint(0, 4, (4,)))
        loss.backward()
        if wrong != "clip" or rank == 0 or (WORLD > 2 and rank != 1):
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        digest.update(
            b"".join(p.detach().numpy().tobytes() for p in model.parameters()) + loss.detach().numpy().tobytes()
        )
    return digest.hexdigest()


def train_tensor_parallel(wrong: str) -> None:
    """A norm over each rank's own heads is replicated: its gradient has to be summed over the ranks."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(8), nn.Linear(16, 4))
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 4, (4,)))
        loss.backward()  # of the tensor-parallel model
        for tensor in model[1].parameters() if wrong != "tp" else ():
            dist.all_reduce(tensor.grad)
        optimizer.step()


def train_hybrid(wrong: str, rank: int) -> None:
    """FSDP2 on four ranks: two replicas of two shards each."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "shard")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 4, (4,)))
        loss.backward()
        if wrong == "hybrid" and rank in (2, 3):  # only one replica
            model[2].weight.grad.mul_(0.5)
        optimizer.step()


def train_sharded(wrong: str, rank: int) -> None:
    """FSDP keeps plain tensors: only its own method knows that they are shards."""
    torch.manual_seed(6)
    model = FullyShardedDataParallel(
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
        device_id=torch.device("cpu"),
        use_orig_params=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 4, (4,))).backward()
        if wrong == "sharded":
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # of a shard
        else:
            model.clip_grad_norm_(0.1)
        optimizer.step()


def main(rank: int | None) -> None:
    """Train in one rank; without a launcher, the ranks know each other through a file."""
    if rank is None:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=f"file://{os.environ['HASHES']}/met", rank=rank, world_size=WORLD)
    rank = dist.get_rank()
    if WORLD == 2:
        found = train("", 50, rank)
        with open(f"{os.environ['HASHES']}/{rank}", "w") as file:
            file.write(found)
    for wrong in sys.argv[1:]:
        if wrong.startswith("tp"):
            train_tensor_parallel(wrong)
        elif wrong.startswith("sharded"):
            train_sharded(wrong, rank)
        elif wrong.startswith("hybrid"):
            train_hybrid(wrong, rank)
        else:
            train(wrong, 5, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        main(None)
    else:
        torch.optim.SGD([torch.zeros(1)])  # imports much, once for both
        others: list[int] = []
        for rank in range(1, WORLD):
            child = os.fork()
            if not child:
                main(rank)
                sys.exit(0)
            others.append(child)
        main(0)
        sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) for other in others))
