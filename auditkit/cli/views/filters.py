"""Which tickets a command means: the filters of `ticket list`, `search` and `board`, and what each lets through."""

from __future__ import annotations

from auditkit.cli.lookups import choose, configured_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from auditkit.store.listing.index import Index
    from auditkit.store.listing.selection import Filter

_TOGETHER = ("reviewer", "verdict")


def passing_all(index: Index, passes: Sequence[tuple[str, Filter]]) -> Sequence[int]:
    """The tickets that pass every one of the named filters."""
    if not passes:
        return range(index.count)
    from auditkit.store.listing.selection import passing

    return passing(range(index.count), [filter_ for _, filter_ in passes])


def names_status(wanted: Mapping[str, Sequence[Any] | None]) -> bool:
    """Whether a filter speaks of the status, so that finished tickets may be meant."""
    conditions = wanted.get("where")
    if wanted.get("status") or not conditions:
        return bool(wanted.get("status"))
    from auditkit.store.listing.conditions import speaks_of_status

    return speaks_of_status(conditions)


def in_state(index: Index, numbers: Sequence[int], is_finished: bool | None) -> tuple[Sequence[int], int]:
    """Those that are finished, or those that are not, and how many others there are; all of them for None."""
    if is_finished is None:
        return numbers, 0
    from auditkit.store.listing.rows import IS_FINISHED

    finished = index.column(IS_FINISHED)
    kept = [number for number in numbers if finished[number] is is_finished]
    return kept, len(numbers) - len(kept)


def named_filters(
    folder: str, index: Index, wanted: Mapping[str, Sequence[Any] | None], blocked: bool | None, stale: bool
) -> list[tuple[str, Filter]]:
    """Each filter that the options ask for, with the words that asked for it."""
    from auditkit.store.listing import selection as sel

    given = {name: words for name, words in wanted.items() if words}
    conditions = given.pop("where", ())
    # A verdict is asked for of the reviewer, where one is named; each text has to be there.
    asked = [{name: words} for name, words in given.items() if name not in (*_TOGETHER, "text")]
    asked += [{"text": [text]} for text in given.get("text", ())]
    asked += [both] if (both := {name: given[name] for name in _TOGETHER if name in given}) else []
    passes = [(_typed(one), filter_) for one in asked for filter_ in filters(folder, index, one)]
    if blocked is not None:
        passes.append(("--blocked" if blocked else "--unblocked", sel.is_blocked(index, blocked)))
    if stale:
        passes.append(("--stale", sel.is_stale(index)))
    if conditions:
        from auditkit.store.listing.conditions import filters_of

        def by_option(name: str, words: Sequence[str]) -> Filter:
            return next(filters(folder, index, {name: words}))

        passes += zip((f"--where {one}" for one in conditions), filters_of(index, conditions, by_option), strict=True)
    return passes


def ids_where(folder: str, conditions: Sequence[str]) -> tuple[list[str], int]:
    """The ids of the tickets that pass every condition, and how many finished ones were left out.

    As in `ticket list` these are left out unless a condition speaks of the status. Raises BadInputError.
    """
    from auditkit.store.listing.index import read_index
    from auditkit.store.listing.rows import ID

    wanted = {"where": conditions}
    index = read_index(folder)
    passing = passing_all(index, named_filters(folder, index, wanted, None, False))
    kept, left = in_state(index, passing, None if names_status(wanted) else False)
    ids = index.column(ID)
    return [ids[number] for number in kept], left


def _typed(wanted: Mapping[str, Sequence[Any]]) -> str:
    said = {name: ",".join(map(str, words)) for name, words in wanted.items()}
    return " ".join(f"--{name} {words}" if words else f'--{name} ""' for name, words in said.items())


def filters(folder: str, index: Index, wanted: Mapping[str, Sequence[Any]]) -> Iterator[Filter]:
    """What the words of the options let pass, by the name of the option; `a,b` are two words, but not in texts."""
    from auditkit.store.listing import rows as at
    from auditkit.store.listing import selection as sel

    def among(field: int, parse: Callable[[Sequence[str]], set[str]]) -> Callable[[Sequence[Any]], Filter]:
        return lambda names: sel.among(index, field, _canonical(index, field, words_of(names), parse))

    makers: dict[str, Callable[[Sequence[Any]], Filter]] = {
        "status": among(at.STATUS, _statuses),
        "severity": among(at.SEVERITY, _severities),
        "batch": lambda numbers: sel.among(index, at.BATCH, _numbers(numbers)),
        "agent": lambda names: of_agents(folder, index, words_of(names)),
        "domain": lambda names: sel.in_domain(index, words_of(names)),
        "category": lambda words: sel.in_category(index, words),
        "assignee": lambda names: sel.assigned_to(index, words_of(names)),
        "file": lambda patterns: sel.with_file(index, patterns),
        "consensus": lambda names: sel.agreed(index, _agreements(words_of(names))),
    }
    for name, words in wanted.items():
        if words and name in makers:
            yield makers[name](words)
    yield from (sel.with_text(index, text) for text in wanted.get("text") or ())
    reviewers, verdicts = wanted.get("reviewer") or (), wanted.get("verdict") or ()
    if reviewers or verdicts:
        yield sel.reviewed(index, _reviewers(words_of(reviewers)), _verdicts(words_of(verdicts)))


def words_of(texts: Sequence[str]) -> list[str]:
    """`open,in-review` are two words; nothing stays what it is, because it asks for what has no value."""
    return [word.strip() for text in texts for word in text.split(",") if word.strip() or not text.strip()]


def _numbers(texts: Sequence[str | int]) -> set[int]:
    found = set()
    for word in words_of([str(text) for text in texts]):
        if not (word.isascii() and word.isdigit()):
            from auditkit.errors import BadInputError

            raise BadInputError(f"no such batch: '{word}'", "a batch is a number, such as 7")
        found.add(int(word))
    return found


def _canonical(index: Index, field: int, names: Sequence[str], parse: Callable[[Sequence[str]], set[str]]) -> set[str]:
    """The words as the vocabulary has them; it is loaded for words alone that are spelled otherwise."""
    from auditkit.store.listing.rows import LIFE, SEVERITY, STATUS

    spelled = {SEVERITY: ("P0", "P1", "P2", "P3", "P4"), STATUS: LIFE}.get(field, ())
    present = set(index.column(field)) - {""} | set(spelled)
    return set(names) if present.issuperset(names) else parse(names)


def of_agents(folder: str, index: Index, names: Sequence[str]) -> Filter:
    """Tickets of these agents, by code or name, those of the project among them."""
    from auditkit.store.listing import rows as at
    from auditkit.store.listing import selection as sel

    agents = configured_agents(folder)
    if agents is None:
        return sel.among(index, at.AGENT_CODE, _canonical(index, at.AGENT_CODE, names, _codes))
    from auditkit.model.tickets.ids import agent_code

    codes = {agent_code(name, agents) for name in names}
    return sel.among(
        index, at.AGENT, {name for name in set(index.column(at.AGENT)) if agent_code(name, agents) in codes}
    )


def _codes(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.ids import agent_code

    return {agent_code(name) for name in names}


def _statuses(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.ticket import Status, parse_status

    return {choose(parse_status, name, list(Status)).value for name in names}


def _severities(names: Sequence[str]) -> set[str]:
    from auditkit.model.enums import Severity
    from auditkit.model.tickets.ticket import parse_severity

    return {choose(parse_severity, name, list(Severity)).value for name in names}


def _reviewers(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.review import read_reviewer

    return {read_reviewer(name) or name.strip() for name in names}


def _verdicts(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.review import Verdict, parse_verdict

    return {choose(parse_verdict, name, list(Verdict)).value for name in names}


def _agreements(names: Sequence[str]) -> set[str]:
    from auditkit.store.listing.selection import AGREEMENTS

    known = list(AGREEMENTS)
    return {choose(lambda text: known[known.index(text)], name.casefold(), known, "consensus") for name in names}
