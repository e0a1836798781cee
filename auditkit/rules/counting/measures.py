"""From the words of a summary page to what they count, and how many tickets that is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from auditkit.model.enums import Severity
from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import agent_code, agent_name
from auditkit.model.tickets.review import Verdict
from auditkit.model.tickets.ticket import Status
from auditkit.rules.counting.statistics import UNKNOWN, Counted, Facet, values_of
from auditkit.rules.tickets.consensus import Agreement

_FILLERS = frozenset((
    "issue", "issues", "ticket", "tickets", "finding", "findings", "total", "all", "the", "of", "number", "in",
    "priority", "severity",
))  # fmt: skip
_SUBJECTS: Mapping[str, Facet] = {
    "priority": Facet.SEVERITY,
    "reviewer": Facet.AGENT,
    "category issue type": Facet.CATEGORY,
    **{facet.value: facet for facet in Facet},
}
_DISTINCT = {"batches": Facet.BATCH, "agents": Facet.AGENT, "domains": Facet.DOMAIN, "categories": Facet.CATEGORY}
_LEVELS = re.compile(r"p([0-4])(?:\s*(?:/|-|–|to|or)\s*p([0-4]))?(?:\s*\([^)]*\))?$", re.IGNORECASE)
_RANGE = re.compile(r"\b(P[0-4])\s*[-–/]\s*(P[0-4])\b", re.IGNORECASE)
_BRACKET = re.compile(r"\(\s*(P[0-4](?:\s*[-–/]\s*P[0-4])?)\s*\)\s*$", re.IGNORECASE)
_MOST_WORDS = 6


@dataclass(frozen=True)
class Measure:
    """What a figure counts: tickets for which every facet has one of its values; all tickets without any.

    `distinct` is set for the number of different values of a facet ("10 batches").
    """

    conditions: tuple[tuple[Facet, frozenset[str]], ...] = ()
    distinct: Facet | None = None

    @property
    def is_total(self) -> bool:
        return not self.conditions and self.distinct is None

    @property
    def counts_votes(self) -> bool:
        return any(facet is Facet.VERDICT for facet, _ in self.conditions)

    def describe(self) -> str:
        """The measure in words: `P1 tickets`, `pytorch, open tickets`."""
        if self.distinct is not None:
            return next(name for name, facet in _DISTINCT.items() if facet is self.distinct)
        words = ", ".join(
            "/".join(sorted(_name(facet, value) for value in values)) for facet, values in self.conditions
        )
        return f"{words} {'votes' if self.counts_votes else 'tickets'}".strip()

    def also(self, other: Measure) -> Measure:
        return Measure((*self.conditions, *(part for part in other.conditions if part not in self.conditions)))


@dataclass(frozen=True)
class Vocabulary:
    """The words that tickets of one folder may be counted by: fixed ones, their domains, categories and agents."""

    domains: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset(CATEGORIES)
    agents: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tickets: Iterable[Counted]) -> Vocabulary:
        known = tuple(tickets)
        domains = {value for ticket in known for value in values_of(ticket, Facet.DOMAIN)}
        categories = {value for ticket in known for value in values_of(ticket, Facet.CATEGORY)}
        agents = {value for ticket in known for value in values_of(ticket, Facet.AGENT)}
        return cls(frozenset(domains), frozenset(categories | set(CATEGORIES)), frozenset(agents))

    def measure(self, words: str, subject: str = "") -> Measure | None:
        """What `words` count, None where that is not clear; `subject` is the header above them."""
        facet = _facet_of(subject)
        found = self._value(words, facet)
        if found is not None:
            return Measure((found,))
        bracket = _BRACKET.search(words)
        if bracket is not None:
            # "Immediate (P0-P1)": words that say nothing of their own leave the level.
            level, others = self.measure(bracket[1], subject), self.measure(words[: bracket.start()], subject)
            return others.also(level) if others and level else level
        plain = [word for word in _fold(_RANGE.sub(r"\1to\2", words)).split() if word not in _FILLERS]
        if not plain:
            return Measure() if words.strip() and facet is None else None
        if len(plain) == 1 and plain[0] in _DISTINCT:
            return Measure(distinct=_DISTINCT[plain[0]])
        return self._several(plain, facet)

    def _several(self, words: list[str], facet: Facet | None) -> Measure | None:
        """A measure of several conditions, every word used: `open p1`."""
        measure, position = Measure(), 0
        while position < len(words):
            for end in range(min(len(words), position + _MOST_WORDS), position, -1):
                found = self._value(" ".join(words[position:end]), facet)
                if found is not None:
                    break
            else:
                return None
            measure, position = measure.also(Measure((found,))), end
        return measure

    def _value(self, words: str, facet: Facet | None) -> tuple[Facet, frozenset[str]] | None:
        levels = _LEVELS.match(words.strip())
        if levels is not None and facet in (None, Facet.SEVERITY):
            first, last = int(levels[1]), int(levels[2] or levels[1])
            return Facet.SEVERITY, frozenset(level.value for level in Severity if first <= int(level.value[1]) <= last)
        folded = _fold(words)
        if facet in (None, Facet.BATCH) and (match := re.fullmatch(r"(?:batch |b)?(\d{1,4})", folded)):
            return (Facet.BATCH, frozenset({str(int(match[1]))})) if facet or not match[0].isdigit() else None
        agent = agent_name(agent_code(words))
        if (facet in (None, Facet.AGENT) and agent in _AGENTS) or (facet is Facet.AGENT and agent in self.agents):
            return Facet.AGENT, frozenset({agent})
        if facet in _WITH_UNKNOWN and folded == UNKNOWN:
            return facet, frozenset({UNKNOWN})
        for known, value in self._names.get(folded, ()):
            if facet in (None, known):
                return known, frozenset({value})
        return self._shortened(folded, facet)

    def _shortened(self, folded: str, facet: Facet | None) -> tuple[Facet, frozenset[str]] | None:
        """A category by its first words, if they fit one only; outside a table of categories, two at least."""
        if facet not in (None, Facet.CATEGORY) or (facet is None and " " not in folded):
            return None
        single = folded.removesuffix("s")
        fits = {value for name, value in self._category_names.items() if name.startswith((f"{folded} ", f"{single} "))}
        fits |= {value for name, value in self._category_names.items() if name == single}
        return (Facet.CATEGORY, frozenset(fits)) if len(fits) == 1 else None

    @cached_property
    def _category_names(self) -> dict[str, str]:
        return {_fold(inert_line(value)): value for value in self.categories}

    @cached_property
    def _names(self) -> dict[str, list[tuple[Facet, str]]]:
        names: dict[str, list[tuple[Facet, str]]] = {}
        fixed = ((Facet.STATUS, Status), (Facet.VERDICT, Verdict), (Facet.CONSENSUS, Agreement))
        pairs = [(facet, value.value) for facet, enum in fixed for value in enum]
        pairs += [(Facet.DOMAIN, value) for value in self.domains]
        pairs += [(Facet.CATEGORY, value) for value in self.categories]
        for facet, value in pairs:
            names.setdefault(_fold(inert_line(value)), []).append((facet, value))
        return names


def count_of(measure: Measure, tickets: Iterable[Counted]) -> int:
    """How many tickets are what `measure` says (votes, where it counts verdicts)."""
    if measure.distinct is not None:
        return len({value for ticket in tickets for value in values_of(ticket, measure.distinct)})
    others = [part for part in measure.conditions if part[0] is not Facet.VERDICT]
    chosen = [
        ticket for ticket in tickets if all(values.intersection(values_of(ticket, facet)) for facet, values in others)
    ]
    if not measure.counts_votes:
        return len(chosen)
    verdicts = [values for facet, values in measure.conditions if facet is Facet.VERDICT]
    votes = [vote for ticket in chosen for vote in values_of(ticket, Facet.VERDICT)]
    return sum(all(vote in values for values in verdicts) for vote in votes)


_AGENTS = frozenset({"drl", "pytorch", "codereview"})
_WITH_UNKNOWN = (Facet.SEVERITY, Facet.STATUS, Facet.VERDICT)


def _name(facet: Facet, value: str) -> str:
    return f"batch {value}" if facet is Facet.BATCH else value


def _facet_of(subject: str) -> Facet | None:
    """The facet that a column's header names: `Agent/Reviewer Type` is the agent."""
    folded = _fold(subject)
    return _SUBJECTS.get(folded) or next((_SUBJECTS[word] for word in folded.split() if word in _SUBJECTS), None)


def _fold(text: str) -> str:
    return re.sub(r"[^\w.]+", " ", text.casefold().replace("-", " ")).strip(" .")
