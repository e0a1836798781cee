"""Helpers of probes: run a probe's file as a program, and compare the target's results for several input forms.

A probe imports it as `forms`, wherever the probe is loaded. It needs neither torch nor anything else of auditkit.
"""

import contextlib
import glob
import importlib.util
import math
import os
import shlex
import shutil
import sys
from textwrap import fill

_OURS_LACKS = "AttributeError: 'Parameter' object has no attribute"
AFTERWARDS = "the gradients' norm afterwards"


# --- a probe as a program ------------------------------------------------------------------------------


def run_alone(path):
    """Replace this process by `auditkit probe run PATH ...`; with --help print the probe's texts first.

    The interpreter is the running one if auditkit is installed in it, else that of the clone's .venv, else that of
    the `auditkit` on PATH. Without any, print what to do and exit with 2.
    """
    path = os.path.abspath(path)
    home = os.path.dirname(os.path.dirname(path))
    if {"-h", "--help"} & set(sys.argv[1:]):
        probe = sys.modules["__main__"]
        texts = probe.__doc__, "How: " + probe.PROBE["method"], "Limits: " + probe.PROBE["limits"]
        print("\n\n".join(map(fill, texts)), flush=True)
    command = _auditkit(home)
    is_clone = os.path.isfile(os.path.join(home, "auditkit", "__init__.py"))
    if is_clone:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    if command:
        words = [word for word in sys.argv[1:] if word != "--cage"]
        cage = ["--cage"] if "--cage" in sys.argv else []
        with contextlib.suppress(OSError):  # an interpreter of another machine, or one that is gone
            os.execv(command[0], [*command, *cage, "probe", "run", path, *words])
    install = "cd {} && python3 -m venv .venv && .venv/bin/pip install .".format(shlex.quote(home))
    advice = "install it: " + install if is_clone else "run this file with the Python that auditkit is installed in"
    print("error: no Python with auditkit was found; {}".format(advice), file=sys.stderr)
    sys.exit(2)


def _auditkit(home):
    """Return the command that starts auditkit, or nothing."""
    is_new_enough = sys.version_info >= (3, 11)
    if is_new_enough and importlib.util.find_spec("auditkit") and importlib.util.find_spec("typer"):
        return [sys.executable, "-P", "-m", "auditkit"]
    python = os.path.join(home, ".venv", "bin", "python")
    typer = os.path.join(home, ".venv", "lib", "python3*", "site-packages", "typer")
    if os.access(python, os.X_OK) and glob.glob(typer):
        return [python, "-P", "-m", "auditkit"]
    return [script for script in [shutil.which("auditkit")] if script]


# --- real ranks ----------------------------------------------------------------------------------------


def rank_rows(ctx, reports, passes=False, **case):
    """Yield what every rank reported in one `case`; return the lines that raised anything but a clear refusal.

    With `passes`, every exception counts as a refusal.
    """
    sites = []
    for rank, report in enumerate(reports):
        for number in report.numbers():
            yield ctx.measurement(*number, **case, rank=rank)
        if report.raised:
            refused = passes or report.raised.startswith("refuses: ")
            how = report.raised.split(". ")[0][:160]
            yield ctx.measurement("refused" if refused else "raised", True, "truth", how=how, **case, rank=rank)
            sites += [] if refused else [report.site]
    return sites


def is_off(value, expected, tolerance):
    """Return whether a rank's number differs from all `expected` ones."""
    finite = [each for each in expected if math.isfinite(value) and math.isfinite(each)]
    return all(abs(value - each) > tolerance * abs(each) for each in finite)


def rank_figures(measurements, first, expected, *keys):
    """Return all ranks' numbers in the case of `first`, which is wrong; `keys` name the case."""
    of_case = [m for m in measurements if m.name == first.name and "rank" in m.case]
    alike = [m for m in of_case if all(m.case[key] == first.case[key] for key in keys)]
    values = ", ".join(dict.fromkeys("{:.6g}".format(m.value) for m in alike))
    ranks = 1 + max(m.case["rank"] for m in alike)
    text = "under {} the {} of {} ranks reads {} instead of {:.6g}"
    return text.format(first.case[keys[0]], first.name.replace("_", " "), ranks, values, expected)


# --- training steps ------------------------------------------------------------------------------------


def compared_steps(measurements, policy, *keys):
    """Return (the case's `keys`, norm ratio, cosine) of every gradient, and the rows that the policy rejects."""
    cosines = {m.name: {} for m in measurements}
    for m in measurements:
        cosines[m.name][tuple(m.case.get(key) for key in keys)] = m.value
    found = [(key, ratio, cosines["cosine"][key]) for key, ratio in cosines.get("norm_ratio", {}).items()]
    limit, least = policy["allowed_ratio"], policy["least_cosine"]
    return found, [row for row in found if abs(row[1] - 1) > limit or row[2] < least]


def ratio_law(ratios, noun):
    """Return the law of (count, norm ratio): 1, the count or its inverse; "" for another one."""
    for text, power in (("1", 0), (noun, 1), ("1/" + noun, -1)):
        if all(abs(ratio / count**power - 1) < 0.02 for count, ratio in ratios):
            return "norm ratio " + text
    return ""


# --- norms that overflow -------------------------------------------------------------------------------

LARGE_MAGNITUDE = 1e20
# Trainers log norms of 0.1 to 1e3, and up to 1e4 in a spike; float16 itself ends at 65,504.
REACHED_NORM = 3e4
# No weight survives a step with such a gradient; torch's own norm and clipping end at 1.84e19.
DIVERGED_NORM = 1e15
# Largest number of float16: torch's norms of float16 gradients end there.
_FLOAT16_END = 65504.0
_WORDS = ("ordinary", "common", "rare", "extreme")
# What the checkout must use so that gradients have a dtype; float32 needs nothing, and users enable float64.
_NEED = {"float16": "float16", "bfloat16": "bfloat16", "mixed": "16-bit"}


def by_need(found, word_of):
    """Return for each need who meets the worst of some measurements, by their dtype and the word of each."""
    words = {}
    for m in found:
        words.setdefault(_NEED.get(m.case["dtype"], ""), []).append(word_of(m))
    return {need: min(each, key=_WORDS.index) for need, each in words.items()}


def who_meets_norm(m):
    """Return who meets a broken norm: torch's own norm of the dtype ends at extreme magnitudes."""
    usual, end = ("common", _FLOAT16_END) if m.case["dtype"] == "float16" else ("ordinary", DIVERGED_NORM)
    return usual if m.value < REACHED_NORM else "rare" if m.value < end else "extreme"


# (dtype, tensors, elements of each, largest exponent an element may have)
_LARGE_CASES = (
    ("float32", 4, 1024, 126),
    ("float32", 1, 1 << 20, 126),
    ("bfloat16", 4, 1024, 126),
    ("bfloat16", 1, 1 << 20, 126),
    ("float16", 4, 1024, 15),
    ("float16", 1, 1 << 20, 15),
    ("mixed", 4, 1024, 126),
    ("float64", 4, 1024, 1022),
)


def boundaries(ctx, name, find):
    """Yield for every dtype the smallest magnitude and norm that break (None: there is none), and the first line.

    `find(shape, largest)` returns the exponent that breaks, or None, and a further case. `largest` is the largest
    exponent to try: the true norm stays below 2**127, which float32 can represent; float64 has its own range.
    """
    for dtype, tensors, elements, largest in _LARGE_CASES:
        shape, root = (tensors, elements, dtype), math.sqrt(tensors * elements)
        highest = min(largest, (1022 if dtype == "float64" else 126) - math.ceil(math.log2(root)))
        found, note = unless_refused(ctx, dtype, lambda: find(shape, highest))  # noqa: B023
        if note:
            yield note
            continue
        exponent, more = found
        case = {"dtype": dtype, "tensors": tensors, "elements": tensors * elements}
        magnitude = None if exponent is None else 2.0**exponent
        norm = None if magnitude is None else magnitude * root
        yield ctx.measurement(name + "_magnitude", magnitude, "magnitude", **case)
        yield ctx.measurement(name + "_norm", norm, "norm", **more, **case)
        if magnitude is not None and not ctx.located and dtype != "float64":
            yield ctx.location(ctx.where("becomes_nonfinite", ctx.gradients(*shape, magnitude)))


def judged_boundaries(measurements, name, policy):
    """Return the norms that break; those of float64 only if the policy judges them."""
    found = [m for m in measurements if m.name == name and m.value is not None]
    return [m for m in found if policy.get("judge_float64") or m.case["dtype"] != "float64"]


def who_meets_error(error):
    """Return who meets a norm that is off: a clip factor that is 1 % off trains the same, 10 % is another step size."""
    return "common" if error > 0.1 else "rare" if error > 0.01 else "extreme"


# --- one check on several forms of input ---------------------------------------------------------------


def attempt(ctx, call, *args):
    """Return the result of `call`, and what the target raised instead.

    If parameters of the checkout have an attribute that auditkit's lack (`main_grad`), the target has not failed.
    """
    try:
        return call(*args), None
    except ctx.TargetRaised as error:
        if _OURS_LACKS in str(error):
            raise ctx.NotApplicable("parameters of the checkout have more attributes: {}".format(error)) from error
        return None, error


def counted_law(ctx, name, count_calls, tensor_counts=(4, 16, 64, 256), dtype="float32"):
    """Yield how often one call does something by the number of tensors, and the law; return the slope and the sites."""
    counts = {}
    for tensors in tensor_counts:
        count = count_calls(ctx.gradients(tensors, 128, dtype))
        counts[tensors] = count.total
        yield ctx.measurement(name, count.total, "count", tensors=tensors)
    law = ctx.law(name + "_law", counts)
    yield law
    return law["value"], count.sites


def law_in_words(measurements, name, what):
    """Return the law that `counted_law` measured, and a message about it."""
    law = next(m for m in measurements if m.name == name + "_law")
    largest = max((m for m in measurements if m.name == name), key=lambda m: m.case["tensors"])
    text = "{} per call: {} for n tensors ({:,} at {})"
    return law, text.format(what, law.case["law"], largest.value, largest.case["tensors"])


def unless_refused(ctx, dtype, call):
    """Return the result of `call`, or None and a note if the target rejects such gradients; it must accept float32."""
    try:
        return call(), None
    except (ctx.TargetRaised, ctx.NotApplicable) as error:
        if dtype == "float32":
            raise
        return None, ctx.note("{} gradients were not judged: {}".format(dtype, error))


def compare_forms(ctx, forms, passes=lambda error, case: False, skips=lambda error, case: False):
    """Yield for every form of input whether the target is right, what is wrong, and the line of the first wrong form.

    A form is (case, run, where): `run()` calls the target and describes what is wrong; `where()` is the line to report
    if nothing raises. An exception is wrong unless it `passes`, and is ignored if it `skips`.
    """
    for case, run, where in forms:
        wrong, error = attempt(ctx, run)
        if error is not None and skips(error, case):
            yield ctx.note("{} was not judged: {}".format(*case.values(), error))
            continue
        kind, how = "differs" if wrong else "", ", ".join((wrong or [])[:4])
        if error is not None:
            kind = "refuses" if passes(error, case) else "raises"
            how = ("refuses: " if error.deliberate else "raises ") + first_sentence(error)
        is_sound = kind in ("", "refuses")
        yield ctx.measurement("sound", is_sound, "truth", kind=kind, how=how, **case)
        if not is_sound and not ctx.located:
            yield ctx.location(where() if error is None else error.site)


def compare_numbers(ctx, arrangements, change, plain, is_wrong, is_clear=lambda error: False):
    """Yield for every arrangement of several kinds whether the target raises, and how far norm and counts are off.

    `arrangements(role)` yields (case, first, second): the dtypes or devices of the first group by turns, and of the
    second (None: as the plan found it). `change` converts gradients to them; with all of the kind `plain` the result
    is right. A clear exception has no line.
    """
    for role, make in _compared_roles(ctx):
        references = {}

        def number(first, second, role=role, make=make):
            others = None if second is None else change(ctx.benign(seed=1), second)
            return ctx.number(role, change(make(), first), others)

        for case, first, second in arrangements(role):
            if second not in references:
                references[second] = [number(plain, second and plain) for _ in range(2)]
            expected, again = references[second]
            value, error = attempt(ctx, number, first, second)
            if error is not None:
                case = {**case, "error": str(error), "deliberate": error.deliberate}
            yield ctx.measurement("raises", error is not None, "truth", **case)
            if error is not None:
                if not ctx.located and not is_clear(case):
                    yield ctx.location(error.site or ctx.definition())
            elif not ctx.relative_difference(expected, again) and not (role is None and value >= expected):
                difference = ctx.relative_difference(value, expected)
                field = "the count of its numbers" if role is None else ctx.role(role).path or role
                case = {**case, "field": field, "role": role, "answer": text(value), "expected": text(expected)}
                yield ctx.measurement("relative_difference", difference, "ratio", **case)
                if is_wrong(role, difference) and not ctx.located:
                    both = (change(make(), kinds) for kinds in (first, plain))
                    yield ctx.location(ctx.definition() if second else ctx.where_different(*both))


def _compared_roles(ctx):
    """Return the roles whose numbers can be compared, each with a maker of gradients that show it.

    If there is no norm, the first has no role: it shows whether anything raises.
    """
    yield ("norm" if "norm" in ctx.roles else None), ctx.powers_of_two
    for role, planted in {"zero": {"zeros": 5}, "nan": {"nans": 5}, "inf": {"infs": 5}}.items():
        if role in ctx.roles:
            yield role, lambda planted=planted: ctx.benign(**planted)


def with_norm_afterwards(ctx, grads):
    """Return the result, and for a target that writes, the norm of the parameters' gradients after the same call."""
    if not ctx.writes_gradients:
        return ctx.answer(grads)
    answer, left = ctx.answer_and_left(grads)
    answer[AFTERWARDS] = ctx.exact_norm(left)
    return answer


def is_read(ctx, expected, make, ignored=()):
    """Return whether the result depends on the values of a gradient: `make(factor)` multiplies it.

    One of the factors changes a norm, a count of zeros or a count of non-finite elements.
    """
    others, error = attempt(ctx, lambda: [ctx.answer(make(factor)) for factor in (64.0, 0.0, math.nan)])
    return error is not None or any(set(ctx.differences(expected, other)) - set(ignored) for other in others)


def rows(ctx, probe, case, **values):
    """Yield a measurement of one case for each name, in the unit that the probe's definition states."""
    for name, value in values.items():
        yield ctx.measurement(name, value, probe["measurements"][name], **case)


def first_sentence(error):
    """Return the first sentence of an exception's text."""
    return str(error).split(" (")[0].split(". ")[0][:160]


def text(value, digits=6):
    """Format a value for a message."""
    if value is None:
        return "missing"
    return "{:.{}g}".format(value, digits) if isinstance(value, float) else str(value)


def grouped(pairs):
    """Format (x, a), (x, b), (y, c) as `a, b: x; c: y`."""
    groups = {}
    for what, name in pairs:
        groups.setdefault(what, []).append(name)
    return "; ".join("{}: {}".format(", ".join(names), what) for what, names in groups.items())


def counted(number, noun):
    """Format `1 line`, `3 lines`."""
    return "{} {}{}".format(number, noun, "" if number == 1 else "s")


def joined(names, most):
    """Format names as `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (" and {} more".format(more) if more > 0 else "")


def nothing_found(measurements, message):
    """Return the verdict of a source probe without a finding; `message` names what was counted in fields."""
    return verdict(False, message.format(**{m.name: m.value for m in measurements}))


def verdict(outcome, message, **more):
    """Return what `judge` returns; `outcome` may be whether it reproduced."""
    word = {True: "reproduced", False: "not_reproduced"}.get(outcome, outcome)
    return {"outcome": word, "message": message, **more}
