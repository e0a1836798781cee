"""What a target's name and docstring promise: how often it synchronizes, and that it writes to its arguments.

Auditkit reads only sentences that a count can confirm: no synchronization, one, two, not one per tensor.
"""

import inspect
import re
from typing import Any, Callable, NamedTuple, Optional

_COUNTS = {"no": 0, "without": 0, "zero": 0, "never": 0, "one": 1, "single": 1, "1": 1, "two": 2, "2": 2}
_WAITS = (
    r"(?:(?:gpu|cuda|device-to-host|device|host)[- ])?"
    r"(?:sync(?:hroni[sz]\w*|s|ing)?\b|(?:host|device) reads?\b|\.item\b)"
)
# "One for each tensor" is not a number; and ranks, processes and gradients synchronize in another sense.
_UNLIKE = (
    r"(?!\s+(?:per|for\s+each|for\s+every)\s+(?!call|step|iteration))"
    r"(?!(?:\s+points?)?\s+(?:across|between|among|with|of|grad\w*|param\w*|buffers?|ranks?|workers?|process\w*)\b)"
)
_PROMISES = re.compile(
    r"(?P<free>\b(?:async-safe|sync-free)\b|\bdoes(?: not|n't) (?:block the host\b|sync\w*\b{}))"
    r"|\b(?P<count>{})\s+(?:(?:any|blocking|explicit|extra|implicit)\s+)?{}{}".format(
        _UNLIKE, "|".join(_COUNTS), _WAITS, _UNLIKE
    ),
    re.IGNORECASE,
)
# A sentence with one of these words before the promise is about another function, or sets no limit.
_OF_ANOTHER = re.compile(r"\b(?:unlike|instead of|than|least|otherwise|avoids?|may|not|n't)\b", re.IGNORECASE)
_STATISTIC = re.compile(
    r"norm|stat|health|metric|monitor|telemetry|collect|measure|comput|summar|record|report|track|log|get|check|observe|"
    r"read|mean|average|histogram|magnitude|fraction|ratio|variance",
    re.IGNORECASE,
)
# The first words of a docstring that describes a result, or how it is obtained.
_DESCRIBES_A_NUMBER = re.compile(
    r"(?:(?:the|an?|total|global|per[- ]\w+|l[12]|mean|average|largest|smallest|minimum|maximum|gradients?'?)[ -]+)*"
    r"(?:norms?|mean|average|magnitudes?|statistics?|stats|fraction|share|ratio|histogram|variance|count|number|"
    r"comput|calculat|report|return|measur|collect|record|observ|track|log|get|read|summar|monitor|estimat)",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"(?<![a-z])(?:clip(?:s|ped|ping)?|clamps?|clamping|limits?|(?:re|un)?scales?|unscaling|normali[sz](?:es?|ing)|"
    r"divides?|sanitiz\w*|replaces?|removes?|zeros?|modif\w*)(?![a-z])",
    re.IGNORECASE,
)
_IN_PLACE = re.compile(r"\bin[- ]?place\b", re.IGNORECASE)


class Promise(NamedTuple):
    """The collecting step synchronizes at most `sync_count` times, by `words` of `place` (its name, its docstring)."""

    sync_count: int
    words: str
    place: str
    line: int


def sync_promise(function: Callable) -> Optional[Promise]:
    """Return the promise of the docstring, else of a name that ends in `_async`; else None."""
    doc = inspect.getdoc(function) or ""
    for found in _PROMISES.finditer(doc):
        if not _is_of_another(doc, found):
            count = _COUNTS[found["count"].lower()] if found["count"] else 0
            return Promise(count, " ".join(found[0].split()), "its docstring", _line_of(function, found[0]))
    name = getattr(function, "__name__", "")
    return Promise(0, name, "its name", _line_of(function)) if name.endswith("_async") else None


def _is_of_another(doc: str, found: Any) -> bool:
    return _OF_ANOTHER.search(re.split(r"[.;:]\s", doc[: found.start()])[-1]) is not None


def writes_by_its_own_words(function: Callable) -> str:
    """Return how a target says that it writes to its arguments, as torch does (`clip_`); or ""."""
    if getattr(function, "__name__", "").endswith("_"):
        return "its name ends in an underscore"
    doc = inspect.getdoc(function) or ""
    found = _IN_PLACE.search(doc)
    return "" if found is None or _is_of_another(doc, found) else 'its docstring has "{}"'.format(found[0])


def names_a_statistic(function: Callable) -> bool:
    """Return whether the name of a target says that it measures."""
    return bool(_STATISTIC.search(getattr(function, "__name__", "")))


def only_measures(function: Callable) -> bool:
    """Return whether a target's name and docstring both describe a measurement, and the name no change."""
    doc, name = inspect.getdoc(function) or "", getattr(function, "__name__", "").replace("_", " ")
    if not names_a_statistic(function) or _CHANGES.search(name):
        return False
    changes = re.compile(r"\b(?:and|then|after|before|by)\s+" + _CHANGES.pattern, re.IGNORECASE)
    return bool(_DESCRIBES_A_NUMBER.match(doc)) and not changes.search(doc)


def own_words(function: Callable) -> str:
    """Return the name and the docstring of a target."""
    return "{} {}".format(getattr(function, "__qualname__", ""), inspect.getdoc(function) or "")


def _line_of(function: Any, words: str = "") -> int:
    """Return the line of the file on which `words` of the docstring begin, or the function; 0 without a source."""
    try:
        lines, start = inspect.getsourcelines(inspect.unwrap(function))
    except (OSError, TypeError):
        return 0
    text = "".join(lines)
    return start + text[: max(text.find(words), 0)].count("\n")
