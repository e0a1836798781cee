"""Training loops of scripts and long functions: what is taken, what is handed over, and what is left alone."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from auditkit.probing.find.blocks.blocks import Block, blocks_of
from auditkit.probing.find.search import discover
from auditkit.probing.source.modules import Module, parse_module

OVER_BATCHES = """
import torch


def main(args):
    model, loader = build(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        for i, (images, labels) in enumerate(loader):
            images = images.to(args.device)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            if not torch.isfinite(loss):
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 100 == 0:
                save(model, evaluate(model))
            meter.update(loss.item())
"""


def loops(source: str) -> list[Block]:
    module = parse_module(Path("/checkout/train.py"), source.encode(), Path("/checkout"), "train")
    assert isinstance(module, Module)
    return [each for each in blocks_of(module) if each.trains]


def the_loop(source: str) -> Block:
    (found,) = loops(textwrap.dedent(source))
    return found


def inputs(block: Block) -> set[str]:
    return {item.arg for item in block.parameters}


def test_a_loop_over_batches_is_taken_whole_without_what_it_logs_and_evaluates() -> None:
    loop = the_loop(OVER_BATCHES)
    assert (loop.qualified_name, loop.lines[0]) == ("main#training_step", 10)
    text = ast.unparse(loop.node)
    assert "continue" in text  # of the loop that is taken with it
    assert all(word not in text for word in ("evaluate", "save", "meter", "model.train"))
    assert inputs(loop) == {"loader", "args", "model", "optimizer"}


@pytest.mark.parametrize(
    "around", ["with profile() as prof:", "if use_amp:", "try:"], ids=["a context", "a condition", "an attempt"]
)
def test_what_clears_gradients_outside_of_a_branch_belongs_to_the_step(around: str) -> None:
    """Without it, each step of correct code would keep the gradients of the one before: a false P0."""
    branch = textwrap.indent(f"{around}\n    loss.backward()\n    optimizer.step()\n", " " * 4)
    rest = "    except RuntimeError:\n        raise\n" if around == "try:" else ""
    source = f"for x, y in loader:\n    optimizer.zero_grad()\n    loss = model(x, y)\n{branch}{rest}"
    assert "zero_grad" in ast.unparse(the_loop(source).node)


def test_of_many_examples_some_are_tried_and_the_rest_is_told(tmp_path: Path) -> None:
    for number in range(11):
        path = tmp_path / "examples" / f"n{number:02}" / "train.py"
        path.parent.mkdir(parents=True)
        path.write_text(OVER_BATCHES, encoding="utf-8")
    found = discover(tmp_path)
    assert len(found.candidates) == 8
    untried = [each.call for each in found.untried_loops]
    assert untried == [f"examples/n{number:02}/train.py:main#training_step" for number in (8, 9, 10)]


def test_a_model_of_any_name_is_known_by_the_optimizer_of_its_parameters(tmp_path: Path) -> None:
    """Without such a line, the loop is listed with the reason why it is not tried."""
    loop = """
    for x, _ in loader:
        optim.zero_grad()
        ddpm(x).backward()
        optim.step()
"""
    (tmp_path / "known.py").write_text(
        f"def main(n):\n    ddpm, loader = make(n)\n    optim = SGD(ddpm.parameters())\n{loop}"
    )
    (tmp_path / "unknown.py").write_text(f"def main(n):\n    ddpm, loader, optim = make(n)\n{loop}")
    found = discover(tmp_path)
    assert [each.call for each in found.candidates] == ["known.py:main#training_step"]
    assert [(each.call, each.obstacles) for each in found.untried_loops] == [
        (
            "unknown.py:main#training_step",
            ("no name that it reads shows the model and its batches (loader, optim, ddpm)",),
        )
    ]
