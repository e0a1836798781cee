"""Run a training step in every rank of a process group, with separate batches, and record its gradients."""

import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..base.frames import Site, most_common
from ..base.refusals import NotApplicable
from ..base.torch_internals import import_first
from ..feed import guesses
from ..feed.signatures import source_of
from .readings import is_mean_loss
from .runs import FIXED, StepRuns
from .seam import Grads, cosine, norm_of
from .toy_model import NEXT_TOKENS, TOKEN_TASKS, Batch, ModelAnswer, ToyModel, joined, make_batches, true_gradient
from .values import Case, Values

UNWRAPPED = "none"
"""The plain model, for a step that reduces its gradients itself."""
WRAPPINGS = (UNWRAPPED, "ddp", "fsdp2")
_SIZE = re.compile(r"(world|dp|data_parallel|replica)\w*_(size|degree)$|num_(processes|replicas|ranks|gpus)$")
_ALONE = re.compile(r"single_?(device|gpu|process|node)", re.IGNORECASE)
_RANK = re.compile(r"(^|[._])rank$")
_GAIN = 0.01
"""Scale of gradients that stay below the step's own limit, which is usually near 1."""
_REDUCES = re.compile(
    r"\ball_(reduce|gather)\w*\(|\breduce_scatter\w*\(|\b(dist|distributed|accelerator|fabric)\.(reduce|gather)\w*\(|"
    r"world_size|num_processes|\b(dp|data_parallel)_(size|degree)"
)
_COUNTS = re.compile(
    r"[!=]= ?-100\b|\bne\( ?-100|num_items_in_batch|mask\w*\.sum\(|weights?\.sum\(|\btoken_count\b|"
    r"!= ?(\w+\.)*(ignore_?(index|id)|pad(ding)?(_\w+)?|ignored)\b|\w*(num|total|global|local|valid|n)_\w*tokens?\b",
    re.IGNORECASE,
)
_IGNORES = re.compile(
    r"-100\b|ignore_?(index|id)|pad(ding)?_?(token|idx|id)|(loss|attention|label)_mask", re.IGNORECASE
)
_OF_RANKS = re.compile(
    rb"torch\.distributed|\bDistributedDataParallel|\bfully_shard\b|\bAccelerator\(|\binit_process_group\b|lightning"
)


RunRanks = Callable[[int, Callable[[int], Iterator[Dict[str, Any]]]], List[List[Dict[str, Any]]]]


class Reached(NamedTuple):
    """One rank's gradient against that of the mean over all targets: ratio of norms and cosine, or the error."""

    ratio: float
    cosine: float
    raised: str = ""


class Speaks(NamedTuple):
    """Whether the step's code reduces over ranks, counts targets, ignores some, and whether its package has ranks."""

    reduces: bool
    counts: bool
    ignores: bool
    package_has_ranks: bool
    site: Optional[Site]


class RankSteps:
    """One training step on tokens, run in ranks; the first rank has 2 targets in a batch, the last 20.

    `run_ranks` starts the ranks; `package_mentions` searches a pattern in the files of the step's package.
    """

    def __init__(self, runs: StepRuns, run_ranks: RunRanks, package_mentions: Callable[[Any], bool]) -> None:
        self._handed = runs.feed.task
        # Code that was fed samples may accept tokens as well.
        task = runs.feed.task if runs.feed.task in TOKEN_TASKS else "tokens"
        self._runs = StepRuns(runs.caller, runs.feed._replace(task=task), runs.roots)
        self._run_ranks, self._package_mentions = run_ranks, package_mentions

    def alone(self) -> Speaks:
        """Return what the step's code says. Raises NotApplicable if its gradient is wrong even in one process."""
        function = self._runs.caller.function
        if _ALONE.search("{}.{}".format(function.__module__, function.__qualname__)):
            raise NotApplicable("it trains on a single device, by its name")
        batches = self._batches(2)[0]
        run = self._runs.run(_case(batches))
        if run.raised is not None and self._handed not in TOKEN_TASKS:
            raise NotApplicable("it has one target per sample, so all ranks have equally many")
        if run.raised is not None:
            raise run.raised
        if not run.trace.steps or not run.trace.steps[0].grads:
            raise NotApplicable("its optimizer got no gradients")
        if not is_mean_loss(run.trace.steps[0].grads, self._true(batches)):
            raise NotApplicable("its gradient differs from that of the mean over targets in one process, too")
        source = "\n".join(source_of(code) for code in run.trace.executed)
        site = most_common([micro.site for micro in run.trace.steps[0].micros])
        reduces, counts, ignores = (bool(pattern.search(source)) for pattern in (_REDUCES, _COUNTS, _IGNORES))
        return Speaks(reduces, counts, ignores, self._package_mentions(_OF_RANKS), site)

    def _batches(self, world_size: int) -> List[List[Batch]]:
        """Return the batches of each rank; the micro-batches of one rank have equally many targets."""
        feed = self._runs.feed
        micro_batches = feed.fixed_count if feed.accumulates == FIXED else 1
        return [
            make_batches(micro_batches, feed.task, [2 + 18 * rank // (world_size - 1)] * micro_batches, seed=rank)
            for rank in range(world_size)
        ]

    def _true(self, batches: Sequence[Batch]) -> Grads:
        """Return the gradient of the mean over all targets; if the step shifts them, its own gradient of one batch."""
        if self._runs.feed.task == NEXT_TOKENS:
            run = self._runs.run(_case([joined(batches)]))
            return run.trace.steps[0].grads if run.trace.steps else {}
        return true_gradient(ToyModel(self._runs.feed.returns, _GAIN), joined(batches))

    def reached(self, world_size: int) -> Dict[str, List[Reached]]:
        """Return the first step of every rank for each wrapping."""
        batches = self._batches(world_size)
        true = self._true([each for own in batches for each in own])

        def body(rank: int) -> Iterator[Dict[str, Any]]:
            for wrapping in WRAPPINGS:
                found = self._first_step(wrapping, batches[rank])
                yield {"ratio": norm_of(found) / norm_of(true), "cosine": cosine(found, true)}

        import_first("torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch._dynamo")
        found: Dict[str, List[Reached]] = {wrapping: [] for wrapping in WRAPPINGS}
        for messages in self._run_ranks(world_size, body):
            for message, wrapping in zip(messages, WRAPPINGS, strict=False):
                raised = str(message.get("rank_raised", ""))
                numbers = (0.0, 0.0) if raised else (float(message["ratio"]), float(message["cosine"]))
                found[wrapping].append(Reached(*numbers, raised=raised))
        return found

    def _first_step(self, wrapping: str, batches: Sequence[Batch]) -> Grads:
        """Return the full gradients of this rank's first step."""
        values = _RankValues(wrapping, self._runs.values(_case(batches)))
        handed: List[List[Tuple[str, Any]]] = []

        def keep(*_: Any) -> None:
            named = values.model.named_parameters()
            handed.append([(name, each.grad.detach().clone()) for name, each in named if each.grad is not None])

        handle = register_optimizer_step_pre_hook(keep)
        try:
            raised, _ = self._runs.ready(values)()
        finally:
            handle.remove()
        if raised is not None or not handed:
            raise RuntimeError(str(raised or "it makes no step"))
        whole = [(name, each.full_tensor() if hasattr(each, "full_tensor") else each) for name, each in handed[0]]
        return {name.replace("module.", ""): each.double() for name, each in whole}


def _case(batches: Sequence[Batch]) -> Case:
    return Case(list(batches), accumulate=len(batches), gain=_GAIN)


class _RankValues(Values):
    """The values in one rank: the model in its wrapper, and an optimizer of the wrapped parameters."""

    def __init__(self, wrapping: str, of: Values) -> None:
        vars(self).update(vars(of))
        self.model.unused.requires_grad_(False)  # DDP waits for the gradient of every trainable parameter.
        if wrapping == "ddp":
            self.model: Any = torch.nn.parallel.DistributedDataParallel(self.model)
        elif wrapping == "fsdp2":
            self.model = _sharded(self.model)
        self.optimizer = type(self.optimizer)(self.model.parameters(), self.optimizer.defaults["lr"])

    def made(self, value: Any, path: str = "") -> Any:
        """Return the number of ranks, or the rank, for a value that means one process."""
        for pattern, ask in ((_SIZE, torch.distributed.get_world_size), (_RANK, torch.distributed.get_rank)):
            if pattern.search(path) and value in (0, 1):
                return ask()
            if pattern.search(path) and value in (guesses.GIVES_ZERO, guesses.GIVES_ONE):
                return lambda *_, **__: ask()
        return super().made(value, path)


def _sharded(model: ToyModel) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.utils import _pytree

    if ModelAnswer not in _pytree.SUPPORTED_NODES:  # FSDP searches tensors in a model's output, as of transformers.
        _pytree.register_pytree_node(
            ModelAnswer,
            lambda answer: (list(answer.values()), list(answer)),
            lambda values, names: ModelAnswer(zip(names, values, strict=True)),
        )
    return fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
