"""Which tickets one diff ends, and how the diffs of one function stand to one another. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auditkit.model.runs.fix import Fix
from auditkit.model.runs.run import Finding
from auditkit.trials.causes import judging_of
from auditkit.trials.no_fix import NoFix

Outcome = Fix | NoFix


@dataclass(frozen=True)
class Effect:
    """What a fix does: the lines of its file that it changes, and what does not reproduce with it in the arm `arm`.

    `quiet` has pairs of a target and a probe that ran.
    """

    arm: str
    quiet: frozenset[tuple[str, str]]
    lines: frozenset[int]

    def ends(self, group: Sequence[Finding]) -> bool:
        """Return whether every finding that judges the ticket's fix was seen to be gone."""
        keys = [(one.result.target, one.probe.id) for one in judging_of(group)]
        return all(key in self.quiet for key in keys) and all(one.result.arm == self.arm for one in group)


def shared(
    groups: Sequence[Sequence[Finding]], outcomes: Sequence[Outcome], effects: Mapping[Fix, Effect]
) -> list[Outcome]:
    """Return the outcome of each ticket: the smallest diff that ends it, be it the fix of another ticket.

    A fix names the probes of those tickets whose larger diffs make it unnecessary, and of those whose diffs change the
    same lines.
    """
    held: dict[Fix, list[Sequence[Finding]]] = {}
    chosen: list[Outcome] = []
    for group, own in zip(groups, outcomes, strict=True):
        enough = [fix for fix, effect in effects.items() if fix == own or effect.ends(group)]
        chosen.append(min(enough, key=_size, default=own))
        if enough:
            held.setdefault(min(enough, key=_size), []).append(group)
    told = {}
    for fix, own_groups in held.items():
        larger = [other for other in held if other != fix and all(map(effects[other].ends, own_groups))]
        near = [
            other
            for other in held
            if other.file == fix.file and other != fix and other not in larger
            if effects[other].lines & effects[fix].lines and not all(map(effects[fix].ends, held[other]))
        ]
        mended = (one.result.fingerprint for group in own_groups for one in judging_of(group))
        told[fix] = replace(
            fix,
            mends=tuple(dict.fromkeys((*fix.mends, *mended))),
            unnecessary_with=tuple(held[other][0][0].probe.id for other in larger),
            overlaps=tuple(held[other][0][0].probe.id for other in near),
        )
    return [told[one] if isinstance(one, Fix) else one for one in chosen]


def _size(fix: Fix) -> int:
    return sum(line[:1] in "+-" for line in fix.difference.split("\n"))
