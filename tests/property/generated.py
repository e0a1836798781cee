"""Random well-behaved collectors, as source text: what a careful author might write, in any combination.

`make_case(seed)` gives the text of a module with one `collect`, sometimes finished by `materialize`. Every part
is right for any gradients: it accumulates in float64, reads once, takes sparse gradients, gradients of several
dtypes and devices, and none at all. What costs memory, launches or reads is not wrong, but probes for that may
rightly report it: `Case.costs` names them, so that they are not asked.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.probing_helpers import GRAPHS, LAUNCHES, MEMORY, SYNCS

_PREAMBLE = """\
import dataclasses
import torch


def _stored(grads):
    return [g.coalesce().values() if g.is_sparse else g for g in grads]


def _dense(grads):
    return [g.to_dense() if g.is_sparse else g for g in grads]


def _home(values):
    return [value.to(values[0].device) for value in values]


def _nothing(home):
    return torch.zeros((), dtype=torch.int64, device=home)

"""

# name of the argument, and the expression for the gradients that are there
_INPUTS = {
    "module": "[p.grad for p in module.parameters() if p.grad is not None]",
    "model": "[p.grad for _, p in model.named_parameters() if p.grad is not None]",
    "parameters": "[p.grad for p in parameters if p.grad is not None]",
    "params": "[p.grad.detach() for p in list(params) if p.grad is not None]",
    "gradients": "[g for g in gradients]",
    "grads": "list(grads)",
    "named_parameters": "[p.grad for _, p in named_parameters if p.grad is not None]",
}

# One float64 norm of order {order} for each tensor, by different calls, and what each honestly costs.
_NORMS = {
    "list(torch._foreach_norm(_stored(grads), {order}, dtype=torch.float64)) if grads else []": (),
    "[torch.linalg.vector_norm(g, {order}, dtype=torch.float64) for g in _stored(grads)]": (LAUNCHES,),
    "[torch.linalg.vector_norm(g.double(), {order}) for g in _stored(grads)]": (LAUNCHES, MEMORY),
    "[g.double().abs().pow({order}).sum().pow(1 / {order}) for g in _stored(grads)]": (LAUNCHES, MEMORY),
    "[torch.norm(g.to(torch.float64), {order}) for g in _stored(grads)]": (LAUNCHES, MEMORY),
}

_STATISTICS = {
    "total_norm": (2, "torch.linalg.vector_norm(norms)"),
    "grad_norm": (2, "norms.square().sum().sqrt()"),
    "mean_layer_norm": (2, "norms.mean()"),
    "max_layer_norm": (2, "norms.max()"),
    "rms": (2, "torch.linalg.vector_norm(norms) / max(elements, 1) ** 0.5"),
    "squared_norm": (2, "norms.square().sum()"),
    "norm_1": (1, "norms.sum()"),
    "mean_abs": (1, "norms.sum() / max(elements, 1)"),
    "norm_3": (3, "norms.pow(3).sum().pow(1 / 3)"),
    "norm_4": (4, "torch.linalg.vector_norm(norms, 4)"),
}
_COUNTS = {
    "zero_count": "sum(((g == 0).sum().to(home) for g in _dense(grads)), _nothing(home))",
    "nan_count": "sum((g.isnan().sum().to(home) for g in _stored(grads)), _nothing(home))",
    "inf_count": "sum((g.isinf().sum().to(home) for g in _stored(grads)), _nothing(home))",
}
_COUNT_COSTS = (LAUNCHES, MEMORY)
_ANSWERS = ("number", "tensor", "mapping", "dataclass", "pair", "nested")

# One defect each: what is replaced in a case's text, and the probes of which one must see it.
DEFECTS = {
    "float32 squares": (", dtype=torch.float64", ""),
    "NaN dropped": ("return [g.coalesce().values() if g.is_sparse else g for g in grads]",
                    "return [(g.coalesce().values() if g.is_sparse else g).nan_to_num(0.0, 0.0, 0.0) for g in grads]"),
    "first device alone": ("grads = _there(", "grads = _on_first_device("),
    "first dtype alone": ("grads = _there(", "grads = _of_first_dtype("),
    "sparse raises": ("g.coalesce().values() if g.is_sparse else g", "g.view(-1)"),
    "scaled in place": ("    elements = ", "    torch._foreach_mul_(grads, 2.0) if grads else None\n    elements = "),
}  # fmt: skip
_FILTERS = """
def _there(grads):
    return [g.detach() for g in grads]


def _on_first_device(grads):
    return [g.detach() for g in grads if g.device == grads[0].device]


def _of_first_dtype(grads):
    return [g.detach() for g in grads if g.dtype == grads[0].dtype]

"""


class Case(NamedTuple):
    """A generated module: `costs` are the probes that its parts may rightly make reproduce."""

    text: str
    costs: frozenset[str]
    is_async: bool


def make_case(seed: int, defect: str = "") -> Case:
    """The case of a seed; with `defect` the same case with one part made wrong, where it has that part."""
    dice = random.Random(seed)
    argument, gradients = dice.choice(list(_INPUTS.items()))
    order = dice.choice((2, 2, 2, 1, 3, 4))
    statistics = {name: text for name, (of_order, text) in _STATISTICS.items() if of_order == order}
    chosen = dict(dice.sample(list(statistics.items()), dice.randint(1, min(2, len(statistics)))))
    expression, paid = dice.choice(list(_NORMS.items()))
    costs = set(paid)
    answer = dice.choice(_ANSWERS)
    if answer in ("mapping", "dataclass", "nested") and dice.random() < 0.5:
        chosen.update(dice.sample(list(_COUNTS.items()), dice.randint(1, 3)))
        costs.update(_COUNT_COSTS)
    is_async = answer in ("mapping", "tensor") and dice.random() < 0.4
    layers = dice.choice(("", "", "list", "dict", "tensor")) if answer in ("mapping", "nested", "dataclass") else ""
    lines = [f"    grads = _there({gradients})"]
    if dice.random() < 0.5:
        lines.append("    count = len(grads)")
    lines += [
        "    elements = sum(g.numel() for g in grads)",
        "    home = grads[0].device if grads else torch.device('cpu')",
        f"    norms = {expression.format(order=order)}",
        "    norms = torch.stack(_home(norms)) if norms else torch.zeros(1, dtype=torch.float64)",
    ]
    lines += [f"    {name} = {text}" for name, text in chosen.items()]
    early = dice.random() < 0.4
    body, finish = _answer(answer, list(chosen), layers, is_async, early)
    if layers:
        costs.update((SYNCS, GRAPHS))
    docstring = f'    """{", ".join(chosen)} of the gradients, in float64."""'
    text = "\n".join([_PREAMBLE, _FILTERS, *_classes(answer, chosen, layers), f"def collect({argument}):", docstring])
    text += "\n" + "\n".join([*lines, *body]) + "\n" + finish
    if defect:
        old, new = DEFECTS[defect]
        text = text.replace(old, new)
    return Case(text, frozenset(costs), is_async)


def _classes(answer: str, chosen: dict[str, str], layers: str) -> list[str]:
    if answer != "dataclass":
        return []
    fields = [f"    {name}: float" for name in chosen] + (["    layers: object"] if layers else [])
    return ["@dataclasses.dataclass", "class Stats:", *fields, "\n"]


def _answer(answer: str, names: list[str], layers: str, is_async: bool, early: bool) -> tuple[list[str], str]:
    """The last lines of `collect`, and the text of `materialize`."""
    stacked = f"torch.stack([value.double() for value in ({', '.join(names)},)])"
    if is_async:
        read = f"    values = pending.tolist()\n    return {_mapping(names)}\n"
        return [f"    return {stacked}"], f"\n\ndef materialize(pending):\n{read}"
    lines = []
    if answer == "tensor":
        return [f"    return {names[0]}"], ""
    lines.append(f"    values = {stacked}.tolist()")
    if early and answer == "number":
        lines.insert(0, "    if not grads:\n        return 0.0")
    per_layer = {
        "": "",
        "list": "norms.tolist() if grads else []",
        "dict": "{f'layer {i}': norm for i, norm in enumerate(norms.tolist() if grads else [])}",
        "tensor": "norms",
    }[layers]
    if answer == "number":
        lines.append("    return values[0]")
    elif answer == "pair":
        lines.append("    return values[0], len(grads)")
    elif answer == "dataclass":
        arguments = [f"{name}=values[{i}]" for i, name in enumerate(names)]
        arguments += [f"layers={per_layer}"] if layers else []
        lines.append(f"    return Stats({', '.join(arguments)})")
    else:
        extra = f", 'layers': {per_layer}" if layers else ""
        mapping = f"{{**{_mapping(names)}{extra}}}"
        lines.append(f"    return {mapping}" if answer == "mapping" else f"    return {{'gradients': {mapping}}}")
    return lines, ""


def _mapping(names: list[str]) -> str:
    return "{" + ", ".join(f"'{name}': values[{i}]" for i, name in enumerate(names)) + "}"
