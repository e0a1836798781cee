"""What stands in for the surroundings of a target: optimizers, configurations, groups, loggers, all of one call.

Everything that brings gradients is a view of the same module, so that an optimizer's parameters are the model's. What
the target reads of it is recorded by its dotted path: the reader is told, and the next call has it made beforehand.
"""

import copy
import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from ..base.frames import chain
from ..base.torch_internals import without_compiler
from ..gradients.gradients import GradientHolder, holder_of, total_norm
from . import groups, guesses
from .guesses import Guess
from .makers import MAKERS
from .named_objects import ParameterGroup, is_called, no_value, raised_at

SELF = "self"
CALLED = "called"
"""Said of a path whose name tells a value, and whose use a function of that name."""
_NO_GROUP = re.compile(
    r"(process group|dist|distributed)\b.* not (yet |been )*initialized|init_process_group|"
    r"(?-i:\b(LOCAL_RANK|RANK|WORLD_SIZE)\b)",
    re.IGNORECASE | re.DOTALL,
)
_NO_BACKEND = re.compile(
    r"'NoneType' object has no attribute '(all_reduce|all_gather|broadcast|barrier|new_group|get_\w+|is_initialized)'"
)
_STEP = re.compile(r"\w+|\[0\]|\[:\]|\(\)")
DISTRIBUTED = "torch.distributed"
"""The path of what a target needs that asks for its rank or reduces without a group of its own."""


class Surroundings:
    """Everything made up for one call on `grads`. `given` are values that somebody gave, by path.

    While a way to feed the target `is_searched`, an optimizer answers for settings that SGD has not.
    `read` holds what was made up, by path; `unknown` what was asked for in vain; `said` the numbers that loggers got;
    `uses` tells what no name does, see `uses.py`; None where names alone are asked.
    `has_none` where what no name explains is None.
    `written` the tensors that a target is handed to write to; `defaults` those of what configurations are declared as.
    """

    has_none = False

    def __init__(self, given: Dict[str, Any], grads: Sequence[Optional[torch.Tensor]], device: str = "cpu") -> None:
        self.is_searched = False
        self.given = given
        self.grads = grads
        self.device = device
        self.read: Dict[str, Guess] = {}
        self.unknown: List[str] = []
        self.said: Dict[str, Any] = {}
        self.written: Dict[str, torch.Tensor] = {}
        self.defaults: Dict[str, Dict[str, Any]] = {}
        self.is_preparing = True
        self.uses: Any = None
        self._made: Dict[str, Any] = {}
        self._module: Optional[GradientHolder] = None
        self._optimizer: Any = None
        self._wanted: Dict[str, List[str]] = {}
        self._instance: Any = None

    # --- the gradients, seen in each way ----------------------------------------------------------

    @property
    def module(self) -> GradientHolder:
        """The module whose parameters carry the gradients."""
        if self._module is None:
            self._module = holder_of(self.grads)
            for parameter in self._module.parameters():
                self._put_attributes("parameter", parameter)
            self._put_attributes("module", self._module)
        return self._module

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """A real optimizer over the module's parameters."""
        if self._optimizer is None:
            parameters = list(self.module.parameters())
            # An optimizer refuses to be made over nothing.
            with without_compiler(torch.optim.Optimizer.add_param_group):
                self._optimizer = torch.optim.SGD(parameters or [torch.nn.Parameter(torch.zeros(1))], lr=0.1)
            defaults = self._optimizer.param_groups[0]
            made = {**defaults, "params": parameters}
            self._optimizer.param_groups[0] = ParameterGroup(self, made) if self.is_searched else made
            self._put_attributes("optimizer", self._optimizer)
        return self._optimizer

    def view(self, kind: str, path: str = "") -> Any:
        """The gradients as one of `guesses.CARRIERS`."""
        return MAKERS[kind](self, path)

    # --- values -----------------------------------------------------------------------------------

    def filled(self, path: str, found: Optional[Guess]) -> Any:
        """The value at `path`: given, or `found` and from now on among what was read. Raises UnknownValueError."""
        if path in self.given:
            return self.given[path]
        if self.uses is not None and (found is None or self.uses.told.get(path, CALLED) != CALLED):
            return self.uses.value(path)
        if found is None:
            raise no_value(path)
        self.read[path] = found
        made = self._made[path] = self.made(found.value, path)
        if found.value == guesses.NO_INF:
            self.written[path] = made
        return made

    def made(self, value: Any, path: str = "") -> Any:
        """A guessed value, or what the words of one stand for."""
        if isinstance(value, str) and value in MAKERS:
            return MAKERS[value](self, path)
        return copy.copy(value)

    def prepare(self, paths: Sequence[str], roots: Dict[str, Any]) -> None:
        """Make what an earlier call read, before this one begins; `roots` are the objects that paths begin with."""
        self.is_preparing, self._instance = True, roots.get(SELF)
        for path in paths:
            first, *steps = _STEP.findall(path)
            if first in _ATTRIBUTES and steps:
                self._want(first, steps[0])
            elif first == "param_group":
                self.optimizer.param_groups[0][steps[0]] = self.filled(path, guesses.known(steps[0]))
            elif steps and first in roots:
                found = roots[first]
                if first == SELF and not hasattr(found, steps[0]):
                    setattr(found, steps[0], self.filled(path, guesses.of_object(steps[0])))
                for step in steps:
                    found = _part(found, step)
        self.is_preparing = False

    def silences(self, _: str) -> bool:
        """Whether what a constructor makes under this name is not made, and does nothing."""
        return False

    def join_groups(self, paths: Sequence[str]) -> None:
        """Make the process group that the target asks for without being handed one, where `paths` says so."""
        for path in paths:
            if path == DISTRIBUTED:
                self.filled(path, Guess(guesses.GROUP))
            elif groups.is_global(path):
                is_group = guesses.known(path.rpartition(".")[2]) == Guess(guesses.GROUP)
                groups.put_global(path, self.filled(path, Guess(guesses.GROUP if is_group else guesses.BACKEND)))

    def _want(self, kind: str, name: str) -> None:
        """Give each object of this kind, made already or later, the attribute that the target reads."""
        self._wanted.setdefault(kind, []).append(name)
        if kind == "parameter" and self._module is not None:
            for parameter in self._module.parameters():
                _ATTRIBUTES[kind](self, parameter, name)
        made = {"module": self._module, "optimizer": self._optimizer}.get(kind)
        if made is not None:
            _ATTRIBUTES[kind](self, made, name)

    def _put_attributes(self, kind: str, made: Any) -> None:
        for name in self._wanted.get(kind, ()):
            _ATTRIBUTES[kind](self, made, name)

    def remedy(self, error: BaseException) -> str:
        """The path of what was missing where a target raised because of it; "" where nothing of ours was.

        Raises UnknownValueError for an attribute of parameters that no name explains.
        """
        for each in chain(error):
            if groups.global_without_group(each):
                return groups.global_without_group(each)
            if _NO_GROUP.search(str(each)) or _NO_BACKEND.match(str(each)):
                return groups.backend_missing(each) or DISTRIBUTED
            if groups.asks_for(each, "grad_sample"):
                return "parameter.grad_sample"
            found = next(filter(guesses.of_object, groups.looked_for(each, self._instance)), "")
            if found:
                return "{}.{}".format(SELF, found)
            kind = self._kind_of(getattr(each, "obj", None)) if isinstance(each, AttributeError) else ""
            name = each.name if kind else ""  # type: ignore[attr-defined]
            path = "{}.{}".format(kind, name)
            if kind and (path in self.given or name.strip("_") in _WRAPPED.get(kind, ()) or _is_explained(kind, name)):
                return path
            if kind == "parameter" and (
                name == "grad_sample" or _NORM_OF_SAMPLE.fullmatch(name) or re.fullmatch(r"(\w+_)?id", name)
            ):
                return path
            if kind == SELF or (kind == "parameter" and not hasattr(torch.nn.Module, name)):
                if not guesses.carrier(name):
                    raise no_value(path) from error
                return path
        return ""

    def explained_wrongly(self, error: BaseException) -> List[str]:
        """The paths whose value, made by its name, lacks what the target asked of it."""
        if not isinstance(error, AttributeError) or error.obj is None or error.name is None:
            return []
        found, asked = guesses.of_object(error.name), error.obj
        if found is not None and (guesses.is_callable(found) or not is_called(*raised_at(error))):
            return []
        return [
            path
            for path, made in self._made.items()
            if made is asked or (isinstance(made, list) and any(each is asked for each in made))
        ]

    def _kind_of(self, made: Any) -> str:
        if made is None:
            return ""
        if made is self._instance:
            return SELF
        if self._module is None:
            return ""
        if made is self._module:
            return "module"
        if made is self._optimizer:
            return "optimizer"
        return "parameter" if any(made is parameter for parameter in self._module.parameters()) else ""


def _part(made: Any, step: str) -> Any:
    """What stands at one step of a path: an attribute or an item, what is held first or all, what is given."""
    if step == "()":
        return made()
    if step.startswith("["):
        return made[0] if step == "[0]" else made.values()
    return made[step] if isinstance(made, dict) else getattr(made, step)


def _is_explained(kind: str, name: str) -> bool:
    """Whether an attribute of this kind of object has a value by its name; what clips is a method of a wrapper."""
    if kind == "optimizer" and guesses.carrier(name) == guesses.PARAMETERS:
        return True
    return guesses.known(name) is not None and (kind == "parameter" or not guesses.is_limit(name))


# --- attributes of real objects ---------------------------------------------------------------------


def _of_parameter(surroundings: Surroundings, parameter: Any, name: str) -> None:
    """`main_grad` and the like hold the gradient, `grad_sample` that of one sample; flags are false."""
    path = "parameter." + name
    if name in vars(parameter):  # it came with the gradients
        return
    followed = None if path in surroundings.given else _following(name)
    if followed is not None:
        words, surroundings.module.aliases[name] = followed
        surroundings.read[path] = Guess(words)
        setattr(parameter, name, followed[1](parameter))
    elif path not in surroundings.given and _SUM.fullmatch(name):
        surroundings.read[path] = Guess(None)
        setattr(parameter, name, None)
    elif path not in surroundings.given and re.fullmatch(r"(\w+_)?id", name):
        surroundings.read[path] = Guess("its place in the list")
        setattr(parameter, name, _place(parameter, surroundings.module.parameters()))
    else:
        setattr(parameter, name, surroundings.filled(path, guesses.known(name)))


def _following(name: str) -> Optional[Tuple[str, Callable[[Any], Any]]]:
    """What the name of an attribute says that follows a parameter's gradient, and how; None for anything else."""
    if name == "grad_sample":
        return guesses.OF_ONE_SAMPLE, lambda each: None if each.grad is None else each.grad[None]
    if _NORM_OF_SAMPLE.fullmatch(name):
        return "the norm of the gradient as that of one sample", lambda each: total_norm([each.grad])[None]
    is_buffer = guesses.carrier(name) == guesses.GRADIENTS or name == "grad_accum"
    if is_buffer and not _SUM.fullmatch(name):  # made for all parameters
        return "the gradient", lambda each: torch.zeros_like(each.data) if each.grad is None else each.grad
    return None


def _of_wrapper(kind: str) -> Callable[[Surroundings, Any, str], None]:
    def put(surroundings: Surroundings, made: Any, name: str) -> None:
        """What a wrapper of this kind wraps is the object itself."""
        path = "{}.{}".format(kind, name)
        if name.rstrip("_") == "clip_grad_norm":
            made.__dict__[name] = surroundings.filled(path, Guess(guesses.CLIPS))
        elif name.strip("_") in _WRAPPED[kind]:
            surroundings.read[path] = Guess("the {} itself".format(kind))
            made.__dict__[name] = made
        else:
            made.__dict__[name] = surroundings.filled(path, guesses.of_object(name))

    return put


_WRAPPED = {
    "module": ("module", "model", "orig_mod", "clip_grad_norm"),
    "optimizer": ("optimizer", "optim", "base_optimizer", "clip_grad_norm"),
}
_ATTRIBUTES: Dict[str, Callable[[Surroundings, Any, str], None]] = {
    "parameter": _of_parameter,
    "module": _of_wrapper("module"),
    "optimizer": _of_wrapper("optimizer"),
}


_NORM_OF_SAMPLE = re.compile(r"_?(norm_sample|per_sample_(grad(ient)?_)?norms?)")
# What is added up has nothing in it yet.
_SUM = re.compile(r"(summed|accumulated|acc)_grad")


def _place(parameter: Any, parameters: Iterable[Any]) -> int:
    return next(place for place, each in enumerate(parameters) if each is parameter)
