"""How alike two titles are, by their words; and which titles can be alike at all, found by their rarest words."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping

Words = frozenset[str]

_WORD = re.compile(r"\w{4,}")  # shorter ones (`in`, `the`, `use`) say little


def words_in(text: str) -> Words:
    """The words of four letters or more, in small letters."""
    return frozenset(_WORD.findall(text.lower()))


def jaccard(left: Words, right: Words) -> float:
    """Shared words as a part of all words, 0 for two texts without words."""
    return len(left & right) / len(left | right) if left or right else 0.0


def coverage(text: Words, title: Words) -> float:
    """The part of a title's words that a text holds."""
    return len(text & title) / len(title) if title else 0.0


def telling_words(titles: Mapping[int, Words], share: float, together: int = 1) -> Mapping[tuple[str, ...], list[int]]:
    """Which titles to compare with a text that holds these words, `together` of them, in alphabetical order.

    Whoever shares `share` of a title's words shares some of its rarest: with n words and k to share, one of
    any n - k + 1, two of any n - k + 2. So common words gather no long lists. Titles of which fewer than
    `together` words are to be shared may be missed.
    """
    count = Counter(word for words in titles.values() for word in words)
    index: dict[tuple[str, ...], list[int]] = {}
    for key, words in titles.items():
        most = len(words) - math.ceil(share * len(words)) + together
        rarest = sorted(words, key=lambda word: (count[word], word))[:most]
        for part in itertools.combinations(sorted(rarest), together):
            index.setdefault(part, []).append(key)
    return index
