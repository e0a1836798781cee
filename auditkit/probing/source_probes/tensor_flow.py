"""Find loops over gradients or parameters that read a tensor back to the host in every iteration, without running it.

Values are followed through assignments, branches, loops, comprehensions and helpers of the same module. A kind says
what a value is: TENSOR, HOST (numbers, sizes, and tensors that were copied to the host once), NONE, MODULE, GROUP (of
an optimizer), `("items", kind)`, `("row", kinds)`, `("table", kind)`, or None for an unknown value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from auditkit.probing.source.callers import is_every
from auditkit.probing.source.modules import (
    Function,
    FunctionNode,
    Module,
    callee,
    dotted_name,
    is_constant,
    last_name,
    text_in,
)
from auditkit.probing.source.walking import walk

Kind = Any
TENSOR, HOST, NONE, MODULE, GROUP = "tensor", "host", "none", "module", "group"

HAS_TENSORS = re.compile(
    rb"\b(import|from)\b[^\n#]*\btorch\b|\.(named_)?(parameters|buffers)\(|\.param_groups\b|\.grad\b(?!\s*\()"
)
"""A file with tensors names torch, or attributes of its modules, optimizers and tensors."""
_MOST_HELPERS_DEEP = 3
_LONGEST_TEXT = 60
_GRADIENTS = re.compile(
    r"(?!no_|requires_|enable_|zero_)(\w*_)?(grads?|gradients)|clip_grad_norm_?|(grads?|gradient)_norms?"
)
_THEIR_LIKE = re.compile(r"(\w+_)?(grads?|gradients?|params?|parameters?|norms?|updates?|momentum)(_\w+)?")
_SELDOM = re.compile(r"(^|_)(debug\w*|verbose|sanity|checks?|profil\w*|diagnos\w*|paranoid|inf)(_|$)", re.IGNORECASE)
_BATCHES = re.compile(r"(?<![a-z])((data)?loaders?|datasets?|batches)(?![a-z])", re.IGNORECASE)
_ON_HOST = re.compile(r"(^|_)(cpu|numpy|np|pinned)(_|$|\d)|^(state_)?steps?(_t)?$|(state_dict|checkpoint|ckpt)s?$")
"""Names of values in host memory; torch's optimizers keep `state["step"]` there."""
_NAMED = (
    (re.compile(r"(\w+_)?(grads|gradients|tensors)"), ("items", TENSOR)),
    (re.compile(r"(\w+_)?(grad|gradient|tensor)"), TENSOR),
    (re.compile(r"(\w+_)?(model|module|net|network)"), MODULE),
)
_TENSOR_TYPES = frozenset(("Tensor", "Parameter", "FloatTensor", "Variable"))
_HOST_TYPES = frozenset(("float", "int", "bool", "str", "bytes", "complex", "ndarray"))
_SEQUENCES = frozenset(("list", "tuple", "sequence", "iterable", "iterator", "generator", "set", "parameterlist"))
_MAPPINGS = frozenset(("dict", "mapping", "mutablemapping", "ordereddict", "parameterdict"))

_READING_METHODS = frozenset(("item", "tolist", "cpu", "numpy", "is_nonzero", "equal", "allclose"))
_WAITING = frozenset(("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"))
"""Operators whose result size the host must read; their result stays on the device."""
_READING_FUNCTIONS = frozenset(("torch.equal", "torch.allclose", "torch.is_nonzero"))
_HOST_ATTRIBUTES = frozenset((
    "shape", "ndim", "device", "dtype", "layout", "requires_grad", "is_leaf", "is_cuda", "is_cpu", "is_sparse",
    "is_meta", "nbytes", "grad_fn", "name", "type", "training",
))  # fmt: skip
_HOST_METHODS = re.compile(
    r"\w*size|dim|\w*numel|nelement|stride|element_size|data_ptr|storage\w*|type|register_\w+|backward|requires_grad_|"
    r"(get|is|has)_\w+"
)
_SEVERAL = frozenset(("split", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk"))
_FACTORIES = re.compile(r"(as_)?tensor|zeros|ones|full|empty|arange|linspace|eye|rand\w*|from_numpy")
_NO_TENSORS = re.compile(
    r"numel|is_\w+|device|dtype|load|save|compile|manual_seed|\w*no_grad|\w*_grad|autocast|[fi]info"
)
_COMPUTING = frozenset(("torch", "torch.linalg", "torch.special", "torch.fft", "torch.nn.functional", "torch.Tensor"))
_OF_MODULES = {
    "parameters": ("items", TENSOR),
    "buffers": ("items", TENSOR),
    "named_parameters": ("items", ("row", (HOST, TENSOR))),
    "named_buffers": ("items", ("row", (HOST, TENSOR))),
    "modules": ("items", MODULE),
    "children": ("items", MODULE),
    "named_modules": ("items", ("row", (HOST, MODULE))),
    "named_children": ("items", ("row", (HOST, MODULE))),
}
# Attributes that only tensors have, so that their use identifies one.
_OF_TENSORS = frozenset(("grad", "detach", "requires_grad", "is_cuda", "grad_fn", "is_sparse", "norm", "numel"))
_WRAPPERS = frozenset(
    ("list", "tuple", "iter", "reversed", "set", "tqdm", "track", "deque", "islice", "chain", "sorted")
)
_READING_BUILTINS = frozenset(("float", "int", "bool", "complex", "str", "repr", "format", "print"))

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


@dataclass(frozen=True, order=True)
class HostRead:
    """One expression that is read back once for each tensor.

    `what` is how (`.item()`, `if`, `any()`), `value` what is read, `loop_line` and `over` the loop. If a helper reads,
    `helper` names it and its line, and `read_line` is that line. `guard` is the test of an interval or a flag around
    the read (`step % 100 == 0`). `of_gradients` means that the loop is over gradients, or over parameters and similar
    values in a function that uses gradients.
    """

    line: int
    column: int
    what: str
    value: str
    loop_line: int
    over: str
    helper: str = ""
    guard: str = ""
    of_gradients: bool = False
    read_line: int = 0


@dataclass(frozen=True)
class FunctionReads:
    """The reads in loops of one function; `call` is `package.module:Qualified.name`."""

    call: str
    qualified_name: str
    reads: tuple[HostRead, ...]


@dataclass(frozen=True)
class _Loop:
    """A loop, over tensors or not; a helper's call is one without `node`, since its caller may be in a loop."""

    node: ast.AST | None
    over: ast.expr | None
    is_over_tensors: bool
    names: frozenset[str] = frozenset()

    def is_over_gradients(self, value: ast.expr, functions: Iterable[Function]) -> bool:
        """Return whether reading `value` concerns gradients, or similar values if one of `functions` has gradients."""
        parts = [value, *([] if self.over is None else [self.over])]
        reads = (part for part in walk([self.node]) if isinstance(part, ast.Attribute)) if self.node else ()
        if any(_names(part, _GRADIENTS) for part in parts) or any(
            part.attr == "grad" and dotted_name(part).partition(".")[0] in self.names for part in reads
        ):
            return True
        has_gradients = any(_names(function.node, _GRADIENTS) for function in functions)
        return has_gradients and any(_names(part, _THEIR_LIKE) for part in parts)


class ModuleReads:
    """Follows the functions of one module, and helpers with their arguments."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._summaries: dict[tuple[str, tuple[Kind, ...]], tuple[Kind, list[HostRead]]] = {}

    def functions(self) -> Iterator[FunctionReads]:
        """Yield every function and method with reads in loops over tensors, in the order of lines."""
        for function in sorted(self.module.defined(), key=lambda item: item.node.lineno):
            reads = self._follow(function, (), 0, False).reads
            if reads:
                yield FunctionReads(function.call, function.qualified_name, tuple(sorted(reads.values())))

    def summary(self, function: Function, given: tuple[Kind, ...], depth: int) -> tuple[Kind, list[HostRead]]:
        """Return the kind of the result of `function`, and what it reads outside of its own loops."""
        key = (function.qualified_name, given)
        if key not in self._summaries:
            self._summaries[key] = None, []  # stops recursion
            if depth <= _MOST_HELPERS_DEEP:
                flow = self._follow(function, given, depth, True)
                declared = of_annotation(function.node.returns) if function.node.returns is not None else None
                is_host = declared in (HOST, NONE, ("table", HOST), ("items", HOST))
                reads = sorted(read for read in flow.reads.values() if not read.loop_line)
                self._summaries[key] = declared if is_host else flow.returned, reads
        return self._summaries[key]

    def _follow(self, function: Function, given: tuple[Kind, ...], depth: int, as_helper: bool) -> _Flow:
        flow = _Flow(self, function, depth, as_helper)
        for place, item in enumerate(function.parameters):
            passed = given[place] if place < len(given) else None
            default = function.defaults.get(item.arg)
            is_number = isinstance(default, ast.Constant) and default.value is not None
            declared = HOST if is_number else of_parameter(item)
            flow.known[item.arg] = passed if passed not in (None, NONE) else declared
        flow.block(function.node.body)
        return flow


class _Flow:
    """Follows a function's body once, in execution order; the body of a loop twice.

    `known` are the current kinds of its names. Visiting an expression returns its kind.
    """

    def __init__(self, module: ModuleReads, function: Function, depth: int, as_helper: bool) -> None:
        self.module, self.function, self.depth = module, function, depth
        self.known: dict[str, Kind] = {}
        self.loops = [_Loop(None, None, True)] if as_helper else []
        self.outer_loops = len(self.loops)
        self.guard = ""
        """The test of an interval or a flag around the current line."""
        self.reads: dict[tuple[int, int, str], HostRead] = {}
        self.returned: Kind = NONE

    def visit(self, node: ast.AST) -> Kind:
        """Follow a statement, or return the kind of an expression; other statements are ignored."""
        match node:
            case ast.Constant(value=value):
                return NONE if value is None else HOST
            case ast.Name(id=name):
                return self.known.get(name) or (HOST if _ON_HOST.search(name) else None)
            case ast.BinOp(left=left, right=right):
                return result_of([self.visit(left), self.visit(right)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.test(operand, "not")
                return HOST
            case ast.UnaryOp(operand=value) | ast.Starred(value=value) | ast.Await(value=value) | ast.Expr(value=value):
                return self.visit(value)
            case ast.Tuple(elts=parts):
                return ("row", tuple(map(self.visit, parts)))
            case ast.List(elts=parts) | ast.Set(elts=parts):
                return ("items", join(*map(self.visit, parts)))
            case ast.Dict(values=values):
                return ("table", join(*map(self.visit, values)))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.test(test, "if")
                return join(self.visit(body), self.visit(orelse))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                with self.inside(node):
                    made = self.visit(node.value if isinstance(node, ast.DictComp) else node.elt)
                return ("table" if isinstance(node, ast.DictComp) else "items", made)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.visit(value))
            case ast.Assert(test=test):
                self.test(test, "assert")
            case ast.With(items=managers, body=statements) | ast.AsyncWith(items=managers, body=statements):
                for manager in managers:
                    self.visit(manager.context_expr)
                self.block(statements)
            case ast.Try() | ast.TryStar():
                for suite in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                    self.block(suite)
            case ast.Match(subject=subject, cases=cases):
                self.visit(subject)
                for case in cases:
                    self.block(case.body)
            case _:
                followed = getattr(self, f"visit_{type(node).__name__}", None)
                return followed(node) if followed is not None else None
        return None

    def read(self, node: ast.expr, what: str, value: ast.expr, inner: HostRead | None = None) -> None:
        """Note that `value` is read back at `node`, if that is in a loop over gradients; `inner` is a helper's read."""
        key = (node.lineno, node.col_offset, what)
        loop = next((loop for loop in reversed(self.loops) if loop.is_over_tensors), None)
        if loop is None or key in self.reads:
            return
        line = getattr(loop.node, "lineno", 0)
        calls = [part for part in walk([loop.over]) if isinstance(part, ast.Call)] if loop.over is not None else []
        found = [callee(self.function, call, Module.named, {}) for call in calls]
        of_gradients = loop.is_over_gradients(value, [self.function, *filter(None, found)])
        if of_gradients or not line:
            over = "" if loop.over is None else text_of(loop.over)
            text, helper, guard = (inner.value, inner.helper, inner.guard) if inner else (text_of(value), "", "")
            read_line = inner.read_line or inner.line if inner else node.lineno
            self.reads[key] = HostRead(*key, text, line, over, helper, self.guard or guard, of_gradients, read_line)

    def test(self, node: ast.expr, what: str) -> None:
        """Note what evaluating the truth of `node` reads."""
        match node:
            case ast.BoolOp():
                for value in self.in_turn(node):
                    self.test(value, what)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.test(operand, what)
            case _:
                if self.visit(node) == TENSOR:
                    self.read(node, what, node)

    def visit_Attribute(self, node: ast.Attribute) -> Kind:
        known = self.known.get(dotted_name(node))
        if known is None and _ON_HOST.search(node.attr):
            return HOST
        return known if known is not None else of_attribute(self.visit(node.value), node.attr)

    def visit_BoolOp(self, node: ast.BoolOp) -> Kind:
        kinds = []
        for value in self.in_turn(node):
            if value is not node.values[-1]:
                self.test(value, "and" if isinstance(node.op, ast.And) else "or")
            kinds.append(self.visit(value))
        return join(*kinds)

    def in_turn(self, node: ast.BoolOp) -> Iterator[ast.expr]:
        """Yield the values of `and` or `or`, each under the guards before it."""
        guard = self.guard
        for value in node.values:
            yield value
            self.guard = self.guard or guard_of(value)
        self.guard = guard

    def visit_Compare(self, node: ast.Compare) -> Kind:
        kinds = [self.visit(node.left), *map(self.visit, node.comparators)]
        if isinstance(node.ops[0], ast.In | ast.NotIn) and kinds == [TENSOR, ("items", TENSOR)]:
            self.read(node, "in", node.comparators[0])  # a list compares each element
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return HOST
        # A value that is compared with a string is one.
        return HOST if any(map(text_in, node.comparators)) else result_of(kinds)

    def visit_Subscript(self, node: ast.Subscript) -> Kind:
        base = self.visit(node.value)
        self.visit(node.slice)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if key is not None and text_of(node) in self.known:
            return self.known[text_of(node)]
        if _ON_HOST.search(str(key)):
            return HOST
        if isinstance(node.slice, ast.Compare) and base == TENSOR:
            self.read(node, "[mask]", node.value)  # The number of selected elements is known only to the device.
        if isinstance(node.slice, ast.Slice):
            return base
        match base:
            case "group":
                return ("items", TENSOR) if key == "params" else HOST
            case ("table", value):
                return value
            case ("row", kinds) if isinstance(key, int) and -len(kinds) <= key < len(kinds):
                return kinds[key]
        return element(base)

    @contextmanager
    def inside(self, node: Comprehension) -> Iterator[None]:
        """Enter the loops of a comprehension, with their names, inside the context."""
        before, outer = dict(self.known), len(self.loops)
        for part in node.generators:
            self.enter(node, part.target, part.iter)
            for condition in part.ifs:
                self.test(condition, "if")
        yield
        del self.loops[outer:]
        self.known = before

    def visit_Call(self, node: ast.Call) -> Kind:
        written = dotted_name(node.func)
        full, name = self.module.module.full_name(written), last_name(node.func)
        if name in ("any", "all") and name == written and node.args and isinstance(node.args[0], Comprehension):
            with self.inside(node.args[0]):
                self.test(node.args[0].elt, f"{name}()")  # type: ignore[union-attr]
            return HOST
        given = [self.visit(item) for item in node.args]
        keywords = [self.visit(item.value) for item in node.keywords]
        if name in _WRAPPERS and given:
            inner = join(*map(element, given if name == "chain" else given[:1]))
            if name == "sorted" and inner == TENSOR and not node.keywords:
                self.each(node, "sorted()", given[0])  # it evaluates the truth of each comparison
            return ("table" if name == "set" else "items", inner)
        if not full and written == name and (found := self.builtin(node, name, given)) is not False:
            return found
        if full.startswith("torch."):
            return self.torch_call(node, full, [*given, *keywords])
        if full.startswith(("math.", "numpy.")):
            return HOST
        helper = callee(self.function, node, Module.named, {})
        if helper is not None:
            result, reads = self.module.summary(helper, tuple(given), self.depth + 1)
            for read in reads[:1]:
                self.read(node, read.what, node, replace(read, helper=read.helper or f"{written}(), line {read.line}"))
            return result
        if isinstance(node.func, ast.Attribute):
            return self.method_call(node, node.func, given)
        return TENSOR if self.visit(node.func) == MODULE else None

    def each(self, node: ast.Call, what: str, kind: Kind) -> None:
        """Note that a function reads each element of its last argument."""
        self.loops.append(_Loop(node, node.args[-1], holds_tensors(kind)))
        self.read(node, what, node.args[-1])
        self.loops.pop()

    def builtin(self, node: ast.Call, name: str, given: list[Kind]) -> Kind:
        """Return the result of a built-in function, or False; `float(norm)` reads a tensor, `max(norms)` each one."""
        first = given[0] if given else None
        match name:
            case _ if name in _READING_BUILTINS:
                for item, kind in zip(node.args, given, strict=True):
                    if kind == TENSOR:
                        self.read(node, f"{name}()", item)
                return HOST
            case "any" | "all" | "max" | "min" if len(given) == 1:
                if element(first) == TENSOR and first != TENSOR and not node.keywords:
                    self.each(node, f"{name}()", first)
                return element(first) if name in ("max", "min") else HOST
            case "enumerate":
                return ("items", ("row", (HOST, element(first))))
            case "zip":
                return ("items", ("row", tuple(map(element, given))))
            case "sum" | "next":
                return element(first)
            case "getattr" if len(given) == 2:
                return of_attribute(first, text_in(node.args[1]))
            case "len" | "isinstance" | "hasattr" | "id" | "type" | "range" | "callable":
                return HOST
        return False

    def torch_call(self, node: ast.Call, full: str, given: list[Kind]) -> Kind:
        """Return the result of a function of torch; a tensor created without `device=` is on the host."""
        part, _, last = full.rpartition(".")
        if TENSOR in given and (full in _READING_FUNCTIONS or (part == "torch" and last in _WAITING)):
            items = [*node.args, *(item.value for item in node.keywords)]
            self.read(node, f"{full}()", items[given.index(TENSOR)])
            if full in _READING_FUNCTIONS:
                return HOST
        if last[:1].isupper():
            return MODULE if full.startswith("torch.nn.") else None
        if last.startswith("_foreach_") or full == "torch.autograd.grad":
            return ("items", TENSOR)
        if "clip_grad" in last or "get_total_norm" in last:
            return TENSOR
        if part not in _COMPUTING or _NO_TENSORS.fullmatch(last):
            return HOST if last.startswith("is_") else None
        if _FACTORIES.fullmatch(last.removesuffix("_like")):
            devices = [ast.unparse(item.value) for item in node.keywords if item.arg == "device"]
            return TENSOR if TENSOR in given or any("'cpu'" not in device for device in devices) else HOST
        # An operator of torch on a value of unknown kind: only a tensor makes sense.
        made = result_of(element(kind) if isinstance(kind, tuple) else kind for kind in given) if given else None
        made = TENSOR if made is None and given and given[0] is None else made
        return ("items", made) if last in _SEVERAL else made

    def method_call(self, node: ast.Call, method: ast.Attribute, given: list[Kind]) -> Kind:
        base, name = self.visit(method.value), method.attr
        if given and name in ("append", "add", "insert", "extend"):
            self.put_into(method.value, element(given[0]) if name == "extend" else given[-1])
            return None
        is_copy = name == "to" and _goes_to_cpu(node)
        if base == TENSOR and (name in _READING_METHODS or is_copy):
            self.read(node, ".cpu()" if is_copy else f".{name}()", method.value)
        if base == TENSOR and name in _WAITING:
            self.read(node, f".{name}()", method.value)
        if name in _READING_METHODS or (is_copy and base == TENSOR):
            return HOST
        if name == "state_dict":
            return ("table", HOST)  # a checkpoint is copied to the host on purpose
        if name in _OF_MODULES and base not in (HOST, TENSOR):
            return _OF_MODULES[name]
        match base:
            case "tensor":
                is_host = _HOST_METHODS.fullmatch(name)
                return HOST if is_host else ("items", TENSOR) if name in _SEVERAL else TENSOR
            case "host":
                return TENSOR if name == "cuda" or (name == "to" and "device" in ast.unparse(node)) else HOST
            case ("table", value):
                kinds = {"items": ("items", ("row", (HOST, value))), "values": ("items", value)}
                return kinds.get(name, value if name in ("get", "pop", "setdefault") else None)
            case ("items", value) if name == "pop":
                return value
        return None

    def block(self, statements: Iterable[ast.stmt]) -> bool:
        """Follow statements; return whether the end of the block is never reached."""
        listed = list(statements)
        last = listed[-1] if listed else None
        kept, guard = self.loops, self.guard
        # Statements in a block that leaves the loop run only once.
        if isinstance(last, ast.Return):
            self.loops = kept[: self.outer_loops]
        elif isinstance(last, ast.Raise):
            self.loops = []
        elif isinstance(last, ast.Break):
            self.loops = kept[: max(len(kept) - 1, self.outer_loops)]
        for statement in listed:
            self.visit(statement)
        self.loops, self.guard = kept, guard
        return isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue)

    def visit_Assign(self, node: ast.Assign) -> None:
        kind = self.visit(node.value)
        for target in node.targets:
            self.assign(target, kind)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Handle `total += norm` and `grads += [grad]`."""
        kind: Kind = self.visit(node.value)
        before: Kind = self.known.get(dotted_name(node.target))
        if isinstance(before, tuple):
            self.put_into(node.target, element(kind))
        else:
            self.assign(node.target, None if before is None else result_of([before, kind]))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned = join(self.returned, self.visit(node.value))

    def visit_While(self, node: ast.While) -> None:
        left = self.visit(node.test)  # `while grads: grads.pop()` runs until no tensor is left
        self.loops.append(_Loop(node, node.test, isinstance(left, tuple) and holds_tensors(left)))
        for _ in range(2):
            self.test(node.test, "while")
            self.block(node.body)
        self.loops.pop()

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        """Follow the body twice: values of one iteration reach the next."""
        given = self.enter(node, node.target, node.iter)
        for _ in range(2):
            self.assign(node.target, given)
            self.block(node.body)
        self.loops.pop()
        self.block(node.orelse)

    def enter(self, node: ast.For | ast.AsyncFor | Comprehension, target: ast.expr, over: ast.expr) -> Kind:
        """Enter a loop, and return the kind of its names, from the source or from their use."""
        source = self.visit(over)
        given = element(source) if _BATCHES.search(ast.unparse(over)) else _used_in(target, element(source), node)
        names = frozenset(part.id for part in walk([target]) if isinstance(part, ast.Name))
        self.assign(target, given)
        self.loops.append(_Loop(node, over, holds_tensors(source) or holds_tensors(given), names))
        return given

    def visit_If(self, node: ast.If) -> None:
        self.test(node.test, "if")
        before, guard = dict(self.known), self.guard
        self.guard = guard or guard_of(node.test)
        body_ends = self.block(node.body)
        after_body, self.guard = self.known, guard
        self.known = before
        orelse_ends = self.block(node.orelse)
        if body_ends:
            self.guard = guard or guard_after(node.test)
        elif orelse_ends:
            self.known = after_body
        else:
            names = after_body.keys() | self.known.keys()
            self.known = {name: join(after_body.get(name, NONE), self.known.get(name, NONE)) for name in names}

    def visit_FunctionDef(self, node: FunctionNode) -> None:
        """Follow an inner function, which sees the outer names; its callers are unknown."""
        known, loops, returned, outer = self.known, self.loops, self.returned, self.outer_loops
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.known = known | {item.arg: of_parameter(item) for item in arguments}
        self.loops, self.outer_loops = [], 0
        self.block(node.body)
        self.known, self.loops, self.returned, self.outer_loops = known, loops, returned, outer

    visit_AsyncFor, visit_AsyncFunctionDef = visit_For, visit_FunctionDef

    def assign(self, target: ast.expr, kind: Kind) -> None:
        """Assign `kind` to the names of `target`, unpacked like the target."""
        match target:
            case ast.Name() | ast.Attribute():
                self.known[dotted_name(target)] = kind
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, each in zip(parts, _parts(kind, len(parts)), strict=True):
                    self.assign(part, each)
            case ast.Starred(value=part):
                self.assign(part, ("items", kind))
            case ast.Subscript(value=value, slice=key):
                self.put_into(value, kind)
                if isinstance(key, ast.Constant):
                    self.known[text_of(target)] = kind

    def put_into(self, holder: ast.expr, kind: Kind) -> None:
        """Handle `holder[...] = value` and `holder.append(value)`: the container gets the kind of the value."""
        match self.known.get(dotted_name(holder)):
            case ("items" | "table" as shape, before):
                self.known[dotted_name(holder)] = (shape, join(before, kind))


def element(kind: Kind) -> Kind:
    """Return the kind of a loop's items over `kind`: a tensor's rows are tensors, a mapping's keys are on the host."""
    match kind:
        case "tensor" | "module" | "host":
            return kind
        case ("items", inner):
            return inner
        case ("row", kinds):
            return join(*kinds)
        case ("table", _):
            return HOST
    return None


def holds_tensors(kind: Kind) -> bool:
    """Return whether iterating over `kind` gives many tensors; an optimizer's groups are few."""
    if isinstance(kind, tuple):
        return any(map(holds_tensors, kind[1])) if kind[0] == "row" else holds_tensors(kind[1])
    return kind in (TENSOR, MODULE)


def join(*kinds: Kind) -> Kind:
    """Return the kind of a name after several branches; a tensor in one and a number in the other is unknown."""
    found: Kind = NONE
    for kind in kinds:
        if NONE in (found, kind) or found == kind:
            found = kind if found == NONE else found
        elif isinstance(found, tuple) and isinstance(kind, tuple) and found[0] == kind[0] == "items":
            found = ("items", join(found[1], kind[1]))
        else:
            found = None if HOST in (found, kind) or None not in (found, kind) else found or kind
    return found


def result_of(kinds: Iterable[Kind]) -> Kind:
    """Return the kind of an operator's result: a tensor if one operand is, on the host if all are."""
    known = list(kinds)
    return TENSOR if TENSOR in known else HOST if all(kind in (HOST, NONE) for kind in known) else None


def of_parameter(item: ast.arg) -> Kind:
    """Return the kind of a parameter, by its annotation or else its name."""
    if _ON_HOST.search(item.arg):
        return HOST
    if item.annotation is not None:
        return of_annotation(item.annotation)
    return next((kind for pattern, kind in _NAMED if pattern.fullmatch(item.arg)), None)


def of_annotation(node: ast.expr) -> Kind:
    """Return the kind of an annotation; for a union of a tensor and several tensors, the several; or None."""
    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=str(text)):
            try:
                return of_annotation(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=value, slice=inner):
            parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
            name = last_name(value).lower()
            if name in ("optional", "union"):
                return _union(parts)
            if name in _MAPPINGS:
                return ("table", of_annotation(parts[-1]))
            kinds = tuple(of_annotation(part) for part in parts if not is_constant(part, ...))
            is_row = name == "tuple" and len(kinds) > 1
            return ("row", kinds) if is_row else ("items", kinds[0]) if name in _SEQUENCES and kinds else None
    name = last_name(node)
    if name in _TENSOR_TYPES or name in _HOST_TYPES:
        return TENSOR if name in _TENSOR_TYPES else HOST
    return MODULE if name.endswith("Module") else None


def _union(parts: list[ast.expr]) -> Kind:
    kinds = [kind for kind in map(of_annotation, parts) if kind != NONE]
    return ("items", TENSOR) if TENSOR in kinds and ("items", TENSOR) in kinds else join(*kinds)


def of_attribute(base: Kind, name: str) -> Kind:
    """Return the kind of the attribute `name` of a value of kind `base`."""
    if base == HOST or (name in _HOST_ATTRIBUTES and base != MODULE):
        return HOST
    if name == "grad" or (base == TENSOR and name in ("data", "T", "H", "mT", "real", "imag")):
        return TENSOR
    if name == "param_groups":
        return ("items", GROUP)
    return {"weight": TENSOR, "bias": TENSOR, "training": HOST}.get(name, MODULE) if base == MODULE else None


def _parts(kind: Kind, count: int) -> list[Kind]:
    """Return the kinds of `count` names that unpack `kind`."""
    is_row = isinstance(kind, tuple) and kind[0] == "row" and len(kind[1]) == count
    return list(kind[1]) if is_row else [element(kind)] * count


def _used_in(target: ast.expr, given: Kind, body: ast.AST) -> Kind:
    """Return `given`; for unknown parts of it, the kind by the use of the loop's names in its body."""
    if isinstance(target, ast.Tuple) and (given is None or (isinstance(given, tuple) and given[0] == "row")):
        kinds = _parts(given, len(target.elts))
        return ("row", tuple(_used_in(part, kind, body) for part, kind in zip(target.elts, kinds, strict=True)))
    name = dotted_name(target)
    return TENSOR if given is None and name and _is_used_as_tensor(name, body) else given


def _is_used_as_tensor(name: str, body: ast.AST) -> bool:
    """Return whether a loop reads attributes of its name that only tensors have, without testing its type."""
    nodes = list(walk([body]))
    asked = (node for node in nodes if isinstance(node, ast.Call) and node.args)
    if _ON_HOST.search(name) or any(
        last_name(node.func) in ("isinstance", "is_tensor") and dotted_name(node.args[0]) == name for node in asked
    ):
        return False
    read = (node for node in nodes if isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS)
    return any(dotted_name(node.value) == name for node in read)


def _goes_to_cpu(node: ast.Call) -> bool:
    """Return whether a call is a blocking `.to("cpu")`."""
    texts = [ast.unparse(item) for item in [*node.args, *node.keywords]]
    return any("'cpu'" in text for text in texts) and "non_blocking=True" not in texts


def text_of(node: ast.expr) -> str:
    """Return the code of an expression on one line, cut after 60 characters."""
    text = " ".join((dotted_name(node) or ast.unparse(node)).split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def _names(node: ast.AST, pattern: re.Pattern[str]) -> bool:
    """Return whether code contains a name that `pattern` matches."""
    words = (getattr(part, field, None) for part in walk([node]) for field in ("id", "attr", "arg", "value"))
    return any(isinstance(word, str) and pattern.fullmatch(word) for word in words)


def guard_of(test: ast.expr) -> str:
    """Return the text of a test that rarely holds: an interval, a flag for a check, the infinity norm; or ""."""
    return ast.unparse(test) if any(map(_says_seldom, walk([test]))) else ""


def _says_seldom(node: ast.AST) -> bool:
    name: str = getattr(node, "id", "") or getattr(node, "attr", "")
    return is_every(node) or is_constant(node, "inf") or _SELDOM.search(name) is not None


def guard_after(test: ast.expr) -> str:
    """Return the guard of the code after a block that leaves: `if step % 100: return`, `if not debug: return`."""
    match test:
        case ast.BinOp(op=ast.Mod()) | ast.Compare(left=ast.BinOp(op=ast.Mod()), ops=[ast.NotEq()]):
            return ast.unparse(test)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as flag):
            return guard_of(flag)
    return ""
