"""A step adapter to complete: a function around a training step that auditkit found and could not call by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.model.runs.candidates import FoundCandidate
from auditkit.probing.find.blocks.blocks import Block, function_or_block
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import Function, FunctionNode, Module
from auditkit.probing.source.python_files import PythonFiles
from auditkit.worker.feed import guesses
from auditkit.worker.steps import roles

MODULE_NAME = "auditkit_step"
_LIMIT = re.compile(r"\bmax_norm\b")
_ADAPTER = re.compile(r"^def (step(?:_\d+)?)\(", re.MULTILINE)
_MOST_STEPS = 3
_LONGEST_COMMENT = 90
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


@dataclass(frozen=True)
class _Value:
    """The text of a value, and a comment that says where the program makes it; the text is `...` if unknown."""

    text: str
    comment: str = ""


def step_stub(files: PythonFiles, steps: Sequence[FoundCandidate]) -> str:
    """Return the text of an `auditkit_step.py` with a function for each of the first three steps; "" without a step.

    What the source decides is filled in; every other value is `...` with the file and line of what the program does.
    """
    parts: list[str] = []
    for found in steps:
        function = function_or_block(files, found.call)
        if function is not None and len(parts) < _MOST_STEPS:
            name = "step" if not parts else f"step_{len(parts) + 1}"
            parts.append("\n".join(_adapter(files, function, found, name)))
    body = "".join(f"\n\n{part}\n" for part in parts)
    imports = ("import types\n\n" if "types.Simple" in body else "") + "import torch\n"
    return _HEAD + imports + body if parts else ""


def adapters_in(text: str) -> list[str]:
    """Return the names of the adapters that a file defines."""
    return _ADAPTER.findall(text)


def _adapter(files: PythonFiles, function: Function, found: FoundCandidate, name: str) -> Iterator[str]:
    body = [*(_of_block(function) if isinstance(function, Block) else _of_function(files, function))]
    limit = ", max_norm" if any(_LIMIT.search(line) for line in body) else ""
    yield f"def {name}(model, optimizer, batches{limit}):"
    yield f'    """{_one_line(f"{found.file}:{found.line}: {found.call}")}"""'
    for part in found.why_not.removeprefix(f"{roles.NO_WAY}: ").split("; "):
        yield f"    # Obstacle: {' '.join(part.split())}"
    yield from (f"    {line}" if line else "" for line in body)


def _of_function(files: PythonFiles, function: Function) -> Iterator[str]:
    """Yield the call of a function or of a method of a new object."""
    head = function.qualified_name.partition(".")[0]
    yield f"from {function.module.name} import {head}"
    yield ""
    called = function.qualified_name
    if function.is_bound and function.owner is not None:
        constructor = files.method(function.owner, "__init__")
        yield from _call(f"made = {function.owner.qualified_name}", constructor)
        called = f"made.{function.name}"
    yield from _call(called, function)


def _call(called: str, function: Function | None) -> Iterator[str]:
    if function is None or not function.required:
        yield f"{called}()"
        return
    yield f"{called}("
    for item in function.required:
        value = _value(item.arg, function, function.node, item.lineno)
        yield f"    {item.arg}={value.text},{value.comment}"
    yield ")"


def _of_block(block: Block) -> Iterator[str]:
    """Yield the statements of a block behind assignments of what they read."""
    around = block.holder.node if block.holder is not None else block.module.tree
    for name in block.names:
        yield from _import(name, block)
    yield ""
    known = {item.arg: roles.known(item.arg, "", block.text) for item in block.parameters}
    words = {name: role.value for name, role in known.items() if role is not None and isinstance(role.value, str)}
    drawn = {_OF_A_BATCH[word]: name for name, word in words.items() if word in _OF_A_BATCH}
    for name in known:
        value = _value(name, block, around, block.lines[0])
        if name not in drawn.values() and value.text != name:
            yield f"{name} = {value.text}{value.comment}"
    body = "\n".join(map(ast.unparse, block.node.body)).splitlines()
    if not {roles.BATCHES, roles.GIVES_BATCH}.isdisjoint(words.values()):
        yield from body
        return
    pair = f"{drawn.get('inputs', '_')}, {drawn.get('targets', '_')}"
    yield f"for {drawn.get('batch', pair)} in batches:"
    yield from (f"    {line}" for line in body)


def _import(name: str, block: Block) -> Iterator[str]:
    """Yield the import of a name that the block's file defines or imports itself."""
    module = block.module
    found = next((each for each in module.imports if each.local == name), None)
    if found is not None and found.module == "torch" and not found.name:
        return
    if found is None:
        place = _made(name, module.tree, module, len(module.lines) + 1)
        is_script = block.holder is None  # importing it would run it
        yield f"{name} = ...{place}" if is_script else f"from {module.name} import {name}"
    elif not found.name:
        yield f"import {found.module}" + (f" as {name}" if name != found.module.partition(".")[0] else "")
    else:
        yield f"from {found.module} import {found.name}" + (f" as {name}" if name != found.name else "")


def _value(name: str, function: Function, around: ast.AST, line: int) -> _Value:
    """Return the value of a name by its role; an object of which only attributes are read gets these; else `...`."""
    text = _text_of(name, roles.known(name, "", function.text), f"{name}(" in function.text)
    if text is not None:
        return _Value(text)
    read = _attributes(name, function.node)
    made = _made(name, around, function.module, line)
    if read:
        values = {each: _text_of(each, roles.of_settings(each)) or "..." for each in read}
        listed = ", ".join(f"{each}={value}" for each, value in values.items())
        return _Value(f"types.SimpleNamespace({listed})", made if "..." in values.values() else "")
    return _Value("...", made)


def _text_of(name: str, role: guesses.Guess | None, is_called: bool = False) -> str | None:
    if role is None or (role.value == roles.CRITERION and name.endswith("loss") and not is_called):
        return None  # `scaled_loss` is a number, `ce_loss(x, y)` a criterion
    if isinstance(role.value, str):
        return _TEXTS.get(role.value)
    return repr(role.value) if isinstance(role.value, bool | int | float) else None


def _attributes(name: str, node: ast.AST) -> list[str]:
    """Return the attributes of an object that is used for nothing else; none if it is called or passed on."""
    parents = {id(child): parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}
    found: dict[str, None] = {}
    for use in ast.walk(node):
        if isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load):
            read = parents[id(use)]
            above = parents.get(id(read))
            if not isinstance(read, ast.Attribute) or (isinstance(above, ast.Call) and above.func is read):
                return []
            found[read.attr] = None
    return list(found)


def _made(name: str, around: ast.AST, module: Module, line: int) -> str:
    """Return a comment with the place where the program sets a name last before a line."""
    places = [
        node
        for node in ast.walk(around)
        if isinstance(node, ast.stmt)
        and node.lineno < line
        and (name == node.name if isinstance(node, FunctionNode | ast.ClassDef) else name in _stored(node))
    ]
    if places:
        last = max(places, key=lambda node: node.lineno)
        return f"  # {module.file}:{last.lineno}: {_one_line(module.lines[last.lineno - 1])}"
    if isinstance(around, FunctionNode):
        return f"  # {module.file}:{around.lineno}: an argument of {around.name}"
    return f"  # {module.file}: set nowhere before line {line}"


def _stored(node: ast.stmt) -> frozenset[str]:
    is_whole = isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
    return names_of(node).stores if is_whole else frozenset()


def _one_line(text: str) -> str:
    plain = " ".join(text.replace('"""', "'''").replace("\\", "/").split())
    return plain if len(plain) <= _LONGEST_COMMENT else f"{plain[: _LONGEST_COMMENT - 3]}..."
