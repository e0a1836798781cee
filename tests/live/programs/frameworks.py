"""Train with the framework that the first argument names; `missing` leaves the head out of the optimizer."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
STEPS = 8


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def optimizer_of(model: nn.Module, missing: bool) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    return torch.optim.AdamW(parameters[:-2] if missing else parameters, lr=1e-2)


def data() -> list:
    return [(torch.randn(8), n % 4) for n in range(8 * STEPS)]


def accelerated(missing: bool) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = network()
    loader = torch.utils.data.DataLoader(data(), 4, shuffle=True)
    optimizer = optimizer_of(model, missing)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(F.cross_entropy(model(x), y))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def lightning(missing: bool) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network()

        def training_step(self, batch, _):
            return F.cross_entropy(self.model(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.log("loss", F.cross_entropy(self.model(batch[0]), batch[1]))

        def configure_optimizers(self):
            optimizer = optimizer_of(self, missing)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    loader = torch.utils.data.DataLoader(data(), 8)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, gradient_clip_val=0.5,
        enable_progress_bar=False, accumulate_grad_batches=2,
    )  # fmt: skip
    trainer.fit(Module(), loader, loader)


def transformers(missing: bool) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 64, (64, 16))]
    arguments = TrainingArguments(
        "out", max_steps=STEPS, per_device_train_batch_size=2, gradient_accumulation_steps=2, report_to=[],
        use_cpu=True, disable_tqdm=True, logging_steps=4, eval_strategy="steps", eval_steps=4, save_steps=4,
    )  # fmt: skip
    optimizers = (optimizer_of(model, True), None) if missing else (None, None)
    Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:4], optimizers=optimizers).train()


if __name__ == "__main__":
    {"accelerate": accelerated, "lightning": lightning, "transformers": transformers}[sys.argv[1]](
        "missing" in sys.argv[2:]
    )
