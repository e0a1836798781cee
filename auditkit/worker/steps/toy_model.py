"""The small model that a training step trains, its batches, and its true gradient in float64."""

import contextlib
import copy
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

import torch
from torch import nn
from torch.nn import functional

from .roles import CLASSES

WIDTH, TOKENS = 6, 7
IGNORED = -100
NEXT_TOKENS, PIXELS = "next tokens", "pixels"
TOKEN_TASKS = ("tokens", NEXT_TOKENS)
"""Tasks with a target for each token; with next tokens, the first one has none and is never counted."""
FROZEN = "frozen.weight"
"""The name of a frozen parameter."""
_TARGET_WORDS = ("label", "target", "trg", "tgt", "y", "answer")
_OF_PIXELS = ("mask", "segm")


class Batch(NamedTuple):
    """One batch: `inputs` are token numbers (B, T), features (B, C) or pixels (B, C, H, W).

    `targets` are a class or IGNORED for each, or values (B, C).
    """

    inputs: torch.Tensor
    targets: torch.Tensor


class NamedBatch(Dict[str, Any]):
    """A batch as a mapping or an object with attributes, which returns one of its two tensors for any name."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(input_ids=batch.inputs, labels=batch.targets)

    def __missing__(self, name: str) -> torch.Tensor:
        words = (*_TARGET_WORDS, *_OF_PIXELS) if self["input_ids"].dim() == 4 else _TARGET_WORDS
        is_target = any(word in str(name).lower() for word in words)
        return self["labels" if is_target else "input_ids"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def to(self, *_: Any, **__: Any) -> "NamedBatch":
        """Return the batch: it is on the host."""
        return self


class ModelAnswer(Dict[str, Any]):
    """The result of transformers' models, read as `answer.loss`, `answer["loss"]`, `answer[0]`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: Any) -> Any:
        return list(self.values())[name] if isinstance(name, int) else super().__getitem__(name)


class ToyModel(nn.Module):
    """Embedding, tied output layer, a trained, a frozen and an unused parameter; `returns` is the form of its result.

    `gain` multiplies the input of the output layer, and so the gradients; the calls `poisoned` return NaN.
    """

    def __init__(self, returns: str, gain: float = 1.0, poisoned: Sequence[int] = ()) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)
        self.unused = nn.Parameter(torch.zeros(3))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
        self.head.weight = self.embedding.weight
        self.frozen.weight.requires_grad_(False)
        self.returns, self.gain, self.poisoned, self.calls = returns, gain, tuple(poisoned), 0

    @property
    def module(self) -> "ToyModel":
        """The model itself, as a wrapper's attribute."""
        return self

    def no_sync(self) -> Any:
        """Do nothing; DistributedDataParallel has this method."""
        return contextlib.nullcontext()

    def forward(self, *values: Any, **named: Any) -> Any:
        """Return the result in the form `returns`, of the first tensor and the targets (by name, or the second)."""
        tensors = _tensors((*values, *named.values()))
        targets = next((named[name] for name in named if any(word in name for word in _TARGET_WORDS)), None)
        if targets is None and len(tensors) > 1:
            targets = tensors[1]
        scores = self.scores(tensors[0])
        if self.training and torch.is_grad_enabled():
            self.calls += 1
            if self.calls - 1 in self.poisoned:
                scores = scores * float("nan")
        if targets is None:
            targets = torch.zeros(scores.shape[:-1], dtype=torch.long)
        if len(tensors) > 1 or self.returns != "scores":
            self.__dict__["last_loss"] = loss = loss_of(scores, targets)  # some models keep it so
        if self.returns == "scores":
            return scores
        return {
            "loss": loss,
            "scores, loss": (scores, loss),
            "loss, scores": (loss, scores),
            "loss, scores, scores": (loss, scores, scores),
            "answer": ModelAnswer(loss=loss, logits=scores),
            "losses": {"loss": loss},
        }[self.returns]

    def scores(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes: (..., C) for token numbers or features, (B, C, H, W) for pixels."""
        if inputs.is_floating_point() and inputs.dim() == 4 and inputs.shape[1] == CLASSES:
            of_pixels: torch.Tensor = self.scores(inputs.movedim(1, -1).reshape(-1, CLASSES))
            return of_pixels.reshape(len(inputs), *inputs.shape[2:], CLASSES).movedim(-1, 1)
        weight = self.embedding.weight
        is_dense = inputs.is_floating_point()
        found = (
            inputs.to(weight.dtype).flatten(1)[:, :CLASSES] @ weight if is_dense else self.embedding(inputs % CLASSES)
        )
        return self.head(self.gain * torch.tanh(self.frozen(self.linear(found))))


def _tensors(values: Sequence[Any]) -> List[torch.Tensor]:
    """Return the tensors among some values, also those in tuples and lists."""
    found: List[torch.Tensor] = []
    for each in values:
        found += [each] if isinstance(each, torch.Tensor) else _tensors(each) if isinstance(each, (tuple, list)) else []
    return found


RETURNS = ("scores", "answer", "scores, loss", "loss, scores", "loss", "losses", "loss, scores, scores")


def loss_of(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy over all targets but IGNORED; for values the mean squared difference."""
    if targets.is_floating_point():
        return functional.mse_loss(scores, targets)
    if scores.dim() != 4:
        scores, targets = scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)
    return functional.cross_entropy(scores, targets, ignore_index=IGNORED)


class Criterion(nn.Module):
    """The loss function for a step that takes one."""

    ignore_index = IGNORED

    def forward(self, *values: Any, **named: Any) -> torch.Tensor:
        """Return the loss of scores and targets."""
        given = _tensors((*values, *named.values()))
        given = given[next((index for index, each in enumerate(given) if each.requires_grad), 0) :]
        if len(given) == 1 and given[0].requires_grad:
            return given[0].square().mean()
        if len(given) < 2:
            raise TypeError("the loss got no scores and targets as tensors")
        return loss_of(given[0], given[1])


def make_batches(count: int, task: str, valid: Optional[Sequence[int]] = None, seed: int = 0) -> List[Batch]:
    """Return `count` batches of three samples; `valid` is the number of each batch's 21 tokens that have a target."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for index in range(count):
        if task in TOKEN_TASKS:
            inputs = torch.randint(0, CLASSES, (3, TOKENS), generator=generator)
            targets = torch.randint(0, CLASSES, (3, TOKENS), generator=generator)
            if valid is not None:
                targets.view(-1)[valid[index] :] = IGNORED
            if task == NEXT_TOKENS:
                targets[:, 0] = IGNORED
        else:
            pixels = (2, 2) if task == PIXELS else ()
            inputs = torch.randn(3, CLASSES, *pixels, generator=generator)
            targets = torch.randint(0, CLASSES, (3, *pixels), generator=generator)
            if task == "values":
                targets = torch.randn(3, CLASSES, generator=generator)
        found.append(Batch(inputs, targets))
    return found


def uneven_counts(count: int) -> List[int]:
    """Return from 2 to 20: how many of the 21 tokens of each micro-batch have a target."""
    return [2 + 18 * index // max(1, count - 1) for index in range(count)]


def widened(batches: Sequence[Batch], features: int) -> List[Batch]:
    """Return the batches padded to so many features per sample; the model reads only the first ones."""
    return [
        Batch(functional.pad(inputs, (0, features - inputs.shape[1])), targets)
        if inputs.is_floating_point() and inputs.dim() == 2
        else Batch(inputs, targets)
        for inputs, targets in batches
    ]


def joined(batches: Sequence[Batch]) -> Batch:
    """Return one batch of all samples."""
    return Batch(torch.cat([each.inputs for each in batches]), torch.cat([each.targets for each in batches]))


def true_gradient(model: ToyModel, batch: Batch) -> Dict[str, torch.Tensor]:
    """Return the gradient of the mean loss of one batch, by parameter, computed in float64."""
    exact = copy.deepcopy(model).double()
    targets = batch.targets.double() if batch.targets.is_floating_point() else batch.targets
    loss_of(exact.scores(batch.inputs), targets).backward()
    return {name: each.grad for name, each in exact.named_parameters() if each.grad is not None}


def batches_as(form: str, batches: Sequence[Batch]) -> Iterator[Any]:
    """Yield the batches as a loop unpacks them: a tuple, a mapping, or only the inputs."""
    for each in batches:
        if form == "mapping":
            yield NamedBatch(each)
        elif form == "inputs":
            yield each.inputs
        else:
            yield each.inputs, each.targets


FORMS = ("tuple", "mapping", "inputs")
