"""What the names that a training step reads mean: the model, the batches, their number, the limit.

This file imports no torch: reading a checkout's source needs the same table.
"""

import functools
import re
from typing import Any, Optional, Tuple

from ..feed import guesses
from ..feed.guesses import Guess

BATCHES = "batches of three samples"
BATCH, INPUTS, TARGETS = "a batch of three samples", "its inputs", "its targets"
BATCH_LOSS = "the loss of a batch of three samples"
CRITERION, SCHEDULER = "cross entropy", "a schedule that changes nothing"
ACCUMULATION, LIMIT = "as many micro-batches as the probe passes", "the limit that the probe checks"
STEPS, RARELY, NOTHING = "as many steps as there are batches for", "rarely enough that it does not happen", "nothing"
SAMPLES = "as many samples as a batch has"
EPOCHS = "one epoch, or as many as the probe needs"
SILENT = "an object whose methods do nothing"
NO_CONTEXT = "a context that does nothing"
MIXED = "mixed precision where a probe checks its scaler"
LOSS_SCALER = "a scaler that is called with the loss: it runs the backward pass, clips and steps"
GIVES_RATE = "a function giving a learning rate of 0.001"
GIVES_BATCH = "a function giving a batch of three samples"

NO_WAY = "no input made it pass a gradient to an optimizer"
IMPORTED_BY_STEPS = "torch._dynamo"
"""What torch imports at an optimizer's first step, in 2 s; import it before `host.py` patches what it reads."""

CLASSES = 11
"""Classes, channels and vocabulary size of the small model."""
_SIZES = re.compile(r"(n|num|in|out)_?(classes|channels|chans|labels|features)|vocab(ulary)?_size|n_vocab")

_WORD = r"(?:.*_)?"
_BY_PATTERN: Tuple[Tuple[Any, str], ...] = tuple(
    (re.compile(pattern), found)
    for pattern, found in (
        (
            r"(.*_)?(grad(ient)?s?_)?accum(ulat\w+)?(_grad)?(_(steps?|rounds?|iters?|iterations?|batches|every|freq|count|num))?|"
            r"iters_to_accumulate|update_freq|(num|n)_?micro_?batches|accumulate_grad_batches|"
            r"(.*_)?accumulation_steps",
            ACCUMULATION,
        ),
        (r"(use_)?(amp|fp16)(_enabled)?", MIXED),
        (_WORD + r"device_type", guesses.DEVICE_NAME),
        (r"(get|compute|cosine)_(\w+_)?(lr|learning_rate|momentum|weight_decay|wd)(_\w+)?", GIVES_RATE),
        (r"_?(get|next|fetch|sample|load|draw)_\w*batch\w*", GIVES_BATCH),
        (_WORD + r"(\w*loaders?|batches|data_?iter|iterator|dl|dataset|data|train_iter)", BATCHES),
        (r"(micro_?)?batch(_data)?|data_batch|samples_and_targets", BATCH),
        (r"x|xs|src|source|inputs?|images?|samples?|input_ids|features|tokens|(.*_)?(inputs?|images?)", INPUTS),
        (r"y|ys|targets?|labels?|(.*_)?(targets?|labels?)", TARGETS),
        (_WORD + r"(criterion|loss_fn|loss_func(tion)?|objective|loss_f|loss_module|criterions?)", CRITERION),
        (_WORD + r"(scheduler|sched|lr_schedule|lr_scheduler)", SCHEDULER),
        (
            _WORD + r"(log|print|save|eval|checkpoint|ckpt|test|val|valid|report|sample|summary)_?\w*"
            r"(interval|freq\w*|every\w*|steps?|iters?)",
            RARELY,
        ),
        (r"(max|num|total|n)_?(train\w*_)?(steps|iters|iterations|updates|batches)(_per_epoch)?|"
            r"(steps|iters|iterations)(_per_epoch)?", STEPS),
        (_WORD + r"(epochs)", EPOCHS),
        (_WORD + r"batch_size", SAMPLES),
        (_WORD + r"(mixup\w*|(model_)?ema(_model)?|callbacks?|hooks?|swa\w*|teacher\w*|wandb\w*)", NOTHING),
        (_WORD + r"(prof(iler)?|sampler|checkpoint(er|_client|_manager))", SILENT),
        (_WORD + r"(autocast\w*|amp_context|amp_autocast|ctx|context)", NO_CONTEXT),
        (r"(train(er)?_)?state", guesses.OBJECT),
        (_WORD + r"(optimizer|optim|opt)", guesses.OPTIMIZER),
        (_WORD + r"scaler", guesses.SCALER),
    )
)  # fmt: skip
_BY_USE = (
    (r"{0}\.(zero_grad\([^\n]*\n(?:.*\n)*?.*\b{0}\.step\(|param_groups)", guesses.OPTIMIZER),
    (r"{0}\.(train\(|parameters\(|named_parameters\(|no_sync\()", guesses.MODULE),
    (r"{0}\.(scale|unscale_)\(", guesses.SCALER),
    (r"(in|enumerate\(|next\(|iter\(|zip\(|tqdm\() ?{0}\b(?!\.)", BATCHES),
)
_READ_AS_SETTINGS = r"\b{0}\.(?!step|zero_grad|param_groups|state)\w+\b(?!\()"
"""`opt` is as often the parsed options as an optimizer."""
_USED, _TESTED = r"\b{0}\.\w+\(", r"\b(?:if|elif|and|or|not) {0}\b|\b{0} is (?:not )?None"
"""How a step uses a name, and how it first tests whether it is set."""
_PARTS = frozenset((
    guesses.MODULE, guesses.MODULES, guesses.OPTIMIZER, guesses.OPTIMIZERS, guesses.SCALER, SCHEDULER, CRITERION,
))  # fmt: skip
_OF_ONE_BATCH = frozenset((BATCH, INPUTS, TARGETS, BATCH_LOSS))
_CALLED_WITH_LOSS = r"\b{0}\(\w*loss, ?\w"
_GOES_BACKWARD = r"\b{0}\.backward\(|\bscale\({0}\b"


@functools.lru_cache(maxsize=None)
def known(name: str, annotation: str = "", source: str = "") -> Optional[Guess]:
    """Return what an argument or an attribute means; None if neither its name nor its use in `source` shows it."""
    word = name.strip("_").lower()
    if guesses.is_limit(name) and "dict" not in annotation.lower():
        return Guess(LIMIT)
    if _SIZES.fullmatch(word):
        return Guess(CLASSES)
    if word.endswith("scaler") and re.search(_CALLED_WITH_LOSS.format(re.escape(name)), source):
        return Guess(LOSS_SCALER)
    named = next((found for pattern, found in _BY_PATTERN if pattern.fullmatch(word)), None)
    carried = guesses.carrier(name, annotation) if named != CRITERION else None  # `criterion: nn.Module`
    if carried in (guesses.MODULE, guesses.MODULES, guesses.PARAMETERS, guesses.NAMED_PARAMETERS):
        return Guess(carried)
    for use, found in _BY_USE if source else ():
        if re.search(r"\b" + use.format(re.escape(name)), source):
            return Guess(found)
    if named == guesses.OPTIMIZER and word == "opt" and re.search(_READ_AS_SETTINGS.format(name), source):
        return Guess(guesses.CONFIG)
    if named == BATCHES and re.search(r"(range\(|[/%] ?){}\b".format(re.escape(name)), source):
        return Guess(ACCUMULATION)
    if named == NOTHING and re.search(_USED.format(name), source) and not re.search(_TESTED.format(name), source):
        return Guess(SILENT)
    if named is not None:
        return Guess(named)
    guess = guesses.guess(name, annotation)
    if guess is None or guess.value != guesses.LOSS:
        return guess
    return Guess(BATCH_LOSS if re.search(_GOES_BACKWARD.format(re.escape(name)), source) else CRITERION)


def is_part(name: str) -> bool:
    """Return whether a script creates it once, before its loop: the model, the optimizer, the loss function."""
    guess = known(name)
    return guess is not None and guess.value in _PARTS and re.fullmatch(r"\w*loss(es)?", name) is None


def of_settings(name: str) -> Optional[Guess]:
    """Return what an attribute of a configuration means, whose `TRAIN` and `data` are sections."""
    section = guesses.in_configuration(name)
    return section if section is not None and section.value == guesses.CONFIG else known(name)


def is_one_batch(words: str) -> bool:
    """Return whether it is part of one batch, so that the step is called once for each."""
    return words in _OF_ONE_BATCH


def drives_a_step(names: Tuple[str, ...], annotations: Tuple[str, ...], source: str) -> bool:
    """Return whether a function that trains gets both the model and the batches."""
    found = {
        guess.value
        for name, annotation in zip(names, annotations, strict=True)
        for guess in [known(name, annotation, source)]
        if guess is not None and isinstance(guess.value, str)
    }
    holds_batches = {guesses.CONFIG, guesses.OPTIMIZER} <= found
    return guesses.MODULE in found and (holds_batches or bool(found & {BATCHES, BATCH, INPUTS, GIVES_BATCH}))
