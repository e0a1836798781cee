"""The ways in which a target may be fed, likeliest first: which object it is a method of, which argument takes what."""

import inspect
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..base.refusals import CannotFeedError
from ..base.torch_internals import raise_if_out_of_memory
from ..process.placeholders import PlaceholderTouched
from . import guesses
from .caller import CONSTRUCTOR, Caller
from .named_objects import no_value
from .plan import LISTS, MADE, NORMS, SINGLE, Feed
from .signatures import annotation_text, guessed, optional_first_parameter, required_parameters, setup_method
from .stand_ins import SELF

_ONE_TENSOR = re.compile(r"(.*_)?(grad|gradient|tensor|param|parameter|weight)|[tgxp]|value")
_PRECISION = re.compile(r"(fp16|fp32|bf16|half|master|main|flat|model)_?")
_USES = (
    ("optimizer", r"\b{0}\.(param_groups|step|zero_grad|state)\b"),
    ("module", r"\b{0}\.(named_)?(parameters|modules)\("),
    ("modules", r"\bfor (?P<item>\w+) in {0}\b[\s\S]*\b(?P=item)\.(named_)?parameters\("),
    ("named_parameters", r"\bfor \w+, *\w+ in (list\()?{0}\b"),
)


class Way(NamedTuple):
    """The set-up step of the object, the arguments of it that take gradients, and those of the target itself."""

    setup: Optional[str]
    setup_slots: List[str]
    slots: List[str]


def possible_feeds(caller: Caller, request: Dict[str, Any], refuse: Callable[[BaseException], None]) -> Iterator[Feed]:
    """Feeds worth trying, at last those with optional arguments filled; `refuse` is told why a way is closed."""
    feeds: List[Feed] = []
    for find in (_usual_ways, _without_constructor):
        try:
            for way in find(caller, request):
                found = list(_feeds_of(caller, request, way))
                yield from found
                feeds += found
        except (Exception, PlaceholderTouched) as error:  # a constructor may raise anything
            raise_if_out_of_memory(error)
            refuse(error)
    optional = _optional(caller)
    for feed in feeds if optional else ():
        yield feed._replace(paths=tuple(name for name in optional if name not in feed.slots))


def _feeds_of(caller: Caller, request: Dict[str, Any], way: Way) -> Iterator[Feed]:
    slot = (way.setup_slots or way.slots)[0]
    if slot == SELF and way.setup == MADE:
        yield Feed("object", "list", way.slots, MADE, [])
        return
    annotation = annotation_text(caller.annotation(way.setup, slot) or inspect.Parameter.empty)
    order = [*request.get("takes_order", ()), *_by_use(caller, slot), *guess_takes(slot, annotation)]
    if guesses.holds_group_norms(slot):
        order = ["gradients"]
    for kind in [request["takes"]] if request.get("takes") else dict.fromkeys(order):
        containers = ["list", "iterator"] if kind in ("parameters", "named_parameters", "gradients") else ["list"]
        if guesses.holds_group_norms(slot):
            containers = [NORMS]
        elif slot.endswith("groups") and kind in ("parameters", "gradients"):
            containers.insert(0, LISTS)
        if kind in ("parameters", "gradients") and (
            _ONE_TENSOR.fullmatch(slot) or annotation.split(".")[-1] in ("Tensor", "Parameter")
        ):
            containers.insert(0, SINGLE)
        for container in containers:
            yield Feed(kind, container, way.slots, way.setup, way.setup_slots)  # type: ignore[arg-type]


def guess_takes(slot: str, annotation: str) -> List[str]:
    """All ways to take gradients, ordered by the argument's name and annotation."""
    named = guesses.carrier(slot, annotation)
    known = guessed(
        slot, inspect.Parameter(SELF, inspect.Parameter.KEYWORD_ONLY, annotation=annotation or inspect.Parameter.empty)
    )
    likely = [guesses.CARRIERS[kind] for kind in (named, known.value if known else "") if kind in guesses.CARRIERS]
    if slot == SELF:
        return likely
    return [*likely, "module", "parameters", "gradients", "named_parameters", "optimizer", "modules"]


def _by_use(caller: Caller, slot: str) -> List[str]:
    """What the target's source does with an argument."""
    try:
        source = inspect.getsource(inspect.unwrap(caller.function))
    except (OSError, TypeError):
        return []
    return [kind for kind, pattern in _USES if re.search(pattern.format(re.escape(slot)), source)]


def _usual_ways(caller: Caller, request: Dict[str, Any]) -> Iterator[Way]:
    """A function, or the method of an object that its class makes or that is set up first."""
    if request.get("setup") == MADE:
        return
    given = list(caller.arguments)
    own = [] if not caller.needs_instance() else ["self"]
    in_constructor = caller.constructor_slots() if caller.needs_instance() else []
    needed = required_parameters(caller.function, [*given, *own])
    if 1 <= len(in_constructor) <= 2 and not needed:
        for slots in _groupings(in_constructor, inspect.signature(caller.owner or caller.function).parameters):
            yield Way(CONSTRUCTOR, slots, [])
        return
    if in_constructor:
        caller.new_instance()  # says what is missing
    setup = None
    if caller.owner is not None and (not needed or request.get("setup")):
        setup = setup_method(caller.owner, caller.method, request.get("setup"))
    if setup is not None:
        assert caller.owner is not None
        setup_slots = required_parameters(getattr(caller.owner, setup), [*given, "self"])
        if 1 <= len(setup_slots) <= 2:
            yield Way(setup, setup_slots, _slots(caller, own)[0] if needed else [])
            return
    carriers = [name for name, made in caller.guesses.items() if made.value in tuple(guesses.CARRIERS)]
    if caller.needs_instance() and carriers and not needed:
        in_call = [name for name in carriers if name in inspect.signature(caller.function).parameters]
        yield Way(None, [], in_call[:1]) if in_call else Way(CONSTRUCTOR, carriers[:1], [])
        return
    for slots in _slots(caller, own):
        yield Way(None, [], slots)


def _without_constructor(caller: Caller, request: Dict[str, Any]) -> Iterator[Way]:
    """The method of an object that is made without its `__init__`."""
    if not caller.needs_instance() or request.get("setup") not in (None, MADE, CONSTRUCTOR):
        return
    if required_parameters(caller.function, [*caller.arguments, "self"]):
        for slots in _slots(caller, ["self"]):
            yield Way(MADE, [], slots)
    yield Way(MADE, [SELF], [])


def _slots(caller: Caller, own: List[str]) -> List[List[str]]:
    """Which arguments of the target may take the gradients. Raises CannotFeedError where one is left over."""
    needed = required_parameters(caller.function, [*caller.arguments, *own])
    if not needed:
        first = optional_first_parameter(caller.function, [*caller.given, *own])
        if not first:
            raise CannotFeedError("it takes no gradients: no argument and no set-up method")
        return [first]
    return _groupings(needed, inspect.signature(caller.function).parameters)


def _groupings(needed: List[str], parameters: Mapping[str, inspect.Parameter]) -> List[List[str]]:
    """Arguments as one group of gradients, of which the others are views, or as two groups, the likelier first."""
    if len(needed) == 1:
        return [needed]
    kinds = {name: guesses.carrier(name, annotation_text(parameters[name].annotation)) for name in needed}
    unknown = [name for name, kind in kinds.items() if not kind]
    if unknown and len(needed) > 2:
        raise CannotFeedError(str(no_value(unknown[0])))
    if len(needed) > 2:
        return [needed[:1]]
    is_one_group = len(set(kinds.values())) == 2 or len({_PRECISION.sub("", name) for name in needed}) == 1
    if unknown:
        return [needed]
    return [needed[:1], needed] if is_one_group else [needed, needed[:1]]


def _optional(caller: Caller) -> Tuple[str, ...]:
    """Optional arguments without a value of their own that something is known for: a limit, a process group."""
    return tuple(
        name
        for called in filter(callable, (caller.function, caller.owner))
        for name, each in inspect.signature(called).parameters.items()
        if each.default is None and name not in caller.given and (guesses.known(name) or guesses.carrier(name))
    )
