"""The whole text of every ticket in one file among the user's caches, so that a search reads one file and not all.

It is as disposable as the index: what changed since it was written is read from the ticket itself, and when that
becomes much, it is written anew.
"""

from __future__ import annotations

import bisect
import itertools
import marshal
import mmap
import os
import re

from auditkit.store.listing.cache_folder import cache_file, open_private
from auditkit.store.listing.index_file import Draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditkit.store.folder.walk import Stamps

_MAGIC = b"auditkit text 1\n"
_SIZE_BYTES = 8
_KIND = ".text"
_MANY = 200
"""So many changed tickets are read in 30 ms; writing the texts of 10,000 again takes 150 ms."""


def holding(folder: str, paths: Sequence[str], found: Stamps, words: Sequence[str]) -> list[int]:
    """The places in `paths` of the tickets whose text holds every word, whatever the case, in rising order.

    A word with blanks in it is a phrase, which may go over the end of a line. `found` are the files as they are now.
    """
    needles = [folded(word) for word in sorted(words, key=len, reverse=True)]
    stamps, stored, ends, data = _load(folder)
    if stamps == found and stored == paths:
        return _matching(data, ends, needles)
    known = {path for path in stored if stamps[path] and found.get(path) == stamps[path]}
    changed = [path for path in paths if path not in known]
    texts = {path: _text_of(folder, path) for path in changed}
    matching = {stored[number] for number in _matching(data, ends, needles)} & known
    matching |= {path for path, text in texts.items() if all(needle in text for needle in needles)}
    if len(changed) > _MANY or not stored:
        spans = {path: slice(start, end) for path, start, end in zip(stored, _starts(ends), ends, strict=True)}
        _save(folder, found, {path: texts[path] if path in texts else data[spans[path]] for path in paths})
    return [number for number, path in enumerate(paths) if path in matching]


def folded(text: str) -> bytes:
    """Text as it is compared: in lower case, each run of blanks and line ends a single blank."""
    return " ".join(text.casefold().replace("\0", " ").split()).encode("utf-8", "surrogatepass")


def _matching(data: bytes | mmap.mmap, ends: list[int], needles: Sequence[bytes]) -> list[int]:
    """Which of the texts in `data`, by their ends, hold every needle; for the first one all data are looked through."""
    first, *others = (re.compile(re.escape(needle)).search for needle in needles)
    numbers: list[int] = []
    place, size = 0, ends[-1] if ends else 0
    while match := first(data, place, size):
        numbers.append(bisect.bisect_right(ends, match.start()))
        place = ends[numbers[-1]]
    starts = _starts(ends) if others else []
    return [number for number in numbers if all(search(data, starts[number], ends[number]) for search in others)]


def _starts(ends: list[int]) -> list[int]:
    """Where the texts begin: behind the NUL that ends the one before."""
    return [0, *(end + 1 for end in ends)][: len(ends)]


def _text_of(folder: str, path: str) -> bytes:
    try:
        with open(f"{folder}/{path}", encoding="utf-8", errors="replace") as file:
            return folded(file.read())
    except OSError:
        return b""


def _load(folder: str) -> tuple[Stamps, list[str], list[int], bytes | mmap.mmap]:
    """Stamps, and by rising place in the data the paths of the texts and their ends; nothing without such a file."""
    try:
        handle = open_private(cache_file(folder) + _KIND)
    except OSError:
        return {}, [], [], b""
    try:
        data = mmap.mmap(handle, 0, prot=mmap.PROT_READ)
        end = len(data) - len(_MAGIC) - _SIZE_BYTES
        if data[-len(_MAGIC) :] == _MAGIC:
            size = int.from_bytes(data[end : end + _SIZE_BYTES])
            written_of, stamps, paths, ends = marshal.loads(data[end - size : end])
            if written_of == os.path.realpath(folder):
                return stamps, paths, ends, data
    except (OSError, ValueError, TypeError, EOFError):
        pass
    finally:
        os.close(handle)
    return {}, [], [], b""


def _save(folder: str, found: Stamps, texts: dict[str, bytes]) -> None:
    """Write the file anew, the places behind the texts; silently not, where there is no room for it."""
    draft = Draft(folder, _KIND)
    ends = [end - 1 for end in itertools.accumulate(len(text) + 1 for text in texts.values())]
    table = marshal.dumps((os.path.realpath(folder), draft.settled(found), list(texts), ends))
    # A NUL, which no text holds, ends each of them: nothing is found over the end of one.
    draft.put([*(text + b"\0" for text in texts.values()), table, len(table).to_bytes(_SIZE_BYTES), _MAGIC])
