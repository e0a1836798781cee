"""Calls of torch's own gradient functions, under whatever name they were imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditkit.probing.find.library_calls import library_candidates
from auditkit.probing.find.search import discover
from tests.source_helpers import write

CLIP = "torch.nn.utils:clip_grad_norm_"
SPELLINGS = [
    "import torch\ntorch.nn.utils.clip_grad_norm_(p, 1.0)",
    "from torch.nn.utils import clip_grad_norm_ as cut\ncut(p, 1.0)",
    "from torch.nn.utils.clip_grad import clip_grad_norm\nclip_grad_norm(p, 1.0)",
    "import torch.nn.utils as U\nU.clip_grad.clip_grad_norm_(p, 1.0)",
    "import helpers\nhelpers.clip_grad_norm_(p, 1.0)",
]
OTHERS = [
    "def clip_grad_norm_(p, n): ...\nclip_grad_norm_(p, 1.0)",
    "model.clip_grad_norm_(1.0)",
    "from own import clip_grad_norm_\nclip_grad_norm_(p, 1.0)",
]
HELPERS = {
    "helpers.py": "from torch.nn.utils import clip_grad_norm_\n",
    "own.py": "from torch.nn.utils import clip_grad_norm_ as theirs\ndef clip_grad_norm_(p, n): ...\n",
}


def found(folder: Path, **files: str) -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    named = {f"{name}.py": text for name, text in files.items()}
    calls = discover(write(folder, named | HELPERS)).library_calls
    return [(each.call, dict(each.arguments), each.places) for each in library_candidates(calls)]


@pytest.mark.parametrize("source", SPELLINGS)
def test_a_call_is_found_under_every_name(source: str, tmp_path: Path) -> None:
    assert found(tmp_path, train=source) == [(CLIP, {"max_norm": 1.0}, ("train.py:2",))]


@pytest.mark.parametrize("source", OTHERS)
def test_what_only_has_the_name_is_not_torchs(source: str, tmp_path: Path) -> None:
    assert found(tmp_path, train=source) == []


METHODS = [
    ("from accelerate import Accelerator\na = Accelerator()\na.clip_grad_norm_(p, 1.0)", "accelerate:Accelerator"),
    ("import accelerate as x\ndef f(a: x.Accelerator):\n    a.clip_grad_norm_(p, 1.0)", "accelerate:Accelerator"),
    ("from lib.nn import FullyShardedDataParallel as F\n\nself.model.clip_grad_norm_(1.0)",
     "lib.nn:FullyShardedDataParallel"),
    ("def f(engine):\n\n    return engine.get_global_grad_norm()", "deepspeed.runtime.engine:DeepSpeedEngine"),
    ("import wandb\n\nwandb.watch(model)", "wandb"),
    ("import lightning as L\ndef f(fabric: L.Fabric):\n    fabric.clip_gradients(m, o)", "lightning:Fabric"),
    ("from timm.utils import dispatch_clip_grad as cut\n\ncut(p, 1.0)", "timm.utils:dispatch_clip_grad"),
]  # fmt: skip
NO_METHODS = [
    "from engine import Accelerator\na = Accelerator()\na.clip_grad_norm_(p, 1.0)",
    "def f(trainer):\n    trainer.clip_grad_norm_(p, 1.0)",
    "from torch.nn import Module\ndef f(module: Module):\n    module.clip_grad_norm_(1.0)",
    "import wandb\nclass W:\n    def f(self):\n        self.watch(path)",
    "from train import clip_grads\nclip_grads(p, 1.0)",
    "from lib import get_clip_grad_config\nget_clip_grad_config(p)",
]


@pytest.mark.parametrize(("source", "holder"), METHODS)
def test_a_method_of_a_librarys_object_is_that_librarys(source: str, holder: str, tmp_path: Path) -> None:
    ((call, _, (place,)),) = found(tmp_path, train=source)
    assert call.startswith(holder)
    assert place.startswith("train.py:3")


@pytest.mark.parametrize("source", NO_METHODS)
def test_a_method_that_only_has_the_name_is_none(source: str, tmp_path: Path) -> None:
    assert found(tmp_path, train=source, engine="class Accelerator: ...") == []
