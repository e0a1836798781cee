#!/usr/bin/env python3
"""Does a loop over tensors read each of them back, and wait for the device every time?"""

PROBE = {
    "id": "sync_in_loop",
    "version": 3,
    "title": "A loop over tensors waits for the device at every turn",
    "scope": "source",
    "contracts": [],
    "categories": ["Performance bottleneck"],
    "agent": "PT",
    "breaks": "cost",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "statement_does": "waits for the device at every turn of its loop",
    "instrument": "syntax",
    "motivation": "On a GPU .item(), .tolist(), .cpu(), float(), bool() and 'if' of a tensor make the host wait "
    "until all queued work is done. In a loop over parameters or gradients that is one wait for each of them: "
    "hundreds of stalls from one line, with the device idle in between.",
    "method": "The syntax tree of every function is followed: what comes from parameters(), .grad, a tensor "
    "annotation or an operator of torch is a tensor, and so is what is computed from it. Reported are reads of "
    "tensors (.item(), 'if', 'case', 'in', a boolean mask as index) in loops and comprehensions over tensors, those "
    "of helpers in the same module too. After one .cpu() or .tolist() the copy is free to read. "
    "syncs_grow_with_tensors counts the same by running it.",
    "limits": "Nothing is run: a loop over tensors that lie on the CPU is reported as well, unless a name or a test "
    "of the device says so. Not seen: tensors kept in other objects, helpers of other modules, reads inside "
    "libraries. Not reported: copies of a state_dict, what runs once because its block leaves the loop or fills an "
    "empty state, what a data loader gives, what only isinstance says is a tensor, and the answer of a function that "
    "is annotated as bool, float or the like. P2 where any step waits, in a loop over gradients; P3 for whole copies "
    "and under a flag for checks; P4 elsewhere, at an interval, while debugging, in examples and records.",
    "remediation": "Keep every result on the device, stack the results, and read the stack once after the loop. "
    "torch._foreach_norm is private: the code asks for it first.",
    "remediation_code": """import torch


def tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def layer_norms(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return {"grad_norm": 0.0, "max_norm": 0.0}
    norms = tensor_norms(grads)
    values = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": values[0], "max_norm": values[1]}
""",
    "verification": ["no line of the function reads a tensor back inside a loop over tensors"],
    "measurements": {"host_read": "line", "files_examined": "count", "functions_examined": "count"},
}

_COPIES = (".cpu()", ".numpy()")
_FOR_DEBUGGING = ("sanity", "debug")
_MOST_IN_MESSAGE = 4


def measure(ctx):
    """Yield the line of every read in a loop over tensors, with what is read, how, and in which loop."""
    functions = 0
    for module in ctx.modules:
        functions += module.count("function", "method")
        for found in ctx.reads_in_loops(module):
            subject = found.call
            for read in found.reads:
                case = {"how": read.what, "value": read.value, "loop": read.loop_line, "over": read.over}
                case |= {name: text for name in ("helper", "guard") if (text := getattr(read, name))}
                is_beside = module.is_side or any(word in subject.lower() for word in _FOR_DEBUGGING)
                if read.of_gradients and not is_beside:
                    case["gradients"] = True
                yield ctx.measurement(subject, "host_read", read.line, "line", **case)
            yield ctx.location(subject, module, found.reads[0].line, found.qualified_name)
    yield from ctx.examined(functions=functions)


def judge(measurements, policy):
    """Reproduced where there is a read: a cost that any run meets in a loop over gradients, and few elsewhere."""
    reads = [m for m in measurements if m.name == "host_read"]
    if not reads:
        counts = {m.name: m.value for m in measurements}
        message = "no tensor is read back in a loop over tensors in {:,} functions of {:,} files".format(
            counts["functions_examined"], counts["files_examined"]
        )
        return {"outcome": "not_reproduced", "message": message}
    lines = sorted({m.value for m in reads})
    listed = "; ".join(_in_words(m) for m in reads[:_MOST_IN_MESSAGE])
    more = "; and {} more".format(len(reads) - _MOST_IN_MESSAGE) if len(reads) > _MOST_IN_MESSAGE else ""
    message = "{} inside a loop over tensors: {}{}".format(
        "1 line waits for the device" if len(lines) == 1 else "{} lines wait for the device".format(len(lines)),
        listed,
        more,
    )
    met = {_occurs(m.case) for m in reads}
    occurs = next(word for word in ("ordinary", "common", "rare") if word in met)
    return {"outcome": "reproduced", "message": message, "occurs": occurs}


def _occurs(case):
    """Who notices: whole copies may be what the loop is for; an interval or a debug flag is rarely met."""
    guard = case.get("guard", "").lower()
    is_check = "check" in guard and "sanity" not in guard
    if not case.get("gradients") or (guard and not is_check):
        return "rare"
    return "common" if guard or case["how"] in _COPIES else "ordinary"


def _in_words(read):
    helper = " in {}".format(read.case["helper"]) if "helper" in read.case else ""
    return "line {}, {} of {}{} (loop over {})".format(
        read.value, read.case["how"], read.case["value"], helper, read.case["over"]
    )


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
