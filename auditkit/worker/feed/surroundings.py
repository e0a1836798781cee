"""The values of one call: fakes for optimizers, configurations, groups, loggers, all for the same gradients.

Everything that carries gradients is a view of the same module, so that an optimizer's parameters are the model's.
Values that the target reads are recorded by dotted path: a report shows them, and the next call gets them in advance.
"""

import functools
import re
import sys
from types import FunctionType, ModuleType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from ..base.frames import chain
from ..base.torch_internals import new_scaler_states, without_compiler
from ..gradients.gradients import GradientHolder, holder_of, placed, total_norm
from ..serve.cut_out import CutOut
from ..simulated.tensor import to_host
from . import groups, guesses
from .given import end_to_end
from .guesses import Guess
from .recorded import Recorded
from .stub import COMMON, Recorder, Stub, is_called, no_value, raised_at
from .uninitialized import SELF, make

BY_USE = "how it is used"
_TENSOR = "torch:Tensor"
_STEP = re.compile(r"\w+|\[0\]|\[:\]|\(\)")
_WRAPPED = {
    "module": ("module", "model", "orig_mod", "clip_grad_norm"),
    "optimizer": ("optimizer", "optim", "base_optimizer", "clip_grad_norm"),
}
"""Names that wrappers of a module or an optimizer give it, and their method that clips."""


class Surroundings(Recorder):
    """All values of one call on `grads`.

    `logged` has the numbers that loggers got, `written` the tensors that a target gets to write to. `code` is the
    called function: classes are searched in its module; an object of its class `owner` contains no other one.
    """

    def __init__(
        self,
        given: Dict[str, Any],
        grads: Sequence[Optional[torch.Tensor]],
        device: str = "cpu",
        by_use: Optional[Dict[str, str]] = {},  # noqa: B006 (it is copied)
        code: Any = None,
        owner: Optional[type] = None,
    ) -> None:
        super().__init__(given)
        self._infers = by_use is not None
        self.grads, self.device, self.by_use = grads, device, dict(by_use or {})
        self.written: Dict[str, torch.Tensor] = {}
        self.is_preparing = True
        self._enclosing: Optional[type] = getattr(code, "enclosing", None)
        self._owner, self._module_name = owner, str(getattr(code, "__module__", ""))
        self._made: Dict[str, Any] = {}
        self._objects: Dict[str, Any] = {}
        self._instance: Any = None

    @functools.cached_property
    def module(self) -> GradientHolder:
        """The module whose parameters carry the gradients."""
        holder: GradientHolder = holder_of(self.grads)
        return holder

    @functools.cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """A real optimizer of the module's parameters."""
        parameters = list(self.module.parameters())
        with without_compiler(torch.optim.Optimizer.add_param_group):
            # SGD rejects an empty list.
            made = torch.optim.SGD(parameters or [torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        made.param_groups[0] = {**made.param_groups[0], "params": parameters}
        return made

    def filled(self, path: str, found: Optional[Guess]) -> Any:
        if path in self.given:
            value = self.given[path]
            return value.build(self) if isinstance(value, Recorded) else value
        if found is None and not self._infers:
            raise no_value(path)
        if found is not None and self.by_use.get(path) == _TENSOR:
            self.read[path] = Guess("a tensor of {}".format(found.value))
            return placed([torch.full((1,), float(found.value))], self.device)[0]
        if found is None or path in self.by_use:
            self.by_use.setdefault(path, "")
            self.read[path] = Guess(BY_USE)
            if not path.endswith(")"):  # The result of a call may not be used.
                self.waiting[path] = None
            return Stub(self, path)
        self.read[path] = found
        made = self._made[path] = self.made(found.value, path)
        if found.value == guesses.NO_INF:
            self.written[path] = made
        return made

    def object_at(self, path: str, method: str = "") -> Any:
        if path not in self._objects:
            found = _class_named(self.by_use.get(path, ""))
            if path == SELF and self._enclosing is not None:
                found = self._enclosing
            elif found is None and method:
                found = _class_with(method, self._module_name, self._owner or self._enclosing)
            name = "" if found is None else "{}:{}".format(found.__module__, found.__qualname__)
            # Avoid an endless chain of objects of the same class.
            if found is None or any(path.startswith(at + ".") and each == name for at, each in self.by_use.items()):
                return None
            self.waiting.pop(path, None)
            self.by_use[path] = name
            self.read[path] = Guess("{} made without __init__".format(found.__qualname__))
            self._objects[path] = make(found, self, path)
        return self._objects[path]

    def wait_for(self, path: str) -> None:
        if path not in self._objects:
            self.waiting[path] = None

    def unexplained(self) -> Iterator[str]:
        """Yield the paths of values that no name explains."""
        for path, found in self.read.items():
            if found.value == BY_USE and guesses.of_object(guesses.last_name(path)) is None:
                yield path

    def prepare(self, paths: Sequence[str], roots: Dict[str, Any]) -> None:
        """Create the values that an earlier call read; `roots` are the objects that paths begin with."""
        self.is_preparing, self._instance = True, roots.get(SELF)
        for path in paths:
            first, *steps = _STEP.findall(path)
            if first == "parameter" and steps:
                for place, parameter in enumerate(self.module.parameters()):
                    self._give_parameter(parameter, steps[0], place)
            elif first in _WRAPPED and steps:
                self._give_wrapper(first, steps[0])
            elif steps and first in roots:
                found = roots[first]
                if first == SELF and not hasattr(found, steps[0]):
                    setattr(found, steps[0], self.filled(path, guesses.of_object(steps[0])))
                for step in steps:
                    found = _part(found, step)
        self.is_preparing = False

    def _give_parameter(self, parameter: Any, name: str, place: int) -> None:
        """Give a parameter an attribute, unless it came with the gradients."""
        path = "parameter." + name
        made = None if path in self.given else _of_parameter(name)
        if name in vars(parameter):
            return
        if made is None:
            setattr(parameter, name, self.filled(path, guesses.known(name)))
            return
        words, make_one, follows = made
        self.read[path] = Guess(words)
        setattr(parameter, name, make_one(parameter, place))
        if follows:
            self.module.aliases[name] = functools.partial(make_one, place=0)

    def _give_wrapper(self, kind: str, name: str) -> None:
        """Give the module or the optimizer an attribute of its wrappers."""
        path, made = "{}.{}".format(kind, name), self.module if kind == "module" else self.optimizer
        if name.rstrip("_") == "clip_grad_norm":
            made.__dict__[name] = self.filled(path, Guess(guesses.CLIPS))
        elif name.strip("_") in _WRAPPED[kind]:
            self.read[path] = Guess("the {} itself".format(kind))
            made.__dict__[name] = made
        else:
            made.__dict__[name] = self.filled(path, guesses.of_object(name))

    def remedy(self, error: BaseException) -> str:
        """Return the path of the missing value that made a target raise; "" if no value of auditkit was missing.

        Raises UnknownValueError for an attribute of parameters that no name explains.
        """
        for each in chain(error):
            path = groups.missing(each)
            if path:
                return path
            names = groups.constants(each)
            if "grad_sample" in names:
                return "parameter.grad_sample"
            # A method of the object raises because `hasattr` finds no such attribute.
            if self._instance is not None and groups.asks_hasattr(each, self._instance):
                found = next((n for n in names if n not in vars(self._instance) and guesses.of_object(n)), "")
                if found:
                    return "{}.{}".format(SELF, found)
            kind = self._kind_of(getattr(each, "obj", None)) if isinstance(each, AttributeError) else ""
            if not kind:
                continue
            name = str(each.name)  # type: ignore[attr-defined]
            path = "{}.{}".format(kind, name)
            if path in self.given or _is_explained(kind, name, is_called(*raised_at(each))):
                return path
            if kind == SELF or (kind == "parameter" and not hasattr(torch.nn.Module, name)):
                raise no_value(path) from error
        return ""

    def explained_wrongly(self, error: BaseException) -> Dict[str, str]:
        """Return the paths whose guessed value lacks the attribute that the target read, with what it is instead."""
        if not isinstance(error, AttributeError) or error.obj is None or error.name is None:
            return {}
        found, held = guesses.of_object(error.name), error.obj
        paths = [
            path
            for path, made in self._made.items()
            if made is held or (isinstance(made, list) and any(each is held for each in made))
        ]
        is_power = any(self.read.get(path) is guesses.POWER for path in paths)  # no tensor: `p` is a parameter here
        is_number = isinstance(held, (int, float)) and not is_power
        kind = _TENSOR if is_number and hasattr(torch.Tensor, error.name) else ""
        if not kind and found is not None and (guesses.is_callable(found) or not is_called(*raised_at(error))):
            return {}
        return dict.fromkeys(paths, kind)

    def _kind_of(self, made: Any) -> str:
        if made is None:
            return ""
        if made is self._instance:
            return SELF
        known = {name: self.__dict__.get(name) for name in _WRAPPED}
        if known["module"] is not None and any(made is each for each in known["module"].parameters()):
            return "parameter"
        return next((name for name, each in known.items() if made is each), "")


def _is_explained(kind: str, name: str, is_method: bool) -> bool:
    """Return whether an attribute of this kind of object has a value by its name, callable for a method."""
    if kind == "parameter":
        is_gradient = guesses.carrier(name) and not hasattr(torch.nn.Module, name)
        return bool(is_gradient or _of_parameter(name)) or guesses.known(name) is not None
    if name.strip("_") in _WRAPPED.get(kind, ()):
        return True
    if is_method and kind in _WRAPPED and not guesses.is_callable(guesses.of_object(name)):
        return False
    kinds = {SELF: tuple(guesses.CARRIERS), "optimizer": (guesses.PARAMETERS,)}
    if guesses.carrier(name) in kinds.get(kind, ()):
        return True
    return guesses.known(name) is not None and not guesses.is_limit(name)


def _part(made: Any, step: str) -> Any:
    """Return the value at one step of a path: an attribute, the first item, all items, or a result."""
    if step == "()":
        return made()
    if step.startswith("["):
        return made[0] if step == "[0]" else made.values()
    return made[step] if isinstance(made, dict) else getattr(made, step)


def _of_parameter(name: str) -> Optional[Tuple[Optional[str], Callable[..., Any], bool]]:
    """Return the meaning of an attribute of parameters, its constructor, and whether it follows the gradient."""
    if name == "grad_sample":
        return guesses.OF_ONE_SAMPLE, lambda each, place: None if each.grad is None else each.grad[None], True
    if re.fullmatch(r"_?(norm_sample|per_sample_(grad(ient)?_)?norms?)", name):
        words = "the norm of the gradient as that of one sample"
        return words, lambda each, place: total_norm([each.grad])[None], True
    if re.fullmatch(r"(summed|accumulated|acc)_grad", name):
        return None, lambda each, place: None, False  # An accumulator is still empty.
    if re.fullmatch(r"(\w+_)?id", name):
        return "its place in the list", lambda each, place: place, False
    if guesses.carrier(name) == guesses.GRADIENTS or name == "grad_accum":
        return "the gradient", lambda each, place: _in_buffer(each), True
    return None


def _in_buffer(parameter: Any) -> torch.Tensor:
    """Return the gradient as a buffer that exists even before the gradient does."""
    return torch.zeros_like(parameter.data) if parameter.grad is None else parameter.grad


def _class_named(words: str) -> Optional[type]:
    module, _, qualified = words.partition(":")
    found: Any = sys.modules.get(module)
    for name in qualified.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None


def _class_with(method: str, module: str, owner: Optional[type]) -> Optional[type]:
    """Return the first class with this method, of the module or else of its package; None for unrelated ones."""
    package = module.partition(".")[0] + "."
    own = [sys.modules[module]] if module in sys.modules else []
    loaded = [each for name, each in list(sys.modules.items()) if (name + ".").startswith(package)]
    for modules in (own, loaded):
        for cut_out in (each for each in modules if isinstance(each, CutOut)):
            cut_out.define_classes_with(method)
        families: Dict[type, List[type]] = {}
        for each in _classes(modules):
            held = vars(each).get(method)
            if isinstance(held, FunctionType) and not (owner and issubclass(each, owner)):
                first = next(base for base in reversed(each.__mro__) if method in vars(base))
                if not getattr(held, "__isabstractmethod__", False):
                    families.setdefault(first, []).append(each)
        if families:
            (members,) = families.values() if len(families) == 1 else ([],)
            return min(members, key=lambda each: len(each.__mro__), default=None)
    return None


def _classes(modules: Iterable[ModuleType]) -> List[type]:
    """Return the classes of modules, with their subclasses, except those of torch and Python."""
    found: Dict[type, None] = {}
    spaces = [vars(module) for module in modules if isinstance(module, ModuleType)]
    waiting = [each for space in spaces for each in list(space.values()) if issubclass(type(each), type)]
    while waiting:
        each = waiting.pop(0)
        if each not in found and each.__module__.partition(".")[0] not in ("builtins", "torch", "typing", "abc"):
            found[each] = None
            waiting += type.__subclasses__(each)
    return list(found)


def _object(around: Surroundings, path: str) -> Any:
    made = around.object_at(path)
    return Stub(around, path, guesses.of_object) if made is None else made


def _clip(around: Surroundings, *values: Any, **named: Any) -> torch.Tensor:
    """Clip as a wrapper's method of that name does, with or without the parameters before the limit."""
    limit = next(value for value in (*values, *named.values()) if isinstance(value, (int, float)))
    if limit == 0:  # Most wrappers then only measure.
        return total_norm(around.grads)
    return torch.nn.utils.clip_grad_norm_(around.module.parameters(), limit)


def _device(around: Surroundings) -> torch.device:
    first = next((grad for grad in around.grads if isinstance(grad, torch.Tensor)), None)
    return torch.device("cpu") if first is None else first.device


def _scaler(around: Surroundings) -> Any:
    """Return a scaler that changes nothing, with the state of an enabled one."""
    made: Any = torch.amp.GradScaler("cpu", enabled=False)
    made._per_optimizer_states = new_scaler_states()
    made.inv_scale = placed([torch.ones(1)], around.device)[0]
    return made


def _flat(around: Surroundings) -> Optional[torch.Tensor]:
    return end_to_end([_in_buffer(each) for each in around.module.parameters()])[0]


def _one_sample(around: Surroundings) -> Optional[torch.Tensor]:
    joined = _flat(around)
    return None if joined is None else joined[None]


def _of_each(make_one: Callable[[Any], Any]) -> Callable[[Surroundings, str], List[Any]]:
    return lambda around, _: [make_one(each) for each in around.module.parameters()]


def _list_of_each(make_one: Callable[[Any], Any]) -> Callable[[Surroundings, str], List[List[Any]]]:
    return lambda around, _: [[make_one(each) for each in around.module.parameters()]]


def _master(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    return parameter if parameter.dtype == torch.float32 else torch.nn.Parameter(parameter.detach().float())


Surroundings.fakes = {
    **COMMON,
    guesses.TOTAL_NORM: lambda around, _: total_norm(around.grads),
    guesses.TOTAL_NORM_NUMBER: lambda around, _: float(to_host(total_norm(around.grads))),
    guesses.GROUP_NORMS: lambda around, _: [total_norm(around.grads)],
    guesses.DEVICE: lambda around, _: _device(around),
    guesses.DEVICE_NAME: lambda around, _: str(_device(around)),
    guesses.NO_INF: lambda around, _: placed([torch.zeros(1)], around.device)[0],
    guesses.SCALE_OF_ONE: lambda around, _: placed([torch.ones(1)], around.device)[0],
    guesses.SCALER_STATES: lambda around, _: new_scaler_states(),
    guesses.SCALER: lambda around, _: _scaler(around),
    guesses.CONFIG: lambda around, path: Stub(around, path, guesses.in_configuration),
    guesses.OBJECT: _object,
    guesses.PARAMETER_LISTS: _list_of_each(lambda each: each),
    guesses.GRADIENT_LISTS: lambda around, _: [[grad for grad in around.grads if grad is not None]],
    guesses.BUFFER_LISTS: _list_of_each(_in_buffer),
    guesses.MASTER_LISTS: _list_of_each(_master),
    guesses.FLAG_LISTS: _list_of_each(lambda each: True),
    guesses.OF_ONE_SAMPLE: lambda around, _: _one_sample(around),
    guesses.FLAT_GRADIENT: lambda around, _: _flat(around),
    guesses.LIMITS: _of_each(lambda each: 1.0),
    guesses.CLIPS: lambda around, _: functools.partial(_clip, around),
    # Code that builds pairs leaves out parameters without a gradient.
    guesses.PAIRS: lambda around, _: [(p, p.grad) for p in around.module.parameters() if p.grad is not None],
    guesses.LOSS: lambda around, _: placed([torch.ones(())], around.device)[0].requires_grad_(),
    guesses.GRADIENTS: lambda around, _: [grad for grad in around.grads if grad is not None],
}
