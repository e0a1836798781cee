"""Write a script in plain torch that reproduces one finding, run it, and keep it if it shows the defect."""

from __future__ import annotations

import ast
import contextlib
import math
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, TargetReading
from auditkit.model.runs.target import split_call
from auditkit.model.text import inert, shortened
from auditkit.probing.engine.fork_servers import server_for
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.reproduce_steps import LONGEST_LINE, NUMBER, NoScriptError, Printed, Shows, step_script
from auditkit.probing.reproduce_steps import MOST_LINES as MOST_STEP_LINES
from auditkit.worker.feed import guesses

MOST_LINES = 12
_MOST_OUTPUT_BYTES = 1 << 16
_MODULES = ("builtins", "contextlib", "itertools", "logging", "runpy", "types", "unittest.mock")
_SOUND = "[torch.ones(5, 3), torch.ones(7), torch.ones(2, 3, 4)]"
_OPTIMIZER = "torch.optim.SGD(model.parameters(), lr=0.1)"
_WORDS_OF_A_GUESS = {
    guesses.OPTIMIZER: _OPTIMIZER,
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
    "optimizer": _OPTIMIZER,
}


@dataclass(frozen=True)
class Reproduction:
    """A script that was run and shows the defect, with its output."""

    script: str
    output: str

    def markdown(self) -> str:
        """Return the text of a ticket's section: the script, and below it the output."""
        return f"```python\n{self.script}\n```\n\nOutput:\n\n```text\n{self.output}\n```"


@dataclass(frozen=True)
class NoReproduction:
    """The reason, in one sentence, why a finding has no script."""

    reason: str


@dataclass(frozen=True)
class _Evidence:
    """The loop of a script, which sets `grads`; the lines that print each result; and a check of the output.

    In the lines `{call}` is replaced by the call; `collects` leaves out the step that finishes an asynchronous result.
    `forms` means that the loop sets `form`, which converts the parameters to the argument.
    """

    loop: Sequence[str]
    shows: Shows
    lines: Sequence[str] = ('print(name + ":", {call})',)
    forms: bool = False
    swaps_groups: bool = False
    collects: bool = False


def reproduction(result: ProbeResult, reading: TargetReading | None, setting: Setting) -> Reproduction | NoReproduction:
    """Write the script of a reproduced result, run it in the checkout of `setting`, and check that it shows the defect.

    `reading` is the target's of the same run, with the plan by which the worker called it. The script runs in a
    separate process with the checkout's interpreter, a clean environment and the time limit of a probe.
    """
    reasons = []
    try:
        if result.outcome is not Outcome.REPRODUCED:
            raise NoScriptError("The finding was not reproduced.")
        place, name = _importable(reading.target.call if reading else result.target)
        for line in _import_lines(place, name.partition(".")[0], reading.rung if reading else "", setting):
            try:
                return _shown(result, reading, place, name, line, setting)
            except NoScriptError as error:
                reasons.append(str(error))
    except NoScriptError as error:
        reasons.append(str(error))
    return NoReproduction(reasons[0])


def _shown(
    result: ProbeResult, reading: TargetReading | None, place: str, name: str, import_line: str, setting: Setting
) -> Reproduction:
    """Run the script, with a mock object for each missing module and global; check that its output shows the defect."""
    most = MOST_LINES
    if reading is None or result.is_of_source:
        body, shows = _of_source(
            name, _source_of(place, setting) if result.probe == "sync_in_loop" else "", import_line
        )
    elif reading.plan.get("step"):
        most = MOST_STEP_LINES
        body, shows = step_script(result, reading, name, _source_of(place, setting), import_line)
    elif result.probe in _EVIDENCE:
        body, shows = _script(_EVIDENCE[result.probe](result, reading), reading, import_line)
    else:
        raise NoScriptError(f"No script of {MOST_LINES} lines shows what {result.probe} measures.")
    absent, undefined = list(reading.placeholders if reading else ()), list[str]()
    while True:
        script = _whole(body, absent, undefined, name, most)
        output, printed = _run(script, setting)
        missing = re.match(r"ModuleNotFoundError: No module named '([^.']+)", printed.error)
        unset = re.match(r"NameError: name '(\w+)' is not defined", printed.error)
        if missing and missing[1] not in ("torch", *absent) and not _is_own(missing[1], setting):
            absent.append(missing[1])
        elif unset and unset[1] not in undefined:
            undefined.append(unset[1])
        else:
            break
    try:
        is_shown = shows(printed)
    except (ValueError, IndexError, SyntaxError):  # The target printed lines of its own.
        is_shown = False
    if printed.error and not printed.cases:  # The first case is valid: an error in it is not the defect.
        raise NoScriptError(f"The script for {result.probe} failed before its first line of output: {printed.error}")
    if not is_shown:
        error = f": {printed.error}" if printed.error else "."
        raise NoScriptError(f"The script for {result.probe} ran and did not show the defect{error}")
    return Reproduction(script, output)


def _is_own(package: str, setting: Setting) -> bool:
    return any((root / name).exists() for root in setting.import_roots for name in (package, f"{package}.py"))


def _whole(body: Sequence[str], absent: Sequence[str], undefined: Sequence[str], name: str, most: int) -> str:
    """Return the script: imports, mock objects for missing names, and its lines. Raises NoScriptError if it is long.

    `absent` are packages, `undefined` the globals that only the program's last lines set.
    """
    lines = list(body)
    if absent:
        mock, packages = 'unittest.mock.MagicMock(__version__="99")', f'"{" ".join(sorted(absent))}".split()'
        if most > MOST_LINES:  # training steps format the results of these packages
            mock = 'type("", (unittest.mock.MagicMock,), {"__format__": lambda *_: "", "__version__": "99"})()'
        one = f"absent, mock = {packages}, {mock}"
        lines[:0] = [
            *([one] if len(one) <= LONGEST_LINE else [f"absent = {packages}  # not installed here", f"mock = {mock}"]),
            'builtins.__import__ = lambda n, *a, f=__import__: mock if n.split(".")[0] in absent else f(n, *a)',
        ]
    at = lines.index(next(line for line in body if "import" in line or "runpy" in line)) + 1
    mock = "unittest.mock.MagicMock()  # the program sets it"
    lines[at:at] = [f'{name}.__globals__["{each}"] = {mock}' for each in undefined]
    modules = [module for module in _MODULES if any(f"{module}." in line for line in lines)]
    lines.insert(0, f"import {', '.join([*modules, 'torch'])}")
    if len(lines) > most:
        text = f"A script that calls {name} needs {len(lines)} lines, and a ticket shows at most {most}."
        raise NoScriptError(text)
    return "\n".join(lines)


def _of_source(name: str, source: str, import_line: str) -> tuple[list[str], Shows]:
    """Call code that was only read with 4 and with 64 parameters, and count the device values that it reads.

    Raises NoScriptError except for an optimizer's `step` and a function of one argument: all optimizers have the same
    constructor, and such a function takes parameters with gradients, or tensors like them.
    """
    owner, _, method = name.rpartition(".")
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)
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
        *(f"    {line}" for line in _with_call(_count_lines(*_READS), call)),
    ]
    return lines, _grows_by_60


def _script(evidence: _Evidence, reading: TargetReading, import_line: str) -> tuple[list[str], Shows]:
    """Return the lines of a call of a collector. Raises NoScriptError if a few lines cannot call it."""
    plan, target = reading.plan, reading.target
    if not plan:
        raise NoScriptError("The plan for calling the function is not known.")
    feed: Mapping[str, Any] = plan["feed"]
    takes, container, setup = feed["takes"], feed["container"], feed["setup"]
    if plan.get("device", "cpu") != "cpu":
        raise NoScriptError("The function runs on a device only, and this machine has none.")
    if takes not in _ARGUMENTS or container not in ("list", "iterator") or feed.get("forms"):
        raise NoScriptError(f"No template builds the input of this function ({takes}, {container}).")
    if setup == "__new__":
        raise NoScriptError("The function belongs to an object that only its program builds.")
    slots, setup_slots = feed["slots"], feed["setup_slots"]
    if len(slots) + len(setup_slots) > 2:
        raise NoScriptError("The function takes more than two groups of gradients.")
    first = _ARGUMENTS[takes]
    if evidence.forms:
        first = f"form({first})"
    elif takes in ("parameters", "named_parameters"):
        first = f"iter({first})" if container == "iterator" else f"list({first})"
    groups = [first, first.replace("model", "other").replace("grads", "[other[0].grad]")]
    groups = groups[::-1] if evidence.swaps_groups else groups
    words = _keywords(reading)
    prepared: list[str] = []
    if len(slots) + len(setup_slots) == 2:
        prepared.append("other = torch.nn.ParameterList([torch.zeros(2, 3)])")
        if plan.get("groups") == 3:
            prepared.append("other[0].grad = torch.ones(2, 3)")
    owner, _, called = split_call(target.call)[1].rpartition(".")
    if owner:
        given = ", ".join(f"{slot}={group}" for slot, group in zip(setup_slots, groups, strict=False))
        prepared.append(f"made = {owner}({given if setup == '__init__' else ''})")
        if setup and setup != "__init__":
            prepared.append(f"made.{setup}({given})")
        called = f"made.{called}"
    passed = zip(slots, groups, strict=False)
    named = [f"{slot}={group}" if words and len(slots) == 1 else group for slot, group in passed]
    call = f"{called}({', '.join([*named, *words])})"
    module, _, finish = (target.finish or "").rpartition(":")
    if finish and not evidence.collects:
        call = f"{finish}({call})"
    prepared += _with_call(evidence.lines, call)
    lines = [
        import_line,
        *([f"from {module} import {finish}"] if module else ()),
        *([_MAKE_GROUP] if "distributed.group" in call else ()),
        *evidence.loop,
    ]
    if any("model" in line for line in prepared):
        has_missing = any("None" in line for line in evidence.loop)
        shape = "torch.zeros(2 if g is None else g.shape)" if has_missing else "torch.zeros(g.shape, dtype=g.dtype)"
        lines.append(f"    model = torch.nn.ParameterList({shape} for g in grads)")
        lines.append("    for parameter, grad in zip(model, grads): parameter.grad = grad")
    return [*lines, *(f"    {line}" for line in prepared)], evidence.shows


def _with_call(lines: Sequence[str], call: str) -> Iterator[str]:
    """Yield the lines with the call, on a line of its own below a `with` if both are too long."""
    for line in lines:
        text, (head, colon, _) = line.replace("{call}", call), line.partition(": {call}")
        yield from (f"{head}:", f"    {call}") if colon and len(text) > LONGEST_LINE - 4 else (text,)


def _keywords(reading: TargetReading) -> list[str]:
    """Return the further arguments: given, guessed by the worker, or set so that the function has an effect."""
    own = reading.target.arguments
    words = []
    for name, value in {**reading.plan.get("filled", {}), **own, **reading.plan.get("settings", {})}.items():
        is_plain = not isinstance(value, str) or name in own
        text = repr(value) if is_plain else _WORDS_OF_A_GUESS.get(value, "")
        if "." in name or not text:
            raise NoScriptError(f"The function needs {name}: {value}, which only its program builds.")
        words.append(f"{name}={text}")
    return words


def _importable(target: str) -> tuple[str, str]:
    """Return the module (or file) and the qualified name of a target that a script can import."""
    place, qualified, statement = split_call(target)
    if statement or not qualified:
        raise NoScriptError("The code is a block of a script, which no import reaches.")
    if "<locals>" in qualified or qualified.count(".") > 1:
        raise NoScriptError("The function is defined inside another one, which no import reaches.")
    return place, qualified


def _import_lines(place: str, name: str, rung: str, setting: Setting) -> Iterator[str]:
    """Yield the ways to import a name."""
    if not place.endswith(".py"):
        yield f"from {place} import {name}"
    if place.endswith(".py") or rung == "cut_out":
        file = _file_of(place, setting)
        yield f'{name} = runpy.run_path("{file}")["{name}"]'


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


def _run(script: str, setting: Setting) -> tuple[str, Printed]:
    """Run a script in the checkout; return its output as a ticket shows it, and by line."""
    environment = server_for(setting.interpreter).environment_of_workers()
    environment["PYTHONPATH"] = os.pathsep.join(map(str, setting.import_roots))
    command = [setting.interpreter, "-B", "-W", "ignore", "-c", script]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command, cwd=setting.checkout, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
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
    shown = [shortened(line, LONGEST_LINE - 3) for line in (*lines[-MOST_LINES:], *filter(None, [last]))]
    return inert("\n".join(shown)), Printed(lines, last)


def _exception(text: str) -> str:
    """Return the first line of the exception of a traceback; without one the last line."""
    plain = re.sub(r"^\[rank\d+\]: ?", "", text, flags=re.MULTILINE)  # torch adds this prefix in a process group
    after = plain.rpartition("Traceback (most recent call last):")[2].strip("\n").split("\n")
    return next((line for line in after if line and not line.startswith(" ")), after[-1])


def _read(file: Any) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_OUTPUT_BYTES))
    return str(file.read().decode("utf-8", "replace"))


def _rows(result: ProbeResult, *names: str) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return values and cases of the measurements with these names, name by name."""
    return [(one.value, one.case) for name in names for one in result.measurements if one.name == name]


def _raises_or_differs(printed: Printed) -> bool:
    """Return whether a case after the first raised or printed another result."""
    if printed.error:
        is_type_error = printed.error.startswith(("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError"))
        return bool(printed.cases) and not is_type_error
    first, *others = (re.sub(r"^[^:]*: ", "", line) for line in printed.cases)
    return any(not _alike(first, other) for other in others)


def _alike(first: str, second: str) -> bool:
    if NUMBER.sub("#", first) != NUMBER.sub("#", second):
        return False
    pairs = zip(map(float, NUMBER.findall(first)), map(float, NUMBER.findall(second)), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-9) or (a != a and b != b) for a, b in pairs)


def _is_broken(printed: Printed) -> bool:
    """Return whether the second of two cases raised or printed a non-finite number."""
    if printed.error:
        return len(printed.cases) == 1
    return len(printed.cases) == 2 and not all(map(math.isfinite, printed.numbers(1)))


def _two_cases(name: str, grads: str, sound: str = _SOUND, first: str = "ordinary") -> list[str]:
    """Return the loop over two cases, of which the first is sound."""
    for lines in (
        [f'for name, grads in {{"{first}": {sound}, "{name}": {grads}}}.items():'],
        [f"cases = {sound}, {grads}", f'for name, grads in zip(("{first}", "{name}"), cases):'],
    ):
        if max(map(len, lines)) <= LONGEST_LINE:
            return lines
    cases = [f'    "{first}": {sound},', f'    "{name}": {grads},']
    return ["cases = {", *cases, "}", "for name, grads in cases.items():"]


def _differs(name: str, grads: str, sound: str, first: str) -> _Evidence:
    return _Evidence(_two_cases(name, grads, sound, first), _raises_or_differs)


def _at_two_sizes(result: ProbeResult, measured: str, expected: str, boundary: str) -> tuple[Sequence[str], float]:
    """Return the loop over gradients of elements of 1 and of a magnitude that breaks the norm, and the magnitude."""
    (norm, case), (right, _) = _rows(result, measured)[0], _rows(result, expected)[0]
    magnitude, dtype = case["magnitude"], ""
    if _is_near(norm, right):
        found = [one for one in _rows(result, boundary) if one[0] is not None and one[1]["dtype"] != "mixed"]
        if not found:
            raise NoScriptError("The norm breaks only with one large element or with mixed dtypes.")
        magnitude, case = found[0]
        dtype = "" if case["dtype"] == "float32" else f", dtype=torch.{case['dtype']}"
    tensors = case["tensors"]
    grads = f"[torch.full(({case['elements'] // tensors},), size{dtype}) for _ in range({tensors})]"
    return (f"for size in (1.0, {magnitude!r}):", f"    grads = {grads}"), magnitude


def _is_near(value: Any, expected: Any) -> bool:
    return all(isinstance(one, int | float) and math.isfinite(one) for one in (value, expected)) and math.isclose(
        value, expected, rel_tol=0.01
    )


def _scaled(boundary: str) -> Callable[[ProbeResult, TargetReading], _Evidence]:
    """Compare the norm of gradients of 1 with that of the same gradients times a magnitude."""

    def evidence(result: ProbeResult, reading: TargetReading) -> _Evidence:
        path = reading.roles.get("norm", "")
        loop, magnitude = _at_two_sizes(result, "norm", "expected_norm", boundary)

        def shows(printed: Printed) -> bool:
            sound, broken = printed.field(0, path), printed.field(1, path)
            return len(printed.cases) == 2 and math.isfinite(sound) and not _is_near(broken, sound * magnitude)

        return _Evidence(loop, shows, ('print(f"elements of {size}:", {call})',))

    return evidence


def _clipped(result: ProbeResult, _: TargetReading) -> _Evidence:
    loop, _magnitude = _at_two_sizes(result, "norm_after", "expected_norm_after", "destroying_magnitude")
    left = "[p.grad.double().norm().item() for p in model]"

    def shows(printed: Printed) -> bool:
        return len(printed.cases) == 2 and any(not math.isfinite(each) or not each for each in printed.numbers(1))

    return _Evidence(loop, shows, ("{call}", f'print(f"elements of {{size}}, norms left:", {left})'))


def _nonfinite(result: ProbeResult, _: TargetReading) -> _Evidence:
    stays = [case for value, case in _rows(result, "health_stays") if value]
    hidden = [case for value, case in _rows(result, "visible") if not value]
    case = (hidden or stays)[0]
    kind = case["kind"]
    fields = [one["field"] for one in stays if one["kind"] == kind]
    if case["tensors"] > 3:
        sound = "[torch.ones(5, 3) for _ in range(24)]"
        broken = f'[torch.full((5, 3), float("{kind}") if i == 13 else 1.0) for i in range(24)]'
    else:
        shape = {2: "5, 3", 1: "7", 3: "2, 3, 4"}[case["dimensions"]]
        sound, broken = _SOUND, _SOUND.replace(f"({shape})", f'({shape}) * float("{kind}")')

    def shows(printed: Printed) -> bool:
        if len(printed.cases) != 2:
            return False
        if fields:
            return printed.field(1, fields[0]) >= printed.field(0, fields[0])
        return all(map(math.isfinite, printed.numbers(1)))

    return _Evidence(_two_cases(f"with {kind}", broken, sound), shows)


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
    return _differs(layout.replace("_", " "), f"[{grad}]", f"[{grad}.contiguous()]", "contiguous")


def _sparse(result: ProbeResult, _: TargetReading) -> _Evidence:
    form = next(case["form"] for value, case in _rows(result, "sound") if not value)
    made = "torch.sparse_coo_tensor([[4, 1, 4]], torch.ones(3, 3), (6, 3))" + ".coalesce()" * (form == "coalesced")
    return _differs(f"{form} sparse", f"[{made}]", f"[{made}.to_dense()]", "dense")


def _mixed(result: ProbeResult, _: TargetReading) -> _Evidence:
    rows = [case for value, case in _rows(result, "raises") if value]
    rows += [case for value, case in _rows(result, "relative_difference") if value > 1e-3]
    dtypes = rows[0]["dtype"].split("+")
    if rows[0].get("arrangement", "").startswith(dtypes[-1]):
        dtypes = dtypes[::-1]
    made = ", ".join(f"torch.ones(8, dtype=torch.{each})" for each in dtypes)
    return _differs(" and ".join(dtypes), f"[{made}]", f"[torch.ones(8) for _ in range({len(dtypes)})]", "float32")


def _missing(*_: object) -> _Evidence:
    sound = "[torch.ones(5, 3), torch.ones(7)]"
    return _differs("one without gradient", sound.replace("[", "[None, "), sound, "all")


def _zero_elements(result: ProbeResult, _: TargetReading) -> _Evidence:
    case = next(case for value, case in _rows(result, "sound") if not value)
    extra, sound = f"torch.zeros({case['shape'].strip('[]')})", ["torch.ones(4, 3)", "torch.ones(5)"]
    place = {"first": 0, "between": 1, "last": 2}.get(case["position"])
    if place is None:
        return _Evidence(_two_cases("only one without elements", f"[{extra}]"), _is_broken)
    broken = [*sound[:place], extra, *sound[place:]]
    return _differs("and one without elements", f"[{', '.join(broken)}]", f"[{', '.join(sound)}]", "two")


def _empty(result: ProbeResult, _: TargetReading) -> _Evidence:
    case = next(case for value, case in _rows(result, "missing_fields", "changed_kinds", "raises") if value)
    if "group" in case["input"]:
        raise NoScriptError("The defect needs two groups of which one is empty.")
    grads = "[]" if case["input"] == "no tensors" else "[None, None, None]"

    def shows(printed: Printed) -> bool:
        texts = [NUMBER.sub("#", line.partition(": ")[2]) for line in printed.cases]
        return bool(printed.error) or (len(texts) == 2 and texts[0] != texts[1])

    return _Evidence(_two_cases(case["input"], grads, first="three gradients"), shows)


def _zero_ratio(result: ProbeResult, _: TargetReading) -> _Evidence:
    case = next(case for value, case in _rows(result, "nonfinite_fields", "raises") if value)["input"]
    zeros = "[torch.zeros(5, 3), torch.zeros(7), torch.zeros(2, 3, 4)]"
    made = "[torch.zeros(0)]" if "without elements" in case else "[]" if "without" in case else zeros
    grads = _SOUND.replace("ones", "zeros", 1) if case == "one tensor zero" else made
    return _Evidence(_two_cases(case, grads), _is_broken, swaps_groups=case.startswith("second"))


_READS = (' == "aten::_local_scalar_dense"', "device values read")
_OPERATORS = ('.startswith("aten::")', "operators")
_SIZES = ("for tensors in (4, 64):", "    grads = [torch.ones(128) for _ in range(tensors)]")


def _count_lines(matches: str, words: str) -> tuple[str, ...]:
    """Return the lines that count the operators of a call whose names match."""
    return (
        "with torch.profiler.profile() as profile: {call}",
        f"count = sum(e.count for e in profile.key_averages() if e.key{matches})",
        f'print(tensors, "tensors:", count, "{words}")',
    )


def _grows_by_60(printed: Printed) -> bool:
    return len(printed.cases) == 2 and printed.field(1, "") >= printed.field(0, "") + 60


def _counted(matches: str, words: str) -> Callable[..., _Evidence]:
    """Count operators by name at 4 and 64 tensors; the count grows if there is a defect."""
    return lambda *_: _Evidence(_SIZES, _grows_by_60, _count_lines(matches, words))


def _collecting(*_: object) -> _Evidence:
    lines = _count_lines(_READS[0], "device values read while collecting")
    return _Evidence(_SIZES, lambda found: found.field(0, "") > 0 and found.field(1, "") > 0, lines, collects=True)


def _peak(*_: object) -> _Evidence:
    loop = ("for grads in [[torch.ones(100_000) for _ in range(10)]]:",)
    lines = (
        "with torch.profiler.profile(profile_memory=True) as profile: {call}",
        "live = itertools.accumulate(event.self_cpu_memory_usage for event in profile.events())",
        'print("bytes live between operators for each byte of gradients:", max(live) / 4e6)',
    )
    return _Evidence(loop, lambda printed: printed.field(0, "") > 0.25, lines)


def _generator(*_: object) -> _Evidence:
    loop = ('for name, form in {"a list": list, "a generator": iter}.items():', f"    grads = {_SOUND}")
    return _Evidence(loop, _raises_or_differs, forms=True)


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
    "norm_overflows_on_finite_grads": _scaled("breaking_magnitude"),
    "norm_underflows_to_zero": _scaled("vanishing_magnitude"),
    "peak_memory_grows_with_params": _peak,
    "ratio_divides_by_zero": _zero_ratio,
    "syncs_grow_with_tensors": _counted(*_READS),
    "async_collect_synchronizes": _collecting,
}
