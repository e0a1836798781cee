"""Write a script in plain torch that reproduces one finding, run it, and keep it if it shows the defect."""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, TargetReading
from auditkit.model.runs.target import split_call
from auditkit.model.text import inert, shortened
from auditkit.probing.engine.fork_servers import server_for
from auditkit.probing.engine.sandbox import Setting, worker_environment
from auditkit.probing.reproduce_steps import MOST_LINES as MOST_STEP_LINES
from auditkit.probing.reproduce_steps import NoScriptError, step_script, too_long
from auditkit.worker.feed import guesses

MOST_LINES = 12
_LONGEST_LINE = 100
_MOST_OUTPUT_BYTES = 1 << 16
_TOLERANCE = 1e-4
_MODULES = ("builtins", "contextlib", "itertools", "logging", "runpy", "types", "unittest.mock")
_SOUND = "[torch.ones(5, 3), torch.ones(7), torch.ones(2, 3, 4)]"
_BLOCK = re.compile(r" *(?:for|with|if|def|class)\b|.*[:(]$")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?![\w])", re.IGNORECASE)
_WORDS_OF_A_GUESS = {
    guesses.OPTIMIZER: "torch.optim.SGD(model.parameters(), lr=0.1)",
    guesses.MODULE: "model",
    guesses.PARAMETERS: "list(model.parameters())",
    guesses.GRADIENTS: "grads",
    guesses.DEVICE: 'torch.device("cpu")',
    guesses.DEVICE_NAME: '"cpu"',
    guesses.TOTAL_NORM: "torch.stack([g.norm() for g in grads]).norm()",
    guesses.GROUP: "torch.distributed.group.WORLD",
}
_MAKE_GROUP = "torch.distributed.init_process_group(store=torch.distributed.HashStore(), rank=0, world_size=1)"
_ARGUMENTS = {
    "module": "model",
    "modules": "[model]",
    "parameters": "model.parameters()",
    "named_parameters": "model.named_parameters()",
    "gradients": "grads",
    "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)",
}


@dataclass(frozen=True)
class Reproduction:
    """A script that was run and shows the defect, with its output."""

    script: str
    output: str

    def markdown(self) -> str:
        """Return the text of a ticket's section: the script, and below it the output.

        For a training step, lines that the checkout printed before the script's own are left out.
        """
        lines = self.output.split("\n")
        below = self.script.partition("def train_small(")[2]
        texts = re.findall(r'print\([^"\n]*"([^"]+)"', below)
        first = next((at for at, line in enumerate(lines) if any(text in line for text in texts)), 0)
        head = f"Output, after {first} of the checkout's own:" if first else "Output:"
        output = "\n".join(lines[first:])
        return f"```python\n{self.script}\n```\n\n{head}\n\n```text\n{output}\n```"


@dataclass(frozen=True)
class NoReproduction:
    """The reason, in one sentence, why a finding has no script."""

    reason: str


@dataclass(frozen=True)
class _Lines:
    """What the script printed by case, with the numbers as printed; `error` is the last line of a traceback."""

    cases: tuple[str, ...]
    error: str

    def field(self, number: int, path: str) -> float:
        """Return one field of a printed result; NaN if the line or the field is missing."""
        text = self.cases[number] if number < len(self.cases) else ""
        name = re.escape(path.rpartition(".")[2])
        text = text.partition(": ")[2]
        pattern = rf"\b{name}['\"]?\s*[:=]\s*(?:tensor\()?([^\s,)}}\]]+)" if path else f"({_NUMBER.pattern})"
        found = re.search(pattern, text, re.IGNORECASE)
        try:
            return float({"True": "1", "False": "0"}.get(found[1], found[1])) if found else math.nan
        except ValueError:
            return math.nan


_Shows = Callable[[_Lines], bool]


@dataclass(frozen=True)
class _Evidence:
    """The cases of a script as expressions, the lines that print each result, and a check of the output.

    In the lines `{call}` is replaced by the call and `{collect}` by its first step. `loop` replaces the loop over the
    cases. `forms` means that the loop sets `form`, which converts the parameters to the argument.
    """

    cases: Mapping[str, str]
    shows: _Shows
    lines: tuple[str, ...] = ("print(name, {call})",)
    loop: tuple[str, ...] = ()
    forms: bool = False
    swaps_groups: bool = False


def reproduction(result: ProbeResult, reading: TargetReading | None, setting: Setting) -> Reproduction | NoReproduction:
    """Write the script of a reproduced result, run it in the checkout of `setting`, and check that it shows the defect.

    `reading` is the target's of the same run, with the plan by which the worker called it. The script runs in a
    separate process with the checkout's interpreter, a clean environment and the time limit of a probe.
    """
    try:
        if result.outcome is not Outcome.REPRODUCED:
            raise NoScriptError("The finding was not reproduced.")
        place, name = _importable(reading.target.call if reading else result.target)
        if reading is None or result.is_of_source:
            source = _source_of(place, setting) if result.probe == "sync_in_loop" else ""
            most, write = MOST_LINES, functools.partial(_of_source, name, source)
        elif reading.plan.get("step"):
            source = _source_of(place, setting)
            most, write = MOST_STEP_LINES, functools.partial(_step, result, reading, name, source)
        elif result.probe in _EVIDENCE:
            most, write = (
                MOST_LINES,
                functools.partial(_script, _EVIDENCE[result.probe](result, reading), reading, place),
            )
        else:
            raise NoScriptError(f"No script of {MOST_LINES} lines shows what {result.probe} measures.")
        return _first_shown(result, reading, place, name, most, write, setting)
    except NoScriptError as error:
        return NoReproduction(str(error))


_Writer = Callable[[str], tuple[list[str], _Shows]]
"""Returns the lines of a script after `import torch`, given the line that imports the target."""


def _first_shown(
    result: ProbeResult,
    reading: TargetReading | None,
    place: str,
    name: str,
    most: int,
    write: _Writer,
    setting: Setting,
) -> Reproduction:
    """Run the script with each way to import its target, and with a mock object for each missing module."""
    reasons = []
    for line in _import_lines(place, name.partition(".")[0], reading.rung if reading else "", setting):
        try:
            body, shows = write(line)
            absent, undefined = list(reading.placeholders if reading else ()), list[str]()
            while True:
                script = _whole(body, absent, undefined, name, most)
                output, lines = _run(script, setting)
                if missing := _missing_module(lines.error, absent, setting):
                    absent.append(missing)
                elif (found := re.match(r"NameError: name '(\w+)' is not defined", lines.error)) and (
                    found[1] not in undefined
                ):
                    undefined.append(found[1])
                else:
                    return _shown(result, script, output, lines, shows)
        except NoScriptError as error:
            reasons.append(str(error))
    raise NoScriptError(reasons[0])


def _missing_module(error: str, absent: Sequence[str], setting: Setting) -> str:
    """Return the missing third-party package that an error names; "" for another error."""
    found = re.match(r"ModuleNotFoundError: No module named '([^.']+)", error)
    if found is None or found[1] in ("torch", *absent):
        return ""
    places = (root / each for root in setting.import_roots for each in (found[1], f"{found[1]}.py"))
    return "" if any(place.exists() for place in places) else found[1]


def _whole(body: Sequence[str], absent: Iterable[str], undefined: Sequence[str], name: str, most: int) -> str:
    """Return the script: imports, mock objects for missing names, and its lines. Raises NoScriptError if it is long.

    `absent` are packages, `undefined` the globals that only the program's last lines set.
    """
    lines = list(body)
    if absent:
        mock, names = 'unittest.mock.MagicMock(__version__="99")', f'"{" ".join(sorted(absent))}".split()'
        if most > MOST_LINES:  # training steps format the results of these packages
            mock = 'type("", (unittest.mock.MagicMock,), {"__format__": lambda *_: "", "__version__": "99"})()'
        one = f"absent, mock = {names}, {mock}"
        lines[:0] = [
            *([one] if len(one) <= _LONGEST_LINE else [f"absent = {names}  # not installed here", f"mock = {mock}"]),
            'builtins.__import__ = lambda n, *a, f=__import__: mock if n.split(".")[0] in absent else f(n, *a)',
        ]
    at = lines.index(next(line for line in body if "import" in line or "runpy" in line)) + 1
    mock = "unittest.mock.MagicMock()  # the program sets it"
    lines[at:at] = [f'{name}.__globals__["{each}"] = {mock}' for each in undefined]
    modules = [module for module in _MODULES if any(f"{module}." in line for line in lines)]
    lines.insert(0, f"import {', '.join([*modules, 'torch'])}")
    lines = lines if len(lines) <= most else _joined(lines)
    if len(lines) > most:
        raise NoScriptError(too_long(name, len(lines), most))
    return "\n".join(lines)


def _joined(lines: Sequence[str]) -> list[str]:
    """Join the only line of a block to the block's head, if they are short."""
    joined: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        head = joined[-1] if joined else ""
        is_only = head.endswith(":") and _depth(after) <= _depth(head) < _depth(line) and not _BLOCK.match(line)
        if is_only and len(head) + len(line.strip()) < _LONGEST_LINE:
            joined[-1] = f"{head} {line.strip()}"
        else:
            joined.append(line)
    return joined


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _shown(result: ProbeResult, script: str, output: str, lines: _Lines, shows: _Shows) -> Reproduction:
    """Check that the output of a script shows the defect."""
    try:
        is_shown = shows(lines)
    except (ValueError, IndexError, SyntaxError):  # The target printed lines of its own.
        is_shown = False
    if lines.error and not lines.cases:  # The first case is valid: an error in it is not the defect.
        raise NoScriptError(f"The script for {result.probe} failed before its first line of output: {lines.error}")
    if not is_shown:
        error = f": {lines.error}" if lines.error else "."
        raise NoScriptError(f"The script for {result.probe} ran and did not show the defect{error}")
    return Reproduction(script, output)


def _step(
    result: ProbeResult, reading: TargetReading, name: str, source: str, import_line: str
) -> tuple[list[str], _Shows]:
    lines, shows = step_script(result, reading, name, source, import_line)
    return lines, lambda printed: shows(printed.cases, printed.error)


def _of_source(name: str, source: str, import_line: str) -> tuple[list[str], _Shows]:
    """Call code that was only read with 4 and with 64 parameters, and count the device values that it reads.

    Raises NoScriptError except for an optimizer's `step` and a function of one argument: all optimizers have the same
    constructor, and such a function takes parameters with gradients, or tensors like them.
    """
    owner, _, method = name.rpartition(".")
    tree = ast.parse(source)
    nodes = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    spec = next((node.args for node in nodes), None)
    if owner and method == "step" and source:
        made, call = [f"    optimizer = {owner}(params, lr=0.01)"], "optimizer.step()"
    elif spec is not None and len(spec.args) - len(spec.defaults) == 1 and None not in spec.kw_defaults:
        made, call = [], f"{name}(params)"
    else:
        raise NoScriptError("The source was read and nothing was run.")
    lines = [
        import_line,
        "for tensors in (4, 64):",
        "    params = [torch.nn.Parameter(torch.ones(8, 8)) for _ in range(tensors)]",
        *made,
        "    sum(parameter.sum() for parameter in params).backward()",
        *(["    optimizer.step()"] if made else ()),  # the first step may differ
        *(f"    {line.replace('{call}', call)}" for line in _count_lines(*_READS)),
    ]
    return lines, _grows_by_60


def _script(evidence: _Evidence, reading: TargetReading, place: str, import_line: str) -> tuple[list[str], _Shows]:
    call = _Call(reading, place, import_line)
    whole, first = (call.text(evidence, is_whole) for is_whole in (True, False))
    body = [line.replace("{call}", whole).replace("{collect}", first) for line in evidence.lines]
    has_group = any("distributed.group" in line for line in (whole, *call.setup))
    lines = [*call.import_lines, *([_MAKE_GROUP] if has_group else ()), *_loop(evidence)]
    if call.needs_model or any("model" in line for line in body):
        has_missing = any("None" in case for case in evidence.cases.values())
        shape = "torch.zeros(2 if g is None else g.shape)" if has_missing else "torch.zeros(g.shape, dtype=g.dtype)"
        lines.append(f"    model = torch.nn.ParameterList({shape} for g in grads)")
        lines += ["    for parameter, grad in zip(model, grads):", "        parameter.grad = grad"]
        lines += [f"        {line}" for line in call.attributes.values()]
    lines += [f"    {line}" for line in (*call.setup, *body)]
    return lines, evidence.shows


def _loop(evidence: _Evidence) -> list[str]:
    """Return the loop over the cases, with `grads` as the gradients of each."""
    if evidence.loop:
        return list(evidence.loop)
    items = [f'"{name}": {expression}' for name, expression in evidence.cases.items()]
    one = f"for name, grads in {{{', '.join(items)}}}.items():"
    if len(one) <= _LONGEST_LINE:
        return [one]
    whole, names = f"cases = {', '.join(evidence.cases.values())}", ", ".join(f'"{name}"' for name in evidence.cases)
    if len(whole) <= _LONGEST_LINE:
        return [whole, f"for name, grads in zip(({names}), cases):"]
    return ["cases = {", *(f"    {item}," for item in items), "}", "for name, grads in cases.items():"]


class _Call:
    """How the script imports a target and calls it. Raises NoScriptError if it needs too many lines."""

    def __init__(self, reading: TargetReading, place: str, import_line: str) -> None:
        self.plan, self.target = reading.plan, reading.target
        if not self.plan:
            raise NoScriptError("The plan for calling the function is not known.")
        self.feed: Mapping[str, Any] = self.plan["feed"]
        if self.plan.get("device", "cpu") != "cpu":
            raise NoScriptError("The function runs on a device only, and this machine has none.")
        takes, container = self.feed["takes"], self.feed["container"]
        if takes not in _ARGUMENTS or container not in ("list", "iterator") or self.feed.get("forms"):
            raise NoScriptError(f"No template builds the input of this function ({takes}, {container}).")
        self.import_lines, self.setup = [import_line], list[str]()
        self.attributes: dict[str, str] = {}
        self._owner, _, self._method = split_call(self.target.call)[1].rpartition(".")
        self._finish = self._imported_finish(place)
        self._prepare()

    def _imported_finish(self, place: str) -> str:
        finish = self.target.finish or ""
        module, colon, name = finish.rpartition(":")
        if colon and module == place and self.import_lines[0].startswith("from "):
            self.import_lines[0] += f", {name}"
        elif colon:
            self.import_lines.append(f"from {module} import {name}")
        return name

    @property
    def needs_model(self) -> bool:
        """Whether the gradients are passed on parameters."""
        return self.feed["takes"] != "gradients" or any("model" in line for line in self._keywords())

    def _keywords(self) -> list[str]:
        """Return the further arguments: given, guessed by the worker, or set so that the function has an effect."""
        made = {**self.plan.get("filled", {}), **self.target.arguments}
        words = []
        for name, value in made.items():
            if name.startswith("parameter.") and not isinstance(value, str):
                self.attributes[name] = f"{name} = {value!r}"
                continue
            if "." in name:
                raise NoScriptError(f"The function reads {name}, which only its program builds.")
            is_plain = not isinstance(value, str) or name in self.target.arguments
            text = repr(value) if is_plain else _WORDS_OF_A_GUESS.get(value, "")
            if not text:
                raise NoScriptError(f"The function needs {name}: {value}, which only its program builds.")
            words.append(f"{name}={text}")
        return words

    def _prepare(self) -> None:
        """Add the second group, and the object of a method."""
        slots = [*self.feed["setup_slots"], *self.feed["slots"]]
        if len(slots) > 2:
            raise NoScriptError("The function takes more than two groups of gradients.")
        if len(slots) == 2:
            self.setup.append("other = torch.nn.ParameterList([torch.zeros(2, 3)])")
            if self.plan.get("groups") == 3:
                self.setup.append("other[0].grad = torch.ones(2, 3)")
        setup = self.feed["setup"]
        if setup == "__new__":
            raise NoScriptError("The function belongs to an object that only its program builds.")
        if not self._owner:
            return
        given = ", ".join(self._arguments(self.feed["setup_slots"], are_named=True))
        self.setup.append(f"made = {self._owner}({given if setup == '__init__' else ''})")
        if setup and setup != "__init__":
            self.setup.append(f"made.{setup}({given})")

    def _arguments(self, slots: Sequence[str], are_named: bool, forms: bool = False, swaps: bool = False) -> list[str]:
        takes, container = self.feed["takes"], self.feed["container"]
        first = _ARGUMENTS[takes]
        if forms:
            first = f"form({first})"
        elif takes in ("parameters", "named_parameters"):
            first = f"iter({first})" if container == "iterator" else f"list({first})"
        texts = [first, first.replace("model", "other").replace("grads", "[other[0].grad]")]
        passed = zip(slots, texts[::-1] if swaps else texts, strict=False)
        return [f"{slot}={text}" if are_named else text for slot, text in passed]

    def text(self, evidence: _Evidence, is_whole: bool) -> str:
        """Return the call as an expression, if whole with the step that finishes an asynchronous result."""
        words, slots = self._keywords(), self.feed["slots"]
        arguments = self._arguments(slots, bool(words) and len(slots) == 1, evidence.forms, evidence.swaps_groups)
        whole = ", ".join([*arguments, *words])
        called = f"made.{self._method}({whole})" if self._owner else f"{self._method}({whole})"
        return f"{self._finish}({called})" if self._finish and is_whole else called


def _importable(target: str) -> tuple[str, str]:
    """Return the module (or file) and the qualified name of a target that a script can import."""
    place, qualified, statement = split_call(target)
    if statement or not qualified:
        raise NoScriptError("The code is a block of a script, which no import reaches.")
    if "<locals>" in qualified or qualified.count(".") > 1:
        raise NoScriptError("The function is defined inside another one, which no import reaches.")
    return place, qualified


def _import_lines(place: str, name: str, rung: str, setting: Setting) -> Iterator[str]:
    """Yield the ways to import a name, the one that the worker used first."""
    if place.endswith(".py") or rung == "file":
        file = _file_of(place, setting)
        yield f'{name} = runpy.run_path("{file}")["{name}"]'
    if not place.endswith(".py"):
        yield f"from {place} import {name}"


def _file_of(place: str, setting: Setting) -> str:
    """Return the path of a module's file below the checkout."""
    if place.endswith(".py"):
        return place
    for root in setting.import_roots:
        file = root.joinpath(*place.split(".")).with_suffix(".py")
        if file.is_file():
            return os.path.relpath(file, setting.checkout)
    raise NoScriptError("The module's file was not found.")


def _source_of(place: str, setting: Setting) -> str:
    return (setting.checkout / _file_of(place, setting)).read_text("utf-8", "replace")


def _run(script: str, setting: Setting) -> tuple[str, _Lines]:
    """Run a script in the checkout; return its output as a ticket shows it, and by line."""
    environment = server_for(setting.interpreter, worker_environment()).environment_of_workers()
    environment["PYTHONPATH"] = os.pathsep.join(map(str, setting.import_roots))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                [setting.interpreter, "-B", "-W", "ignore", "-c", script],
                cwd=setting.checkout,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise NoScriptError(f"The interpreter did not start: {error.strerror}.") from None
        try:
            code = process.wait(setting.time_limit_s)
        except subprocess.TimeoutExpired:
            raise NoScriptError(f"The script took longer than {setting.time_limit_s:g} s.") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed, raised = _read(out), _read(err)
    last = _exception(raised).replace(str(setting.checkout) + os.sep, "") if code else ""
    lines = tuple(line for line in printed.split("\n") if line)
    shown = [shortened(line, _LONGEST_LINE - 3) for line in (*lines[:MOST_LINES], *filter(None, [last]))]
    return inert("\n".join(shown)), _Lines(lines, last)


def _exception(text: str) -> str:
    """Return the first line of the exception of a traceback; without one the last line."""
    plain = re.sub(r"^\[rank\d+\]: ?", "", text, flags=re.MULTILINE)  # torch adds this prefix in a process group
    after = plain.rpartition("Traceback (most recent call last):")[2].strip("\n").split("\n")
    return next((line for line in after if line and not line.startswith(" ")), after[-1])


def _read(file: Any) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_OUTPUT_BYTES))
    return str(file.read().decode("utf-8", "replace"))


def _rows(result: ProbeResult, name: str) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    return ((one.value, one.case) for one in result.measurements if one.name == name)


def _raises_or_differs(lines: _Lines) -> bool:
    """Return whether a case after the first raised or printed another result."""
    if len(lines.cases) < 1:
        return False
    is_type_error = lines.error.startswith(("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError"))
    if lines.error:
        return not is_type_error
    first, *others = (re.sub(r"^[^:]*: ", "", line) for line in lines.cases)
    return any(not _alike(first, other) for other in others)


def _alike(first: str, second: str) -> bool:
    if _NUMBER.sub("#", first) != _NUMBER.sub("#", second):
        return False
    pairs = zip(map(float, _NUMBER.findall(first)), map(float, _NUMBER.findall(second)), strict=True)
    return all(math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=1e-9) or (a != a and b != b) for a, b in pairs)


_COMPARE = ('print(name + ":", {call})',)
_COMPARE_SIZES = ('print(f"elements of {size}:", {call})',)


def _two_cases(name: str, grads: str, sound: str = _SOUND, first: str = "ordinary") -> _Evidence:
    return _Evidence({first: sound, name: grads}, _raises_or_differs, _COMPARE)


def _sizes(magnitude: float, tensors: int, elements: int, dtype: str) -> tuple[str, ...]:
    """Return the loop over gradients of elements of 1 and of `magnitude`; `elements` are those of all tensors."""
    kind = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    grads = f"[torch.full(({elements // tensors},), size{kind}) for _ in range({tensors})]"
    return f"for size in (1.0, {magnitude!r}):", f"    grads = {grads}"


def _scaled(result: ProbeResult, reading: TargetReading, boundary: str) -> _Evidence:
    """Compare the norm of gradients of 1 with that of the same gradients times a magnitude."""
    path = reading.roles.get("norm", "")
    (norm, case), (expected, _) = next(_rows(result, "norm")), next(_rows(result, "expected_norm"))
    magnitude, dtype, tensors, elements = case["magnitude"], "float32", case["tensors"], case["elements"]
    if _is_near(norm, expected):
        found = [
            (value, one) for value, one in _rows(result, boundary) if value is not None and one["dtype"] != "mixed"
        ]
        if not found:
            raise NoScriptError("The norm breaks only with one large element or with mixed dtypes.")
        magnitude, case = found[0]
        dtype, tensors, elements = case["dtype"], case["tensors"], case["elements"]

    def shows(lines: _Lines) -> bool:
        sound, broken = lines.field(0, path), lines.field(1, path)
        return len(lines.cases) == 2 and math.isfinite(sound) and not _is_near(broken, sound * magnitude)

    return _Evidence({}, shows, _COMPARE_SIZES, loop=_sizes(magnitude, tensors, elements, dtype))


def _is_near(value: Any, expected: Any) -> bool:
    return all(isinstance(one, int | float) and math.isfinite(one) for one in (value, expected)) and math.isclose(
        value, expected, rel_tol=0.01
    )


def _nonfinite(result: ProbeResult, _: TargetReading) -> _Evidence:
    stays = [case for value, case in _rows(result, "health_stays") if value]
    hidden = [case for value, case in _rows(result, "visible") if not value]
    case = (hidden or stays)[0]
    fields = [one["field"] for one in stays if one["kind"] == case["kind"]]
    index = {2: 0, 1: 1, 3: 2}[case["dimensions"]]
    shapes = ["5, 3", "7", "2, 3, 4"] * (case["tensors"] // 3)
    index = 13 if case["tensors"] > 3 else index
    if case["tensors"] > 3:
        sound = "[torch.ones(5, 3) for _ in range(24)]"
        broken = f'[torch.full((5, 3), float("{case["kind"]}") if i == 13 else 1.0) for i in range(24)]'
    else:
        made = [
            f'torch.full(({each}{"," * ("," not in each)}), float("{case["kind"]}"))'
            if i == index
            else f"torch.ones({each})"
            for i, each in enumerate(shapes)
        ]
        sound, broken = _SOUND, f"[{', '.join(made)}]"

    def shows(lines: _Lines) -> bool:
        if len(lines.cases) != 2:
            return False
        if fields:
            return lines.field(1, fields[0]) >= lines.field(0, fields[0])
        numbers = _NUMBER.findall(lines.cases[1].partition(":")[2])
        return all(math.isfinite(float(number)) for number in numbers)

    return _Evidence({"ordinary": sound, f"with {case['kind']}": broken}, shows, _COMPARE)


_LAYOUT_CODE = {
    "channels_last": "torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)",
    "transposed": "torch.ones(3, 5).t()",
    "permuted": "torch.ones(2, 3, 4).permute(2, 0, 1)",
    "bucket_view": "torch.ones(29)[5:17].view(3, 4)",
    "sliced": "torch.ones(9, 8)[1::2, 1::3]",
    "expanded": "torch.ones(1, 5).expand(4, 5)",
    "overlapping": "torch.ones(9).as_strided((3, 4), (2, 1), 1)",
}


def _layouts(result: ProbeResult, _: TargetReading) -> _Evidence:
    layout = next(case["layout"] for value, case in _rows(result, "sound") if not value)
    grad = _LAYOUT_CODE[layout]
    return _two_cases(layout.replace("_", " "), f"[{grad}]", f"[{grad}.contiguous()]", "contiguous")


def _sparse(result: ProbeResult, _: TargetReading) -> _Evidence:
    form = next(case["form"] for value, case in _rows(result, "sound") if not value)
    made = "torch.sparse_coo_tensor([[4, 1, 4]], torch.ones(3, 3), (6, 3))" + ".coalesce()" * (form == "coalesced")
    return _two_cases(f"{form} sparse", f"[{made}]", f"[{made}.to_dense()]", "dense")


def _mixed(result: ProbeResult, _: TargetReading) -> _Evidence:
    rows = [case for value, case in _rows(result, "raises") if value]
    rows += [case for value, case in _rows(result, "relative_difference") if value > 1e-3]
    dtypes = rows[0]["dtype"].split("+")
    if rows[0].get("arrangement", "").startswith(dtypes[-1]):
        dtypes = dtypes[::-1]
    made = ", ".join(f"torch.ones(8, dtype=torch.{each})" for each in dtypes)
    name = " and ".join(dtypes)
    return _two_cases(name, f"[{made}]", f"[torch.ones(8) for _ in range({len(dtypes)})]", "float32")


def _missing(*_: object) -> _Evidence:
    return _two_cases(
        "one without gradient", "[None, torch.ones(5, 3), torch.ones(7)]", "[torch.ones(5, 3), torch.ones(7)]", "all"
    )


def _zero_elements(result: ProbeResult, _: TargetReading) -> _Evidence:
    case = next(case for value, case in _rows(result, "sound") if not value)
    shape = case["shape"].strip("[]")
    extra, sound = f"torch.zeros({shape})", ["torch.ones(4, 3)", "torch.ones(5)", "torch.ones(2, 3)"]
    place = {"first": 0, "between": 1, "last": 3}.get(case["position"])
    if place is None:
        return _Evidence({"ordinary": _SOUND, "only one without elements": f"[{extra}]"}, _is_broken, _COMPARE)
    broken = [*sound[:place], extra, *sound[place:]]
    return _two_cases("and one without elements", f"[{', '.join(broken)}]", f"[{', '.join(sound)}]", "three")


def _is_broken(lines: _Lines) -> bool:
    """Return whether the second of two cases raised or printed a non-finite number."""
    bad = (
        [number for number in _NUMBER.findall(lines.cases[-1]) if not math.isfinite(float(number))]
        if lines.cases
        else []
    )
    return len(lines.cases) == 1 if lines.error else len(lines.cases) == 2 and bool(bad)


def _empty(result: ProbeResult, _: TargetReading) -> _Evidence:
    names = ("missing_fields", "changed_kinds", "raises")
    case = next(case for name in names for value, case in _rows(result, name) if value)
    if "group" in case["input"]:
        raise NoScriptError("The defect needs two groups of which one is empty.")
    grads = "[]" if case["input"] == "no tensors" else "[None, None, None]"

    def shows(lines: _Lines) -> bool:
        texts = [_NUMBER.sub("#", line.partition(": ")[2]) for line in lines.cases]
        return bool(lines.error) or (len(texts) == 2 and texts[0] != texts[1])

    return _Evidence({"three gradients": _SOUND, case["input"]: grads}, shows, _COMPARE)


def _zero_ratio(result: ProbeResult, _: TargetReading) -> _Evidence:
    rows = [case for name in ("nonfinite_fields", "raises") for value, case in _rows(result, name) if value]
    case = next(iter(rows))["input"]
    zeros = "[torch.zeros(5, 3), torch.zeros(7), torch.zeros(2, 3, 4)]"
    made = {"one tensor zero": "[torch.zeros(5, 3), torch.ones(7), torch.ones(2, 3, 4)]", "without gradients": "[]"}
    grads = made.get(case, "[torch.zeros(0)]" if "without elements" in case else "[]" if "without" in case else zeros)
    swaps = case.startswith("second")
    return _Evidence({"ordinary": _SOUND, case: grads}, _is_broken, _COMPARE, swaps_groups=swaps)


_READS = (' == "aten::_local_scalar_dense"', "device values read")
_OPERATORS = ('.startswith("aten::")', "operators")


def _count_lines(matches: str, words: str) -> tuple[str, ...]:
    """Return the lines that count the operators of a call whose names match."""
    return (
        "with torch.profiler.profile() as profile:",
        "    {call}",
        f"count = sum(e.count for e in profile.key_averages() if e.key{matches})",
        f'print(tensors, "tensors:", count, "{words}")',
    )


def _grows_by_60(printed: _Lines) -> bool:
    return len(printed.cases) == 2 and printed.field(1, "") >= printed.field(0, "") + 60


_SIZES = ("for tensors in (4, 64):", "    grads = [torch.ones(128) for _ in range(tensors)]")


def _counted(matches: str, words: str) -> Callable[..., _Evidence]:
    """Count operators by name at 4 and 64 tensors; the count grows if there is a defect."""
    return lambda *_: _Evidence({}, _grows_by_60, _count_lines(matches, words), loop=_SIZES)


def _collecting(*_: object) -> _Evidence:
    def shows(printed: _Lines) -> bool:
        return len(printed.cases) == 2 and all(printed.field(number, "") > 0 for number in range(2))

    lines = _count_lines(_READS[0], "device values read while collecting")
    return _Evidence({}, shows, tuple(line.replace("{call}", "{collect}") for line in lines), loop=_SIZES)


def _peak(*_: object) -> _Evidence:
    lines = (
        "with torch.profiler.profile(profile_memory=True) as profile:",
        "    {call}",
        "live = itertools.accumulate(event.self_cpu_memory_usage for event in profile.events())",
        'print(name, "bytes live between operators for each byte of gradients:", max(live) / 4e6)',
    )

    def shows(printed: _Lines) -> bool:
        return len(printed.cases) == 1 and printed.field(0, "") > 0.25

    cases = {"1M parameters,": "[torch.ones(100_000) for _ in range(10)]"}
    return _Evidence(cases, shows, lines)


def _generator(*_: object) -> _Evidence:
    loop = ('for name, form in {"a list": list, "a generator": iter}.items():', f"    grads = {_SOUND}")
    return _Evidence({}, _raises_or_differs, _COMPARE, loop=loop, forms=True)


def _clipped(result: ProbeResult, _: TargetReading) -> _Evidence:
    (norm, case) = next(_rows(result, "norm_after"))
    limit = next(value for value, _case in _rows(result, "expected_norm_after"))
    magnitude, dtype, tensors, elements = case["magnitude"], "float32", case["tensors"], case["elements"]
    if norm is not None and limit and _is_near(norm, limit):
        found = [(v, c) for v, c in _rows(result, "destroying_magnitude") if v is not None and c["dtype"] != "mixed"]
        if not found:
            raise NoScriptError("Clipping destroys only gradients of mixed dtypes.")
        magnitude, case = found[0]
        dtype, tensors, elements = case["dtype"], case["tensors"], case["elements"]
    left = "[p.grad.double().norm().item() for p in model]"
    lines = ("{call}", f'print(f"elements of {{size}}, norms left:", {left})')

    def shows(printed: _Lines) -> bool:
        if len(printed.cases) != 2:
            return False
        norms = [float(number) for number in _NUMBER.findall(printed.cases[1].rpartition(":")[2])]
        return any(not math.isfinite(each) or each == 0 for each in norms)

    return _Evidence({}, shows, lines, loop=_sizes(magnitude, tensors, elements, dtype))


def _grouping(result: ProbeResult, reading: TargetReading) -> _Evidence:
    path = reading.roles.get("norm", "")
    allowed = {
        case["dtype"]: value for value, case in _rows(result, "allowed_difference") if case["of"] == "split_difference"
    }
    found = [case["dtype"] for value, case in _rows(result, "split_difference") if value > allowed[case["dtype"]]]
    if not found:
        raise NoScriptError("The norm depends only on the order of the tensors.")
    loop = (
        "for tensors, elements in ((1, 774), (3, 258), (1, 10_250), (10, 1_025)):",
        f"    grads = [torch.ones(elements, dtype=torch.{found[0]}) for _ in range(tensors)]",
    )

    def shows(lines: _Lines) -> bool:
        norms = [lines.field(number, path) for number in range(4)]
        pairs = ((norms[0], norms[1]), (norms[2], norms[3]))
        return any(abs(many / one - 1) > allowed[found[0]] for one, many in pairs if one > 0)

    return _Evidence({}, shows, ('print(f"{tensors} of {elements}:", {call})',), loop=loop)


_EVIDENCE: Mapping[str, Callable[[ProbeResult, TargetReading], _Evidence]] = {
    "clip_destroys_gradients": _clipped,
    "empty_input_changes_result_type": _empty,
    "fails_on_generator_input": _generator,
    "fails_on_missing_grads": _missing,
    "fails_on_mixed_dtypes": _mixed,
    "fails_on_noncontiguous_grads": _layouts,
    "fails_on_sparse_grads": _sparse,
    "fails_on_zero_element_grads": _zero_elements,
    "launches_grow_with_tensors": _counted(*_OPERATORS),
    "nonfinite_grads_look_healthy": _nonfinite,
    "norm_depends_on_grouping": _grouping,
    "norm_overflows_on_finite_grads": lambda result, reading: _scaled(result, reading, "breaking_magnitude"),
    "norm_underflows_to_zero": lambda result, reading: _scaled(result, reading, "vanishing_magnitude"),
    "peak_memory_grows_with_params": _peak,
    "ratio_divides_by_zero": _zero_ratio,
    "syncs_grow_with_tensors": _counted(*_READS),
    "async_collect_synchronizes": _collecting,
}
