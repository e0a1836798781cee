"""Blocks: what is found where no function can be called, as which function it is asked, and what is left alone."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.model.enums import Contract
from auditkit.probing.find.blocks.blocks import Block, blocks_of
from auditkit.probing.find.candidates import Candidate
from auditkit.probing.find.search import discover
from auditkit.probing.source.modules import Module, parse_module


def blocks(body: str, inside: str = "def main(self, args, model, optimizer, writer, total):") -> list[Block]:
    """The blocks of a function with that body; of the body itself where nothing is around it."""
    indented = textwrap.indent(textwrap.dedent(body).strip("\n"), "    " if inside else "")
    return blocks_in("\n".join(filter(None, ["import torch", inside, indented])))


def blocks_in(source: str) -> list[Block]:
    module = parse_module(Path("/checkout/train.py"), source.encode(), Path("/checkout"), "train")
    assert isinstance(module, Module)
    return [each for each in blocks_of(module) if not each.trains]


def the_block(body: str, inside: str = "def main(self, args, model, optimizer, writer, total):") -> Block:
    (found,) = blocks(body, inside)
    return found


def as_text(block: Block) -> str:
    return ast.unparse(block.node)


def span(block: Block) -> tuple[int, int | None]:
    """The first and the last line of the statements, of which the first two lines are an import and a `def`."""
    return block.statements[0].lineno, block.statements[-1].end_lineno


NORM = """\
total_norm = 0.0
for p in model.parameters():
    if p.grad is not None:
        param_norm = p.grad.data.norm(2)
        total_norm += param_norm.item() ** 2
total_norm = total_norm ** 0.5
"""
LOOP = f"""
for batch in args.batches:
    optimizer.zero_grad()
    model(batch).sum().backward()
{textwrap.indent(NORM, "    ")}    print(total_norm)
    optimizer.step()
"""


def test_a_norm_in_the_middle_of_a_training_loop() -> None:
    """From the accumulator's start to its root; the loop that trains stays outside."""
    block = the_block(LOOP)
    assert block.call == "train.py:main#total_norm"
    assert span(block) == (6, 11)
    assert as_text(block) == "def total_norm(model):\n" + textwrap.indent(NORM + "return total_norm", "    ")


@pytest.mark.parametrize(
    ("body", "name", "inputs", "answer"),
    [
        ("norms = [p.grad.norm() for p in model.parameters()]", "norms", ["model"], "norms"),
        (
            "if any(torch.isnan(p.grad).any() for p in model.parameters()):\n    return",
            "isnan",
            ["model"],
            "recorded_isnan_",
        ),
        (
            "assert all(torch.isfinite(p.grad).all() for p in model.parameters()), 'not finite'",
            "isfinite",
            ["model"],
            "recorded_isfinite_",
        ),
        (
            "for n, p in model.named_parameters():\n"
            "    if args.verbose:\n"
            "        writer.add_scalar(n, p.grad.norm().item())",
            "norm",
            ["model"],
            "recorded_norms_",
        ),
        ("print(f'{next(model.parameters()).grad.norm():.3f}')", "norm", ["model"], "recorded_norm_"),
        (
            "history = writer.history\nhistory['grad_norm'] = max(p.grad.abs().max() for p in model.parameters())",
            "max",
            ["model"],
            "recorded_max_",
        ),
        ("self.norm = torch.stack([p.grad.norm() for p in self.params]).norm()", "norm", ["self"], "recorded_norm_"),
        (
            "found = False\n"
            "for p in model.parameters():\n"
            "    if not torch.isfinite(p.grad).all():\n"
            "        found = True\n"
            "        break\n"
            "if found:\n"
            "    return",
            "found",
            ["model"],
            "found",
        ),
    ],
)
def test_what_is_found_is_named_by_what_it_computes(body: str, name: str, inputs: list[str], answer: str) -> None:
    block = the_block(body)
    assert (block.qualified_name, [item.arg for item in block.parameters]) == (f"main#{name}", inputs)
    last = block.node.body[-1]
    assert isinstance(last, ast.Return)
    assert last.value is not None
    assert ast.unparse(last.value) == answer


FLAG = """\
bad = {start}
{between}for p in model.parameters():
    if torch.isnan(p.grad).any():
        bad = {start} | True
if bad:
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("between", ["", "model(args.batch).backward()\n"])
def test_a_flag_that_a_loop_sets_under_a_condition_keeps_its_start(between: str) -> None:
    """Run the block on finite gradients, of which no statement sets the flag."""
    block = the_block(FLAG.format(start="False", between=between))
    assert [item.arg for item in block.parameters] == ["model"]
    names: dict[str, Any] = {"torch": torch}
    exec(as_text(block), names)
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    assert names["bad"](model) is False
    model(torch.full((1, 2), torch.nan)).sum().backward()
    assert names["bad"](model) is True


@pytest.mark.parametrize(
    "body",
    [
        "for p in model.parameters():\n    p.data.add_(p.grad / p.grad.norm(), alpha=-0.1)",
        "for p in model.parameters():\n    p.grad /= args.world_size",
        "for p in model.parameters():\n    p.grad = p.grad - p.grad.mean()",
        "for p in model.parameters():\n    dist.all_reduce(p.grad)",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "norm = compute_grad_norm(model)\nprint(norm ** 0.5)",
        "x = args.x\nx.grad.norm()\nprint(x.grad.abs().max())",
        "for p, q in zip(model.parameters(), other.parameters()):\n    print((p.grad - q.grad).abs().max())",
        "grads = torch.autograd.grad(model(args.x), args.x)\nprint(grads[0].norm())",
        "for p in model.parameters():\n    yield p.grad.norm()",
        "total = await gather(p.grad.norm() for p in model.parameters())",
    ],
)
def test_what_is_no_block(body: str) -> None:
    """Update rules, averages, calls of functions, gradients of inputs, comparisons, and what hands control away."""
    inside = "async def main(args, model, optimizer):" if "await" in body else "def main(args, model, optimizer):"
    assert blocks(body, inside) == []


def found(folder: Path, source: str) -> dict[str, Candidate]:
    (folder / "train.py").write_text(source)
    return {candidate.call: candidate for candidate in discover(folder).candidates}


def test_discovery_lists_blocks_beside_functions_and_none_inside_one(tmp_path: Path) -> None:
    """A function that returns its norm is asked whole; one that trains is asked for its step and its block."""
    body = textwrap.indent(textwrap.dedent(LOOP).strip("\n"), "    ")
    whole = "def grad_norm(model):\n    return sum(p.grad.norm() for p in model.parameters())\n"
    candidates = found(tmp_path, f"import torch\n{whole}def main(args, model, optimizer):\n{body}\n")
    assert sorted(candidates) == ["train.py:main#total_norm", "train:grad_norm", "train:main"]
    assert candidates["train:main"].contract_guess is Contract.TRAIN_STEP
    block = candidates["train.py:main#total_norm"]
    assert (block.file, block.line, block.contract_guess) == ("train.py", 8, Contract.GRAD_NORM)


HANDED_ON = {
    "norms are joined": """
        total_norm = get_global_norm(norm_list=norm_groups)
        timers.stop()
        self.unscale_and_clip_grads(flat_grad, total_norm)
        """,
    "one norm, several clips": """
        grad_norm = self.get_grad_norm()
        for optimizer in self.optimizers:
            clip_grads(optimizer.get_parameters(), total_norm=grad_norm)
        """,
    "the step is between the clips": """
        norm_groups = self.get_norm_groups()
        grad_norm = torch.linalg.vector_norm(torch.stack(norm_groups))
        for group in self.groups:
            self.clip_grads(group, grad_norm)
            self.optimizer_step(group)
        """,
    "a check decides": """
        grad_norm, other = self.compute_norms()
        if check_overflow(grad_norm):
            return False
        """,
    "a hook adds up flags": "self.overflow_counter += chunk.grad.has_inf_or_nan",
}
ANSWERS = ["total_norm", "grad_norm", "grad_norm", "recorded_check_overflow_", "self.overflow_counter"]


@pytest.mark.parametrize(("pattern", "answer"), list(zip(HANDED_ON, ANSWERS, strict=True)))
def test_a_norm_that_a_step_hands_on_is_a_block(pattern: str, answer: str) -> None:
    block = the_block(HANDED_ON[pattern], "def step(self, norm_groups, flat_grad, timers, chunk):")
    assert block.outputs == (answer,)
