"""Compile a model, an optimizer's step and a whole training step; print what Dynamo counted, and the weights."""

import hashlib

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

torch.set_num_threads(1)


def train(how: str) -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    forward = torch.compile(model, backend="eager") if how == "model" else model
    update = torch.compile(optimizer.step, backend="eager") if how == "optimizer" else optimizer.step

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        update()
        return loss.detach()

    called = torch.compile(step, backend="eager") if how == "training step" else step
    for _ in range(8):
        loss = called(torch.randn(4, 8), torch.randint(0, 4, (4,)))
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    print(f"{how}: {graphs} graphs, {breaks} breaks, loss {float(loss)}, weights {digest}")


if __name__ == "__main__":
    for name in ("model", "optimizer", "training step"):
        train(name)
