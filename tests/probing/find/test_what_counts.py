"""What a function does with gradients decides whether it is a candidate; beside each pattern what looks like it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from auditkit.probing.find.candidates import Candidate
from auditkit.probing.find.search import discover


def found(root: Path, source: str, name: str = "m.py") -> dict[str, Candidate]:
    """The functions that are candidates, by their qualified names; blocks are tested with their own files."""
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("import functools\nimport torch\n" + textwrap.dedent(source))
    return {item.call.partition(":")[2]: item for item in discover(root).candidates if "#" not in item.call}


FOUND = {
    "a helper joins": (
        """
        def flat(params):
            return torch.cat([p.grad.view(-1) for p in params])
        def f(params):
            return flat(params).norm()
        """,
        "grad_norm",
    ),
    "a method of a base class joins": (
        """
        class Base:
            def get_main_grads(self):
                return [p.main_grad for p in self.params]
        class Heir(Base):
            def f(self):
                return torch.stack(torch._foreach_norm(self.get_main_grads())).norm()
        """,
        "grad_norm",
    ),
    "a lambda is handed to a helper": (
        """
        def each(params, what):
            return [what(p.grad) for p in params]
        def f(params):
            return max(each(params, lambda g: g.norm()))
        """,
        "grad_norm",
    ),
    "grad_sample": ("def f(params):\n    return [p.grad_sample.norm() for p in params]\n", "grad_stats"),
    "a closure that is called": (
        """
        def f(model):
            def norm(p):
                return p.grad.norm()
            return sum(norm(p) for p in model.parameters())
        """,
        "grad_norm",
    ),
    "a dispatcher": (
        """
        def f(parameters, value, mode="norm"):
            if mode == "norm":
                torch.nn.utils.clip_grad_norm_(parameters, value)
            else:
                torch.nn.utils.clip_grad_value_(parameters, value)
        """,
        "grad_norm",
    ),
    "multiplied by a factor from a norm": (
        """
        def f(params, max_norm):
            total = sum(p.grad.norm() ** 2 for p in params) ** 0.5
            coef = max_norm / (total + 1e-6)
            if coef < 1:
                for p in params:
                    p.grad.data.mul_(coef)
        """,
        "grad_norm",
    ),
    "a check that raises": (
        "def f(params):\n    for p in params:\n        if torch.isnan(p.grad).any():\n            raise ValueError\n",
        "grad_stats",
    ),
    "kept on self": (
        """
        class Watch:
            def f(self):
                self.grad_norm = sum(p.grad.norm() for p in self.model.parameters())
        """,
        "grad_norm",
    ),
    "written to a board": (
        "def f(params, writer):\n    for p in params:\n        writer.add_scalar('grad', p.grad.norm())\n",
        "grad_stats",
    ),
    "a fused kernel": (
        "def f(grads, buf):\n    norm, _ = multi_tensor_applier(l2norm_impl, buf, [grads], False)\n    return norm\n",
        "grad_norm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("pattern", FOUND)
def test_it_is_found(tmp_path: Path, pattern: str) -> None:
    source, contract = FOUND[pattern]
    candidates = found(tmp_path, source)
    (item,) = (one for name, one in candidates.items() if name.rpartition(".")[2] == "f")
    assert item.contract_guess == contract
    # What joins or applies is a helper, and no candidate.
    assert len(candidates) == 1


NOT_FOUND = {
    "joins": "def f(params):\n    return torch.cat([p.grad.view(-1) for p in params])\n",
    "norms of weights": "def f(model):\n    return sum(p.norm() for p in model.parameters())\n",
    "writes": "def f(params, grads):\n    for p, g in zip(params, grads):\n        p.grad = g\n",
    "reduces over ranks": "def f(params):\n    for p in params:\n        torch.distributed.all_reduce(p.grad)\n",
    "scales by an argument": "def f(params, scale):\n    for p in params:\n        p.grad.mul_(1 / scale)\n",
    "asks for presence and raises": (
        "def f(params):\n    for p in params:\n        if p.grad is None:\n            raise ValueError\n"
    ),
    "an update in place": (
        "def f(params, lr):\n    for p in params:\n        p.data -= lr * p.grad\n"
        "    return max(p.grad.norm() for p in params)\n"
    ),
    "an update rule": (
        "def f(params, grads, exp_avg_sqs):\n    for p, g, v in zip(params, grads, exp_avg_sqs):\n"
        "        v.mul_(0.9).add_(g.pow(2).mean())\n        p.sub_(g / g.norm())\n    return grads[0].norm()\n"
    ),
    "a penalty of the loss": (
        "def f(critic, x):\n    (gradients,) = torch.autograd.grad(critic(x).sum(), x)\n"
        "    return (gradients.norm(2, dim=1) - 1).pow(2).mean()\n"
    ),
    "training": "def f(model, opt, loss):\n    loss.backward()\n    print(model.w.grad.norm())\n    opt.step()\n",
    "an autograd function": "def scale_backward(ctx, grad):\n    return grad.sum()\n",
    "a helper that looks at a gradient and hands another back": (
        "def root(x):\n    if x.isnan().any():\n        print('skipped')\n    return torch.linalg.svd(x)[0]\n"
        "def f(self, grad):\n    self.base = root(grad)\n"
    ),
}


@pytest.mark.parametrize("pattern", NOT_FOUND)
def test_what_only_looks_like_it_is_not(tmp_path: Path, pattern: str) -> None:
    assert found(tmp_path, NOT_FOUND[pattern]) == {}


def test_a_helper_that_is_handed_gradients_counts_where_it_is_named_for_it(tmp_path: Path) -> None:
    checks = (
        "def {0}(x):\n    return torch.isinf(x).any()\ndef f(params):\n    return any({0}(p.grad) for p in params)\n"
    )
    named = found(tmp_path / "named", checks.format("_has_inf_or_nan"))
    assert {name: item.contract_guess.value for name, item in named.items()} == {
        "_has_inf_or_nan": "grad_stats",
        "f": "grad_stats",
    }
    assert (named["_has_inf_or_nan"].covered_by, named["f"].covered_by) == (("m:f",), ())
    assert set(found(tmp_path / "unnamed", checks.format("_worst"))) == {"f"}
    norms = "def {0}(x):\n    return x.norm()\ndef f(params):\n    return max({0}(p.grad) for p in params)\n"
    assert set(found(tmp_path / "norm", norms.format("get_weight_norm"))) == {"get_weight_norm", "f"}
    assert set(found(tmp_path / "layer", norms.format("layer_norm"))) == {"f"}
