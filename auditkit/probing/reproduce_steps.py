"""Write the script of a training step: a small model, three batches and what reaches the optimizer, in plain torch."""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditkit.model.runs.run import ProbeResult, TargetReading
from auditkit.worker.feed import guesses
from auditkit.worker.steps import roles

MOST_LINES = 30
LONGEST_LINE = 100
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?![\w])", re.IGNORECASE)
_SCALE = 1024.0
_LIMIT = 0.01
_WORDS = {
    guesses.MODULE: "model",
    guesses.MODULES: "[model]",
    guesses.PARAMETERS: "list(model.parameters())",
    guesses.NAMED_PARAMETERS: "list(model.named_parameters())",
    guesses.OPTIMIZER: "optimizer",
    guesses.OPTIMIZERS: "[optimizer]",
    guesses.SCALER: 'torch.amp.GradScaler("cpu", init_scale=scale, enabled=scale > 1)',
    guesses.DEVICE: 'torch.device("cpu")',
    guesses.DEVICE_NAME: '"cpu"',
    guesses.LOGGER: "logging.getLogger()",
    roles.BATCHES: "batches",
    roles.BATCH: "batch",
    roles.INPUTS: "batch[0]",
    roles.TARGETS: "batch[1]",
    roles.CRITERION: "torch.nn.CrossEntropyLoss()",
    roles.SCHEDULER: "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)",
    roles.ACCUMULATION: "len(batches)",
    roles.LIMIT: "limit",
    roles.STEPS: "len(batches)",
    roles.SAMPLES: "3",
    roles.RARELY: "10**9",
    roles.EPOCHS: "1",
    roles.NOTHING: "None",
    roles.MIXED: "scale > 1",
    roles.SILENT: "unittest.mock.MagicMock()",
    roles.NO_CONTEXT: "contextlib.nullcontext()",
}
"""The expression for each word by which the worker created an argument of a step."""
_RESULTS = {
    "loss": "loss",
    "scores, loss": "(scores, loss)",
    "loss, scores": "(loss, scores)",
    "loss, scores, scores": "(loss, scores, scores)",
    "answer": "types.SimpleNamespace(loss=loss, logits=scores)",
    "losses": '{"loss": loss}',
}
_LOSS = "torch.nn.functional.cross_entropy(scores, labels)"
_WITHOUT_CUDA = "torch.Tensor.cuda = torch.nn.Module.cuda = torch.cuda.synchronize = lambda *a, **_: a and a[0]"
_OTHER_SCHEDULE = re.compile(r"sched\w*\.(?!step\(|get_last_lr|optimizer|state_dict)")
"""A method that torch's own schedules lack."""
_BATCH = {"tuple": "(x, y)", "list": "[x, y]", "mapping": '{"input_ids": x, "labels": y}', "inputs": "x"}


class NoScriptError(Exception):
    """No script can be written; the message is the reason."""


@dataclass(frozen=True)
class Printed:
    """What a script printed, by line, with the numbers as printed; `error` is the last line of a traceback."""

    cases: Sequence[str]
    error: str

    def field(self, number: int, path: str) -> float:
        """Return one field of a printed result; NaN if the line or the field is missing."""
        text = self.cases[number].partition(": ")[2] if number < len(self.cases) else ""
        name = re.escape(path.rpartition(".")[2])
        pattern = rf"\b{name}['\"]?\s*[:=]\s*(?:tensor\()?([^\s,)}}\]]+)" if path else f"({NUMBER.pattern})"
        found = re.search(pattern, text, re.IGNORECASE)
        try:
            return float({"True": "1", "False": "0"}.get(found[1], found[1])) if found else math.nan
        except ValueError:
            return math.nan

    def numbers(self, number: int) -> list[float]:
        """Return the numbers of a line after the last colon before them."""
        return [float(each) for each in NUMBER.findall(self.cases[number].partition(": ")[2])]


Shows = Callable[[Printed], bool]


@dataclass(frozen=True)
class _Evidence:
    """The lines below `train_small`, a check of their output, and the error that they raise."""

    lines: tuple[str, ...]
    shows: Shows
    error: str = ""
    kept: str = "model.weight.grad.norm()"
    """The value that the script keeps of each step."""


def step_script(
    result: ProbeResult, reading: TargetReading, name: str, source: str, import_line: str
) -> tuple[list[str], Shows]:
    """Return the lines below `import torch` for a finding about a step, and a check of their output.

    `name` is the step's function as `import_line` imports it, `source` its file. Raises NoScriptError if a few lines
    cannot call the step.
    """
    if result.probe not in _EVIDENCE:
        raise NoScriptError(f"No script of {MOST_LINES} lines shows what {result.probe} measures.")
    step: Mapping[str, Any] = reading.plan["step"]
    is_known = step["task"] == "samples" or (step["task"] == "tokens" and step["form"] == "inputs")
    if not is_known or step["form"] not in _BATCH:
        raise NoScriptError(f"No template builds the batches of this step ({step['task']}, {step['form']}).")
    evidence = _EVIDENCE[result.probe](result, step)
    parameters, code = _read_function(source, name)
    call, words = _call(reading, name, step, parameters)
    if _OTHER_SCHEDULE.search(code):
        call = [line.replace(_WORDS[roles.SCHEDULER], _WORDS[roles.SILENT]) for line in call]
    has_optimizer = bool(words & {guesses.OPTIMIZER, guesses.OPTIMIZERS})
    if "limit" in "".join(evidence.lines) and roles.LIMIT not in words:
        raise NoScriptError("The step takes no limit of gradients as an argument.")
    bias = "" if result.probe == "optimizer_misses_parameters" else ", bias=False"
    hook = f"{'optimizer.register' if has_optimizer else 'register_optimizer'}_step_pre_hook"
    body = [
        *(["torch.manual_seed(0)"] if result.probe != "step_waits_for_the_device" else ()),  # it compares no values
        f"model = {'torch.nn.Linear' if step['returns'] == 'scores' else 'Model'}(11, 11{bias})",
        "optimizer, seen = torch.optim.SGD(model.parameters(), lr=1e-3), []",
        f"{hook}(lambda *_: seen.append({evidence.kept}))",
        *call,
        "return seen, model",
    ]
    lines = [
        *([] if has_optimizer else ["from torch.optim.optimizer import register_optimizer_step_pre_hook"]),
        import_line,
        *([_WITHOUT_CUDA] if ".cuda" in code else ()),
        *_model_class(step),
        "def train_small(batches, limit=1e9, scale=1.0):",
        *(f"    {line}" for line in body),
        "data = [(torch.arange(33.0).view(3, 11).add(n).sin(), torch.arange(3) + n) for n in range(3)]",
        f"batches = [{_BATCH[step['form']]} for x, y in data]",
        *evidence.lines,
    ]

    # The target may print lines of its own.
    texts = re.findall(r'print\([^"]*"([^"]+)"', "\n".join(evidence.lines))

    def shows(printed: Printed) -> bool:
        own = Printed([line for line in printed.cases if any(text in line for text in texts)], printed.error)
        return bool(own.error) == bool(evidence.error) and evidence.error in own.error and evidence.shows(own)

    return lines, shows


def _model_class(step: Mapping[str, Any]) -> list[str]:
    if step["returns"] == "scores":
        return []
    has_labels = step["form"] != "inputs"
    return [
        "class Model(torch.nn.Linear):",
        f"    def forward(self, input_ids, {'labels, **_' if has_labels else '*_, **__'}):",
        "        scores = super().forward(input_ids)",
        f"        loss = {_LOSS if has_labels else 'scores.square().mean()'}",
        f"        return {_RESULTS[step['returns']]}",
    ]


def _read_function(source: str, name: str) -> tuple[set[str], str]:
    """Return the parameters of a function, including `self`, and its code."""
    *_, last = name.split(".")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == last:
            spec = node.args
            parameters = {each.arg for each in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.kwarg) if each}
            return parameters | {"self"}, ast.unparse(node)
    raise NoScriptError(f"The file has no function {name}.")


def _call(
    reading: TargetReading, name: str, step: Mapping[str, Any], parameters: set[str]
) -> tuple[list[str], set[str]]:
    """Return the lines that call the step, and the words of its arguments."""
    made = {**reading.plan.get("filled", {}), **reading.target.arguments}
    made = {path: value for path, value in made.items() if path.partition(".")[0] in parameters}
    words = {value for value in made.values() if isinstance(value, str)}
    tree: dict[str, Any] = {}
    for path, value in made.items():
        is_word = isinstance(value, str) and path not in reading.target.arguments
        if is_word and value in (guesses.CONFIG, guesses.OBJECT):
            continue
        if is_word and value not in _WORDS:
            raise NoScriptError(f"The step needs {path}: {value}, which only its program builds.")
        node = tree
        *above, last = path.split(".")
        for part in above:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise NoScriptError(f"The step reads {path}, which only its program builds.")
        node[last] = _WORDS[value] if is_word else repr(value)
    own = tree.pop("self", {})
    owner, _, method = name.rpartition(".")
    if bool(owner) != bool(step["is_made"]) or "." in owner:
        raise NoScriptError("The step belongs to an object that only its program builds.")
    arguments = ", ".join(f"{key}={_expression(value)}" for key, value in tree.items())
    call = f"made.{method}({arguments})" if owner else f"{name}({arguments})"
    called = textwrap.wrap(call, 90, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    lines = [f"made = {owner}.__new__({owner})"] if owner else []
    lines += [f"made.{key} = {_expression(value)}" for key, value in own.items()]
    if words & {roles.BATCH, roles.INPUTS, roles.TARGETS}:
        return [*lines, "for batch in batches:", *(f"    {line}" for line in called)], words
    return [*lines, *called], words


def _expression(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    fields = ", ".join(f"{key}={_expression(each)}" for key, each in value.items())
    return f"types.SimpleNamespace({fields})"


def _limits(scale: float) -> tuple[str, ...]:
    options = f", {scale}" * (scale != 1)
    run = f"train_small(batches, limit{options})[0]"
    return (f'for limit in (1e9, {_LIMIT}): print("limit", limit, "norms:", {run})',)


def _misses(result: ProbeResult, _: object) -> _Evidence:
    """Compare the norm with the limit, or the clipped gradient's direction with the unclipped one's."""
    if "direction" not in result.message:
        return _Evidence(_limits(1), lambda printed: max(printed.numbers(1)) > 1.01 * _LIMIT)
    lines = (
        f"whole, clipped = (train_small(batches, limit)[0][0].flatten() for limit in (1e9, {_LIMIT}))",
        "cosine = torch.cosine_similarity(whole, clipped, 0).item()",
        'print("cosine of the gradients at the step, clipped and not clipped:", round(cosine, 4))',
    )
    return _Evidence(lines, lambda printed: printed.field(0, "") < 0.99, kept="model.weight.grad.clone()")


def _scaled(result: ProbeResult, _: object) -> _Evidence:
    """Compare the norm with the limit at a scale, or call a scaler that rejects the second batch of a step."""
    refused = next((one.case["message"] for one in result.measurements if one.name == "refused"), "")
    if refused:
        run = f"train_small(batches[:n], 1.0, {_SCALE})[0]"
        line = f'for n in (1, 3): print(n, "batches, norm at the step:", {run})'
        return _Evidence((line,), lambda printed: len(printed.cases) == 1, str(refused))
    return _Evidence(
        _limits(_SCALE), lambda printed: min(printed.numbers(0)) > _LIMIT and max(printed.numbers(1)) < 0.5 * _LIMIT
    )


def _accumulated(_: ProbeResult, step: Mapping[str, Any]) -> _Evidence:
    """Compare the step of one joined batch with that of three micro-batches; or train on one batch three times."""

    def grows(printed: Printed) -> bool:
        norms = printed.numbers(0)
        return len(norms) > 1 and norms[-1] > 1.5 * norms[0]

    def differs(printed: Printed) -> bool:
        (one,), (three,) = printed.numbers(0), printed.numbers(1)
        return abs(three / one - 1) > 0.01

    if not step["accumulates"]:
        line = 'print("the same batch three times, norm at each step:", train_small(batches[:1] * 3)[0])'
        return _Evidence((line,), grows)
    lines = (
        "x, y = torch.cat([x for x, y in data]), torch.cat([y for x, y in data])",
        f'print("one batch of 9, norm at the step:", train_small([{_BATCH[step["form"]]}])[0])',
        'print("three batches of 3, norm at the step:", train_small(batches)[0])',
    )
    return _Evidence(lines, differs)


def _after_nan(_: ProbeResult, step: Mapping[str, Any]) -> _Evidence:
    lines = (
        "data[1] = (data[1][0] * float('nan'), data[1][1])",
        f"model = train_small([{_BATCH[step['form']]} for x, y in data])[1]",
        'print("parameters that are NaN:", sum(p.isnan().any().item() for p in model.parameters()))',
    )
    return _Evidence(lines, lambda printed: printed.field(0, "") > 0)


def _waits(*_: object) -> _Evidence:
    lines = (
        "for times in (1, 4):",
        "    with torch.profiler.profile() as profile: train_small(batches * times)",
        '    reads = sum(e.count for e in profile.key_averages() if e.key == "aten::_local_scalar_dense")',
        '    print(3 * times, "batches, device values read:", reads)',
    )
    return _Evidence(lines, lambda printed: printed.field(1, "") - printed.field(0, "") >= 9)


def _missed(*_: object) -> _Evidence:
    lines = (
        "model, start = train_small(batches)[1], train_small([])[1].state_dict()",
        "still = [n for n, p in model.named_parameters() if torch.equal(p, start[n]) and p.grad is not None]",
        'print("parameters with a gradient that did not move:", still)',
    )
    return _Evidence(lines, lambda printed: not printed.cases[0].endswith("[]"))


_EVIDENCE: Mapping[str, Callable[[ProbeResult, Mapping[str, Any]], _Evidence]] = {
    "accumulation_differs_from_full_batch": _accumulated,
    "clip_misses_the_step": _misses,
    "clip_on_scaled_gradients": _scaled,
    "gradients_lost_or_stale": _accumulated,
    "nonfinite_step_is_applied": _after_nan,
    "optimizer_misses_parameters": _missed,
    "step_waits_for_the_device": _waits,
}
