"""Who meets a finding by its checkout's source: each rule of docs/design/severity-lowered.md, met and not met."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.runs.measurement import Location
from auditkit.model.runs.met_by import MetBy
from auditkit.model.runs.severity import Breaks, Occurs
from auditkit.probing.source.who_meets import Met, who_meets

NORM = """import torch


def norm(params, check=False):
    total = 0
    for p in params:
        total += p.grad.norm().item()
    return total
"""
LINE = 7
TRAIN = """from norms import norm


def train(model, optimizer, loader, log_every):
    for step, batch in enumerate(loader):
        model(batch).backward()
{call}
        optimizer.step()


if __name__ == "__main__":
    train(*arguments())
"""
SPARSE_CLASS = """class Optimizer:
    def __init__(self, groups):
        self.{name} = groups

    def scale(self):
        for group in self.{name}:
            group.grad.mul_(0.5)
"""


def met(folder: Path, call: str, occurs: dict[str, str], breaks: Breaks, more: str = "", norms: str = NORM) -> Met:
    """Who meets a finding in the line of the norm, where training calls it as `call`."""
    (folder / "norms.py").write_text(norms, "utf-8")
    body = "\n".join(f"        {line}" for line in call.splitlines())
    (folder / "train.py").write_text(TRAIN.format(call=body) + more, "utf-8")
    words = {need: Occurs(word) for need, word in occurs.items()}
    return who_meets(folder, words, breaks, Location("norms.py", LINE, "norm"), "norms:norm")


@pytest.mark.parametrize(
    ("call", "occurs", "why"),
    [
        ("norm(model.parameters())", "ordinary", ()),
        ("if step % log_every == 0:\n    norm(model.parameters())", "extreme", ("called at an interval",)),
        ("if step % accumulation == 0:\n    norm(model.parameters())", "ordinary", ()),
        ("if False:\n    norm(model.parameters())", "extreme", ("called under a flag that is never set",)),
        ("if model.debug:\n    norm(model.parameters())", "extreme", ("called under a flag for debugging",)),
        ("try:\n    pass\nexcept FloatingPointError:\n    norm([])", "extreme", ("called after an exception",)),
        ("try:\n    import apex\nexcept ImportError:\n    warnings.warn('slow')\n    norm([])", "common",
         ("called as a fallback that warns",)),
        ("pass", "extreme", ("called by no code of the checkout",)),
    ],
)  # fmt: skip
def test_a_cost_is_rated_by_its_callers(tmp_path: Path, call: str, occurs: str, why: tuple[str, ...]) -> None:
    found = met(tmp_path, call, {"": "ordinary"}, Breaks.COST)
    assert (found.occurs, found.lowered) == (occurs, why)


@pytest.mark.parametrize(("step", "occurs"), [("optimizer.step()", "ordinary"), ("pass", "extreme")])
def test_calls_begin_at_a_function_that_trains(tmp_path: Path, step: str, occurs: str) -> None:
    main = f"\n\ndef main(model, optimizer):\n    norm(model.parameters())\n    {step}\n"
    assert met(tmp_path, "pass", {"": "ordinary"}, Breaks.COST, main).occurs == occurs


def test_callers_do_not_lower_what_is_wrong(tmp_path: Path) -> None:
    assert met(tmp_path, "pass", {"": "ordinary"}, Breaks.WRONG_ANSWER).occurs is Occurs.ORDINARY


@pytest.mark.parametrize(
    ("need", "more", "is_met"),
    [
        ("float16", "model = model.half()", True),
        ("float16", "inputs = inputs.half()", False),
        ("bfloat16", "model.to(torch.bfloat16)", True),
        ("16-bit", "with torch.autocast('cuda', torch.bfloat16): pass", False),
        ("float16", "model.to(device, dtype)  # float16", False),
        ("float64", "model.double()", False),
        ("sparse", "torch.nn.Embedding(4, 3, sparse=True)", True),
        ("dtensor", "fully_shard(model)", True),
        ("dtensor", "", False),
    ],
)
def test_a_dtype_or_layout_counts_where_the_checkout_makes_it(
    tmp_path: Path, need: str, more: str, is_met: bool
) -> None:
    found = met(tmp_path, "norm(model.parameters())", {need: "common"}, Breaks.WRONG_ANSWER, more)
    by_variable = Occurs.RARE if "dtype)" in more else Occurs.EXTREME
    assert (found.occurs, bool(found.lowered)) == ((Occurs.COMMON, False) if is_met else (by_variable, True))


@pytest.mark.parametrize(("name", "occurs"), [("flattened_norm", "extreme"), ("norm", "ordinary")])
def test_flat_buffers_are_few(tmp_path: Path, name: str, occurs: str) -> None:
    norms, call = NORM.replace("def norm", f"def {name}"), f"norms.{name}(model.parameters())"
    assert met(tmp_path, call, {"tensors": "ordinary"}, Breaks.COST, "import norms", norms).occurs == occurs


@pytest.mark.parametrize(
    ("base", "occurs"), [("torch.optim.Optimizer", "common"), ("Distributed", "common"), ("Wrapper", "ordinary")]
)
def test_an_optimizer_is_one_that_a_run_chooses(tmp_path: Path, base: str, occurs: str) -> None:
    text = SPARSE_CLASS.format(name="groups").replace("r:", f"r({base}):").replace("scale", "step")
    text += "\n\nclass Distributed(Optimizer):\n    pass\n\n\nclass Wrapper(Base):\n    pass\n"
    assert met(tmp_path, "pass", {"tensors": "ordinary"}, Breaks.COST, "optimizer.step()", text).occurs == occurs


@pytest.mark.parametrize(("call", "occurs"), [("pass", "common"), ("norm(model.parameters())", "ordinary")])
def test_a_helper_of_steps_is_as_rare_as_they_are(tmp_path: Path, call: str, occurs: str) -> None:
    step = "\n\nclass Adam(torch.optim.Optimizer):\n    def step(self):\n        norm(self.parameters)\n"
    assert met(tmp_path, call, {"tensors": "ordinary"}, Breaks.COST, "optimizer.step()", NORM + step).occurs == occurs


@pytest.mark.parametrize(("more", "occurs"), [("", "common"), ("norm(model.parameters())", "ordinary")])
def test_what_only_users_of_a_package_call_is_one_that_a_run_chooses(tmp_path: Path, more: str, occurs: str) -> None:
    (tmp_path / "__init__.py").write_text("from .norms import norm", "utf-8")
    assert met(tmp_path, more or "pass", {"": "ordinary"}, Breaks.COST).occurs == occurs


def test_a_base_class_calls_what_a_class_overrides(tmp_path: Path) -> None:
    norms = (
        "class Mixin:\n    def check(self): ...\n    def run(self):\n        self.check()\n"
        "class Ours(Mixin):\n    def check(self):\n        return [p.grad.norm().item() for p in self.params]\n"
    )
    found = met(tmp_path, "pass", {"": "ordinary"}, Breaks.COST, norms=norms)
    assert found.met_by is not None
    assert found.met_by.sentence() == "called from norms.py:4 (reached from run)"


@pytest.mark.parametrize(("name", "is_met"), [("groups_flat", False), ("groups", True)])
def test_flat_buffers_hold_no_sparse_gradient(tmp_path: Path, name: str, is_met: bool) -> None:
    text = SPARSE_CLASS.format(name=name)
    more = "Embedding(4, 3, sparse=True)"
    found = met(tmp_path, "pass", {"sparse": "rare"}, Breaks.WRONG_STEP, more, text)
    assert found.occurs == ("rare" if is_met else "extreme")


@pytest.mark.parametrize(
    ("need", "call", "occurs"),
    [
        ("missing", "norm([p for p in model.parameters() if p.grad is not None])", "extreme"),
        ("missing", "norm([p for p in model.parameters() if p.requires_grad])", "rare"),
        ("missing", "norm(model.parameters())", "common"),
        ("uncleared", "optimizer.zero_grad()\nnorm(model.parameters())", "extreme"),
        ("uncleared", "norm(model.parameters())", "common"),
        ("generator", "norm(list(model.parameters()))", "extreme"),
        ("generator", "norm(model.parameters())", "common"),
        ("empty", "grads = [p for p in model.parameters() if p.requires_grad]\nnorm(grads)", "common"),
        ("empty", "norm(list(model.parameters()))", "extreme"),
    ],
)
def test_inputs_count_that_callers_give(tmp_path: Path, need: str, call: str, occurs: str) -> None:
    assert met(tmp_path, call, {need: "common"}, Breaks.STOPS).occurs == occurs


def test_the_callers_and_their_conditions_are_named(tmp_path: Path) -> None:
    found = met(tmp_path, "if args.clip:\n    norm(model.parameters())", {"": "ordinary"}, Breaks.COST)
    assert found.met_by is not None
    assert found.met_by.sentence() == "called from train.py:8 `if args.clip`"


@pytest.mark.parametrize(
    ("need", "dtypes", "occurs"),
    [("bfloat16", ("float32",), "rare"), ("bfloat16", ("bfloat16",), "common"), ("", ("float32",), "common")],
)
def test_a_recorded_run_lowers_a_dtype_by_one_level(
    tmp_path: Path, need: str, dtypes: tuple[str, ...], occurs: str
) -> None:
    met(tmp_path, "norm(model.parameters())", {"": "common"}, Breaks.WRONG_ANSWER, "model.bfloat16()")
    recorded = MetBy("run", tensors=4, dtypes=dtypes)
    location = Location("norms.py", LINE, "norm")
    found = who_meets(tmp_path, {need: Occurs.COMMON}, Breaks.WRONG_ANSWER, location, "norms:norm", recorded)
    assert (found.occurs, found.met_by) == (occurs, recorded)
