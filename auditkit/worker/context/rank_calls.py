"""The target in every rank of a process group: its norm, its clip coefficient, what it gathers, its shares."""

import importlib.util
import itertools
import math
import os
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..answers.answers import flatten, types_of
from ..answers.factors import ECHO, LEFT, SVALS, as_svd, read_factors, tensor_parts
from ..base.frames import Site
from ..base.refusals import TargetRaised, Unavailable
from ..base.torch_internals import OperatorMode, import_first
from ..feed import groups as process_groups
from ..feed.effects import gradients_now
from ..feed.given import GroupInput
from ..feed.spectral_search import owned_keys
from ..gradients import matrices, sharded
from ..gradients.forms import ShardCase
from ..gradients.gradients import exact_norm
from ..measure import ranks
from ..measure.ranks import Body
from .calls import Calls

DEFAULT_LIMIT_S = 50.0
_MOST_FILES = 4000
# Code, not comments: an import, a call, a type check.
_DTENSORS = re.compile(
    rb"torch\.distributed\.(fsdp|tensor|_tensor|device_mesh)|\b(fully_shard|init_device_mesh|parallelize_module|"
    rb"distribute_tensor|FullyShardedDataParallel)\(|\.(full_tensor|to_local)\(|isinstance\([^\n]*\bDTensor\b"
)
# Data parallel code reduces losses and gradients over ranks; code that reduces a norm has a part of it on each.
_OWN_SHARDS = re.compile(rb"\breduce_scatter_tensor\(|\ball_reduce\([^\n)]*(norm|total\b|square)")
_COLLECTIVES = re.compile(
    rb"\b(all_reduce|all_gather\w*|reduce_scatter\w*|all_to_all\w*|broadcast\w*|gather|scatter)\("
)
_TWO_RANKS_LIMIT_S = 15.0
_NUMBERS = ("norm", "coefficient")


class Report(NamedTuple):
    """A target's norm of one set of gradients, and the factor by which it scaled them (None: neither).

    `raised` is its error instead, `site` the checkout's line of the error.
    """

    norm: Optional[float] = None
    coefficient: Optional[float] = None
    raised: str = ""
    site: Optional[Site] = None

    def numbers(self, prefix: str = "") -> Iterator[Tuple[str, float, str]]:
        """Yield name, value and unit of each of its measurements."""
        if self.norm is not None:
            yield prefix + "norm", self.norm, "norm"
        if self.coefficient is not None:
            yield prefix + "clip_coefficient", self.coefficient, "ratio"


class RankCalls:
    """Calls in real ranks. Every method ends all of its ranks before it returns.

    `device` is where the ranks run; it becomes the host once there are too few GPUs for them.
    """

    def __init__(self, calls: Calls, options: Dict[str, Any]) -> None:
        self.device = calls.device
        self._calls = calls
        self._options = options

    def ranks(self, world_size: int, body: Body, most_s: float = math.inf) -> List[List[Dict[str, Any]]]:
        """Return what `body(rank)` yields in each rank. Raises RanksFailed, Unavailable."""
        reason = ranks.why_not(self.device, world_size)
        if reason and self.device == "cuda":
            self.device, reason = "cpu", ranks.why_not("cpu", world_size)
        if reason:
            raise Unavailable(reason)
        process_groups.leave()
        limit_s = min(most_s, float(self._options.get("rank_limit_s", DEFAULT_LIMIT_S)))
        return ranks.run_ranks(world_size, body, limit_s, self.device)

    @property
    def deals_with_dtensors(self) -> bool:
        """Whether the target's package has code for torch's sharding: DTensors, FSDP, device meshes."""
        return self.package_mentions(_DTENSORS)

    @property
    def deals_with_shards(self) -> bool:
        """Whether it has code for sharded gradients, by torch or its own."""
        return self.deals_with_dtensors or self.package_mentions(_OWN_SHARDS)

    def package_mentions(self, pattern: Any) -> bool:
        """Return whether a file of the target's package matches `pattern` (of bytes)."""
        return any(_mentions(path, pattern) for path in self._package_files())

    def _package_files(self) -> Iterator[str]:
        name = self._calls.caller.function.__module__.partition(".")[0]
        # Do not import it: for cut-out code no package runs.
        where = sys.modules.get(name) or importlib.util.find_spec(name)
        paths = getattr(where, "__path__", None) or getattr(where, "submodule_search_locations", None) or []
        folders = [path for path in paths if os.path.isdir(path)]
        file = getattr(where, "__file__", None) or getattr(where, "origin", None)
        if not folders and file:
            yield str(file)
        walks = itertools.chain.from_iterable(map(os.walk, folders))
        found = (os.path.join(where, name) for where, _, names in walks for name in names if name.endswith(".py"))
        yield from itertools.islice(found, _MOST_FILES)

    def reported_by_one(self, stage: Optional[int] = None) -> Report:
        """Run the target on the gradients of one process, all or of one of two pipeline stages.

        It runs on the host: CUDA must not be initialized before the ranks are forked.
        """
        grads = sharded.one_process() if stage is None else sharded.stage(stage)
        return _report(self._calls.on("cpu"), grads, needs_answer=True)

    def reported_by_ranks(self, world_size: int, placements: Sequence[str]) -> Dict[str, List[Report]]:
        """Run the target in every rank, on the same gradients in each placement; return lists by rank."""

        def body(rank: int) -> Iterator[Dict[str, Any]]:
            import torch.distributed as dist

            for placement in placements:
                grads = sharded.placed(placement, rank, world_size, self.device)
                yield {"placement": placement, **_report(self._calls.on(self.device), grads)._asdict()}
                dist.barrier()

        # FSDP's first call would import Dynamo in every rank, in 2 s.
        import_first("torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch._dynamo")
        found: Dict[str, List[Report]] = {placement: [] for placement in placements}
        for messages in self.ranks(world_size, body):
            for message in messages:
                if "placement" in message:
                    # Infinities and NaN are sent as words.
                    norm, coefficient = (None if message[name] is None else float(message[name]) for name in _NUMBERS)
                    site = Site(*message["site"]) if message["site"] else None
                    found[message["placement"]].append(Report(norm, coefficient, message["raised"], site))
                else:  # The rank ended there, and did not run later placements.
                    placement = list(found)[min(len(messages) - 1, len(found) - 1)]
                    found[placement].append(Report(raised=str(message["rank_raised"])))
        return found

    def answers_of_two_ranks(self) -> List[Dict[str, Any]]:
        """Return the result of each of two ranks, the second without gradients; empty without any collective.

        Each rank has `numbers` and `types`, or `raised`, an error of either rank.
        """
        if not self.package_mentions(_COLLECTIVES):
            return []
        calls = self._calls.on("cpu")

        def body(rank: int) -> Iterator[Dict[str, Any]]:
            grads = calls.cases.benign()
            with _Collectives() as seen:
                raw = calls.raw(grads if rank == 0 else [None] * len(grads))
            yield {"numbers": flatten(raw), "types": types_of(raw), "collectives": seen.count}

        try:
            ended = [messages[-1] for messages in self.ranks(2, body, _TWO_RANKS_LIMIT_S)]
        except ranks.RanksFailed as error:
            return [{"raised": str(error)}] * 2
        raised = next((str(message["rank_raised"]) for message in ended if "rank_raised" in message), "")
        if raised:
            return [{"raised": raised}] * 2
        return ended if any(message["collectives"] for message in ended) else []

    def gathered(self, world_size: int, per_rank: int, rows: int, columns: int) -> Tuple[List[Any], List[Any], int]:
        """Return (the one-process numbers, those of every rank, the number of collectives) for divided replicas.

        The numbers are the echoes, or the replicas' matrices rebuilt from their factors; None for a rank that returns
        nothing.
        """
        everything = matrices.replicas(world_size * per_rank, rows, columns, noise=0.3)
        expected = _numbers(self._calls, [everything])

        def body(rank: int) -> Iterator[Dict[str, Any]]:
            own = everything[rank * per_rank : (rank + 1) * per_rank]
            with _Collectives() as seen:
                numbers = _numbers(self._calls.on(self.device), [own.to(self.device)], world_size * per_rank)
            yield {"numbers": numbers, "collectives": seen.count}

        first = self._first_of_ranks(world_size, body)
        return expected or [], [each["numbers"] for each in first], max(each["collectives"] for each in first)

    def shares_of_ranks(self, key_count: int, world_size: int) -> List[List[Any]]:
        """Return the keys of each rank by a plan that reads the number of ranks from the process group."""

        def body(rank: int) -> Iterator[Dict[str, Any]]:
            # Hashes differ between ranks, as in processes started separately.
            case = ShardCase(key_count, rank, world_size, salt=rank)
            yield {"keys": owned_keys(self._calls.on(self.device).raw([case]), case).keys}

        return [message["keys"] for message in self._first_of_ranks(world_size, body)]

    def _first_of_ranks(self, world_size: int, body: Body) -> List[Dict[str, Any]]:
        """Return the first message of every rank. Raises TargetRaised."""
        answers = self.ranks(world_size, body)
        for message in itertools.chain.from_iterable(answers):
            if "rank_raised" in message:
                raise TargetRaised(RuntimeError(message["rank_raised"]), self._calls.definition())
        return [messages[0] for messages in answers]


def _report(calls: Calls, grads: Sequence[Any], needs_answer: bool = False) -> Report:
    given: List[GroupInput] = []
    before = exact_norm(sharded.whole(grads))
    try:
        with calls.target_errors():
            answer = flatten(calls.prepared(grads, given=given)())
    except TargetRaised as error:
        if needs_answer:
            raise
        return Report(raised=("refuses: " if error.deliberate else "") + str(error), site=error.site)
    norm = answer.get(calls.roles["norm"].path) if "norm" in calls.roles else None
    if norm is not None and calls.roles["norm"].degree == 2 and norm >= 0:
        norm = math.sqrt(norm)
    coefficient = None
    if calls.plan.clips:
        coefficient = exact_norm(sharded.whole(gradients_now(given[0]))) / before
    return Report(norm, coefficient)


def _numbers(calls: Calls, grads: Sequence[Any], replica_count: int = 0) -> Optional[List[Any]]:
    raw = calls.raw(grads)
    count = replica_count or grads[0].shape[0]
    if ECHO in calls.roles:
        found = tensor_parts(raw, count).get(calls.roles[ECHO].path)
        return None if found is None else found.double().tolist()
    factors = read_factors(raw, calls.roles, count)
    svd = as_svd(factors)
    if svd is not None and SVALS in factors:
        return ((svd.left * svd.svals[:, None, :]) @ svd.right.mT).tolist()
    named = factors.get(SVALS, factors.get(LEFT))
    return None if named is None else named.sort(dim=1).values.tolist()


def _mentions(path: str, pattern: Any) -> bool:
    try:
        with open(path, "rb") as file:
            return bool(pattern.search(file.read(1 << 20)))
    except OSError:
        return False


class _Collectives(OperatorMode):
    """Counts the collectives that move data; a barrier moves none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional", "c10d_functional") and "barrier" not in str(func):
            self.count += 1
        return func(*args, **(kwargs or {}))
