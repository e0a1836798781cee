"""A step adapter to complete: a function around a training step that auditkit found and could not call by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from auditkit.model.runs.candidates import FoundCandidate
from auditkit.probing.find.blocks.blocks import Block, function_or_block
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import Function
from auditkit.probing.source.python_files import PythonFiles
from auditkit.worker.feed import guesses
from auditkit.worker.steps import roles

MODULE_NAME = "auditkit_step"
_LIMIT = re.compile(r"\bmax_norm\b")
_ADAPTER = re.compile(r"^def (step(?:_\d+)?)\(", re.MULTILINE)
_MOST_STEPS = 3
_HEAD = '''"""Training steps that auditkit found and could not call by itself: replace each `...`, then: auditkit audit

auditkit calls each function with a small model (an embedding and a linear layer), an SGD optimizer over its parameters,
a list of batches (inputs, targets) and, as `max_norm`, a limit for the norm of gradients. Keep what the program does
from a batch to `optimizer.step()`, and the call in the first line of the docstring: it says which step is covered. To
write nothing, watch a real run instead: auditkit run -- python YOUR_SCRIPT.py
"""

'''
_TEXTS = {
    guesses.MODULE: "model",
    guesses.OPTIMIZER: "optimizer",
    guesses.PARAMETERS: "list(model.parameters())",
    guesses.NAMED_PARAMETERS: "list(model.named_parameters())",
    guesses.DEVICE: 'torch.device("cpu")',
    guesses.DEVICE_NAME: '"cpu"',
    guesses.SCALER: 'torch.amp.GradScaler("cpu", enabled=False)',
    guesses.CLIPS: "torch.nn.utils.clip_grad_norm_",
    roles.BATCHES: "batches",
    roles.GIVES_BATCH: "iter(batches).__next__",
    roles.GIVES_RATE: "lambda *_, **__: 0.001",
    roles.CRITERION: "torch.nn.functional.cross_entropy",
    roles.SCHEDULER: "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)",
    roles.ACCUMULATION: "len(batches)",
    roles.LIMIT: "max_norm",
    roles.STEPS: "len(batches)",
    roles.RARELY: "10**9",
    roles.SAMPLES: "3",
    roles.EPOCHS: "1",
    roles.MIXED: "False",
    roles.NOTHING: "None",
}
"""What stands for each role in an adapter; anything else is for its user to fill in."""
_OF_A_BATCH = {roles.BATCH: "batch", roles.INPUTS: "inputs", roles.TARGETS: "targets"}


def step_stub(files: PythonFiles, steps: Sequence[FoundCandidate]) -> str:
    """Return the text of an `auditkit_step.py` with a function for each of the first three steps; "" without a step.

    What the source decides is filled in; every other value is `...` with the file and line of what the program does.
    """
    known = [(found, function) for found in steps if (function := function_or_block(files, found.call)) is not None]
    parts = [
        "\n".join(_adapter(files, function, found, f"step_{number}" if number > 1 else "step"))
        for number, (found, function) in enumerate(known[:_MOST_STEPS], start=1)
    ]
    return _HEAD + "import torch\n" + "".join(f"\n\n{part}\n" for part in parts) if parts else ""


def adapters_in(text: str) -> list[str]:
    """Return the names of the adapters that a file defines."""
    return _ADAPTER.findall(text)


def _adapter(files: PythonFiles, function: Function, found: FoundCandidate, name: str) -> Iterator[str]:
    body = [*(_of_block(function) if isinstance(function, Block) else _of_function(files, function))]
    limit = ", max_norm" if any(map(_LIMIT.search, body)) else ""
    yield f"def {name}(model, optimizer, batches{limit}):"
    yield f'    """{found.file}:{found.line}: {found.call}"""'
    for part in found.why_not.removeprefix(f"{roles.NO_WAY}: ").split("; "):
        yield f"    # Obstacle: {' '.join(part.split())}"
    yield from (f"    {line}" if line else "" for line in body)


def _of_function(files: PythonFiles, function: Function) -> Iterator[str]:
    """Yield the call of a function or of a method of a new object."""
    yield f"from {function.module.name} import {function.qualified_name.partition('.')[0]}"
    yield ""
    called = function.qualified_name
    if function.is_bound and function.owner is not None:
        yield from _call(f"made = {function.owner.qualified_name}", files.method(function.owner, "__init__"))
        called = f"made.{function.name}"
    yield from _call(called, function)


def _call(called: str, function: Function | None) -> Iterator[str]:
    yield f"{called}("
    if function is not None:
        yield from (f"    {item.arg}={_value(item.arg, function.text) or '...'}," for item in function.required)
    yield ")"


def _of_block(block: Block) -> Iterator[str]:
    """Yield the statements of a block behind assignments of what they read."""
    for name in block.names:
        found = next((each for each in block.module.imports if each.local == name), None)
        if found is None:  # importing a script would run it
            yield f"{name} = ..." if block.holder is None else f"from {block.module.name} import {name}"
        elif found.name:
            yield f"from {found.module} import {found.name} as {name}"
        elif found.module != "torch":
            yield f"import {found.module}" + (f" as {name}" if name != found.module.partition(".")[0] else "")
    yield ""
    known = {item.arg: roles.known(item.arg, "", block.text) for item in block.parameters}
    words = {name: role.value for name, role in known.items() if role is not None and isinstance(role.value, str)}
    drawn = {_OF_A_BATCH[word]: name for name, word in words.items() if word in _OF_A_BATCH}
    for name in known:
        value = _value(name, block.text)
        if name not in drawn.values() and value != name:
            yield f"{name} = {value or f'...{_place(name, block)}'}"
    body = "\n".join(map(ast.unparse, block.node.body)).splitlines()
    if not {roles.BATCHES, roles.GIVES_BATCH}.isdisjoint(words.values()):
        yield from body
        return
    pair = f"{drawn.get('inputs', '_')}, {drawn.get('targets', '_')}"
    yield f"for {drawn.get('batch', pair)} in batches:"
    yield from (f"    {line}" for line in body)


def _value(name: str, text: str) -> str:
    """Return the value of a name by its role, or ""."""
    role = roles.known(name, "", text)
    if role is None or (role.value == roles.CRITERION and name.endswith("loss") and f"{name}(" not in text):
        return ""  # `scaled_loss` is a number, `ce_loss(x, y)` a criterion
    if isinstance(role.value, str):
        return _TEXTS.get(role.value, "")
    return repr(role.value) if isinstance(role.value, bool | int | float) else ""


def _place(name: str, block: Block) -> str:
    """Return a comment with the last line before the block that sets a name."""
    around = block.holder.node if block.holder is not None else block.module.tree
    setting = (node for node in ast.walk(around) if isinstance(node, ast.Assign) and name in names_of(node).stores)
    lines = [node.lineno for node in setting if node.lineno < block.lines[0]]
    return f"  # {block.module.file}:{max(lines)}: {block.module.lines[max(lines) - 1].strip()}" if lines else ""
