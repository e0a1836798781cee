"""Follow the statements of one function: what its names hold, and what is read back to the host in its loops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from auditkit.probing.source.modules import (
    Function,
    FunctionNode,
    changed_by,
    dotted_name,
    is_constant,
    text_in,
)
from auditkit.probing.source.walking import walk
from auditkit.probing.source_probes.tensor_flow import kinds as torch_kinds
from auditkit.probing.source_probes.tensor_flow.kinds import (
    GROUP,
    HOST,
    MODULE,
    NONE,
    PARAMETERS,
    TENSOR,
    Kind,
    element,
    holds_tensors,
    items,
    join,
    join_all,
    lies_on_host,
    of_parameter,
    result_of,
    row,
    shape,
    table,
)

if TYPE_CHECKING:
    from auditkit.probing.source_probes.tensor_flow.module_reads import ModuleReads

_LONGEST_TEXT = 60
_GRADIENTS = re.compile(
    r"(?!no_|requires_|enable_|zero_)(\w+_)?(grads?|gradients)|clip_grad_norm_?|(grads?|gradient)_norms?"
)
_THEIR_LIKE = re.compile(r"(\w+_)?(grads?|gradients?|params?|parameters?|norms?|updates?|momentum)(_\w+)?")
_ASKED_FOR = re.compile(r"(^|_)(debug\w*|verbose|sanity|checks?|profil\w*|diagnos\w*|paranoid|inf)(_|$)", re.IGNORECASE)
_OF_BATCHES = re.compile(r"(data)?loaders?|datasets?|batches", re.IGNORECASE)
_OF_EACH_ELEMENT = frozenset((
    "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "isclose", "isin", "signbit", "eq", "ne", "lt",
    "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "logical_xor", "bool",
))  # fmt: skip
"""Functions and methods whose result is true or false for each element."""
# Only tensors have these: a name that is used so holds one.
_OF_TENSORS = frozenset(("grad", "detach", "requires_grad", "is_cuda", "grad_fn", "is_sparse", "norm", "numel"))
_ONLY_ON_HOST = frozenset(("float", "int", "bool", "str", "bool_", "list", "dict", "tuple"))
_MODULES = frozenset(("Module", "Linear", "Conv2d", "DistributedDataParallel"))
_CONTAINER_METHODS = frozenset(("append", "add", "insert", "appendleft"))
_WRAPPERS = frozenset(("tqdm", "track", "deque", "islice", "chain", "cycle"))
"""Functions of others that give the elements of what they are given, whatever they are imported from."""
_BUILTINS = frozenset((
    "float", "int", "bool", "complex", "str", "repr", "format", "print", "any", "all", "max", "min", "sorted", "map",
    "filter", "list", "tuple", "iter", "reversed", "set", "frozenset", "len", "isinstance", "hasattr", "id", "type",
    "range", "callable", "issubclass", "abs", "round", "sum", "next", "enumerate", "zip", "getattr", "dict",
))  # fmt: skip

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
Narrowed = tuple[dict[str, Kind], dict[str, Kind]]
"""What names hold where a test is true, and where it is false."""


@dataclass(frozen=True, order=True)
class HostRead:
    """One expression that is read back once for each tensor.

    `what` is how (`.item()`, `if`, `any()`), `value` what is read, `loop_line` and `over` the loop.
    Where a helper reads, `helper` says which and at what line. `guard` is the test of an interval or a flag under
    which alone it is read (`step % 100 == 0`, `self.check_gradients`). `of_gradients` says that the loop is one over
    gradients, or over parameters and their like where the function deals with gradients.
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


@dataclass(frozen=True)
class Summary:
    """What a helper gives back, and what it reads back outside loops of its own."""

    result: Kind
    reads: tuple[HostRead, ...]


@dataclass
class Loop:
    """A loop that runs: over tensors or not, and the names that change with each turn.

    The call of a helper is one, with line 0: its caller may do so in a loop. The names of a `while` loop
    are those that its turns change and its test reads.
    """

    line: int
    over: ast.expr | None
    is_over_tensors: bool
    names: frozenset[str] = frozenset()
    is_while: bool = False
    body: ast.AST | None = None

    def is_over_gradients(self, value: ast.expr, function: Function) -> bool:
        """Whether reading `value` in it is about gradients, or their like in a function that deals with gradients."""
        parts = [value, *([] if self.over is None else [self.over])]
        reads = (part for part in walk([self.body]) if isinstance(part, ast.Attribute)) if self.body else ()
        if any(map(names_gradients, parts)) or any(
            part.attr == "grad" and dotted_name(part).partition(".")[0] in self.names for part in reads
        ):
            return True
        return any(names_gradients(part, _THEIR_LIKE) for part in parts) and names_gradients(function.node)

    def tests(self, name: str) -> bool:
        """Whether a `while` loop's test names `name`, or names nothing (`while True`)."""
        if not name or not self.is_while or self.over is None:
            return False
        return isinstance(self.over, ast.Constant) or any(
            isinstance(part, ast.expr) and dotted_name(part) == name for part in walk([self.over])
        )


class ValueFlow(ast.NodeVisitor):
    """Follows a function's body once, in the order in which it runs; the body of a loop twice.

    `known` says what its names hold at this point. Visiting an expression returns its kind.
    """

    def __init__(
        self, helpers: ModuleReads, function: Function, known: dict[str, Kind], depth: int, as_helper: bool
    ) -> None:
        self.helpers = helpers
        self.function = function
        self.known = known
        self.depth = depth
        self.loops = [Loop(0, None, True)] if as_helper else []
        self.outer_loops = len(self.loops)
        self.guard = ""
        """The test of an interval or a flag under which alone the present line runs."""
        self.masks: set[str] = set()
        """The names that hold which elements are meant."""
        self.lists: set[str] = set()
        """The names of lists that something was appended to."""
        self.reads: dict[tuple[int, int, str], HostRead] = {}
        self.returned: Kind = NONE

    def generic_visit(self, node: ast.AST) -> Kind:  # noqa: ARG002
        """Return that the kind of other expressions is not known; other statements are not followed."""
        return None

    # --- reads ---

    def read(self, node: ast.expr, what: str, value: ast.expr, inner: HostRead | None = None) -> None:
        """Note that `value` is read back at `node`, if that happens in a loop over tensors; `inner` is a helper's."""
        key = (node.lineno, node.col_offset, what)
        loop = next((loop for loop in reversed(self.loops) if loop.is_over_tensors), None)
        if loop is not None and key not in self.reads:
            over = "" if loop.over is None else text_of(loop.over)
            text, helper, guard = (inner.value, inner.helper, inner.guard) if inner else (text_of(value), "", "")
            of_gradients = loop.is_over_gradients(value, self.function)
            self.reads[key] = HostRead(*key, text, loop.line, over, helper, self.guard or guard, of_gradients)

    def call_helper(self, node: ast.Call, called: ast.expr, given: list[Kind]) -> tuple[bool, Kind]:
        """Whether a call reaches a function of the module, and what it gives; its reads are at the line of the call."""
        found = self.helpers.find(self.function, called)
        if found is None:
            return False, None
        helper, first = found
        summary = self.helpers.summary(helper, tuple(given[first:]), self.depth + 1)
        name = dotted_name(called) or helper.qualified_name
        for read in summary.reads[:1]:
            self.read(node, read.what, node, replace(read, helper=read.helper or f"{name}(), line {read.line}"))
        return True, summary.result

    def test(self, node: ast.expr, what: str) -> None:
        """Note what asking for the truth of `node` reads."""
        match node:
            case ast.BoolOp():
                for value in self.in_turn(node):
                    self.test(value, what)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.test(operand, what)
            case _:
                if self.visit(node) == TENSOR:
                    self.read(node, what, node)

    @contextmanager
    def loop(self, line: int, over: ast.expr, kind: Kind) -> Iterator[None]:
        """What is followed inside the block happens once for each element of `over`."""
        self.loops.append(Loop(line, over, holds_tensors(kind)))
        yield
        self.loops.pop()

    # --- expressions ---

    def visit_Constant(self, node: ast.Constant) -> Kind:
        return NONE if node.value is None else HOST

    def visit_Name(self, node: ast.Name) -> Kind:
        return self.known.get(node.id) or (HOST if lies_on_host(node.id) else None)

    def visit_Attribute(self, node: ast.Attribute) -> Kind:
        known = self.known.get(dotted_name(node))
        if node.attr == "grad" and isinstance(node.value, ast.Subscript):
            self.note_index(node.value.slice, TENSOR)
        if known is None and lies_on_host(node.attr):
            return HOST
        return known if known is not None else torch_kinds.of_attribute(self.visit(node.value), node.attr)

    def visit_BinOp(self, node: ast.BinOp) -> Kind:
        return result_of([self.visit(node.left), self.visit(node.right)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Kind:
        if not isinstance(node.op, ast.Not):
            return self.visit(node.operand)
        self.test(node.operand, "not")
        return HOST

    def visit_BoolOp(self, node: ast.BoolOp) -> Kind:
        kinds = []
        for value in self.in_turn(node):
            if value is not node.values[-1]:
                self.test(value, "and" if isinstance(node.op, ast.And) else "or")
            kinds.append(self.visit(value))
        return join_all(kinds)

    def in_turn(self, node: ast.BoolOp) -> Iterator[ast.expr]:
        """The values of `and` or `or`, each under what those before it say of their names."""
        before, guard = dict(self.known), self.guard
        for value in node.values:
            yield value
            when_true, when_false = self.narrowed(value)
            self.known.update(when_true if isinstance(node.op, ast.And) else when_false)
            self.guard = self.guard or guard_of(value)
        self.known, self.guard = before, guard

    def visit_Tuple(self, node: ast.Tuple) -> Kind:
        return row(map(self.visit, node.elts))

    def visit_List(self, node: ast.List | ast.Set) -> Kind:
        return items(join_all([self.visit(part) for part in node.elts]))

    def visit_Dict(self, node: ast.Dict) -> Kind:
        return table(join_all([self.visit(value) for value in node.values]))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Kind:
        kind = self.visit(node.value)
        self.assign(node.target, kind)
        return kind

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Kind:
        for part in node.values:
            if isinstance(part, ast.FormattedValue) and self.visit(part.value) == TENSOR:
                self.read(part.value, "formatting", part.value)
        return HOST

    def visit_Starred(self, node: ast.Await | ast.YieldFrom | ast.Starred | ast.Yield) -> Kind:
        return None if node.value is None else self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> Kind:
        kinds = [self.visit(node.left), *map(self.visit, node.comparators)]
        for op, holder, kind in zip(node.ops, node.comparators, kinds[1:], strict=True):
            # A set looks a tensor up by its identity and compares nothing; a list compares each element.
            is_list = kind == items(TENSOR) and (isinstance(holder, ast.List) or dotted_name(holder) in self.lists)
            if isinstance(op, ast.In | ast.NotIn) and (kind == TENSOR or (kinds[0] == TENSOR and is_list)):
                self.read(node, "in", holder)
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return HOST
        if any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.comparators):
            return HOST  # what is compared with a text is one
        if len(node.ops) > 1 and TENSOR in kinds:
            self.read(node, "a < b < c", node)
        return result_of(kinds)

    def visit_IfExp(self, node: ast.IfExp) -> Kind:
        """`a if test else b`, each side under what the test says of its names."""
        self.test(node.test, "if")
        before = dict(self.known)
        when_true, when_false = self.narrowed(node.test)
        self.known.update(when_true)
        body = self.visit(node.body)
        self.known = {**before, **when_false}
        orelse = self.visit(node.orelse)
        self.known = before
        return join(body, orelse)

    def visit_Subscript(self, node: ast.Subscript) -> Kind:
        base = self.visit(node.value)
        self.visit(node.slice)
        if isinstance(node.slice, ast.Constant) and text_of(node) in self.known:
            return self.known[text_of(node)]
        if lies_on_host(text_of(node.slice).strip("'\"")) or lies_on_host(dotted_name(node.value)):
            return HOST
        if isinstance(node.slice, ast.Slice):
            return base
        if base == GROUP:
            return PARAMETERS if text_of(node.slice) == "'params'" else HOST
        if base == TENSOR or shape(base) == "items":
            self.note_index(node.slice, base)
        if base == TENSOR and self.is_mask(node.slice):
            self.read(node, "[mask]", node.value)
        match shape(base):
            case "table":
                return base[1]
            case "row" if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                place = node.slice.value
                return base[1][place] if -len(base[1]) <= place < len(base[1]) else None
        return element(base)

    def is_mask(self, node: ast.expr) -> bool:
        """Whether a value says of each element if it is meant: `t[mask]` waits to learn how many are."""
        match node:
            case ast.Compare():
                return bool(self.visit(node) == TENSOR)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self.is_mask(operand)
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
                return self.is_mask(left) or self.is_mask(right)
            case ast.Tuple(elts=parts):
                return any(map(self.is_mask, parts))
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in _OF_EACH_ELEMENT and self.visit(node) == TENSOR
            case ast.Name(id=name):
                says_so = name == "mask" or name.endswith("_mask")
                return name in self.masks or (says_so and self.visit(node) in (None, TENSOR))
        return False

    def note_index(self, index: ast.expr, base: Kind) -> None:
        """A loop whose counter picks tensors is one over tensors: `for i in range(n): norms[i]`, `while i < n`."""
        used = names_in(index)
        for loop in self.loops:
            if used & loop.names and holds_tensors(base):
                loop.is_over_tensors = True

    def note_taken(self, holder: ast.expr, kind: Kind) -> None:
        """A `while` loop that runs until no tensor is left is one over tensors: `stack.pop()`, `next(grads)`."""
        loop = self.loops[-1] if self.loops else None
        if loop is not None and loop.tests(dotted_name(holder)) and shape(kind) == "items" and holds_tensors(kind):
            loop.is_over_tensors = True

    def visit_ListComp(self, node: Comprehension) -> Kind:
        with self.inside(node):
            made = self.visit(node.value if isinstance(node, ast.DictComp) else node.elt)
        return table(made) if isinstance(node, ast.DictComp) else items(made)

    visit_Set = visit_List
    visit_Await = visit_YieldFrom = visit_Yield = visit_Starred
    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    @contextmanager
    def inside(self, node: Comprehension) -> Iterator[None]:
        """The loops of a comprehension, with their names, while the block runs."""
        before, outer = dict(self.known), len(self.loops)
        for part in node.generators:
            self.enter(node, part.target, part.iter)
            for condition in part.ifs:
                self.test(condition, "if")
                self.known.update(self.narrowed(condition)[0])
        yield
        del self.loops[outer:]
        self.known = before

    def test_each_of(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp, what: str) -> None:
        """`any(test for ...)` tests the element once for each turn."""
        with self.inside(node):
            if isinstance(node.elt, ast.UnaryOp) and isinstance(node.elt.op, ast.Not):
                self.test(node.elt, what)  # `not` has read it: its result is on the host
            elif self.visit(node.elt) == TENSOR:
                # Tests that are tensors were made of tensors, whatever the loop says of itself.
                self.loops.append(Loop(node.lineno, node.generators[-1].iter, True))
                self.read(node.elt, what, node.elt)
            else:
                self.test(node.elt, what)

    # --- calls ---

    def visit_Call(self, node: ast.Call) -> Kind:
        written = dotted_name(node.func)
        full = self.helpers.full_name(written)
        if not full and written in _BUILTINS:
            return self.builtin(node, written)
        if written.rpartition(".")[2] in _WRAPPERS and node.args:
            kinds = [self.visit(item) for item in node.args]
            # `itertools.chain` gives the elements of all.
            return items(join_all(map(element, kinds if written.endswith("chain") else kinds[:1])))
        given = [self.visit(item) for item in node.args]
        keywords = {item.arg or "": self.visit(item.value) for item in node.keywords}
        if full.startswith("torch."):
            return self.torch_call(node, full, given, keywords)
        if full.startswith("math.") and TENSOR in given:
            self.read(node, f"{written}()", node.args[given.index(TENSOR)])
            return HOST
        if full.startswith("numpy."):
            return HOST
        is_helper, result = self.call_helper(node, node.func, given)
        if is_helper:
            return result
        if isinstance(node.func, ast.Attribute):
            return self.method_call(node, node.func, given)
        return TENSOR if self.visit(node.func) == MODULE else None

    def torch_call(self, node: ast.Call, full: str, given: list[Kind], keywords: dict[str, Kind]) -> Kind:
        part, _, last = full.rpartition(".")
        waits = part == "torch" and (last in torch_kinds.READ_FUNCTIONS or last in torch_kinds.WAITING)
        waits = waits or (full == "torch.where" and len(given) == 1)
        if waits and TENSOR in given:
            self.read(node, f"{full}()", node.args[given.index(TENSOR)])
            if last in torch_kinds.READ_FUNCTIONS:
                return HOST
            return torch_kinds.of_function(full, given, keywords, False)
        if full in ("torch.tensor", "torch.as_tensor") and given and given[0] == items(TENSOR):
            with self.loop(node.lineno, node.args[0], given[0]):
                self.read(node, f"{full}() of tensors", node.args[0])
        devices = [ast.unparse(item.value) for item in node.keywords if item.arg == "device"]
        return torch_kinds.of_function(full, given, keywords, any("'cpu'" not in device for device in devices))

    def method_call(self, node: ast.Call, method: ast.Attribute, given: list[Kind]) -> Kind:
        base, name = self.visit(method.value), method.attr
        if given and (name in _CONTAINER_METHODS or name == "extend"):
            self.put_into(method.value, element(given[0]) if name == "extend" else given[-1])
            if name not in ("add", "extend"):
                self.lists.add(dotted_name(method.value))
            return None
        if base == TENSOR and (name in torch_kinds.HOST_READS or name in torch_kinds.WAITING):
            self.read(node, f".{name}()", method.value)
            return TENSOR if name in torch_kinds.WAITING else HOST
        if name in ("pop", "popleft"):
            self.note_taken(method.value, base)
        if base == TENSOR and name == "to" and _goes_to_cpu(node):
            self.read(node, ".cpu()", method.value)
            return HOST
        if name in ("cpu", "numpy", "tolist", "item"):
            return HOST
        if name == "to" and base == HOST:
            return TENSOR if _is_sent_away(node) else HOST
        return torch_kinds.of_method(base, name, given)

    def builtin(self, node: ast.Call, name: str) -> Kind:
        """What a built-in function gives; `float(norm)` reads a tensor back, `all(norms)` and `max(norms)` each."""
        first = node.args[0] if node.args else None
        if name in ("any", "all") and isinstance(first, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            # The element is tested where the loop runs; its source says whether that is over tensors.
            self.test_each_of(first, f"{name}()")
            return HOST
        if name in ("map", "filter"):
            return self.maps(node, name)
        kinds = [self.visit(item) for item in node.args]
        inner = element(kinds[0]) if kinds else NONE
        match name:
            case "float" | "int" | "bool" | "complex" | "str" | "repr" | "format" | "print":
                for item, kind in zip(node.args, kinds, strict=True):
                    if kind == TENSOR:
                        self.read(node, f"{name}()", item)
            case "any" | "all" if first is not None and inner == TENSOR:
                with self.loop(node.lineno, first, kinds[0]):
                    self.read(node, f"{name}()", first)
            case "max" | "min" | "sorted":
                return self.compares_each(node, name, kinds)
            case "list" | "tuple" | "iter" | "reversed" | "set" | "frozenset":
                return items(inner)
            case "enumerate":
                return items(row((HOST, inner)))
            case "zip":
                return items(row(map(element, kinds)))
            case "sum" | "next":
                if name == "next" and first is not None:
                    self.note_taken(first, kinds[0])
                return inner if kinds else None
            case "abs" | "round":
                return kinds[0] if kinds else None
            case "getattr":
                return torch_kinds.of_attribute(kinds[0], text_in(node.args[1])) if text_in(node.args[1]) else None
            case "dict":
                kinds += [self.visit(word.value) for word in node.keywords]
                if kinds and shape(kinds[0]) == "table":
                    return kinds[0]
                if kinds and shape(element(kinds[0])) == "row":
                    return table(element(kinds[0])[1][-1])
                return table(NONE) if not kinds else None
        return HOST

    def compares_each(self, node: ast.Call, name: str, kinds: list[Kind]) -> Kind:
        """`max(norms)`, `min(norms)` and `sorted(norms)` compare one by one, and ask for the truth of each."""
        keys = [item.value for item in node.keywords if item.arg == "key"]
        if len(kinds) == 1:
            inner = element(kinds[0])
            with self.loop(node.lineno, node.args[0], kinds[0]):
                if keys:
                    self.apply(keys[0], inner, node)
                elif inner == TENSOR and shape(kinds[0]) == "items":
                    self.read(node, f"{name}()", node.args[0])
            return items(inner) if name == "sorted" else inner
        if TENSOR in kinds:
            self.read(node, f"{name}()", node.args[kinds.index(TENSOR)])
            return TENSOR
        return HOST if kinds and all(kind == HOST for kind in kinds) else None

    def maps(self, node: ast.Call, name: str) -> Kind:
        """`map(float, norms)` and `map(lambda n: n.item(), norms)`."""
        if len(node.args) != 2:
            return None
        source = self.visit(node.args[1])
        with self.loop(node.lineno, node.args[1], source):
            made = self.apply(node.args[0], element(source), node)
        return items(element(source) if name == "filter" else made)

    def apply(self, function: ast.expr, given: Kind, node: ast.Call) -> Kind:
        """A function called with one argument of a known kind, somewhere inside a built-in one."""
        if isinstance(function, ast.Lambda) and function.args.args:
            before = dict(self.known)
            self.known[function.args.args[0].arg] = given
            made = self.visit(function.body)
            self.known = before
            return made
        name = dotted_name(function)
        if name in ("float", "int", "bool") and given == TENSOR:
            self.read(node, f"{name}()", node.args[-1])
            return HOST
        return self.call_helper(node, function, [given])[1]

    # --- statements ---

    def block(self, statements: Iterable[ast.stmt]) -> bool:
        """Follow statements; whether the end of the block is never reached."""
        listed = list(statements)
        last = listed[-1] if listed else None
        kept, guard = self.loops, self.guard
        # What stands in a block that leaves the loop runs once, however long the loop is.
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
        holds_mask = self.is_mask(node.value)
        for target in node.targets:
            self.assign(target, kind)
            if isinstance(target, ast.Name):
                (self.masks.add if holds_mask else self.masks.discard)(target.id)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.visit(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`total += norm` and `grads += [grad]`."""
        kind: Kind = self.visit(node.value)
        before: Kind = self.known.get(dotted_name(node.target))
        if shape(before) == "items":
            self.assign(node.target, items(join(before[1], element(kind))))
        else:
            self.assign(node.target, None if before is None else result_of([before, kind]))

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.test(node.test, "assert")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned = join(self.returned, self.visit(node.value))

    def visit_While(self, node: ast.While) -> None:
        """As often as tensors are left: `while grads`, `while i < len(grads)`; else what the turns take says so."""
        loop = Loop(node.lineno, node.test, False, is_while=True, body=node)
        changed = {name for part in walk(node.body) for target in changed_by(part) for name in names_in(target)}
        loop.names = frozenset(filter(loop.tests, changed))
        self.loops.append(loop)
        left = self.visit(node.test)
        counted = any(self.counts_tensors(part, "len") for part in walk([node.test]))
        loop.is_over_tensors |= counted or (shape(left) == "items" and holds_tensors(left))
        for _ in range(2):
            self.test(node.test, "while")
            self.block(node.body)
        self.loops.pop()
        self.block(node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        """Twice: what a turn leaves behind is what the next one finds."""
        given = self.enter(node, node.target, node.iter)
        for _ in range(2):
            self.assign(node.target, given)
            self.block(node.body)
        self.loops.pop()
        self.block(node.orelse)

    def enter(self, node: ast.For | ast.AsyncFor | Comprehension, target: ast.expr, over: ast.expr) -> Kind:
        """Begin the turns of a loop, and return what its names hold: where the source does not say, by their use."""
        source = self.visit(over)
        given = element(source) if draws_batches(over) else _used_in(target, element(source), node)
        is_over = holds_tensors(source) or holds_tensors(given) or self.counts_tensors(over, "range")
        self.assign(target, given)
        self.loops.append(Loop(node.lineno, over, is_over, names_in(target), body=node))
        return given

    def counts_tensors(self, node: ast.AST, counted_by: str) -> bool:
        """`len(grads)` counts tensors, and `range(len(grads))` is a loop over them."""
        match node:
            case ast.Call(func=ast.Name(id="range"), args=[*_, last]) if counted_by == "range":
                return self.counts_tensors(last, "len")
            case ast.Call(func=ast.Name(id="len"), args=[counted]) if counted_by == "len":
                return holds_tensors(self.visit(counted))
        return False

    def visit_If(self, node: ast.If) -> None:
        self.test(node.test, "if")
        when_true, when_false = self.narrowed(node.test)
        before, guard, loops = dict(self.known), self.guard, self.loops
        self.known.update(when_true)
        self.guard = guard or guard_of(node.test)
        self.loops = [] if is_first_time(node) else loops
        body_ends = self.block(node.body)
        after_body, self.loops, self.guard = self.known, loops, guard
        self.known = {**before, **when_false}
        orelse_ends = self.block(node.orelse)
        if body_ends:
            self.guard = guard or guard_after(node.test)
        elif orelse_ends:
            self.known = after_body
        else:
            self.known = joined(after_body, self.known)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for manager in node.items:
            kind = self.visit(manager.context_expr)
            if manager.optional_vars is not None:
                self.assign(manager.optional_vars, kind)
        self.block(node.body)

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
            self.block(part)

    def visit_Match(self, node: ast.Match) -> None:
        subject, before = self.visit(node.subject), dict(self.known)
        after = dict(before)
        for case in node.cases:
            self.known = dict(before)
            self.bind(case.pattern, subject, node.subject)
            if case.guard is not None:
                self.test(case.guard, "case")
            if not self.block(case.body):
                after = joined(after, self.known)
        self.known = after

    def bind(self, pattern: ast.pattern, kind: Kind, subject: ast.expr) -> None:
        """Let the names of a pattern hold their parts of `kind`; a tensor is compared with a number there."""
        match pattern:
            case ast.MatchValue(value=value) if kind == TENSOR:
                self.read(value, "case", subject)
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self.bind(inner, kind, subject)
                if name is not None:
                    self.known[name] = kind

    def visit_FunctionDef(self, node: FunctionNode) -> None:
        """A function inside this one sees its names; where it is called is not known."""
        known, loops, returned = self.known, self.loops, self.returned
        self.known = dict(known)
        for item in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            self.known[item.arg] = of_parameter(item.arg, item.annotation)
        self.loops, outer = [], self.outer_loops
        self.outer_loops = 0
        self.block(node.body)
        self.known, self.loops, self.returned, self.outer_loops = known, loops, returned, outer

    visit_AsyncFor, visit_AsyncWith, visit_TryStar, visit_AsyncFunctionDef = (
        visit_For, visit_With, visit_Try, visit_FunctionDef,
    )  # fmt: skip

    # --- names ---

    def assign(self, target: ast.expr, kind: Kind) -> None:
        """Let the names of `target` hold `kind`, taken apart as the target is."""
        match target:
            case ast.Name() | ast.Attribute():
                name = dotted_name(target)
                if name:
                    self.known[name] = kind
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                several = kind[1] if shape(kind) == "row" and len(kind[1]) == len(parts) else None
                for place, part in enumerate(parts):
                    self.assign(part, several[place] if several else element(kind))
            case ast.Starred(value=part):
                self.assign(part, items(kind))
            case ast.Subscript(value=value, slice=key):
                self.put_into(value, kind)
                if isinstance(key, ast.Constant):
                    self.known[text_of(target)] = kind

    def put_into(self, holder: ast.expr, kind: Kind) -> None:
        """`holder[...] = value` and `holder.append(value)`: a container holds what is put into it."""
        name = dotted_name(holder)
        before: Kind = self.known.get(name)
        if name and shape(before) in ("items", "table"):
            self.known[name] = (before[0], join(before[1], kind))

    def narrowed(self, test: ast.expr) -> Narrowed:
        """What names hold where `test` is true, and where it is false.

        What is asked for being a tensor may be none: the test alone makes it no tensor.
        """
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                when_true, when_false = self.narrowed(operand)
                return when_false, when_true
            case ast.BoolOp(op=ast.And(), values=values):
                found: dict[str, Kind] = {}
                for value in values:
                    found |= self.narrowed(value)[0]
                return found, {}
            case ast.Call(func=function, args=[asked, *types]):
                name = self.helpers.full_name(dotted_name(function)) or dotted_name(function)
                if name == "torch.is_tensor" or (name == "isinstance" and types):
                    return self._by_type(dotted_name(asked), types)
            case ast.Attribute(value=asked, attr="is_cuda" | "is_cpu" as place):
                return _by_place(dotted_name(asked), place == "is_cuda")
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant(value=place)]):
                written = dotted_name(left)
                if written.endswith(".device.type") and place in ("cpu", "cuda"):
                    return _by_place(written.removesuffix(".device.type"), (place == "cuda") == isinstance(op, ast.Eq))
        return {}, {}

    def _by_type(self, name: str, types: list[ast.expr]) -> Narrowed:
        """`isinstance(x, torch.Tensor)`: whatever is known of it, and on the host where it is none."""
        asked = {part.rpartition(".")[2] for kind in types for part in _type_names(kind)}
        if not name:
            return {}, {}
        if not types or asked == {"Tensor"}:
            return {}, ({name: HOST} if self.known.get(name) in (None, TENSOR) else {})
        if asked & _MODULES:
            return {name: MODULE}, {}
        return ({name: HOST} if asked and asked <= _ONLY_ON_HOST else {}), {}


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


def joined(first: dict[str, Kind], second: dict[str, Kind]) -> dict[str, Kind]:
    """What names hold after one of two branches."""
    return {name: join(first.get(name, NONE), second.get(name, NONE)) for name in first.keys() | second.keys()}


def names_in(target: ast.expr) -> frozenset[str]:
    return frozenset(item.id for item in walk([target]) if isinstance(item, ast.Name))


def text_of(node: ast.expr) -> str:
    """The code of an expression on one line, cut after 60 characters."""
    text = " ".join((dotted_name(node) or ast.unparse(node)).split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def names_gradients(node: ast.AST, pattern: re.Pattern[str] = _GRADIENTS) -> bool:
    """Whether code names gradients, or what else `pattern` finds."""
    words = (getattr(part, field, None) for part in walk([node]) for field in ("id", "attr", "arg", "value"))
    return any(isinstance(word, str) and pattern.fullmatch(word) for word in words)


def _by_place(name: str, on_device: bool) -> Narrowed:
    if not name:
        return {}, {}
    return ({}, {name: HOST}) if on_device else ({name: HOST}, {})


def _type_names(node: ast.expr) -> list[str]:
    """The types that `isinstance(x, ...)` names."""
    match node:
        case ast.Tuple(elts=parts):
            return [name for part in parts for name in _type_names(part)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_type_names(left), *_type_names(right)]
    return [dotted_name(node)]


def _used_in(target: ast.expr, given: Kind, body: ast.AST) -> Kind:
    """`given`; where that is not known, also for a part of it, what the use of the loop's names in its body says."""
    if isinstance(target, ast.Tuple) and (given is None or shape(given) == "row"):
        parts = given[1] if given is not None and len(given[1]) == len(target.elts) else [None] * len(target.elts)
        return row(_used_in(part, kind, body) for part, kind in zip(target.elts, parts, strict=True))
    name = dotted_name(target)
    return TENSOR if given is None and name and _is_used_as_tensor(name, body) else given


def _is_used_as_tensor(name: str, body: ast.AST) -> bool:
    """Whether a loop reads of its own name what only tensors have; not where it tests first whether it is a tensor."""
    if lies_on_host(name):
        return False
    nodes = list(walk([body]))
    tested = {
        dotted_name(node.args[0])
        for node in nodes
        if isinstance(node, ast.Call) and node.args and dotted_name(node.func).endswith(("isinstance", "is_tensor"))
    }
    return name not in tested and any(
        isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS and dotted_name(node.value) == name
        for node in nodes
    )


def draws_batches(source: ast.expr) -> bool:
    """Whether a loop over `source` turns once for a batch of training data, however many tensors a model has."""
    names = (dotted_name(part).rpartition(".")[2] for part in walk([source]) if isinstance(part, ast.expr))
    return any(_OF_BATCHES.fullmatch(word) for name in names for word in name.split("_"))


def guard_of(test: ast.expr) -> str:
    """The text of a test that most steps or most runs fail: an interval, a flag for a check, the infinity norm."""
    return ast.unparse(test) if any(map(_says_seldom, walk([test]))) else ""


def _says_seldom(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=ast.BinOp(op=ast.Mod()), ops=[ast.Eq()]):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod())) | ast.Constant(value="inf"):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _ASKED_FOR.search(name) is not None
    return False


def guard_after(test: ast.expr) -> str:
    """The guard of what follows a block that is left under `test`: `if step % 100: return`, `if not debug: return`."""
    match test:
        case ast.BinOp(op=ast.Mod()) | ast.Compare(left=ast.BinOp(op=ast.Mod()), ops=[ast.NotEq()]):
            return ast.unparse(test)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as flag):
            return guard_of(flag)
    return ""


def is_first_time(node: ast.If) -> bool:
    """Whether a branch fills what its test found empty: an optimizer's `if len(state) == 0: state["step"] = 0`.

    A plain name that is given a value may be empty again in the next turn.
    """
    match node.test:
        case (
            ast.UnaryOp(op=ast.Not(), operand=holder)
            | ast.Compare(left=ast.Call(func=ast.Name(id="len"), args=[holder]), ops=[ast.Eq()])
            | ast.Compare(ops=[ast.NotIn()], comparators=[holder])
            | ast.Compare(left=holder, ops=[ast.Is()], comparators=[ast.Constant(value=None)])
        ):
            targets = [target for part in walk(node.body) for target in changed_by(part)]
            stored = [part for target in targets for part in (*getattr(target, "elts", ()), target)]
            places = {ast.unparse(part) for part in stored if isinstance(part, ast.Attribute | ast.Subscript)}
            names = {ast.unparse(part.value) for part in stored if isinstance(part, ast.Subscript)}
            return ast.unparse(holder) in places | names
    return False
