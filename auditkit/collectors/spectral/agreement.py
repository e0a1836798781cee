"""Bad input that one rank sees is refused by all of them, with the same words."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .peers import Peers

MOST_PROBLEMS = 5
"""More of them make a message that nobody reads."""


@dataclass(slots=True)
class Said:
    """What this rank says, a value and its problems, and afterwards the values of all ranks."""

    value: Any = None
    problems: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


@contextlib.contextmanager
def agreement(peers: Peers, what: str) -> Iterator[Said]:
    """Let every rank say a value, and raise the same ValueError on all of them where any has a problem.

    A ValueError or OSError within is a problem, too: the other ranks do not wait for a rank that stopped.
    Raises RankLostError.
    """
    said = Said()
    try:
        yield said
    except (ValueError, OSError) as error:
        said.problems.append(str(error))
    everything = peers.exchange(what, [said.problems, said.value])
    problems = [f"rank {rank}: {problem}" for rank, (theirs, _) in enumerate(everything) for problem in theirs]
    if problems:
        raise ValueError(summary(problems))
    said.values = [value for _, value in everything]


def summary(problems: Iterable[str]) -> str:
    """Return the first problems in one line, and how many more there are."""
    found = list(problems)
    more = f"; and {len(found) - MOST_PROBLEMS} more" if len(found) > MOST_PROBLEMS else ""
    return "; ".join(found[:MOST_PROBLEMS]) + more
