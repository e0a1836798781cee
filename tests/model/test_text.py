"""Text made inert: nothing hidden, nothing lost, nothing that moves a cursor."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from auditkit.model.text import inert, inert_line


def test_terminal_escapes_and_hidden_marks_become_visible() -> None:
    assert inert("\x1b[31mred\x1b[0m\x9b2J") == "\\x1b[31mred\\x1b[0m\\x9b2J"
    assert inert("a\u202eb\u200bc\ufeff\ud800") == "a\\u202eb\\u200bc\\ufeff\\ud800"
    assert inert("one\r\ntwo\rthree\tfour") == "one\ntwo\\x0dthree\tfour"


def test_a_line_has_single_blanks_only() -> None:
    assert inert_line("  a \n\t b\u00a0c ") == "a b c"


@given(st.text())
def test_inert_text_has_no_control_character_and_is_its_own_inert_text(text: str) -> None:
    shown = inert(text)
    assert not [char for char in shown if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")]
    assert inert(shown) == shown
    assert "\n" not in inert_line(text)
    shown.encode("utf-8")
