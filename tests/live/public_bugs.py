"""Silent bugs of public repositories, each written anew from its issue or fix: wrong before the fix, right after it."""

from __future__ import annotations

import io

import torch
import torch.nn.functional as F
from torch import nn


def rebuilt_groups(wrong: bool) -> None:
    """zjunlp/HVPNeT issue 5: after the last group of parameters, `parameters.append(group)` is missing."""
    model = nn.ModuleDict({"bert": nn.Linear(8, 16), "visual": nn.Linear(16, 16), "fc": nn.Linear(16, 4)})
    groups = []
    for part in ("bert", "visual", "fc"):
        group = {"params": [p for name, p in model.named_parameters() if name.startswith(part)], "lr": 1e-2}
        if part != "fc" or not wrong:
            groups.append(group)
    optimizer = torch.optim.AdamW(groups)
    for _ in range(4):
        optimizer.zero_grad()
        hidden = model["visual"](torch.relu(model["bert"](torch.randn(8, 8))))
        F.cross_entropy(model["fc"](hidden), torch.randint(0, 4, (8,))).backward()
        optimizer.step()


def zeroed_before_the_step(wrong: bool) -> None:
    """lucidrains/byol-pytorch issue 93: zero_grad stands right before optimizer.step."""
    online, target = nn.Linear(8, 4), nn.Linear(8, 4).requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    for _ in range(4):
        x = torch.randn(8, 8)
        if not wrong:
            optimizer.zero_grad()
        F.mse_loss(online(x), target(x)).backward()
        if wrong:
            optimizer.zero_grad()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.01)


def never_zeroed(wrong: bool) -> None:
    """meta-pytorch/torchforge pull request 71: the optimizers are never zeroed."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        x = torch.randn(8, 8)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if not wrong:
            optimizer.zero_grad()


def zeroed_each_micro_batch(wrong: bool) -> None:
    """gaozhihan/PreDiff issue 32: zero_grad stands outside of the `if` that steps after several batches."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for number in range(16):
        x = torch.randn(4, 8)
        (F.mse_loss(model(x), x) / 4).backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
            if not wrong:
                optimizer.zero_grad()
        if wrong:
            optimizer.zero_grad()


def clipped_before_unscale(wrong: bool) -> None:
    """milesial/Pytorch-UNet issue 468, pytorch/examples issue 1196: clip_grad_norm_ before scaler.unscale_."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(4):
        masks = torch.randint(0, 2, (2, 8, 8))
        loss = F.cross_entropy(model(torch.randn(2, 1, 8, 8)), masks)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        if not wrong:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def clipped_after_the_step(wrong: bool) -> None:
    """awslabs/graphstorm issue 1366: --max-grad-norm clips after optimizer.step."""
    model = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(4):
        optimizer.zero_grad()
        (10 * F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 3, (8,)))).backward()
        if not wrong:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if wrong:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def mean_of_each_micro_batch(wrong: bool, by_hand: bool = False) -> None:
    """huggingface/transformers pull request 34191: each micro-batch's mean counts alike, whatever its padding."""
    model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        batches = []
        for length in (3, 12):
            ids = torch.randint(0, 32, (2, 12))
            batches.append((ids, torch.where(torch.arange(12) < length, ids, -100)))
        count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in batches)
        optimizer.zero_grad()
        for ids, labels in batches:
            logits, targets = model(ids)[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
            if not wrong:
                (F.cross_entropy(logits, targets, reduction="sum") / count).backward()
            elif by_hand:
                (F.cross_entropy(logits, targets, reduction="sum") / (targets != -100).sum()).backward()
            else:
                (F.cross_entropy(logits, targets) / len(batches)).backward()
        optimizer.step()


def sum_of_each_micro_batch(wrong: bool) -> None:
    """The same, with a sum that is divided by the valid targets of its micro-batch."""
    mean_of_each_micro_batch(wrong, by_hand=True)


def norms_stay_at_one(wrong: bool) -> None:
    """vllm-project/speculators pull request 765: in bfloat16 no norm's weight ever leaves 1.0."""
    dtype = torch.float32 if not wrong else torch.bfloat16
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16, bias=False), nn.Linear(16, 16)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.0)
    for _ in range(8):
        optimizer.zero_grad()
        x = torch.randn(8, 16)
        with torch.autocast("cpu", torch.bfloat16, enabled=not wrong):
            loss = F.mse_loss(model(x.to(dtype)).float(), x)
        loss.backward()
        optimizer.step()


def evaluated_for_ever(wrong: bool) -> None:
    """wkentaro/pytorch-fcn issue 57: validate() leaves the model in eval mode for the rest of the epoch."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for number in range(6):
        if number == 3:
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 8))
            if not wrong:
                model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()


def frozen_by_an_attribute(wrong: bool) -> None:
    """CSCYQJ/MICCAI23-ProtoContra-SFDA issue 18: `model.outc.requires_grad = False` freezes no parameter."""
    model = nn.ModuleDict({"down": nn.Conv2d(1, 4, 3, padding=1), "outc": nn.Conv2d(4, 2, 1)})
    if not wrong:
        model["outc"].requires_grad_(False)
    else:
        model["outc"].requires_grad = False  # type: ignore[assignment]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        masks = torch.randint(0, 2, (2, 8, 8))
        F.cross_entropy(model["outc"](torch.relu(model["down"](torch.randn(2, 1, 8, 8)))), masks).backward()
        optimizer.step()


def resized_after_the_optimizer(wrong: bool) -> None:
    """huggingface/transformers pull request 3519: the embeddings are resized after the optimizer took the old ones."""
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    larger = nn.Embedding(24, 8)
    with torch.no_grad():
        larger.weight[:16] = model[0].weight
    model[0] = larger
    if not wrong:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        ids = torch.randint(0, 24, (32,))
        F.cross_entropy(model(ids), ids).backward()
        optimizer.step()


def schedule_begins_anew(wrong: bool) -> None:
    """PolymathicAI/the_well pull request 63: a checkpoint holds the optimizer and not the scheduler."""
    file = io.BytesIO()
    for resumes in (False, True):
        model = nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))
        if resumes:
            file.seek(0)
            state = torch.load(file)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            if not wrong:
                schedule.load_state_dict(state["schedule"])
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 8)).square().mean().backward()
            optimizer.step()
            schedule.step()
        if not resumes:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}
            torch.save({**state, "schedule": schedule.state_dict()} if not wrong else state, file)


def two_optimizers(wrong: bool) -> None:
    """roboterax/video-prediction-policy issue 14: configure_optimizers runs twice; its scheduler is another's."""
    model = nn.Linear(8, 8)

    def configure() -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    optimizer, scheduler = configure()
    if wrong:
        optimizer = configure()[0]
        scheduler.optimizer._opt_called = True  # type: ignore[attr-defined]
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 8)).square().mean().backward()
        optimizer.step()
        scheduler.step()


BUGS = [
    ("optimizer_misses_parameters", "P0", rebuilt_groups, "fc.weight"),
    ("gradients_lost_or_stale", "P0", zeroed_before_the_step, "zeroed between backward and step"),
    ("gradients_lost_or_stale", "P0", never_zeroed, "still there when the next backward began"),
    ("gradients_lost_or_stale", "P0", zeroed_each_micro_batch, "micro-batch"),
    ("clip_on_scaled_gradients", "P1", clipped_before_unscale, "scaler's factor"),
    ("clip_misses_the_step", "P1", clipped_after_the_step, "clips after the step"),
    ("tokens_weigh_differently", "P1", mean_of_each_micro_batch, "times"),
    ("tokens_weigh_differently", "P1", sum_of_each_micro_batch, "times"),
    ("low_precision_updates_vanish", "P3", norms_stay_at_one, "1.weight (100%)"),
    ("eval_mode_in_training", "P2", evaluated_for_ever, "modules"),
    ("schedule_does_not_act", "P2", two_optimizers, "never steps"),
    ("frozen_parameters_move", "P1", frozen_by_an_attribute, "outc.weight, outc.bias: `requires_grad = False`"),
    ("optimizer_misses_parameters", "P0", resized_after_the_optimizer, "0.weight"),
    ("resumed_state_differs", "P1", schedule_begins_anew, "LambdaLR begins anew"),
]
"""Law, severity, program and words of the finding's message."""
