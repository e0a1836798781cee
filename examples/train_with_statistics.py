"""Trains a small transformer on generated text and logs the statistics of its gradients at every step.

    python examples/train_with_statistics.py
    python examples/train_with_statistics.py --device cuda --steps 400
    python examples/train_with_statistics.py --json FILE    # also adds what the statistics cost to FILE

Needs torch and auditkit, nothing else. The text is generated: short sums with their answers, "17+25=42;". Of each
two steps one collects statistics and one does not, in turns, so that both see the same machine.

The two lines to take over are in `train_step`: collect after backward, which reads nothing back, and materialize
after the optimizer's step, which reads the device once.
"""

import argparse
import json
import os
import random
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from auditkit.collectors import GradientStats, collect_gradients

CHARACTERS = "0123456789+=;"


class SmallTransformer(nn.Module):
    """Predicts the next character: tokens (B, L) to logits (B, L, characters)."""

    def __init__(self, width: int = 128, layers: int = 4, length: int = 64) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.places = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.logits = nn.Linear(width, len(CHARACTERS))

    def forward(self, tokens_BL: Tensor) -> Tensor:
        length = tokens_BL.shape[1]
        mask_LL = nn.Transformer.generate_square_subsequent_mask(length, device=tokens_BL.device)
        hidden_BLW = self.tokens(tokens_BL) + self.places[:length]
        logits: Tensor = self.logits(self.layers(hidden_BLW, mask=mask_LL, is_causal=True))
        return logits


def generated_text(characters: int, seed: int = 0) -> Tensor:
    """Return at least `characters` character numbers of sums with their answers, shape (N,)."""
    source = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < characters:
        left, right = source.randrange(100), source.randrange(100)
        parts.append(f"{left}+{right}={left + right};")
        length += len(parts[-1])
    return torch.tensor([CHARACTERS.index(character) for character in "".join(parts)])


def sample(text_N: Tensor, batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random stretches and what follows each of their characters, both (batch, length)."""
    starts = torch.randint(0, len(text_N) - length - 1, (batch, 1), generator=generator)
    places_BL = starts + torch.arange(length)
    return text_N[places_BL], text_N[places_BL + 1]


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs_BL: Tensor, targets_BL: Tensor, measure: bool
) -> tuple[Tensor, GradientStats | None]:
    """Return the loss, on its device, and the statistics where they are asked for."""
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(inputs_BL).flatten(0, 1), targets_BL.flatten())
    loss.backward()
    pending = collect_gradients(model.parameters()) if measure else None  # nothing is read back
    optimizer.step()
    return loss.detach(), pending.materialize() if pending else None  # one read


def log_line(step: int, loss: Tensor, stats: GradientStats) -> str:
    """Return one line of the log."""
    return (
        f"step {step:4d}  loss {loss.item():.3f}  norm {stats.total_norm:.3e}  "
        f"smallest {stats.min_norm:.1e}  largest {stats.max_norm:.1e}  zeros {stats.zero_count}  "
        f"NaN {stats.nan_count}  Inf {stats.inf_count}  health {stats.health:.2f}"
    )


def seconds_now(device: str) -> float:
    """Processor seconds of this process, or wall seconds once the GPU is done."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def collection_seconds(model: nn.Module, device: str, times: int = 30) -> float:
    """Return what collecting and reading the statistics takes by itself, median."""
    seconds = []
    for _ in range(times):
        started = seconds_now(device)
        collect_gradients(model.parameters()).materialize()
        seconds.append(seconds_now(device) - started)
    return statistics.median(seconds)


def train(device: str, steps: int, log_every: int) -> dict[str, object]:
    """Train, print the log, and return what a step costs with and without statistics."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    text_N = generated_text(200_000)
    model = SmallTransformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    log: list[str] = []
    load = os.getloadavg()[0]
    for step in range(steps):
        inputs_BL, targets_BL = (part.to(device) for part in sample(text_N, 16, 64, generator))
        measure = step % 2 == 0
        started = seconds_now(device)
        loss, stats = train_step(model, optimizer, inputs_BL, targets_BL, measure)
        seconds[measure].append(seconds_now(device) - started)
        if stats and step % log_every < 2:  # of each two steps, one has statistics
            log.append(log_line(step, loss, stats))
            print(log[-1])
    # Within each pair of neighbouring steps; the first pairs warm up.
    warm = min(10, steps // 4)
    pairs = list(zip(seconds[True], seconds[False], strict=False))[warm:]
    overhead_s = statistics.median(measured - plain for measured, plain in pairs)
    plain_s = statistics.median(plain for _, plain in pairs)
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tensors": len(list(model.parameters())),
        "steps": steps,
        "plain_ms": plain_s * 1e3,
        "measured_ms": (plain_s + overhead_s) * 1e3,
        "overhead_percent": 100 * overhead_s / plain_s,
        "alone_ms": collection_seconds(model, device) * 1e3,
        "load": round(load, 2),
        "log": log,
    }


def main() -> None:
    """Train and say what the statistics cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--threads", type=int, help="CPU threads of torch; all cores unless told")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.steps < 8:
        parser.error("--steps must be 8 or more")
    if options.threads:
        torch.set_num_threads(options.threads)
    run = train(options.device, options.steps, options.log_every)
    print(
        f"{run['parameters']:,} parameters in {run['tensors']} tensors: {run['plain_ms']:.2f} ms a step without "
        f"statistics, {run['measured_ms']:.2f} ms with, {run['overhead_percent']:.1f}% more; "
        f"the statistics by themselves take {run['alone_ms']:.2f} ms"
    )
    if options.json:
        runs = json.loads(options.json.read_text(encoding="utf-8"))["runs"] if options.json.exists() else []
        others = [other for other in runs if other["device"] != run["device"]]
        options.json.write_text(json.dumps({"runs": [*others, run]}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
