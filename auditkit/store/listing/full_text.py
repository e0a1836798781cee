"""The whole text of every ticket in one file among the user's caches, so that a search reads one file and not all.

It is as disposable as the index: what changed since it was written is read from the ticket itself, and when that
becomes much, it is written anew.
"""

from __future__ import annotations

import marshal
import mmap
import os
import re

from auditkit.store.listing.cache_folder import cache_file, open_private
from auditkit.store.listing.index_file import Draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from auditkit.store.folder.walk import Stamp, Stamps

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
    places, data = _load(folder)
    fresh = {path: place[1:] for path, place in places.items() if place[0] is not None and found.get(path) == place[0]}
    changed = [path for path in paths if path not in fresh]
    texts = {path: _text_of(folder, path) for path in changed}
    matching = {path for path, text in texts.items() if all(needle in text for needle in needles)}
    matching |= _matching(data, [(path, *fresh[path]) for path in paths if path in fresh], needles)
    if len(changed) > _MANY or not places:
        _save(folder, found, {path: texts[path] if path in texts else data[slice(*fresh[path])] for path in paths})
    return [number for number, path in enumerate(paths) if path in matching]


def folded(text: str) -> bytes:
    """Text as it is compared: in lower case, each run of blanks and line ends a single blank."""
    return " ".join(text.casefold().replace("\0", " ").split()).encode("utf-8", "surrogatepass")


def _matching(data: bytes | mmap.mmap, spans: list[tuple[str, int, int]], needles: Sequence[bytes]) -> set[str]:
    """The paths of the spans of `data` that hold every needle; for the first one all data are looked through."""
    spans = sorted(spans, key=lambda span: span[1])
    for number, needle in enumerate(needles):
        search = re.compile(re.escape(needle)).search
        if number:
            spans = [span for span in spans if search(data, span[1], span[2])]
        else:
            spans = list(_spans_with(data, spans, search))
    return {path for path, _, _ in spans}


def _spans_with(data: Any, spans: list[tuple[str, int, int]], search: Any) -> Iterator[tuple[str, int, int]]:
    """The spans with a match, found from match to match; `spans` lie in rising order."""
    place = -1
    for span in spans:
        _, start, end = span
        if place < start:
            match = search(data, start)
            if match is None:
                return
            place = match.start()
        if place < end:
            yield span


def _text_of(folder: str, path: str) -> bytes:
    try:
        with open(f"{folder}/{path}", encoding="utf-8", errors="replace") as file:
            return folded(file.read())
    except OSError:
        return b""


def _load(folder: str) -> tuple[dict[str, tuple[Stamp | None, int, int]], bytes | mmap.mmap]:
    """By path the stamp of a text, and where it begins and ends in the data; nothing where there is no such file."""
    try:
        handle = open_private(cache_file(folder) + _KIND)
    except OSError:
        return {}, b""
    try:
        data = mmap.mmap(handle, 0, prot=mmap.PROT_READ)
        if data[-len(_MAGIC) :] != _MAGIC:
            return {}, b""
        end = len(data) - len(_MAGIC) - _SIZE_BYTES
        size = int.from_bytes(data[end : end + _SIZE_BYTES])
        written_of, places = marshal.loads(data[end - size : end])
        return (places, data) if written_of == os.path.realpath(folder) else ({}, b"")
    except (OSError, ValueError, TypeError, EOFError):
        return {}, b""
    finally:
        os.close(handle)


def _save(folder: str, found: Stamps, texts: dict[str, bytes]) -> None:
    """Write the file anew, the places behind the texts; silently not, where there is no room for it."""
    draft = Draft(folder, _KIND)
    stamps = draft.settled(found)
    start, places = 0, {}
    for path, text in texts.items():
        places[path] = (stamps.get(path), start, start + len(text))
        start += len(text) + 1
    table = marshal.dumps((os.path.realpath(folder), places))
    # A NUL, which no text holds, ends each of them: nothing is found over the end of one.
    draft.put([*(text + b"\0" for text in texts.values()), table, len(table).to_bytes(_SIZE_BYTES), _MAGIC])
