"""What names mean: values that are gradients or norms, and functions that reduce, clip or report them."""

from __future__ import annotations

import ast
import re
from functools import cache

from auditkit.probing.find import vocabulary
from auditkit.probing.source.modules import dotted_name, last_name


@cache
def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_") if word)


@cache
def holds_gradients(name: str) -> bool:
    """Return whether a variable or attribute of this name holds gradients: `main_grad`, `grads_for_norm`."""
    words = _words(name)
    at = next((index for index, word in enumerate(words) if word in vocabulary.GRADIENT_WORDS), None)
    if at is None or not vocabulary.DEEDS.isdisjoint(words[:at]):
        return False
    after = words[at + 1 :]
    return all(word in vocabulary.KEPT or word in vocabulary.GRADIENT_WORDS for word in after) and (
        "norm" not in after or "for" in after
    )


@cache
def gets_gradients(name: str) -> bool:
    """Return whether a function of this name returns gradients: `get_grads_for_grad_norm`, `master_grads`."""
    words = _words(name)
    if len(words) < 2 or words[0] not in vocabulary.GETTERS:
        return False
    plural = next((index for index, word in enumerate(words) if word in ("grads", "gradients")), None)
    return plural is not None and ({"norm", "norms"}.isdisjoint(words) or "for" in words[plural:])


@cache
def holds_norm(name: str) -> bool:
    """Return whether a value of this name is a norm of gradients: `total_norm`, `norm_groups`."""
    words = _words(name)
    if not {"norm", "norms"} & set(words) or not vocabulary.LIMITS.isdisjoint(words):
        return False
    return bool({"grad", "grads", "gradient", "gradients", "total", "global"} & set(words)) or name in (
        "norms", "norm_list", "norm_groups", "norm_group", "all_groups_norm", "local_norm", "local_norms",
    )  # fmt: skip


@cache
def holds_norms_of_gradients(name: str) -> bool:
    """Return whether a value of this name holds a norm for each gradient: `norm_for_param_grads`, `_norm_sample`."""
    words = set(_words(name))
    of_each = words & {"grads", "gradients", "sample", "samples"}
    return bool(words & {"norm", "norms"}) and bool(of_each) and words.isdisjoint({"max", "clip"})


@cache
def gets_norm(name: str) -> bool:
    """Return whether a function of this name returns the norm of gradients: `get_global_grad_norm`."""
    words = _words(name)
    return words[:1] in (("get",), ("compute",), ("calc",), ("calculate",)) and words[-1] == "norm" and holds_norm(name)


def is_about_figures(name: str) -> bool:
    """Return whether a function is named for another statistic than the norm of all gradients."""
    words = set(_words(name))
    of_each = {"sample", "samples"} & words
    return bool(of_each) or (words.isdisjoint(vocabulary.NORM_WORDS) and not words.isdisjoint(vocabulary.FIGURES))


def is_about_norms(name: str) -> bool:
    """Return whether a function is named for a norm that it computes: `get_global_norm`."""
    words = set(_words(name))
    return bool(words & {"norm", "norms"}) and words.isdisjoint(vocabulary.LIMITS | {"group"})


@cache
def reduces(name: str) -> bool:
    """Return whether a function of this name, called with gradients, returns statistics of them."""
    words = set(_words(name))
    return name in vocabulary.REDUCTIONS or (
        bool(words & (vocabulary.FINITE_WORDS | vocabulary.NORM_WORDS)) and words.isdisjoint(vocabulary.NO_NORMS)
    )


@cache
def is_finite_check(name: str) -> bool:
    """Return whether a function of this name checks for NaN, infinity or zeros, and returns a flag or a count."""
    return name in vocabulary.FINITE_CHECKS or not (vocabulary.FINITE_WORDS | {"zeros"}).isdisjoint(_words(name))


@cache
def clips(name: str) -> bool:
    """Return whether a function of this name limits gradients."""
    return vocabulary.CLIPS.fullmatch(name) is not None and vocabulary.NO_CLIPS.match(name) is None


def logs(function: ast.expr) -> bool:
    """Return whether a called function prints, logs, or writes to a dashboard."""
    head = dotted_name(function).partition(".")[0]
    return vocabulary.LOGS.fullmatch(last_name(function)) is not None and head not in vocabulary.NO_LOGGERS


def is_named_for_clipping(name: str) -> bool:
    """Return whether a name says that the function limits or rescales gradients."""
    return not {"clip", "clips", "clipped", "clipping", "clamp", "rescale", "normalize"}.isdisjoint(_words(name))


def is_helper_of_collectors(name: str) -> bool:
    """Return whether a function of any tensors is named as a helper of collectors."""
    words = set(_words(name))
    if _words(name)[:1] in (("materialize",), ("materialise",), ("finalize",), ("finalise",), ("finish",)):
        return False
    is_asked_for = _words(name)[:1] in (("get",), ("compute",), ("calc",), ("calculate",))
    of_all = bool(words & {"norm", "norms"}) and (bool(words & {"total", "global"}) or is_asked_for)
    is_named = words & (vocabulary.GRADIENT_WORDS | vocabulary.FINITE_WORDS | {"zeros"})
    return of_all or bool(is_named) or name.startswith("clip_")


def speaks_of_gradients(name: str) -> bool:
    """Return whether the name of a method is enough to recognize it as one about gradients."""
    words = set(_words(name))
    return bool(words & (vocabulary.GRADIENT_WORDS | vocabulary.FINITE_WORDS | vocabulary.NORM_WORDS | {"zeros"}))
