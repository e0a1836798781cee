"""Trains a small transformer on several ranks and measures the spectra of its replicas' gradients as it goes.

    torchrun --standalone --nproc-per-node 2 examples/train_with_spectra.py --folder spectra
    torchrun --nnodes 2 ... --nproc-per-node 8 examples/train_with_spectra.py --folder /shared/spectra --device cuda
    python examples/plot_spectra.py spectra      # singular values and echoes per layer over steps, as SVG

Needs torch and auditkit; the plots need matplotlib, the optimal alignment scipy. The text is generated: short sums
with their answers. A step has --replicas microbatches, shared out over the ranks, whose mean gradient trains the
model; every --every steps the gradients of the microbatches, one matrix each, are kept apart and their spectra go to
FOLDER/step-NNNNNN.csv. Started again, with any number of ranks, it trains again and measures only what is not there.

The lines to take over: `replicas.add` after each backward, and `run.measure`.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from train_with_statistics import SmallTransformer, generated_text, sample

from auditkit.collectors.spectral.collected import ReplicaGradients, matrix_gradients
from auditkit.collectors.spectral.runner import SpectralRun

LENGTH = 32


def layer_matrices(model: nn.Module) -> dict[str, Tensor]:
    """Return the gradients of the matrices within the layers; query, key and value are matrices of their own."""
    matrices = {}
    for name, gradient in matrix_gradients(model, keep=lambda name: name.startswith("layers.")).items():
        if name.endswith("in_proj_weight"):
            stem = name.removesuffix("in_proj_weight")
            matrices.update(zip((f"{stem}q", f"{stem}k", f"{stem}v"), gradient.chunk(3), strict=True))
        else:
            matrices[name.removesuffix(".weight")] = gradient
    return matrices


def microbatches(
    text_N: Tensor, step: int, replicas: int, batch: int, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this rank's share of the microbatches of a step: together the ranks have the same ones, however many."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for index in range(rank * replicas // size, (rank + 1) * replicas // size):
        generator = torch.Generator().manual_seed(step * replicas + index)
        inputs_BL, targets_BL = sample(text_N, batch, LENGTH, generator)
        yield inputs_BL.to(device), targets_BL.to(device)


def mean_over_ranks(totals: list[Tensor], replicas: int) -> list[Tensor]:
    """Return the mean gradients. Summed in float64, they do not depend on how the replicas lie on ranks."""
    flat = torch.cat([total.flatten() for total in totals])
    dist.all_reduce(flat)
    parts = (flat / replicas).split([total.numel() for total in totals])
    return [part.view_as(total) for part, total in zip(parts, totals, strict=True)]


def train_step(
    model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]], replicas: int, collected: ReplicaGradients | None
) -> float:
    """Leave the mean gradient of all replicas in `model`, those of this rank's in `collected`; return the mean loss."""
    parameters = list(model.parameters())
    totals = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in parameters]
    loss_sum = torch.zeros((), dtype=torch.float64, device=parameters[0].device)
    for inputs_BL, targets_BL in batches:
        model.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs_BL).flatten(0, 1), targets_BL.flatten())
        loss.backward()
        if collected is not None:
            collected.add(layer_matrices(model))
        for total, parameter in zip(totals, parameters, strict=True):
            total += parameter.grad
        loss_sum += loss.detach()
    for parameter, mean in zip(parameters, mean_over_ranks([*totals, loss_sum], replicas), strict=False):
        parameter.grad = mean.to(parameter.dtype)
    dist.all_reduce(loss_sum)
    return loss_sum.item() / replicas


def train(run: SpectralRun, options: argparse.Namespace, device: torch.device) -> None:
    """Train, and measure where the file of a step is not there yet."""
    torch.manual_seed(options.seed)
    text_N = generated_text(50_000)
    model = SmallTransformer(options.width, options.layers, LENGTH).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(options.steps + 1):
        is_measured = step % options.every == 0
        collected = ReplicaGradients() if is_measured and not run.is_complete(step) else None
        batches = microbatches(text_N, step, options.replicas, options.batch, device)
        loss = train_step(model, batches, options.replicas, collected)
        if is_measured and dist.get_rank() == 0:
            print(f"step {step:4d}  loss {loss:.3f}  {'measured' if collected else 'was there'}", flush=True)
        if collected:
            run.measure(step, collected)
        optimizer.step()


def main() -> None:
    """Join the process group of torchrun, train, and end with one line where that is not possible."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the spectra go; shared by all ranks")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--replicas", type=int, default=8, help="microbatches of a step over all ranks")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--array-dtype", default="float16", choices=("float16", "float32"))
    parser.add_argument("--compress", action="store_true")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("start this with torchrun: torchrun --standalone --nproc-per-node 2 " + sys.argv[0])
    device = torch.device("cpu")
    if options.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # gloo's own limit is half an hour: the longest that a rank waits for one that is gone, in training.
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo", timeout=timedelta(seconds=120))
    settings = {name: getattr(options, name) for name in ("seed", "replicas", "batch", "width", "layers", "every")}
    try:
        with SpectralRun(
            options.folder, settings=settings, array_dtype=options.array_dtype, compress=options.compress
        ) as run:
            train(run, options, device)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"rank {dist.get_rank()}: error: {error}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
