"""The plan of a target, found by `search.py`: how to call it, what its result means, and what it does to gradients."""

import enum
from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple

from ..answers.roles import Role
from .guesses import BACKEND, Guess

MADE = "__new__"
"""The set-up step of an object that is created without its constructor, see `uninitialized.py`."""
_OF_COSTS = frozenset(("devices", "graph_capture", "graphs", "launches", "memory", "syncs", "transfers"))
_PLAIN = (type(None), bool, int, float, str)
SINGLE = "single"
"""The container of a target that takes one tensor or one parameter: all gradients, concatenated."""
LISTS, NORMS = "lists", "norms"
"""Containers of targets that take groups: a list of the one list, and a list of the total norm."""


class Feed(NamedTuple):
    """`slots` take a group of gradients each, first group first, in a `container`; or one of the `forms` each.

    `paths` are values that the target reads besides its required arguments, `cfg.max_norm`, created before each call.
    `refusal` is the type of exception that it raises for non-finite gradients; `keeps` means that its result is what it
    stores, `hooks` that it is what the hooks do that it registers. `by_use` has what uses show where names do not, by
    path, see `stub.py`; None if names explain all values.
    """

    takes: str
    container: Literal["list", "iterator", "single", "lists", "norms"]
    slots: List[str]
    setup: Optional[str]
    setup_slots: List[str]
    forms: Tuple[str, ...] = ()
    paths: Tuple[str, ...] = ()
    refusal: str = ""
    keeps: bool = False
    hooks: bool = False
    by_use: Optional[Dict[str, str]] = {}  # noqa: RUF012


class Groups(enum.IntEnum):
    """How many groups of gradients a target takes, and whether the second one needs a gradient."""

    ONE = 1
    TWO = 2
    TWO_WITH_GRADIENTS = 3


class Plan(NamedTuple):
    """Everything a probe needs to know about a target: found once, given to every probe.

    `clips` means that it shrinks larger gradients more. `writes` says why changing gradients is its purpose, or is "";
    such a target without `fields` returns no number, and its result is its effect on the gradients. `starts_fresh`
    means that its module keeps the first result and is restored before each call. `filled` are the guessed values by
    path; `others` are second guesses. `device` is where the plan was found, if the target does not run on the host.
    `torch_calls` are its calls of torch's own functions (see `context/torch_calls.py`). `step` says how to feed a
    training step (see `steps/runs.py`). `settings` replace defaults that switch the effect off. `recorded` is the size
    of the tensors if inputs are built from a recorded call, see `recorded.py`.
    """

    feed: Feed
    groups: Groups
    contract: str
    answer_kind: str
    fields: Dict[str, str]
    roles: Dict[str, Role]
    health: List[str]
    notes: List[str]
    clips: bool = False
    writes: str = ""
    starts_fresh: bool = False
    filled: Dict[str, Any] = {}  # noqa: RUF012
    device: str = "cpu"
    others: Dict[str, Any] = {}  # noqa: RUF012
    torch_calls: Dict[str, Any] = {}  # noqa: RUF012
    settings: Dict[str, float] = {}  # noqa: RUF012
    step: Dict[str, Any] = {}  # noqa: RUF012
    recorded: str = ""

    def with_filled(self, read: Dict[str, Guess]) -> "Plan":
        """Return the plan with the guessed values of the call that it was found by, as JSON."""
        plain = {path: made.value if type(made.value) in _PLAIN else repr(made.value) for path, made in read.items()}
        others = {path: made.other for path, made in read.items() if made.other is not None}
        return self._replace(filled=plain, others=others)

    def why_not_asked(self, instrument: str) -> str:
        """Return why an instrument does not measure the target because of guessed values; "" if it does."""
        backend = next((path for path, made in self.filled.items() if made == BACKEND), "")
        if instrument == "ranks" and self.feed.setup is not None and "torch.distributed" in self.filled:
            return "its object distributes parameters over ranks: auditkit does not know which gradients each rank gets"
        if instrument == "ranks" and backend:
            return "its package reduces through {}, which only its own program creates".format(backend)
        if instrument == "ranks" and any("of one sample" in str(made) for made in self.filled.values()):
            return "it reads per-sample gradients: auditkit does not know each rank's part of them"
        if instrument == "ranks" and self.feed.keeps:
            return "it stores values of its own rank, which other code combines"
        if instrument in _OF_COSTS and self.feed.keeps:
            return "it returns nothing, and reading back what it stores would be counted as its own cost"
        if instrument in _OF_COSTS and self.feed.hooks:
            return "it registers hooks, which cost in the backward pass"
        if instrument == "graphs" and (self.feed.setup == MADE or self.feed.paths):
            return "some of its inputs are stubs, and torch.compile would trace those"
        return ""

    def to_json(self) -> Dict[str, Any]:
        roles = {name: dict(role._asdict()) for name, role in self.roles.items()}
        return {**self._asdict(), "feed": dict(self.feed._asdict()), "roles": roles}

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> "Plan":
        feed = Feed(**{**raw["feed"], **{name: tuple(raw["feed"].get(name, ())) for name in ("forms", "paths")}})
        roles = {name: Role(**role) for name, role in raw["roles"].items()}
        return cls(**{**raw, "feed": feed, "groups": Groups(raw["groups"]), "roles": roles})
