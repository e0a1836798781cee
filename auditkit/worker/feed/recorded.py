"""Build inputs from a recorded call: the recorded structure, with auditkit's gradients instead of the program's.

A recording is data of the checkout: classes and functions are searched in loaded modules, and only modules of the
checkout are imported for it. Values of tensors are random; integers are 0 or 1.
"""

import collections
import contextlib
import functools
import inspect
import os
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from ..base.refusals import CannotFeedError
from ..serve import loading
from ..serve.cut_out import is_definition, statements_of
from ..serve.loading import LoadError
from .given import KINDS
from .guesses import Guess
from .plan import MADE, SINGLE, Feed
from .stub import Quiet

SHRUNK, FULL = "shrunk", "full"
"""The sizes of the tensors of a recorded call: at most 2 MB in all, or as recorded."""
_MOST_BYTES = 2_000_000
_SMALL = 16
_MOST_ELEMENTS = 50_000_000
_LASTING = ("module", "optimizer", "tensor")
_KINDS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": collections.deque}


class Recorded:
    """The node of one argument; `Builder` creates a new value of it for each call."""

    def __init__(self, node: Any, arguments: Dict[str, Any]) -> None:
        self.node, self.arguments = node, arguments

    def build(self, around: Any) -> Any:
        """Return the value for a call, whose values `around` creates."""
        builder = around.__dict__.get("_builder")
        if builder is None:
            builder = around.__dict__["_builder"] = Builder(self.arguments, around)
        return builder.value(self.node)


def given_of(arguments: Dict[str, Any], slot: str = "") -> Dict[str, Any]:
    """Return the recorded arguments that take no gradients: plain values as they are."""
    return {
        name: node if not isinstance(node, (dict, list)) else Recorded(node, arguments)
        for name, node in arguments.items()
        if name not in (slot, "self")
    }


def feed_of(arguments: Dict[str, Any], is_method: bool) -> Optional[Feed]:
    """Return how the recorded call got gradients; None if no argument and no attribute carried any."""
    found = [(name, *carried(node)) for name, node in arguments.items() if name != "self" and carried(node)]
    found.sort(key=lambda each: each[1] == "gradients")
    setup = MADE if is_method else None
    if found:
        name, takes, container = found[0]
        return Feed(takes, container, [name], setup, [], by_use=None)
    return Feed("object", "list", [], MADE, ["self"], by_use=None) if is_method else None


def carried(node: Any) -> Any:
    """Return how a value carries gradients, as `takes` and `container` of a feed; () if it does not."""
    if not isinstance(node, dict):
        return ()
    kind, held = node.get("k"), node.get("v")
    if kind == "module" and _has_parameters(node):
        return "module", "list"
    if kind == "optimizer":
        return "optimizer", "list"
    if kind == "generator" and str(node.get("c")).endswith((".parameters", ".named_parameters")):
        return str(node["c"]).rpartition(".")[2], "iterator"
    if kind == "tensor" and _is_float(node):
        return ("parameters" if node.get("p") else "gradients"), SINGLE
    if kind in ("list", "tuple") and isinstance(held, list) and held:
        if all(_is(each, "tensor") and _is_float(each) for each in held):
            return ("parameters" if any(each.get("p") or each.get("grad") for each in held) else "gradients"), "list"
        pairs = [each["v"] for each in held if _is(each, "tuple")]
        if len(pairs) == len(held) and all(len(each) == 2 and _is(each[1], "tensor") for each in pairs):
            return "named_parameters", "list"
    return ()


def _is(node: Any, kind: str) -> bool:
    return isinstance(node, dict) and node.get("k") == kind


def _is_float(node: Dict[str, Any]) -> bool:
    return "float" in str(node.get("dtype"))


def _has_parameters(node: Dict[str, Any]) -> bool:
    return bool(node.get("params")) or any(
        _is(each, "module") and _has_parameters(each) for each in node.get("children", {}).values()
    )


_roots: List[str] = []


def accepted(function: Any, recorded: Dict[str, Any], roots: List[str]) -> Dict[str, Any]:
    """Return the recorded calls without names that the function reads from its module, which blocks have."""
    _roots[:] = roots
    names = {"self", *inspect.signature(function).parameters}
    arguments = {name: node for name, node in recorded["arguments"].items() if name in names}
    return {**recorded, "arguments": arguments}


def sizes_of(arguments: Dict[str, Any], builds_models: bool) -> List[str]:
    """Return the sizes to try; the probe's own module replaces models unless they are built."""
    built = arguments if builds_models else {n: None if carried(each) else each for n, each in arguments.items()}
    return [FULL] if _bytes_of(built) <= _MOST_BYTES else [SHRUNK, FULL]


def in_size(arguments: Dict[str, Any], size: str) -> Dict[str, Any]:
    """Return the arguments with smaller tensors, in which equal sizes stay equal, if `size` is SHRUNK.

    Sizes of parameters, except of kernels, are divided by one factor, also in attributes and other shapes; if that is
    not enough, all other sizes, too. Grouped convolutions become ordinary ones.
    """
    if size != SHRUNK:
        return arguments
    arguments = _ungrouped(arguments)
    shapes = [node["shape"] for node in _tensors(arguments) if node.get("p")]
    kernels = {each for shape in shapes if len(shape) > 2 for each in shape[2:]}
    own = {each for shape in shapes for each in shape[:2]} - kernels
    every = {each for node in _tensors(arguments) for each in node["shape"]}
    for dims in (own, every):
        for power in range(1, 13):
            small = {each: -(-each // 2**power) for each in dims if each >= _SMALL}
            found: Dict[str, Any] = _with_sizes(arguments, small)
            if _bytes_of(found) <= _MOST_BYTES:
                return found
    return arguments


def _ungrouped(value: Any) -> Any:
    if isinstance(value, list):
        return [_ungrouped(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: _ungrouped(each) for name, each in value.items()}
    attributes = made.get("attrs", {})
    groups = attributes.get("groups", 1) if made.get("k") == "module" else 1
    for node in [*made.get("params", {}).values(), *attributes.values()] if groups != 1 else ():
        if _is(node, "tensor") and len(node["shape"]) > 2:
            node["shape"][1] *= groups
    if groups != 1:
        attributes["groups"] = 1
    return made


def _tensors(value: Any) -> List[Dict[str, Any]]:
    return [each for each in _nodes(value) if each.get("k") in ("tensor", "array")]


def _bytes_of(arguments: Dict[str, Any]) -> int:
    dtypes = ((node, getattr(torch, str(node["dtype"]), None)) for node in _tensors(arguments))
    return sum(torch.Size(node["shape"]).numel() * getattr(dtype, "itemsize", 8) for node, dtype in dtypes)


def _with_sizes(value: Any, small: Dict[int, int]) -> Any:
    """Return a copy in which every integer that is one of the sizes is replaced by the smaller one."""
    if isinstance(value, dict):
        kept = ("id", "ref", "line", "n")
        return {name: each if name in kept else _with_sizes(each, small) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_sizes(each, small) for each in value]
    return small.get(value, value) if type(value) is int else value


class Items(torch.utils.data.Dataset):
    """A dataset whose DataLoaders return the batches of `loader`."""

    def __init__(self, loader: Any, count: int) -> None:
        self.loader, self.count = loader, count
        original = torch.utils.data.DataLoader.__iter__
        if not hasattr(original, "is_ours"):

            def __iter__(loader: Any) -> Any:
                return iter(loader.dataset.loader) if isinstance(loader.dataset, Items) else original(loader)

            __iter__.is_ours = True  # type: ignore[attr-defined]
            torch.utils.data.DataLoader.__iter__ = __iter__  # type: ignore[method-assign]

    def __len__(self) -> int:
        return self.count


class Builder:
    """The values of one call. `around` has the gradients' module and optimizer; None builds the program's own."""

    def __init__(self, arguments: Dict[str, Any], around: Any = None, batches: Any = None) -> None:
        self.around, self.batches = around, batches
        self.made: Dict[int, Any] = {}
        self.nodes = {each["id"]: each for each in _nodes(arguments)}
        self.open: set = set()
        self.elements = 0

    def value(self, node: Any) -> Any:
        """Return the value of a node. Raises CannotFeedError for a class that is not loaded."""
        if not isinstance(node, dict):
            return node
        number: Any = node.get("ref", node.get("id"))
        kind = str(node.get("k"))
        if number in self.made or number in self.open:
            return self.made.get(number)
        if "ref" in node:
            return self.value(self.nodes.get(number))
        if kind in _LEAVES:
            return _LEAVES[kind](self, node)
        self.open.add(number)
        try:
            found = self._carrier(node) if self.around is not None else None
            self.made[number] = getattr(self, "_" + kind)(node) if found is None else found
        finally:
            self.open.discard(number)
        return self.made[number]

    def values(self, nodes: Dict[str, Any]) -> Dict[str, Any]:
        """Return the values of named nodes."""
        return {name: self.value(each) for name, each in nodes.items()}

    def _carrier(self, node: Dict[str, Any]) -> Any:
        kinds = carried(node)
        if not kinds or kinds[1] == SINGLE or kinds[0] == "gradients":
            return None
        made = self.around.made(KINDS[kinds[0]])
        self.around.read.setdefault("the recorded {}".format(kinds[0]), Guess("with the gradients of the probe"))
        return iter(made) if kinds[1] == "iterator" else made

    @property
    def device(self) -> Any:
        """The device of the gradients."""
        gradients = self.around.grads if self.around is not None else ()
        return next((each.device for each in gradients if each is not None), torch.device("cpu"))

    def _items(self, node: Dict[str, Any]) -> Any:
        kind, held = _KINDS[node["k"]], [self.value(each) for each in node["v"]]
        count = min(int(node.get("n", len(held))), 10_000)
        held = [held[index % len(held)] for index in range(count)] if held else []
        own = named(node["c"]) if "c" in node else kind
        return own(*held) if hasattr(own, "_fields") else own(held)

    _list = _tuple = _set = _frozenset = _deque = _items

    def _dict(self, node: Dict[str, Any]) -> Any:
        own = named(node["c"]) if "c" in node else dict
        made = self.made[node["id"]] = own.__new__(own)
        if isinstance(made, collections.defaultdict):
            made.default_factory = self.value(node.get("factory"))
        for key, value in node["v"]:
            dict.__setitem__(made, self.value(key), self.value(value))
        if node.get("is_own_dict"):
            object.__setattr__(made, "__dict__", made)
        for name, value in self.values(node.get("attrs", {})).items():
            object.__setattr__(made, name, value)
        return made

    def _tensor(self, node: Dict[str, Any]) -> Any:
        shape, dtype = [int(each) for each in node["shape"]], _dtype(node["dtype"])
        self.elements += int(torch.Size(shape).numel())
        if self.elements > _MOST_ELEMENTS:
            raise CannotFeedError("the recorded tensors have more than {:,} elements".format(_MOST_ELEMENTS))
        if dtype.is_floating_point:
            made = (torch.randn(shape) * (0.02 if node.get("p") else 1.0)).to(dtype)
        else:
            made = torch.randint(0, 2, shape).to(dtype)
        if node.get("layout") == "channels_last":
            made = made.contiguous(memory_format=torch.channels_last)
        if node.get("p"):
            return torch.nn.Parameter(made, requires_grad="grad" in node)
        if node.get("graph") and self.around is None and made.is_floating_point():
            return made + self._sum_of_parameters().to(dtype)
        return made.requires_grad_() if "grad" in node and made.is_floating_point() else made

    def _sum_of_parameters(self) -> torch.Tensor:
        """Return a small number that depends on every parameter, as a tensor computed by an earlier call does."""
        nodes = [each for each in self.nodes.values() if each.get("p") and "grad" in each]
        return torch.stack([1e-3 * self.value(each).float().mean() for each in nodes] or [torch.zeros(())]).sum()

    def _array(self, node: Dict[str, Any]) -> Any:
        numpy: Any = sys.modules.get("numpy")
        if numpy is None:
            raise CannotFeedError("the recorded call has an array, and numpy is not loaded")
        made = numpy.zeros(node["shape"], dtype=node["dtype"] if node["dtype"] != "object" else float)
        return made if node["shape"] else made[()]

    def _module(self, node: Dict[str, Any]) -> Any:
        made = self._bare(node, torch.nn.Module)
        torch.nn.Module.__init__(made)
        for place, held in (("params", made._parameters), ("buffers", made._buffers), ("children", made._modules)):
            held.update(self.values(node.get(place, {})))
        return self._with_attributes(made, node)

    def _optimizer(self, node: Dict[str, Any]) -> Any:
        made = self._bare(node, torch.optim.Optimizer)
        groups = [self.value(each) for each in node["groups"]]
        torch.optim.Optimizer.__init__(made, groups, self.values(node.get("defaults", {})))
        # A schedule replaces `step` by a function of its own.
        own = {name: each for name, each in node.get("attrs", {}).items() if not hasattr(type(made), name)}
        return self._with_attributes(made, {"attrs": own})

    def _loader(self, node: Dict[str, Any]) -> Any:
        if self.batches is None or node.get("batch") is None:
            raise CannotFeedError("no batch of its DataLoader was recorded")
        return self.batches(lambda: self.value(node["batch"]))

    def _bare(self, node: Dict[str, Any], base: type = object) -> Any:
        own = named(node["c"])
        if not (isinstance(own, type) and issubclass(own, base)):
            raise CannotFeedError("{} is no class of the recorded kind".format(node["c"]))
        try:
            made = object.__new__(own)
        except TypeError:
            made = own.__new__(own)
        self.made[node["id"]] = made
        return made

    def _object(self, node: Dict[str, Any]) -> Any:
        if node.get("batch") is not None and self.batches is not None:
            made: Any = Items(self.batches(lambda: self.value(node["batch"])), node.get("n") or 1)
            self.made[node["id"]] = made
        else:
            made = self._bare(node)
        if isinstance(made, torch.amp.GradScaler) and self.around is None:
            torch.amp.GradScaler.__init__(made, "cpu", enabled=False)
            return made
        return self._with_attributes(made, node)

    def _with_attributes(self, made: Any, node: Dict[str, Any]) -> Any:
        for name, each in node.get("attrs", {}).items():
            try:
                value = self.value(each)
            except (CannotFeedError, TypeError):
                value = Quiet({})  # The call may not need it.
            with contextlib.suppress(AttributeError, TypeError):
                object.__setattr__(made, name, value)
        return made

    def _function(self, node: Dict[str, Any]) -> Any:
        if "line" not in node:
            try:
                return named(node["c"])
            except CannotFeedError:
                return Quiet({})  # a callback of the script, which does nothing here
        module, _, qualified = node["c"].partition(":")
        code = _code_at(_module(module), node["line"], qualified.rpartition(".")[2])
        cells = self.values(node.get("cells", {}))
        closure = tuple(types.CellType(cells.get(name)) for name in code.co_freevars)
        defaults = tuple(self.value(each) for each in node.get("defaults", ()))
        return types.FunctionType(code, vars(_module(module)), code.co_name, defaults, closure)

    def _partial(self, node: Dict[str, Any]) -> Any:
        positional = [self.value(each) for each in node["a"]]
        return functools.partial(self.value(node["f"]), *positional, **self.values(node["kw"]))

    def _method(self, node: Dict[str, Any]) -> Any:
        return getattr(self.value(node["self"]), node["name"])

    def _generator(self, node: Dict[str, Any]) -> Any:
        return named(node["c"])(**self.values(node["args"]))


def _dtype(name: str) -> Any:
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else torch.float32


_LEAVES: Dict[Any, Callable[[Builder, Dict[str, Any]], Any]] = {
    "str": lambda builder, node: "x" * min(int(node["n"]), 200),
    "bytes": lambda builder, node: b"x" * min(int(node["n"]), 200),
    "int": lambda builder, node: int(node["v"]),
    "float": lambda builder, node: float(node["v"]),
    "dtype": lambda builder, node: _dtype(node["v"]),
    "size": lambda builder, node: torch.Size(node["v"]),
    "class": lambda builder, node: named(node["c"]),
    "enum": lambda builder, node: named(node["c"])[node["name"]],
    "py": lambda builder, node: sys.modules.get(node["v"]) or Quiet({}),
    "cut": lambda builder, node: Quiet({}),
    "device": lambda builder, node: builder.device,
    # `cpu:0` does not mean a copy to the host, as `cpu` would.
    "device_name": lambda builder, node: "cpu:0" if builder.device.type == "cpu" else str(builder.device),
}
"""Values without parts, by kind."""


def _nodes(value: Any) -> Iterator[Dict[str, Any]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "id" in each:
                yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def named(words: str) -> Any:
    """Return the object of this name in its module. Raises CannotFeedError."""
    module, _, qualified = str(words).partition(":")
    if module == "builtins" and qualified == "method":
        raise CannotFeedError("a built-in method was not recorded")
    found: Any = _module(module)
    parts = qualified.split(".")
    for each in [one for one in list(sys.modules.values()) if not hasattr(found, parts[0]) and _is_cut_out(one)]:
        # A statement of the audited file imports or defines it, and has not run so far.
        loader: Any = getattr(each.__spec__, "loader", None)
        wanted = [each for each in (parts[0], module.partition(".")[0]) if each in loader.statements.binding]
        loader.define(each, wanted, is_definition)
        found = _module(module)
    for name in parts:
        found = getattr(found, name, None)
    if found is None:
        raise CannotFeedError("{} was recorded and is not loaded".format(words))
    return found


def _module(name: str) -> Any:
    """Return a loaded module, by its name or by the file of the script that ran, or import one of the checkout.

    A module of the checkout is imported as those of the targets are, unless that would train.
    """
    if name.endswith(".py"):
        return next((each for each in list(sys.modules.values()) if _file_name(each) == name), None)
    for root in _roots if name not in sys.modules else ():
        path = os.path.join(root, *name.split("."))
        file = next((each for each in (path + ".py", os.path.join(path, "__init__.py")) if os.path.isfile(each)), "")
        if file:
            with contextlib.suppress(LoadError):
                if not statements_of(file).train:
                    loading.import_module(name, _roots)
    return sys.modules.get(name)


def _is_cut_out(module: Any) -> bool:
    return hasattr(getattr(getattr(module, "__spec__", None), "loader", None), "define")


def _file_name(module: Any) -> str:
    return os.path.basename(str(getattr(module, "__file__", "")))


def _code_at(module: Any, line: int, name: str) -> types.CodeType:
    """Return the code of a local function, by its line. Raises CannotFeedError."""
    with contextlib.suppress(OSError, TypeError):
        waiting = [compile(inspect.getsource(module), str(module.__file__), "exec")]
        while waiting:
            code = waiting.pop()
            if (code.co_firstlineno, code.co_name) == (line, name):
                return code
            waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    raise CannotFeedError("the recorded function {} is not in its module".format(name))


def _lasts(node: Dict[str, Any]) -> bool:
    """Return whether the next call uses the same object: a graph is freed by the backward pass."""
    return node["k"] in _LASTING and not node.get("graph")


def replayed(function: Any, method: str, arguments: Dict[str, Any], batches: Any) -> Callable[[], Any]:
    """Return the recorded call of a training step as a function without arguments."""
    builder = Builder(arguments, None, batches)

    def call() -> Any:
        """Call on new values, but with the models and optimizers of the previous call."""
        builder.made = {number: each for number, each in builder.made.items() if _lasts(builder.nodes[number])}
        values = {name: builder.value(node) for name, node in arguments.items()}
        called = getattr(values.pop("self"), method) if method and "self" in values else function
        return called(**values)

    return call
