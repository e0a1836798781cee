"""A training program that ends in the way that its argument names."""

import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def main(how: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    context = how if how in ("fork", "spawn") else None
    data = [(torch.randn(8), n % 4) for n in range(400)]
    loader = torch.utils.data.DataLoader(
        data, 8, shuffle=True, num_workers=1 if context else 0, multiprocessing_context=context
    )
    step = 0
    for _ in range(100_000 if how == "hang" else 1):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if how == "crash" and step == 7:
                raise RuntimeError("as told")
            if how == "interrupt" and step == 7:
                raise KeyboardInterrupt
            if how == "hang":
                time.sleep(0.005)
    if how == "hashes":
        print([p.detach().double().sum().item().hex() for p in model.parameters()], loss.item().hex())
    if how == "exit":
        os._exit(7)
    if how == "exec":
        os.execv(sys.executable, [sys.executable, "-c", "pass"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
