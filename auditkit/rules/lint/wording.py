"""How alike two titles are, by their words; and which titles can be alike at all, found by their rarest words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

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


def telling_words(titles: Mapping[int, Words], share: float) -> Mapping[str, list[int]]:
    """Which titles to compare with a text that holds one of these words.

    Whoever shares `share` of a title's words must share one of its rarest few: with n words and k to share,
    one of any n - k + 1. So common words gather no long lists.
    """
    count = Counter(word for words in titles.values() for word in words)
    index: dict[str, list[int]] = {}
    for key, words in titles.items():
        for word in _rarest(words, len(words) - math.ceil(share * len(words)) + 1, count):
            index.setdefault(word, []).append(key)
    return index


def _rarest(words: Words, most: int, count: Mapping[str, int]) -> Iterable[str]:
    return sorted(words, key=lambda word: (count[word], word))[:most]
