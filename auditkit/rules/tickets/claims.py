"""What measured rows say of a condition, and what a ticket's evidence says of its claims."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from auditkit.model.runs.measurement import Measured
from auditkit.model.tickets.claim import LAW, Claim, ClaimState, Condition, JudgedClaim, Side, number_of
from auditkit.model.tickets.ticket import EvidenceSummary
from auditkit.model.units import dimension_of, factor_of

_MOST_NAMED = 4
_FINITE = "finite"
_LINE = re.compile(r"(?:about )?(?:(?P<slope>[\d.e+-]*n)(?:[+-][\d.e+-]+)?|[\d.e+-]+)")


@dataclass(frozen=True)
class Reading:
    """What was measured in one run: its rows and its law."""

    rows: Sequence[Measured] = ()
    law: str = ""


@dataclass(frozen=True)
class Holds:
    """Whether a condition holds of a reading: None where the reading cannot say, and `message` why."""

    is_true: bool | None
    message: str


def check_condition(condition: Condition, reading: Reading) -> Holds:
    """Whether every row that the condition is about meets it; of a number shown rounded, whether it can.

    Rows whose value does not exist (`none`) are passed over, unless all are and nothing says `or none`.
    """
    if condition.name == LAW:
        return _check_law(condition, reading.law)
    rows, missing = _rows_of(condition, reading.rows)
    if missing:
        return Holds(None, missing)
    return _check_rows(condition, rows)


def judge_claim(claim: Claim, evidence: Iterable[EvidenceSummary]) -> JudgedClaim:
    """What a ticket's blocks say of a claim; a claim that they do not speak of is untested, never confirmed."""
    if claim.condition is None:
        return JudgedClaim(claim, ClaimState.MALFORMED, claim.problem)
    blocks = [block for block in evidence if block.fingerprint.partition("/")[0] == claim.probe]
    if not blocks:
        return JudgedClaim(claim, ClaimState.UNTESTED, f"no evidence of {claim.probe}")
    holds = _of_sides(claim.condition, blocks)
    if holds.is_true is None:
        return JudgedClaim(claim, ClaimState.UNTESTED, holds.message)
    return JudgedClaim(claim, ClaimState.CONFIRMED if holds.is_true else ClaimState.REFUTED, holds.message)


def _of_sides(condition: Condition, blocks: Sequence[EvidenceSummary]) -> Holds:
    found = Reading(
        [row for block in blocks for row in block.measurements], next((block.law for block in blocks if block.law), "")
    )
    fixed = Reading(
        [row for block in blocks for row in block.measurements_at_fix],
        next((block.law_at_fix for block in blocks if block.law_at_fix), ""),
    )
    if condition.side is Side.BASE:
        return check_condition(condition, found)
    if not fixed.rows and not fixed.law:
        return Holds(None, "no run at the fix is in the evidence: auditkit ticket verify makes one")
    if condition.side is Side.FIX:
        return check_condition(condition, fixed)
    if not any(check.role == "base" for block in blocks for check in block.checks):
        return Holds(None, "no run at the base is in the evidence: auditkit ticket verify --base REV makes one")
    over, under = (found, fixed) if condition.side is Side.BASE_OVER_FIX else (fixed, found)
    return _check_quotient(condition, over, under)


def _check_quotient(condition: Condition, over: Reading, under: Reading) -> Holds:
    """The condition of one run's values over the other's, case by case."""
    quotients = []
    below = {_key(row): row for row in under.rows}
    for row in over.rows:
        other = below.get(_key(row))
        if other is not None and row.value is not None and other.value:
            value = row.value / other.value
            slack = abs(value) * (row.slack / abs(row.value or 1) + other.slack / abs(other.value))
            weaker = row.evidence if row.evidence != "measured" else other.evidence
            quotients.append(Measured(row.name, value, f"{value:.4g}", "ratio", row.case, weaker, slack))
    rows, missing = _rows_of(condition, quotients)
    if missing:
        return Holds(None, f"{missing} that both runs measured")
    return _check_rows(replace(condition, name=f"{condition.name} {condition.side.value}"), rows)


def _key(row: Measured) -> tuple[str, frozenset[tuple[str, str]]]:
    return row.name, frozenset(row.case.items())


def _rows_of(condition: Condition, rows: Sequence[Measured]) -> tuple[list[Measured], str]:
    """The rows that the condition is about, or why there are none."""
    named = [row for row in rows if row.name == condition.name]
    if not named:
        known = ", ".join(dict.fromkeys(row.name for row in rows)) or "nothing"
        return [], f"no measurement {condition.name}: the evidence has {known}"
    meant = [row for row in named if _is_case(condition.case, row.case)]
    if meant:
        return meant, ""
    wanted = ", ".join(f"{name}={value}" for name, value in condition.case.items())
    told = "; ".join(f"{name}: {_values_of(name, named)}" for name in condition.case)
    return [], f"no {condition.name} at {wanted} (measured at {told})"


def _values_of(name: str, rows: Sequence[Measured]) -> str:
    return ", ".join(dict.fromkeys(row.case[name] for row in rows if name in row.case)) or "no such case"


def _is_case(wanted: Mapping[str, str], case: Mapping[str, str]) -> bool:
    return all(name in case and _same(value, case[name]) for name, value in wanted.items())


def _same(wanted: str, shown: str) -> bool:
    number, other = number_of(wanted), number_of(shown)
    if number is not None and other is not None:
        return math.isclose(number, other, rel_tol=1e-9)
    return wanted.casefold() == shown.casefold()


def _check_law(condition: Condition, law: str) -> Holds:
    if not law:
        return Holds(None, "the evidence has no law")
    wanted = condition.word.replace(" ", "")
    if not wanted.startswith("O("):
        return Holds((law.replace(" ", "") == wanted) is (condition.relation == "="), f"the law is {law}")
    line = _LINE.fullmatch(law)
    if line is None:
        return Holds(None, f"the law is {law}: no law in n")
    growth = "O(n)" if line["slope"] is not None else "O(1)"
    return Holds((growth == wanted) is (condition.relation == "="), f"the law is {law}, which is {growth}")


def _check_rows(condition: Condition, rows: Sequence[Measured]) -> Holds:
    if condition.word:
        return _check_words(condition, rows)
    with_number = [row for row in rows if row.value is not None]
    others = [row for row in rows if row.value is None and not row.is_none]
    if others:
        return Holds(None, f"{condition.name} is no number: {others[0].text}")
    if not with_number:
        return (
            Holds(True, f"{condition.name} is none")
            if condition.or_none
            else Holds(None, f"{condition.name} is none; a condition that this meets says `or none`")
        )
    wanted = condition.unit and dimension_of(condition.unit)
    strange = next((row for row in with_number if wanted and dimension_of(row.unit) != wanted), None)
    if strange is not None:
        return Holds(None, f"{condition.name} is in {strange.unit}, not in {condition.unit}")
    failing = [row for row in with_number if not _meets(condition, row)]
    return Holds(not failing, _told(condition.name, failing or with_number))


def _check_words(condition: Condition, rows: Sequence[Measured]) -> Holds:
    wants_equal = condition.relation == "="
    failing = [row for row in rows if _says(row, condition.word.casefold()) is not wants_equal]
    return Holds(not failing, _told(condition.name, failing or list(rows)))


def _says(row: Measured, word: str) -> bool:
    if word == _FINITE:
        return row.value is not None and math.isfinite(row.value)
    return row.text.casefold() == word


def _meets(condition: Condition, row: Measured) -> bool:
    assert row.value is not None
    # The condition's numbers in the row's unit; without a unit they are already.
    factor = factor_of(condition.unit) / factor_of(row.unit) if condition.unit else 1.0
    low, high = condition.low * factor, condition.high * factor
    least, most = row.value - row.slack, row.value + row.slack
    if condition.relation in ("=", "!="):
        # A condition in floating point and one in the row's own digits may differ in the last bit.
        is_equal = (least <= high and low <= most) or math.isclose(row.value, low, rel_tol=1e-9)
        return is_equal is (condition.relation == "=")
    return {
        "<": least < low, "<=": least <= low, ">": most > low, ">=": most >= low,
    }[condition.relation]  # fmt: skip


def _told(name: str, rows: Sequence[Measured]) -> str:
    """`peak_extra_bytes is 1.21 GiB (params=100,000,000)`, the first few values, each with its first case."""
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        groups.setdefault(row.text, []).append(row)
    parts = [_value_told(same) for same in list(groups.values())[:_MOST_NAMED]]
    more = f", and {len(groups) - _MOST_NAMED} more values" if len(groups) > _MOST_NAMED else ""
    return f"{name} is {', '.join(parts)}{more}"


def _value_told(same: Sequence[Measured]) -> str:
    first = same[0]
    kind = first.evidence if first.evidence != "measured" else ""
    others = f"and in {len(same) - 1} other {'case' if len(same) == 2 else 'cases'}" if len(same) > 1 else ""
    details = "; ".join(part for part in (first.case_text(), kind, others) if part)
    return f"{first.text}{'x' if first.unit == 'ratio' else ''}{f' ({details})' if details else ''}"
