"""Text from elsewhere made inert: nothing in it can move a cursor, hide a character or start a line."""

from __future__ import annotations

import re
from collections.abc import Iterable

# C0 but tab and newline, DEL and C1 (terminal escapes), the marks that reorder or hide text, and what cannot be
# written: lone surrogates (names of files that are not UTF-8) and the two codes that no XML has.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
CODE_SPAN = re.compile(r"(?<!`)(`++)(.+?)(?<!`)\1(?!`)")
"""A Markdown code span on one line; its second group is what stands between the backticks."""
_BLANKS = re.compile(r"\s+")


def inert(text: str) -> str:
    """`text` with every control and hidden character shown as its escape, such as `\\x1b`.

    Lines stay lines and tabs stay tabs; what was hidden becomes visible rather than lost.
    """
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def inert_line(text: str) -> str:
    """`text` inert and on one line, each run of blanks a single one."""
    return _BLANKS.sub(" ", inert(text)).strip()


def shortened(text: str, most: int) -> str:
    """The text, or its first `most` characters where it is longer."""
    return text if len(text) <= most else f"{text[:most]}..."


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 ticket`, `2 tickets`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], most: int = 10) -> str:
    """`a, b and c`; of more than `most` names, how many more there are."""
    known = list(names)
    shown, more = known[:most], len(known) - most
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([*filter(None, [", ".join(shown[:-1])]), *shown[-1:]])


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
