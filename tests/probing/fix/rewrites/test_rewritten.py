"""The rewritten file: what is refused, which functions are changed, and what stays byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from auditkit.model.runs.measurement import Location
from auditkit.probing.fix.rewrites.rewrite import rewrites_of
from tests.probing.fix.rewrites.places import finding, place_of, text_with

SOURCE = '''import torch


class Watch:
    """Watches."""

    def measure(self, grads):
        return self.total(grads), later(grads)

    def total(self, grads):
        return grads[0].norm(2)

    def other(self, grads):
        return grads[0].norm(3)


class Other:
    def total(self, grads):
        return grads[0].norm(4)


def later(grads):
    def inner(grad):
        return grad.norm(5)

    return inner(grads[0])
'''


def test_what_runs_with_the_function_is_changed_and_nothing_else(tmp_path: Path) -> None:
    """Its own class's methods and the module's functions that it calls; no namesake, and no function inside one."""
    place = place_of(tmp_path, SOURCE, "watch:Watch.measure")
    text = text_with(place, rewrites_of(place, [finding("norm_overflows_on_finite_grads")])[:1])
    assert text == SOURCE.replace("norm(2)", "norm(2, dtype=torch.float64)")


def test_tabs_form_feeds_and_bytes_beyond_ascii_stay(tmp_path: Path) -> None:
    """Columns of a syntax tree are bytes; a form feed is no line's end."""
    source = "import torch\n\x0c\n\n@torch.no_grad()\ndef measure(é):\n\tü = 'äöü', é.norm(2); return ü\n"
    place = place_of(tmp_path, source)
    text = text_with(place, rewrites_of(place, [finding("norm_overflows_on_finite_grads")])[:1])
    assert text == source.replace("norm(2)", "norm(2, dtype=torch.float64)")


def test_a_block_is_changed_among_the_statements_of_its_file(tmp_path: Path) -> None:
    source = (
        "import torch\n\n\ndef train(model, loader, optimizer):\n    for batch in loader:\n"
        "        print(batch.norm(3))  # around the block, where no trial runs\n"
        "        model(batch).backward()\n"
        "        total_norm = 0.0\n        for p in model.parameters():\n            if p.grad is not None:\n"
        "                total_norm += p.grad.norm(2).item() ** 2\n        total_norm = total_norm**0.5\n"
        "        print(total_norm)\n        optimizer.step()\n"
    )
    place = place_of(tmp_path, source, "watch.py:train#total_norm")
    found = replace(finding("norm_overflows_on_finite_grads"), location=Location("watch.py", 11, "train"))
    text = text_with(place, [one for one in rewrites_of(place, [found]) if one.name == "norms_in_float64"][:1])
    assert [line.strip() for line in text.split("\n") if "dtype" in line] == [
        "total_norm += (p.grad.coalesce().values() if p.grad.is_sparse else p.grad).norm(2, dtype=torch.float64)"
        ".item() ** 2"
    ]
