"""The losses of a step's micro-batches: what each weighs, and when the host reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.discovery.blocks.training_calls import is_backward
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.step_text import StepText, calls, is_clip, is_unscale, step_texts
from auditkit.probing.source_code.modules import dotted_name

_MENDS = frozenset({"accumulation_differs_from_full_batch"})
_SAME_TARGETS = frozenset({"view", "reshape", "flatten", "contiguous", "to", "long", "cuda"})
_SCALED_AT_STEP = """\
for {group} in {optimizer}.param_groups:
{step}for {parameter} in {group}["params"]:
{step}{step}if {parameter}.grad is not None:
{step}{step}{step}{parameter}.grad.mul_({factor})"""


def divided_by_count(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """The loss of each micro-batch divided by how many a step has, once."""
    for text in step_texts(functions):
        for statement in text.backward:
            for count in _counts(text, statement):
                edits = [_operated(text, loss, f" / {count}") for loss in _losses(statement)]
                told = f"the loss of a micro-batch is divided by their number, {count}"
                divisions = [one for one in text.places if _division(one, count)]
                yield from rewrite_of("divided_by_count", _MENDS, [] if divisions else edits, told, [statement.lineno])
                for one in divisions if len(divisions) > 1 else []:
                    yield from rewrite_of("divided_once", _MENDS, _undivided(text, one, count), "divided once alone")


def _counts(text: StepText, backward: ast.stmt) -> list[str]:
    """What may say how many micro-batches a step has: `i % n`, `range(n)`, or all that a loop goes through."""
    found: list[str] = []
    step, loop = text.next_step(backward), text.loop_of(backward)
    around = text.places[step.statement][1] if step else ()
    for outer in around:
        if isinstance(outer, ast.If):
            remainders = [node for node in ast.walk(outer.test) if isinstance(node, ast.BinOp)]
            found += [text.function.text(node.right) for node in remainders if isinstance(node.op, ast.Mod)]
    if isinstance(loop, ast.For) and loop not in around:
        match loop.iter:
            case ast.Call(func=ast.Name(id="range"), args=[count]):
                found.append(text.function.text(count))
            case ast.Call(func=ast.Name(id="enumerate" | "tqdm"), args=[ast.Name(id=name), *_]) | ast.Name(id=name):
                found.append(f"len({name})")
    return list(dict.fromkeys(found))


def _losses(statement: ast.stmt) -> list[ast.expr]:
    """What a statement goes backward from, without a scaler's factor."""
    found = []
    for call in calls(statement, is_backward):
        loss = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else call
        if isinstance(loss, ast.Call) and dotted_name(loss.func).endswith(".scale") and loss.args:
            loss = loss.args[0]
        found.append(loss)
    return found


def _operated(text: StepText, loss: ast.expr, by: str) -> Edit:
    told = text.function.text(loss)
    is_bare = isinstance(loss, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    inner = f"{told if is_bare else f'({told})'}{by}"
    first, line = text.function.first(loss), text.function.lines[loss.lineno - 1]
    is_argument = line[first[1] - 1 : first[1]] == "("  # its own brackets, or those of a call
    return text.function.replace(loss, inner if is_argument else f"({inner})")


def _division(statement: ast.stmt, count: str) -> ast.BinOp | None:
    """The division by `count` in a plain statement; `loss /= count` as one, too."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Div):
        return ast.BinOp(statement.target, ast.Div(), statement.value) if _is(statement.value, count) else None
    nodes = ast.walk(statement) if isinstance(statement, ast.Assign | ast.Expr) else ()
    found = (node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
    return next((node for node in found if _is(node.right, count)), None)


def _is(node: ast.expr, text: str) -> bool:
    return ast.unparse(node) == text


def _undivided(text: StepText, statement: ast.stmt, count: str) -> list[Edit]:
    if isinstance(statement, ast.AugAssign):
        return [cut] if (cut := text.cut(statement)) is not None else []
    found = _division(statement, count)
    return [text.function.replace(found, text.function.text(found.left))] if found is not None else []


def weighed_by_targets(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Every micro-batch weighs as much as it has targets, and their sum is divided by that of a step."""
    for text in step_texts(functions):
        for statement in text.backward:
            told = "a micro-batch weighs as much as it has targets, and a step is divided by the number of all"
            edits = _weighed(text, statement)
            yield from rewrite_of("weighed_by_targets", _MENDS, edits, told, [statement.lineno])


def _weighed(text: StepText, backward: ast.stmt) -> list[Edit]:
    function, loop, step = text.function, text.loop_of(backward), text.next_step(backward)
    targets = _targets(text, backward)
    if loop is None or step is None or not targets or not function.has_own_lines(step.statement):
        return []
    number, total = function.fresh("num_targets"), function.fresh("total_targets")
    count = next(iter(_counts(text, backward)), "")
    is_divided = bool(count) and any(_division(one, count) for one in text.places)
    scaled = _SCALED_AT_STEP.format(
        group=function.fresh("group"),
        parameter=function.fresh("parameter"),
        optimizer=step.optimizer,
        factor=f"{count if is_divided else '1'} / {total}",
        step=function.step,
    )
    first, around = _first_reader(text, backward, step.statement), text.places[step.statement][1]
    reset = f"\n{total} = 0" if loop in around else ""
    return [
        text.above(loop, f"{total} = 0"),
        text.above(backward, f"{number} = ({targets} != -100).sum()"),
        *(_operated(text, loss, f" * {number}") for loss in _losses(backward)),
        function.line_after(backward, f"{total} += {number}"),
        text.above(first, scaled + reset),
    ]


def _first_reader(text: StepText, backward: ast.stmt, step: ast.stmt) -> ast.stmt:
    """The first statement behind the last backward that clips or unscales for a step, wherever it is; else the step."""

    def reads(call: ast.Call) -> bool:
        return is_clip(call) or is_unscale(call)

    between = [one for one in text.calling(reads) if backward.lineno < one.lineno < step.lineno]
    return between[0] if between else step


def _targets(text: StepText, backward: ast.stmt) -> str:
    """What the loop hands its loss as targets: by the name `labels`, as second argument, or in the model's batch."""
    loop = text.loop_of(backward)
    for call in (node for node in ast.walk(loop) if isinstance(node, ast.Call)) if loop is not None else ():
        for word in call.keywords:
            if word.arg in ("labels", "target", "targets"):
                return text.function.text(_without_views(word.value))
            if word.arg is None and isinstance(word.value, ast.Name):
                return f'{word.value.id}["labels"]'
        name = dotted_name(call.func).lower()
        if len(call.args) == 2 and any(part in name for part in ("cross_entropy", "criterion", "loss")):
            return text.function.text(_without_views(call.args[1]))
    return ""


def _without_views(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_TARGETS:
        node = node.func.value
    return node


def summed_in_float32(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """What is made in 16 bits to add gradients up in, in float32."""
    for text in step_texts(functions):
        words = [node for node in text.function.nodes if isinstance(node, ast.keyword) and node.arg == "dtype"]
        low = [word.value for word in words if dotted_name(word.value).rpartition(".")[2] in ("bfloat16", "float16")]
        edits = [text.function.replace(value, f"{text.function.torch}.float32") for value in low]
        told = "sums of gradients are kept in float32"
        yield from rewrite_of("summed_in_float32", {"accumulates_in_low_precision"}, edits, told)


def added_up_on_device(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`total += loss.item()` as a tensor, read where the sum is used behind the loop."""
    for text in step_texts(functions):
        edits, lines = [], []
        for statement in text.places:
            found = _added_up(text, statement)
            edits += found
            lines += [statement.lineno] if found else []
        told = "added up on the device, and read where the sum is used"
        yield from rewrite_of("added_up_on_device", {"step_waits_for_the_device"}, edits, told, lines)


def _added_up(text: StepText, statement: ast.stmt) -> list[Edit]:
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if text.loop_of(statement) is not None:
            reads = [node for node in ast.walk(value) if isinstance(node, ast.Call) and _reads(node)]
            uses = [node for node in text.function.nodes if isinstance(node, ast.Name) and node.id == name]
            loads = [node for node in uses if isinstance(node.ctx, ast.Load)]
            if len(reads) == 1:
                read = reads[0]
                tensor = read.func.value if isinstance(read.func, ast.Attribute) else read.args[0]
                kept = text.function.replace(read, f"{text.function.text(tensor)}.detach()")
                return [kept, *(text.function.replace(node, f"float({name})") for node in loads)]
    return []


def _reads(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="item"), args=[]) | ast.Call(func=ast.Name(id="float"), args=[_]):
            return True
    return False
