"""The ways in which a target may be fed, likeliest first: its object, and which argument takes what."""

import inspect
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional

from ..base.refusals import CannotFeedError
from ..base.torch_internals import raise_if_out_of_memory
from ..serve.placeholders import PlaceholderTouched
from . import guesses
from .caller import CONSTRUCTOR, Caller
from .plan import LISTS, MADE, NORMS, SINGLE, Feed
from .signatures import annotation_text, guessed, optional_first_parameter, required_parameters, setup_method
from .stub import no_value
from .uninitialized import SELF

_ONE_TENSOR = re.compile(r"(.*_)?(grad|gradient|tensor|param|parameter|weight)|[tgxp]|value")
_PRECISION = re.compile(r"(fp16|fp32|bf16|half|master|main|flat|model)_?")


class _Way(NamedTuple):
    """The set-up step of the object, its arguments that take gradients, and those of the target itself."""

    setup: Optional[str]
    setup_slots: List[str]
    slots: List[str]


def possible_feeds(caller: Caller, request: Dict[str, Any], refuse: Callable[[BaseException], None]) -> Iterator[Feed]:
    """Yield feeds to try, last those with optional arguments; `refuse` gets the error of an impossible way."""
    feeds: List[Feed] = []
    for find in (_usual_ways, _without_constructor):
        try:
            for way in find(caller, request):
                for feed in _feeds_of(caller, request, way):
                    feeds.append(feed)
                    yield feed
        except (Exception, PlaceholderTouched) as error:  # A constructor may raise anything.
            raise_if_out_of_memory(error)
            refuse(error)
    # Optional arguments without a default value that can be guessed: a limit, a process group.
    optional = [
        name
        for called in filter(callable, (caller.function, caller.owner))
        for name, each in inspect.signature(called).parameters.items()
        if each.default is None and name not in caller.given and (guesses.known(name) or guesses.carrier(name))
    ]
    for feed in feeds if optional else ():
        yield feed._replace(paths=tuple(name for name in optional if name not in feed.slots))


def _feeds_of(caller: Caller, request: Dict[str, Any], way: _Way) -> Iterator[Feed]:
    slot = (way.setup_slots or way.slots)[0]
    if slot == SELF and way.setup == MADE:
        yield Feed("object", "list", way.slots, MADE, [])
        return
    annotation = annotation_text(caller.annotation(way.setup, slot) or inspect.Parameter.empty)
    is_of_norms = guesses.holds_group_norms(slot)
    order = ["gradients"] if is_of_norms else _takes(slot, annotation)
    for kind in [request["takes"]] if request.get("takes") else dict.fromkeys(order):
        containers = ["list", "iterator"] if kind in ("parameters", "named_parameters", "gradients") else ["list"]
        if is_of_norms:
            containers = [NORMS]
        elif kind in ("parameters", "gradients"):
            containers = [*([LISTS] if slot.endswith("groups") else []), *containers]
            if _ONE_TENSOR.fullmatch(slot) or annotation.split(".")[-1] in ("Tensor", "Parameter"):
                containers.insert(0, SINGLE)
        for container in containers:
            yield Feed(kind, container, way.slots, way.setup, way.setup_slots)  # type: ignore[arg-type]


def _takes(slot: str, annotation: str) -> List[str]:
    """Return all ways to take gradients, ordered by the argument's name and annotation."""
    known = guessed(
        slot, inspect.Parameter(slot, inspect.Parameter.KEYWORD_ONLY, annotation=annotation or inspect._empty)
    )
    kinds = (guesses.carrier(slot, annotation), known.value if known else "")
    likely = [guesses.CARRIERS[kind] for kind in kinds if kind in tuple(guesses.CARRIERS)]
    if slot == SELF:
        return likely
    return [*likely, "module", "parameters", "gradients", "named_parameters", "optimizer", "modules"]


def _usual_ways(caller: Caller, request: Dict[str, Any]) -> Iterator[_Way]:
    """Yield the ways to call a function, or a method of an object that its class constructs or that is set up first."""
    if request.get("setup") == MADE:
        return
    is_method = caller.needs_instance()
    own = [SELF] if is_method else []
    in_constructor = caller.constructor_slots() if is_method else []
    needed = required_parameters(caller.function, [*caller.arguments, *own])
    if 1 <= len(in_constructor) <= 2 and not needed:
        for slots in _groupings(in_constructor, inspect.signature(caller.owner or caller.function).parameters):
            yield _Way(CONSTRUCTOR, slots, [])
        return
    if in_constructor:
        caller.new_instance()  # raises the missing arguments
    if caller.owner is not None and (not needed or request.get("setup")):
        setup = setup_method(caller.owner, caller.method, request.get("setup"))
        slots = required_parameters(getattr(caller.owner, setup), [*caller.arguments, SELF]) if setup else []
        if 1 <= len(slots) <= 2:
            yield _Way(setup, slots, _slots(caller, own)[0] if needed else [])
            return
    carriers = [name for name, made in caller.guesses.items() if made.value in tuple(guesses.CARRIERS)]
    if is_method and carriers and not needed:
        in_call = [name for name in carriers if name in inspect.signature(caller.function).parameters]
        yield _Way(None, [], in_call[:1]) if in_call else _Way(CONSTRUCTOR, carriers[:1], [])
        return
    for slots in _slots(caller, own):
        yield _Way(None, [], slots)


def _without_constructor(caller: Caller, request: Dict[str, Any]) -> Iterator[_Way]:
    """Yield the ways to call a method of an object that is created without its `__init__`."""
    if not caller.needs_instance() or request.get("setup") not in (None, MADE, CONSTRUCTOR):
        return
    if required_parameters(caller.function, [*caller.arguments, SELF]):
        for slots in _slots(caller, [SELF]):
            yield _Way(MADE, [], slots)
    yield _Way(MADE, [SELF], [])


def _slots(caller: Caller, own: List[str]) -> List[List[str]]:
    """Return which arguments of the target may take the gradients. Raises CannotFeedError if there is none."""
    needed = required_parameters(caller.function, [*caller.arguments, *own])
    if needed:
        return _groupings(needed, inspect.signature(caller.function).parameters)
    first = optional_first_parameter(caller.function, [*caller.given, *own])
    if not first:
        raise CannotFeedError("it takes no gradients: no argument and no set-up method")
    return [first]


def _groupings(needed: List[str], parameters: Mapping[str, inspect.Parameter]) -> List[List[str]]:
    """Return arguments as one group of gradients with its views, or as two groups, the likelier first."""
    kinds = {name: guesses.carrier(name, annotation_text(parameters[name].annotation)) for name in needed}
    unknown = [name for name, kind in kinds.items() if not kind]
    if len(needed) == 1 or (unknown and len(needed) == 2):
        return [needed]
    if unknown:
        raise no_value(unknown[0])
    if len(needed) > 2:
        return [needed[:1]]
    is_one_group = len(set(kinds.values())) == 2 or len({_PRECISION.sub("", name) for name in needed}) == 1
    return [needed[:1], needed] if is_one_group else [needed, needed[:1]]
