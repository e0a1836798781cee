"""docs/collectors.md: every block of code on it runs here, and does what the text around it says."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.process  # trainers and writers of others may start some

PAGE = Path(__file__).parents[2] / "docs" / "collectors.md"
LOOP, ACCUMULATION, TENSORBOARD, LIGHTNING, TRAINER = re.findall(
    r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
)


@pytest.fixture(name="names")
def _names(tmp_path: Path) -> dict[str, Any]:
    """What a training script has before the page's block."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    batches = [(torch.randn(4, 3), torch.full((4, 1), 100.0)) for _ in range(2)]
    return {
        "model": model,
        "batches": batches,
        "loss": nn.functional.mse_loss(model(batches[0][0]), batches[0][1]),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "scaler": torch.amp.GradScaler("cpu"),
        "step": 7,
        "log_dir": str(tmp_path),
    }


def run(block: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(block, str(PAGE), "exec"), names)
    return names


def norm_of(model: nn.Module) -> float:
    return float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))


def test_the_loop_clips_and_reads_afterwards(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The statistics are those before clipping, and what the page prints is short."""
    stats = run(LOOP, names)["stats"]
    assert stats.total_norm > 10
    assert norm_of(names["model"]) == pytest.approx(1.0, rel=1e-5)
    assert list(stats.norms) == [name for name, _ in names["model"].named_parameters()]
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_accumulated_gradients_are_clipped_unscaled(names: dict[str, Any]) -> None:
    """The norm is that of the mean loss, without the scale of 65,536."""
    before = [parameter.detach().clone() for parameter in names["model"].parameters()]
    found = run(ACCUMULATION, names)["total_norm"].item()
    assert 10 < found < 65_536
    moved = [after - was for after, was in zip(names["model"].parameters(), before, strict=True)]
    assert torch.nn.utils.get_total_norm(moved).item() == pytest.approx(0.1, rel=1e-4)  # limit times learning rate


def test_tensorboard_has_a_curve_for_every_number(names: dict[str, Any]) -> None:
    """What was written is read back by TensorBoard itself."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    stats = run(TENSORBOARD, names)["stats"]
    events = accumulator.EventAccumulator(names["log_dir"]).Reload()
    assert events.Tags()["scalars"] == list(stats.as_dict("gradients/", per_tensor=True))
    (point,) = events.Scalars("gradients/norm/0.weight")
    assert (point.step, point.value) == (7, pytest.approx(stats.norms["0.weight"]))


def test_a_lightning_callback_sees_gradients_before_clipping(names: dict[str, Any], tmp_path: Path) -> None:
    """A fit of two steps logs the norm, which Lightning's own clipping has not touched."""
    pl = pytest.importorskip("lightning.pytorch")
    callback = run(LIGHTNING, names)["LogGradients"]()

    class Module(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = names["model"]

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "barebones": False}
    trainer = pl.Trainer(
        max_steps=2, callbacks=[callback], gradient_clip_val=0.5, accelerator="cpu", default_root_dir=tmp_path, **quiet
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(names["batches"], batch_size=None))
    assert trainer.callback_metrics["gradients/total_norm"] > 10


def test_a_trainer_callback_clips_and_logs(names: dict[str, Any], tmp_path: Path) -> None:
    """Two steps of a Trainer log the norm before clipping; what the optimizer then gets has the limit."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = names["model"]

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": nn.functional.mse_loss(self.net(x), labels)}

    rows = [{"x": x, "labels": y} for inputs, targets in names["batches"] for x, y in zip(inputs, targets, strict=True)]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, max_grad_norm=0.0, logging_steps=1, report_to=[], use_cpu=True,
        per_device_train_batch_size=4, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(Net(), options, train_dataset=rows)
    trainer.add_callback(run(TRAINER, names)["ClipAndLogGradients"](trainer))
    left: list[float] = []

    class AfterIt(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_pre_optimizer_step(self, *_: Any, model: nn.Module, **__: Any) -> None:
            left.append(norm_of(model))

    trainer.add_callback(AfterIt())
    trainer.train()
    assert left == pytest.approx([1.0, 1.0], rel=1e-4)
    assert max(entry.get("gradients/total_norm", 0) for entry in trainer.state.log_history) > 10
