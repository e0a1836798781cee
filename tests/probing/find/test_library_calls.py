"""Calls of torch's own gradient functions, under whatever name they were imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditkit.probing.find.library_calls import library_candidates
from auditkit.probing.find.search import discover
from tests.source_helpers import write

CLIP, VALUE, TOTAL = (f"torch.nn.utils:{name}" for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm"))
SPELLINGS = [
    "import torch\ntorch.nn.utils.clip_grad_norm_(p, 1.0)",
    "import torch.nn as nn\nnn.utils.clip_grad_norm_(p, max_norm=1.0)",
    "from torch.nn.utils import clip_grad_norm_ as cut\ncut(p, 1.0)",
    "from torch.nn.utils.clip_grad import clip_grad_norm\nclip_grad_norm(p, 1.0)",
    "import torch.nn.utils as U\nU.clip_grad.clip_grad_norm_(p, 1.0)",
    "from helpers import clip_grad_norm_\nclip_grad_norm_(p, 1.0)",
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


def test_a_function_is_one_candidate_with_all_of_its_places(tmp_path: Path) -> None:
    """In functions, methods and at module level; the first limit that is written out is the one that is given."""
    clip = "torch.nn.utils.clip_grad_norm_"
    first = f"import torch\nclass T:\n    def step(self):\n        {clip}(self.p, self.limit)\n{clip}(p, 0.5)\n"
    second = (
        f"import torch\nasync def main():\n    {clip}(p, 5, norm_type=2)\n    torch.nn.utils.clip_grad_value_(p, c)\n"
    )
    places = ("first.py:4 in T.step", "first.py:5", "second.py:3 in main")
    assert found(tmp_path, first=first, second=second) == [
        (CLIP, {"max_norm": 0.5}, places),
        (VALUE, {}, ("second.py:4 in main",)),
    ]


@pytest.mark.parametrize("written", ["float('inf')", "'inf'", "math.inf", "torch.inf", "np.inf", "inf"])
def test_another_norm_is_asked_by_itself(written: str, tmp_path: Path) -> None:
    imports = "import math, torch\nimport numpy as np\nfrom math import inf\nfrom torch.nn.utils import *\n"
    call = f"torch.nn.utils.get_total_norm(grads, {written}, error_if_nonfinite=True)"
    assert found(tmp_path, a=f"{imports}torch.nn.utils.get_total_norm(grads)\n{call}") == [
        (TOTAL, {}, ("a.py:5",)),
        (TOTAL, {"norm_type": float("inf"), "error_if_nonfinite": True}, ("a.py:6",)),
    ]


def test_torch_itself_calls_no_library(tmp_path: Path) -> None:
    files = {"torch/nn/utils/__init__.py": "", "torch/a.py": SPELLINGS[0], "torch/__init__.py": ""}
    assert discover(write(tmp_path, files)).library_calls == ()


METHODS = [
    ("from accelerate import Accelerator\na = Accelerator()\na.clip_grad_norm_(p, 1.0)", "accelerate:Accelerator"),
    ("import accelerate as x\ndef f(a: x.Accelerator):\n    a.clip_grad_norm_(p, 1.0)", "accelerate:Accelerator"),
    ("from lib.nn import FullyShardedDataParallel as F\n\nself.model.clip_grad_norm_(1.0)",
     "lib.nn:FullyShardedDataParallel"),
    ("def f(engine):\n\n    return engine.get_global_grad_norm()", "deepspeed.runtime.engine:DeepSpeedEngine"),
    ("import wandb\n\nwandb.watch(model)", "wandb"),
    ("def f(self):\n    import wandb\n    self.run.watch(model)", "wandb:watch"),
    ("import lightning as L\ndef f(fabric: L.Fabric):\n    fabric.clip_gradients(m, o)", "lightning:Fabric"),
    ("class T:\n    def f(self):\n        self._accelerator.clip_grad_norm_(p, 1.0)", "accelerate:Accelerator"),
    ("from lib import XlaFullyShardedDataParallel as F\n\nm.clip_grad_norm_(1.0)", "lib:XlaFullyShardedDataParallel"),
    ("import apex.utils\n\napex.utils.clip_grad_norm_(p, 1.0)", "apex.utils:clip_grad_norm_"),
    ("from timm.utils import dispatch_clip_grad as cut\n\ncut(p, 1.0)", "timm.utils:dispatch_clip_grad"),
]  # fmt: skip
NO_METHODS = [
    "from engine import Accelerator\na = Accelerator()\na.clip_grad_norm_(p, 1.0)",
    "from lib import build\na = build()\na.clip_grad_norm_(p, 1.0)",
    "def f(trainer):\n    trainer.clip_grad_norm_(p, 1.0)",
    "from torch.nn import Module\ndef f(module: Module):\n    module.clip_grad_norm_(1.0)",
    "import watchdog\nwatchdog.watch(model)",
    "import wandb\nclass W:\n    def f(self):\n        self.watch(path)",
    "def f(fabric):\n    fabric.clip_grad_norm_of(p)",
    "from train import clip_grads\nclip_grads(p, 1.0)",
    "from engine.deep import clip_grads\nclip_grads(p, 1.0)",
    "from torch.optim import clip_grads\nclip_grads(p, 1.0)",
    "from lib import get_clip_grad_config\nget_clip_grad_config(p)",
    "class A:\n    def clip_grad_norm_(self, p): ...\ndef f(accelerator):\n    accelerator.clip_grad_norm_(p)",
    "class Engine:\n    def get_global_grad_norm(self): ...\ndef f(engine):\n    engine.get_global_grad_norm()",
]


@pytest.mark.parametrize(("source", "holder"), METHODS)
def test_a_method_of_a_librarys_object_is_that_librarys(source: str, holder: str, tmp_path: Path) -> None:
    ((call, _, (place,)),) = found(tmp_path, train=source)
    assert call.startswith(holder)
    assert place.startswith("train.py:3")


@pytest.mark.parametrize("source", NO_METHODS)
def test_a_method_that_only_has_the_name_is_none(source: str, tmp_path: Path) -> None:
    assert found(tmp_path, train=source, engine="class Accelerator: ...") == []


def test_a_method_that_the_class_inherits_is_its_librarys(tmp_path: Path) -> None:
    """Also through a base of the checkout; not where a class on the way has a method of that name itself."""
    clip = "    def configure(self, o):\n        self.clip_gradients(o, 0.5, 'norm')\n"
    own = "    def clip_gradients(self, o, v, a): ...\n"
    base = "import lightning as L\nclass Base(L.LightningModule): ...\n"
    source = f"{base}class Net(Base):\n{clip}class Own(Base):\n{own}{clip}class Third(Own):\n{clip}"
    assert found(tmp_path, net=source) == [
        ("lightning:LightningModule.clip_gradients", {}, ("net.py:5 in Net.configure",))
    ]
