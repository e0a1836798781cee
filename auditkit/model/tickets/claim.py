"""What a ticket claims in numbers, and what the evidence says of it: `peak_extra_bytes = 400 MB ±10% @ params=100M`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from auditkit.model.codec import Record
from auditkit.model.units import is_known_unit

LAW = "law"
"""The name that stands for a probe's growth law, where a measurement's name could stand."""

_NUMBER = r"[+-]?(?:\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?|inf)"
_SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_CONDITION = re.compile(
    r"(?P<name>[A-Za-z_]\w*)"
    r"(?:\s+(?P<side>at base|at fix|base/fix|fix/base))?"
    r"\s*(?P<relation><=|>=|!=|=|<|>|≤|≥)\s*"
    r"(?P<value>[^@±]*?)"
    r"(?:\s*(?:±|\+/?-)\s*(?P<tolerance>[\d.]+(?:e[+-]?\d+)?)\s*(?P<percent>%)?)?"
    r"(?P<none>\s+or none)?"
    r"(?:\s*@\s*(?P<case>.*))?"
)
_VALUE = re.compile(rf"(?P<low>{_NUMBER})(?:\s*(?:\.\.|–|-)\s*(?P<high>{_NUMBER}))?\s*(?P<unit>\S*)")
_WORD = re.compile(r"(?:O\([^()]+\)|[\w.+*^-]+)")
_CASE = re.compile(r"(\w+)\s*=\s*(.+)")
_PROBE = re.compile(r"(?P<probe>[a-z]\w*)\s+(?P<condition>\S.*)", re.DOTALL)
_SPELLED = {"≤": "<=", "≥": ">="}
FORM = "NAME = 400 MB ±10% @ params=100M"


class Side(StrEnum):
    """Which run of a block is meant: the one that found the defect, that of the fix, or one over the other."""

    BASE = "at base"
    FIX = "at fix"
    BASE_OVER_FIX = "base/fix"
    FIX_OVER_BASE = "fix/base"


class ClaimState(StrEnum):
    """What the evidence says of a claim."""

    CONFIRMED = "CONFIRMED"
    REFUTED = "REFUTED"
    UNTESTED = "UNTESTED"
    MALFORMED = "MALFORMED"


@dataclass(frozen=True)
class Condition:
    """A comparison with one measurement (or, as `law`, with the law) of a probe.

    A number lies between `low` and `high`, which are in `unit` ("" for the measurement's own) and widened by
    the tolerance already; `word` is what is compared in the place of a number: a law, `none`, `true`. `case`
    is what a row's case has to say. `or_none` lets a value that does not exist pass.
    """

    text: str
    name: str
    relation: str
    low: float = math.nan
    high: float = math.nan
    unit: str = ""
    word: str = ""
    case: Mapping[str, str] = field(default_factory=dict)
    side: Side = Side.BASE
    or_none: bool = False


@dataclass(frozen=True)
class Claim:
    """A condition that a ticket's author believes in: about which probe, beside which words, and where (1-based).

    `problem` says why the comment is none, and `condition` is None then.
    """

    probe: str
    condition: Condition | None
    written: str
    beside: str
    line: int
    column: int
    problem: str = ""


@dataclass(frozen=True)
class JudgedClaim(
    Record,
    keys="state claim=claim.written probe=claim.probe beside=claim.beside message line=claim.line column=claim.column",
):
    """A claim and what the evidence says of it, in words."""

    claim: Claim
    state: ClaimState
    message: str


def parse_claim(written: str, beside: str = "", line: int = 1, column: int = 1) -> Claim:
    """The claim `PROBE NAME = VALUE ...`; one that cannot be read says why in `problem`."""
    found = _PROBE.fullmatch(written.strip())
    if found is None:
        return Claim("", None, written, beside, line, column, f"not of the form PROBE {FORM}")
    try:
        condition = parse_condition(found["condition"])
    except ValueError as error:
        return Claim(found["probe"], None, written, beside, line, column, str(error))
    return Claim(found["probe"], condition, written, beside, line, column)


def parse_condition(text: str) -> Condition:
    """The condition that `text` is; raises ValueError with what is wrong about it."""
    text = " ".join(text.split())
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"not a condition: '{text}' (as in {FORM})")
    relation = _SPELLED.get(found["relation"], found["relation"])
    low, high, unit, word = _value(found["value"].strip(), found["name"])
    if word and (found["tolerance"] or relation not in ("=", "!=")):
        raise ValueError(f"'{word}' is no number: it can only be = or !=, without a tolerance")
    if low != high and not word and relation not in ("=", "!="):
        raise ValueError(f"a range can only be = or !=, not {relation}")
    if found["tolerance"]:
        share = float(found["tolerance"])
        low, high = _widened(low, high, share / 100, True) if found["percent"] else _widened(low, high, share, False)
    return Condition(
        text=text,
        name=found["name"],
        relation=relation,
        low=low,
        high=high,
        unit=unit,
        word=word,
        case=_cases(found["case"]),
        side=Side(found["side"]) if found["side"] else Side.BASE,
        or_none=found["none"] is not None,
    )


def number_of(text: str) -> float | None:
    """`100,000,000`, `1e8` and `100M` as a number, None for anything else."""
    plain = text.strip().replace(",", "").replace("_", "")
    factor = {**_SUFFIXES, "B": 1e9}.get(plain[-1:], 1.0)
    if factor != 1.0:
        plain = plain[:-1]
    try:
        return float(plain) * factor
    except ValueError:
        return None


def _value(text: str, name: str) -> tuple[float, float, str, str]:
    """Low, high, unit and word."""
    found = _VALUE.fullmatch(text) if name != LAW else None
    if found is None:
        if not _WORD.fullmatch(text):
            raise ValueError(
                f"'{text}' is neither a number nor a word" if text else "there is no value to compare with"
            )
        return math.nan, math.nan, "", text
    low, unit = float(found["low"]), found["unit"]
    high = float(found["high"]) if found["high"] else low
    if low > high:
        raise ValueError(f"the range {text} goes down")
    factor = 1.0
    if unit and not is_known_unit(unit) and (unit[0] in _SUFFIXES and (len(unit) == 1 or is_known_unit(unit[1:]))):
        factor, unit = _SUFFIXES[unit[0]], unit[1:]
    return low * factor, high * factor, unit, ""


def _widened(low: float, high: float, by: float, is_share: bool) -> tuple[float, float]:
    return (low - abs(low) * by, high + abs(high) * by) if is_share else (low - by, high + by)


def _cases(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    cases = {}
    for part in text.split(","):
        found = _CASE.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"'{part.strip()}' is no case: name=value, as in params=100M, without separators")
        cases[found[1]] = found[2].strip()
    return cases
