"""Silent bugs of public repositories, each written anew from its issue or fix: red before the fix, green after it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from auditkit.testing import watch


def rebuilt_groups(fixed: bool) -> None:
    """zjunlp/HVPNeT issue 5: after the last group of parameters, `parameters.append(group)` is missing."""
    model = nn.ModuleDict({"bert": nn.Linear(8, 16), "visual": nn.Linear(16, 16), "fc": nn.Linear(16, 4)})
    groups = []
    for part in ("bert", "visual", "fc"):
        group = {"params": [p for name, p in model.named_parameters() if name.startswith(part)], "lr": 1e-2}
        if part != "fc" or fixed:
            groups.append(group)
    optimizer = torch.optim.AdamW(groups)
    for _ in range(4):
        optimizer.zero_grad()
        hidden = model["visual"](torch.relu(model["bert"](torch.randn(8, 8))))
        F.cross_entropy(model["fc"](hidden), torch.randint(0, 4, (8,))).backward()
        optimizer.step()


def zeroed_before_the_step(fixed: bool) -> None:
    """lucidrains/byol-pytorch issue 93: zero_grad stands right before optimizer.step."""
    online, target = nn.Linear(8, 4), nn.Linear(8, 4).requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    for _ in range(4):
        x = torch.randn(8, 8)
        if fixed:
            optimizer.zero_grad()
        F.mse_loss(online(x), target(x)).backward()
        if not fixed:
            optimizer.zero_grad()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.01)


def never_zeroed(fixed: bool) -> None:
    """meta-pytorch/torchforge pull request 71: the optimizers are never zeroed."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        x = torch.randn(8, 8)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if fixed:
            optimizer.zero_grad()


def zeroed_each_micro_batch(fixed: bool) -> None:
    """gaozhihan/PreDiff issue 32: zero_grad stands outside of the `if` that steps after several batches."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for number in range(16):
        x = torch.randn(4, 8)
        (F.mse_loss(model(x), x) / 4).backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
            if fixed:
                optimizer.zero_grad()
        if not fixed:
            optimizer.zero_grad()


def clipped_before_unscale(fixed: bool) -> None:
    """milesial/Pytorch-UNet issue 468, pytorch/examples issue 1196: clip_grad_norm_ before scaler.unscale_."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(4):
        masks = torch.randint(0, 2, (2, 8, 8))
        loss = F.cross_entropy(model(torch.randn(2, 1, 8, 8)), masks)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        if fixed:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def clipped_after_the_step(fixed: bool) -> None:
    """awslabs/graphstorm issue 1366: --max-grad-norm clips after optimizer.step."""
    model = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(4):
        optimizer.zero_grad()
        (10 * F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 3, (8,)))).backward()
        if fixed:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if not fixed:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def mean_of_each_micro_batch(fixed: bool) -> None:
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
            if fixed:
                (F.cross_entropy(logits, targets, reduction="sum") / count).backward()
            else:
                (F.cross_entropy(logits, targets) / len(batches)).backward()
        optimizer.step()


def norms_stay_at_one(fixed: bool) -> None:
    """vllm-project/speculators pull request 765: in bfloat16 no norm's weight ever leaves 1.0."""
    dtype = torch.float32 if fixed else torch.bfloat16
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16, bias=False), nn.Linear(16, 16)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.0)
    for _ in range(8):
        optimizer.zero_grad()
        x = torch.randn(8, 16)
        with torch.autocast("cpu", torch.bfloat16, enabled=fixed):
            loss = F.mse_loss(model(x.to(dtype)).float(), x)
        loss.backward()
        optimizer.step()


def evaluated_for_ever(fixed: bool) -> None:
    """wkentaro/pytorch-fcn issue 57: validate() leaves the model in eval mode for the rest of the epoch."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for number in range(6):
        if number == 3:
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 8))
            if fixed:
                model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()


def frozen_by_an_attribute(fixed: bool) -> None:
    """CSCYQJ/MICCAI23-ProtoContra-SFDA issue 18: `model.outc.requires_grad = False` freezes no parameter."""
    model = nn.ModuleDict({"down": nn.Conv2d(1, 4, 3, padding=1), "outc": nn.Conv2d(4, 2, 1)})
    if fixed:
        model["outc"].requires_grad_(False)
    else:
        model["outc"].requires_grad = False  # type: ignore[assignment]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        masks = torch.randint(0, 2, (2, 8, 8))
        F.cross_entropy(model["outc"](torch.relu(model["down"](torch.randn(2, 1, 8, 8)))), masks).backward()
        optimizer.step()


def resized_after_the_optimizer(fixed: bool) -> None:
    """huggingface/transformers pull request 3519: the embeddings are resized after the optimizer took the old ones."""
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    larger = nn.Embedding(24, 8)
    with torch.no_grad():
        larger.weight[:16] = model[0].weight
    model[0] = larger
    if fixed:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        ids = torch.randint(0, 24, (32,))
        F.cross_entropy(model(ids), ids).backward()
        optimizer.step()


def schedule_begins_anew(fixed: bool) -> None:
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
            if fixed:
                schedule.load_state_dict(state["schedule"])
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 8)).square().mean().backward()
            optimizer.step()
            schedule.step()
        if not resumes:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}
            torch.save({**state, "schedule": schedule.state_dict()} if fixed else state, file)


def two_optimizers(fixed: bool) -> None:
    """roboterax/video-prediction-policy issue 14: configure_optimizers runs twice; its scheduler is another's."""
    model = nn.Linear(8, 8)

    def configure() -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    optimizer, scheduler = configure()
    if not fixed:
        optimizer = configure()[0]
        scheduler.optimizer._opt_called = True  # type: ignore[attr-defined]
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 8)).square().mean().backward()
        optimizer.step()
        scheduler.step()


BUGS: list[tuple[Callable[[bool], None], str]] = [
    (rebuilt_groups, "optimizer_misses_parameters"),
    (zeroed_before_the_step, "gradients_lost_or_stale"),
    (never_zeroed, "gradients_lost_or_stale"),
    (zeroed_each_micro_batch, "gradients_lost_or_stale"),
    (clipped_before_unscale, "clip_on_scaled_gradients"),
    (clipped_after_the_step, "clip_misses_the_step"),
    (mean_of_each_micro_batch, "tokens_weigh_differently"),
    (norms_stay_at_one, "low_precision_updates_vanish"),
    (evaluated_for_ever, "eval_mode_in_training"),
    (two_optimizers, "schedule_does_not_act"),
    (frozen_by_an_attribute, "frozen_parameters_move"),
    (resized_after_the_optimizer, "optimizer_misses_parameters"),
    (schedule_begins_anew, "resumed_state_differs"),
]


@pytest.mark.parametrize(("program", "law"), BUGS, ids=[program.__name__ for program, _ in BUGS])
def test_a_public_bug_is_found_and_its_fix_holds(program: Callable[[bool], None], law: str) -> None:
    """The law names the bug, and nothing is left to report of the fixed program."""
    for fixed, expected in ((False, {law}), (True, set())):
        torch.manual_seed(0)
        with watch(fail_on=None, root=Path(__file__).parent) as seen:
            program(fixed)
        assert {each.probe for each in seen.findings if str(each.severity) != "P4"} == expected
