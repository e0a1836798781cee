"""Make the plan of a feed that works: what the result says of gradients, and what the call does to them."""

import math
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

import torch

from ..answers.answers import flatten, kind_of
from ..answers.roles import count_roles, declared_roles, norm_role
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign, total_norm
from .caller import CONSTRUCTOR, Caller
from .effects import OTHER, SAME, THINNED, Effects, gradients_now, observe
from .given import GroupInput
from .guesses import GROUP_NORMS, OF_ONE_SAMPLE, TOTAL_NORM, TOTAL_NORM_NUMBER
from .plan import MADE, NORMS, Feed, Groups, Plan
from .promises import names_a_statistic, only_measures, writes_by_its_own_words
from .repeated import RepeatedCall

_WARM_UP = 64
"""Calls after which an adaptive limit has settled."""
_HEALTH_WORDS = ("health", "ok", "valid", "is_finite", "finite")


class Trial(NamedTuple):
    """One way to feed a target; `second` is the second group of gradients."""

    caller: Caller
    feed: Feed
    second: Sequence[Any]

    def result(self, grads: Optional[Sequence[Any]] = None) -> Any:
        """Return the target's result for these gradients, or for `benign` ones."""
        return self.caller.prepare(self.feed, (benign() if grads is None else grads, self.second))()

    def numbers(self, grads: Sequence[Any]) -> str:
        """Return the numbers of the result as one text that can be compared."""
        return repr(flatten(self.result(grads)))

    def with_argument(self, name: str, value: Any) -> "Trial":
        """Return the same trial with another value of one argument."""
        return self._replace(caller=self.caller.with_argument(name, value))

    def with_feed(self, **changes: Any) -> "Trial":
        """Return the same trial with another feed."""
        return self._replace(feed=self.feed._replace(**changes))

    def effects(self) -> Effects:
        """Return what the target does to gradients."""

        def apply(grads: List[torch.Tensor]) -> List[Optional[torch.Tensor]]:
            given: List[GroupInput] = []
            self.caller.prepare(self.feed, (grads, self.second), given=given)()
            return gradients_now(given[0])

        return observe(apply)

    def effects_once_warm(self) -> Optional[Effects]:
        """Return what one object does to gradients after many calls: its limit may follow earlier gradients.

        Returns None if the object refuses a second call, as a GradScaler does until its update.
        """
        repeated = RepeatedCall(self.caller, self.feed, benign(), self.second)
        try:
            for _ in range(_WARM_UP):
                repeated.call(benign())
        except Exception as error:
            raise_if_out_of_memory(error)
            return None

        def apply(grads: List[torch.Tensor]) -> List[Optional[torch.Tensor]]:
            repeated.call(grads)
            return repeated.left()

        return observe(apply)


def plan_of(trial: Trial, answer: Any, request: Dict[str, Any]) -> Optional[Plan]:
    """Return the plan of a trial with its first result; None if the result does not follow the gradients.

    Raises the target's errors, and CannotReadError if `returns` names no field.
    """
    read = trial.caller.around.read
    depends = answer is not None and _depends_on_gradients(trial, answer)
    effects, settings = trial.effects(), {}
    for name, value in {} if effects.forms else trial.caller.neutral_numbers().items():
        other = trial.with_argument(name, 2 * value or 1.0)
        changed = other.effects()
        if changed.forms:  # A default of 1 or 0.0 had switched the change off.
            trial, effects, settings = other, changed, {name: 2 * value or 1.0}
            answer = trial.result()
            break
    if answer is None and not effects.is_an_answer and trial.feed.takes != "gradients":
        hooked = trial.with_feed(hooks=True)
        changed = hooked.effects()
        trial, effects = (hooked, changed) if changed.is_an_answer else (trial, effects)
    if not depends and not effects.is_an_answer and not flatten(answer):
        refusal = _refusal(trial)
        if refusal:
            trial = trial.with_feed(refusal=refusal)
            answer = trial.result()
        elif answer is None:
            keeping = trial.with_feed(keeps=True)
            kept = keeping.result()
            depends = _depends_on_gradients(keeping, kept)
            trial, answer = (keeping, kept) if depends else (trial, answer)
    if not (depends or effects.is_an_answer or trial.feed.refusal):
        return None
    if not (depends or trial.feed.refusal):  # A result that follows only auditkit's total norm is none; the effect is.
        answer = None
    plan = _read_plan(trial, answer, request, effects, settings)
    if plan.feed.container == NORMS or any(made.value == GROUP_NORMS for made in read.values()):
        plan = plan._replace(clips=False)  # The guessed norms were not checked.
    return plan.with_filled(read)


def _depends_on_gradients(trial: Trial, answer: Any) -> bool:
    """Return whether other gradients give another result: larger ones, zeros, or non-finite ones.

    A health check may see only non-finite ones, in a single tensor; an exception counts as a result.
    """
    if not flatten(answer):
        return False
    for path, made in trial.caller.around.read.items():  # Keep auditkit's total norm constant.
        if made.value in (TOTAL_NORM, TOTAL_NORM_NUMBER, GROUP_NORMS):
            norm = total_norm(benign())
            fixed = {TOTAL_NORM: norm, TOTAL_NORM_NUMBER: float(norm), GROUP_NORMS: [norm]}
            trial = trial.with_argument(path, fixed[made.value])
    text = repr(flatten(answer))
    if trial.numbers(_larger()) != text:
        return True
    for grads in _odd_gradients():
        try:
            if trial.numbers(grads) != text:
                return True
        except Exception as error:
            raise_if_out_of_memory(error)
            return True
    return False


def _refusal(trial: Trial) -> str:
    """Return the type of exception that the target raises for non-finite values in any tensor; "" for none."""
    refused = set()
    for grads in list(_odd_gradients())[1:]:
        try:
            trial.result(grads)
        except Exception as error:
            raise_if_out_of_memory(error)
            refused.add(type(error).__name__)
    return refused.pop() if len(refused) == 1 else ""


def _larger() -> List[torch.Tensor]:
    return [grad * 4 for grad in benign(zeros=5)]


def _odd_gradients() -> Iterator[List[torch.Tensor]]:
    """Yield zeros; then gradients with non-finite elements in one tensor."""
    yield [torch.zeros_like(grad) for grad in benign()]
    for index in range(len(benign())):
        for bad in (math.nan, math.inf):
            grads = benign()
            grads[index].view(-1)[:5] = bad
            yield grads


def _why_it_writes(trial: Trial, answer: Any, effects: Effects) -> str:
    """Say why changing gradients is the purpose of a target; "" if it changes none, or should not."""
    function = trial.caller.function
    if trial.caller.needs_instance() and not effects.limits:
        warm = trial.effects_once_warm()
        effects = warm if warm is not None and warm.limits else effects
    if not effects.forms and (effects.nonfinite is None or effects.nonfinite.form == SAME):
        return ""
    is_a_statistic = trial.numbers(_larger()) != repr(flatten(answer))
    own_words = writes_by_its_own_words(function)
    if is_a_statistic and only_measures(function) and not own_words:
        return ""
    if effects.limits:
        return "it limits them"
    if effects.forms == [THINNED]:
        return "it drops the small ones"
    if effects.scales and _follows_an_argument(trial, effects):
        return "it scales them by an argument"
    if not is_a_statistic and OTHER not in effects.forms:
        return "its result is no statistic of them"
    if not effects.forms and not names_a_statistic(function):
        return own_words or "it changes only what is not finite, and is not called a statistic"
    return own_words


def _follows_an_argument(trial: Trial, effects: Effects) -> bool:
    """Return whether another value of one of the target's numbers changes the factor."""
    for name, value in trial.caller.numbers().items():
        other = trial.with_argument(name, 2 * value or 1).effects().ordinary
        if other and other[0].factor != effects.ordinary[0].factor:
            return True
    return False


def _read_plan(
    trial: Trial, answer: Any, request: Dict[str, Any], effects: Effects, settings: Dict[str, float]
) -> Plan:
    caller, feed = trial.caller, trial.feed

    def ask(grads: Sequence[Any]) -> Dict[str, Any]:
        return {} if answer is None else flatten(trial.result(grads))

    fields, returns, read = flatten(answer), request.get("returns") or {}, caller.around.read
    roles = declared_roles(returns, fields, ask)
    notes = ["it was called with {}={:g}: its default changes nothing".format(*each) for each in settings.items()]
    is_check = not (effects.limits or effects.scales or "norm" in roles) and _is_check(ask, fields, bool(read))
    if "norm" not in roles:
        norm = None if is_check else norm_role(ask)
        roles.update({} if norm is None else {"norm": norm})
        no_norm = "no field of the result scales with the gradients: no norm to judge"
        nothing = "it returns no number: its result is what it does to the gradients"
        notes += [] if norm is not None else [no_norm if fields else nothing]
    roles.update({k: v for k, v in count_roles(ask).items() if k not in roles})
    is_lone_norm = "norm" in roles and list(fields) == [roles["norm"].path]
    is_lone_norm = is_lone_norm and all(made.value != OF_ONE_SAMPLE for made in read.values())
    is_number = kind_of(answer) in ("number", "tensor", "nothing") and not is_check
    has_two = len(feed.setup_slots or feed.slots) == 2
    contract = "grad_norm" if is_number or (feed.keeps and is_lone_norm) else "grad_stats"
    if feed.setup not in (None, MADE) and (feed.setup != CONSTRUCTOR or has_two):
        contract = "monitor"
    elif has_two:
        contract = "dual_stats"
    two = Groups.TWO if trial.second == [None] else Groups.TWO_WITH_GRADIENTS
    writes = _why_it_writes(trial, answer, effects)
    return Plan(
        feed=feed,
        groups=two if has_two else Groups.ONE,
        contract=request.get("contract") or contract,
        answer_kind=kind_of(answer),
        fields={path: type(value).__name__ for path, value in fields.items()},
        roles=roles,
        health=[path for path in fields if _is_health(path) or path == returns.get("health")],
        notes=notes,
        clips=effects.limits and bool(writes),
        writes=writes,
        starts_fresh=caller.starts_fresh,
        settings=settings,
    )


def _is_check(ask: Any, fields: Dict[str, Any], has_guessed_values: bool) -> bool:
    """Return whether a single number is not a norm: a flag, a count, or the same for gradients of twice the size.

    A clip factor stays the same below its guessed limit; so does a norm with a floor.
    """
    if list(fields) != [""]:
        return False
    if type(fields[""]) in (bool, int):
        return True
    return any(
        repr(ask([grad * scale for grad in benign()])) == repr(ask([grad * 2 * scale for grad in benign()]))
        for scale in ((2.0**-8, 1.0) if has_guessed_values else (1.0,))
    )


def _is_health(path: str) -> bool:
    leaf = path.split(".")[-1].lower().rstrip("()")
    is_named_so = leaf in _HEALTH_WORDS or leaf.startswith("is_finite")
    return is_named_so or ("health" in leaf and "unhealth" not in leaf)
