"""The kind of a call, and the reads that it does: built-in functions, torch, methods, helpers of the module."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from auditkit.probing.source_code.modules import dotted_name, is_constant
from auditkit.probing.source_probes.tensor_flow import torch_names
from auditkit.probing.source_probes.tensor_flow.expressions import Expressions
from auditkit.probing.source_probes.tensor_flow.kinds import (
    HOST,
    MODULE,
    TENSOR,
    Kind,
    element,
    items,
    join_all,
    row,
    shape,
    table,
)

_CONTAINER_METHODS = frozenset(("append", "add", "insert", "appendleft"))
_WRAPPERS = frozenset(("tqdm", "track", "deque", "islice", "chain", "cycle"))
"""Functions of others that give the elements of what they are given, whatever they are imported from."""
_ON_HOST = frozenset(("len", "isinstance", "hasattr", "id", "type", "range", "round_", "callable", "issubclass"))


def kind_of_call(flow: Expressions, node: ast.Call) -> Kind:
    """What a call gives back; what it reads is noted in `flow`."""
    written = dotted_name(node.func)
    full = flow.helpers.full_name(written)
    if isinstance(node.func, ast.Name) and not full:
        builtin = _BUILTINS.get(written)
        if builtin is not None:
            return builtin(flow, node)
    if written.rpartition(".")[2] in _WRAPPERS and node.args:
        return _keeps(flow, node)
    given = [flow.kind(item) for item in node.args]
    keywords = {item.arg or "": flow.kind(item.value) for item in node.keywords}
    if full.startswith("torch."):
        return _torch_call(flow, node, full, given, keywords)
    if full.startswith("math.") and TENSOR in given:
        flow.read(node, f"{written}()", node.args[given.index(TENSOR)])
        return HOST
    if full.startswith("numpy."):
        return HOST
    found = flow.helpers.find(flow.function, node.func)
    if found is not None:
        helper, first = found
        summary = flow.helpers.summary(helper, tuple(given[first:]), flow.depth + 1)
        flow.read_in_helper(node, written or helper.qualified_name, summary)
        return summary.result
    if isinstance(node.func, ast.Attribute):
        return _method_call(flow, node, node.func, given)
    return TENSOR if flow.kind(node.func) == MODULE else None


def _torch_call(flow: Expressions, node: ast.Call, full: str, given: list[Kind], keywords: dict[str, Kind]) -> Kind:
    waits = torch_names.reads_to_host(full) or (full == "torch.where" and len(given) == 1)
    if waits and TENSOR in given:
        flow.read(node, f"{full}()", node.args[given.index(TENSOR)])
        return HOST if torch_names.answers_on_host(full) else torch_names.of_function(full, given, keywords, False)
    if full in ("torch.tensor", "torch.as_tensor") and given and given[0] == items(TENSOR):
        with flow.loop(node.lineno, node.args[0], given[0]):
            flow.read(node, f"{full}() of tensors", node.args[0])
    return torch_names.of_function(full, given, keywords, _device_of(node) not in (None, "cpu"))


def _device_of(node: ast.Call) -> str | None:
    """The text of `device=`, without quotes; None without it."""
    given = [item.value for item in node.keywords if item.arg == "device"]
    if not given:
        return None
    return "cpu" if "'cpu'" in ast.unparse(given[0]) else ast.unparse(given[0])


def _method_call(flow: Expressions, node: ast.Call, method: ast.Attribute, given: list[Kind]) -> Kind:
    base, name = flow.kind(method.value), method.attr
    if name in _CONTAINER_METHODS and given:
        flow.put_into(method.value, given[-1])
        if name != "add":
            flow.lists.add(dotted_name(method.value))
        return None
    if name == "extend" and given:
        flow.put_into(method.value, element(given[0]))
        return None
    if base == TENSOR and (name in torch_names.HOST_READS or name in torch_names.WAITING):
        flow.read(node, f".{name}()", method.value)
        return TENSOR if name in torch_names.WAITING else HOST
    if name in ("pop", "popleft"):
        flow.note_taken(method.value, base)
    if base == TENSOR and name == "to" and _goes_to_cpu(node):
        flow.read(node, ".cpu()", method.value)
        return HOST
    if name in ("cpu", "numpy", "tolist", "item"):
        return HOST
    if name == "to" and base == HOST:
        return TENSOR if _is_sent_away(node) else HOST
    return torch_names.of_method(base, name, given)


def _goes_to_cpu(node: ast.Call) -> bool:
    """`.to("cpu")` that waits: a non-blocking copy does not."""
    if any(item.arg == "non_blocking" and not is_constant(item.value, False) for item in node.keywords):
        return False
    texts = [ast.unparse(item) for item in [*node.args, *(word.value for word in node.keywords)]]
    return any(text in ("'cpu'", "torch.device('cpu')") for text in texts)


def _is_sent_away(node: ast.Call) -> bool:
    """`.to(device)`, not `.to(torch.float64)` and not `.to("cpu")`."""
    texts = [ast.unparse(item.value) for item in node.keywords if item.arg == "device"]
    texts += [ast.unparse(item) for item in node.args[:1]]
    return bool(texts) and not any(re.search(r"dtype|float|int|cpu|half|double|bool", text) for text in texts)


# --- built-in functions ----------------------------------------------------------------------------


def _number_or_text(flow: Expressions, node: ast.Call) -> Kind:
    """`float(norm)` and `str(norm)` read a tensor back."""
    for item in node.args:
        if flow.kind(item) == TENSOR:
            flow.read(node, f"{dotted_name(node.func)}()", item)
    return HOST


def _asks_each(flow: Expressions, node: ast.Call) -> Kind:
    """`any(...)` and `all(...)` ask every element for its truth."""
    name = dotted_name(node.func)
    for item in node.args[:1]:
        if isinstance(item, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            # The element is asked where the loop runs; its source says whether that is over tensors.
            flow.ask_each_of(item, f"{name}()")
            continue
        kind = flow.kind(item)
        if element(kind) == TENSOR and kind != HOST:
            with flow.loop(node.lineno, item, kind):
                flow.read(node, f"{name}()", item)
    return HOST


def _compares_each(flow: Expressions, node: ast.Call) -> Kind:
    """`max(norms)`, `min(norms)` and `sorted(norms)` compare one by one, and ask for the truth of each."""
    name = dotted_name(node.func)
    kinds = [flow.kind(item) for item in node.args]
    keys = [item.value for item in node.keywords if item.arg == "key"]
    if len(kinds) == 1:
        inner = element(kinds[0])
        with flow.loop(node.lineno, node.args[0], kinds[0]):
            if keys:
                _apply(flow, keys[0], inner, node)
            elif inner == TENSOR and shape(kinds[0]) == "items":
                flow.read(node, f"{name}()", node.args[0])
        return items(inner) if name == "sorted" else inner
    if TENSOR in kinds:
        flow.read(node, f"{name}()", node.args[kinds.index(TENSOR)])
        return TENSOR
    return HOST if kinds and all(kind == HOST for kind in kinds) else None


def _maps(flow: Expressions, node: ast.Call) -> Kind:
    """`map(float, norms)` and `map(lambda n: n.item(), norms)`."""
    if len(node.args) != 2:
        return None
    source = flow.kind(node.args[1])
    with flow.loop(node.lineno, node.args[1], source):
        made = _apply(flow, node.args[0], element(source), node)
    return items(element(source)) if dotted_name(node.func) == "filter" else items(made)


def _apply(flow: Expressions, function: ast.expr, given: Kind, node: ast.Call) -> Kind:
    """A function called with one argument of a known kind, somewhere inside a built-in one."""
    if isinstance(function, ast.Lambda) and function.args.args:
        before = dict(flow.known)
        flow.known[function.args.args[0].arg] = given
        made = flow.kind(function.body)
        flow.known = before
        return made
    name = dotted_name(function)
    if name in ("float", "int", "bool") and given == TENSOR:
        flow.read(node, f"{name}()", node.args[-1])
        return HOST
    found = flow.helpers.find(flow.function, function)
    if found is not None:
        helper, _ = found
        summary = flow.helpers.summary(helper, (given,), flow.depth + 1)
        flow.read_in_helper(node, name or helper.qualified_name, summary)
        return summary.result
    return None


def _keeps(flow: Expressions, node: ast.Call) -> Kind:
    """The elements of the first; `itertools.chain` gives those of all."""
    kinds = [flow.kind(item) for item in node.args]
    several = kinds if dotted_name(node.func).endswith("chain") else kinds[:1]
    return items(join_all(map(element, several)))


def _enumerates(flow: Expressions, node: ast.Call) -> Kind:
    return items(row((HOST, element(flow.kind(node.args[0]))))) if node.args else None


def _zips(flow: Expressions, node: ast.Call) -> Kind:
    return items(row(element(flow.kind(item)) for item in node.args))


def _one_of(flow: Expressions, node: ast.Call) -> Kind:
    """`sum(norms)` and `next(norms)` are what the elements are."""
    kinds = [flow.kind(item) for item in node.args]
    if kinds and dotted_name(node.func) == "next":
        flow.note_taken(node.args[0], kinds[0])
    return element(kinds[0]) if kinds else None


def _gets_attribute(flow: Expressions, node: ast.Call) -> Kind:
    kinds = [flow.kind(item) for item in node.args]
    name = node.args[1] if len(node.args) > 1 else None
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return torch_names.of_attribute(kinds[0], name.value)
    return None


def _makes_table(flow: Expressions, node: ast.Call) -> Kind:
    kinds = [flow.kind(item) for item in node.args] + [flow.kind(item.value) for item in node.keywords]
    if kinds and shape(kinds[0]) == "table":
        return kinds[0]
    if kinds and shape(element(kinds[0])) == "row":
        return table(element(kinds[0])[1][-1])
    return table("none") if not kinds else None


def _on_host(flow: Expressions, node: ast.Call) -> Kind:
    for item in node.args:
        flow.kind(item)
    return HOST


def _same(flow: Expressions, node: ast.Call) -> Kind:
    """`abs(norm)` is a tensor where the norm is one."""
    kinds = [flow.kind(item) for item in node.args]
    return kinds[0] if kinds else None


_BUILTINS: dict[str, Callable[[Expressions, ast.Call], Kind]] = {
    **dict.fromkeys(("float", "int", "bool", "complex", "str", "repr", "format", "print"), _number_or_text),
    **dict.fromkeys(("any", "all"), _asks_each),
    **dict.fromkeys(("max", "min", "sorted"), _compares_each),
    **dict.fromkeys(("map", "filter"), _maps),
    **dict.fromkeys(("list", "tuple", "iter", "reversed", "set", "frozenset"), _keeps),
    **dict.fromkeys(_ON_HOST, _on_host),
    **dict.fromkeys(("abs", "round"), _same),
    "enumerate": _enumerates,
    "zip": _zips,
    **dict.fromkeys(("sum", "next"), _one_of),
    "getattr": _gets_attribute,
    "dict": _makes_table,
}
