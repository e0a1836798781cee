"""Values for required arguments that are no gradients and that nobody gave: guesses, each told to the reader.

A finding that hangs on a guess alone is none: `other` is a second value that is as plausible, and that keeps to what
the first one does (a limit that clips ordinary gradients, a step on which something is logged). Where there is no
such value `other` is None: a norm without an order is the 2-norm, which is what the probes ask about.
This file imports no torch: reading a checkout's source needs the same table.
"""

import ast
import re
from typing import Any, Dict, NamedTuple, Optional

TOTAL_NORM = "the total norm of the gradients"
"""Stands for a value that depends on the gradients of the call: their exact norm, as float32."""
DEVICE = "the device of the gradients"
"""Stands for the device of the call's first gradient."""
DEVICE_NAME = "the name of the gradients' device"
"""The same for an argument that is declared as text."""


class Guess(NamedTuple):
    """A value, and another one that is as plausible; None where there is none."""

    value: Any
    other: Any = None


_LIMITS = (
    "max_norm", "max_grad_norm", "max_gradient_norm", "grad_norm_max", "grad_clip_norm", "clip_norm",
    "clip_grad_norm", "clip_value", "clip_val", "clip", "clip_grad", "grad_clip", "gradient_clip",
    "gradient_clip_val", "gradient_clip_value", "gradient_clipping", "clip_threshold", "clipping_threshold",
    "max_value", "threshold", "limit",
)  # fmt: skip
_SCALES = ("scale", "loss_scale", "grad_scale", "inv_scale", "inverse_scale", "factor")
_BY_NAME: Dict[str, Guess] = {
    **dict.fromkeys(_LIMITS, Guess(1.0, 0.5)),
    **dict.fromkeys(_SCALES, Guess(2.0, 4.0)),
    **dict.fromkeys(("norm_type", "ord", "p", "norm"), Guess(2.0)),
    **dict.fromkeys(("eps", "epsilon"), Guess(1e-8, 1e-6)),
    # What is done every so many steps is done at step 0, and at 100 in most programs.
    **dict.fromkeys(("step", "global_step", "iteration", "epoch"), Guess(0, 100)),
    **dict.fromkeys(("prefix", "tag"), Guess("")),
    "total_norm": Guess(TOTAL_NORM),
    "device": Guess(DEVICE),
}
_BY_ANNOTATION: Dict[str, Guess] = {"float": Guess(0.5, 0.25), "int": Guess(1, 2), "bool": Guess(False, True)}
_LITERAL = re.compile(r"(?:typing\.|t\.)?Literal\[(.*)\]", re.DOTALL)


def guess(name: str, annotation: str) -> Optional[Guess]:
    """A value for the argument `name`, declared as `annotation` ("" where it is not); None where none is known."""
    if name == "device" and annotation == "str":
        return Guess(DEVICE_NAME)
    return _BY_NAME.get(name) or _BY_ANNOTATION.get(annotation) or _of_literal(annotation)


def _of_literal(annotation: str) -> Optional[Guess]:
    """The first two values of a `Literal[...]`."""
    found = _LITERAL.fullmatch(annotation)
    if found is None:
        return None
    try:
        values = ast.literal_eval("({},)".format(found.group(1)))
    except (SyntaxError, ValueError):
        return None
    return Guess(*values[:2])
