#!/usr/bin/env python3
"""Does a loop over tensors read each of them back, and wait for the device every time?"""

from forms import counted, nothing_found, run_alone, verdict

PROBE = {
    "version": 4,
    "title": "A loop over tensors waits for the device at every turn",
    "scope": "source",
    "categories": ["Performance bottleneck"],
    "breaks": "cost",
    "occurs": "ordinary",
    "statement_does": "waits for the device at every turn of its loop",
    "motivation": "On a GPU .item(), .tolist(), .cpu(), float(), bool() and 'if' of a tensor make the host wait for "
    "all queued work. In a loop over parameters that is one stall for each.",
    "method": "The source is followed: what comes from parameters(), .grad, a tensor annotation or a torch operator is "
    "a tensor. Reported are reads of tensors in loops over tensors, also in helpers of the module. A copy from .cpu() "
    "is free to read.",
    "limits": "Nothing is run: a loop over tensors on the CPU is reported unless a name says so. Tensors kept in "
    "objects, helpers of other modules and loops over other tensors are not reported. P2 in a loop over gradients, P3 "
    "for copies and checks, P4 at intervals and in scripts.",
    "remediation": "Keep every result on the device, stack the results, and read the stack once after the loop.",
    "remediation_code": "remedies/collect_and_materialize.py",
    "measurements": {"host_read": "line", "files_examined": "count", "functions_examined": "count"},
}

_COPIES = (".cpu()", ".numpy()")
_FOR_DEBUGGING = ("sanity", "debug", "dump")
_MOST_IN_MESSAGE = 4


def measure(ctx):
    """Yield the line of every read in a loop over tensors, with what is read, how, and in which loop."""
    functions = 0
    for module in ctx.modules:
        functions += sum(1 for _ in module.defined())
        for found in ctx.reads_in_loops(module):
            subject = found.call
            for read in found.reads:
                case = {"how": read.what, "value": read.value, "loop": read.loop_line, "over": read.over}
                case |= {name: text for name in ("helper", "guard") if (text := getattr(read, name))}
                is_beside = module.is_side or any(word in subject.lower() for word in _FOR_DEBUGGING)
                if read.of_gradients and not is_beside:
                    case["gradients"] = True
                yield ctx.measurement(subject, "host_read", read.line, "line", **case)
            line = found.reads[0].read_line  # of the helper, if one reads: its callers share the cause
            inside = (each.qualified_name for each in module.defined() if each.line <= line <= each.node.end_lineno)
            yield ctx.location(subject, module, line, next(inside, found.qualified_name))
    yield from ctx.examined(functions=functions)


def judge(measurements, policy):
    """Reproduced if there is a read: every run meets its cost in a loop over gradients, few runs elsewhere."""
    reads = [m for m in measurements if m.name == "host_read"]
    if not reads:
        message = "no tensor is read back in a loop over tensors in {functions_examined:,} functions of "
        return nothing_found(measurements, message + "{files_examined:,} files")
    count = len({m.value for m in reads})
    listed = "; ".join(_in_words(m) for m in reads[:_MOST_IN_MESSAGE])
    more = "; and {} more".format(len(reads) - _MOST_IN_MESSAGE) if len(reads) > _MOST_IN_MESSAGE else ""
    waits = "waits" if count == 1 else "wait"
    text = "{} {} for the device inside a loop over tensors: {}{}"
    message = text.format(counted(count, "line"), waits, listed, more)
    met = {_occurs(m.case) for m in reads}
    occurs = next(word for word in ("ordinary", "common", "rare") if word in met)
    return verdict(True, message, occurs={"tensors": occurs})


def _occurs(case):
    """Return who meets it: whole copies may be the loop's purpose; an interval or a debug flag is rare."""
    guard = case.get("guard", "").lower()
    is_check = "check" in guard and "sanity" not in guard
    if not case.get("gradients") or (guard and not is_check):
        return "rare"
    return "common" if guard or case["how"] in _COPIES else "ordinary"


def _in_words(read):
    helper = " in {}".format(read.case["helper"]) if "helper" in read.case else ""
    return "line {}, {how} of {value}{} (loop over {over})".format(read.value, helper, **read.case)


if __name__ == "__main__":
    run_alone(__file__)
