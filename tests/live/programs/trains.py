"""A training program that ends in the way that its argument names."""

import hashlib
import io
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
        print("dropout and a shuffling loader:", digest(model, loss))
        print("a scaler, accumulation, a clip, evaluations and a resume:", accumulating())
    if how == "exit":
        os._exit(7)
    if how == "exec":
        os.execv(sys.executable, [sys.executable, "-c", "pass"])


def digest(model: nn.Module, *more: torch.Tensor) -> str:
    tensors = [*model.state_dict().values(), *more, torch.get_rng_state()]
    return hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in tensors)).hexdigest()


def accumulating() -> str:
    """50 steps of two micro-batches, with everything that auditkit wraps."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(144, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    seen = hashlib.sha256()
    for step in range(50):
        for _ in range(2):
            loss = F.cross_entropy(model(torch.randn(8, 1, 8, 8)), torch.randint(0, 4, (8,))) / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer=optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
        seen.update(digest(model, loss, norm).encode())
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                model(torch.randn(8, 1, 8, 8))
            model.train()
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.seek(0)
            state = torch.load(file)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
    return seen.hexdigest()


def main_in_forks(words: list[str]) -> None:
    """One child for each word: torch, and what its first optimizer imports, is imported once."""
    torch.optim.SGD([torch.zeros(1)])
    for word in words:
        child = os.fork()
        if not child:
            sys.argv[1:] = [word]
            main(word)
            return
        os.waitpid(child, 0)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main_in_forks(sys.argv[1:])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "")
