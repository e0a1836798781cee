"""Evidence pages without the code of the repositories that they are about: it is others' work, and git has it."""

from __future__ import annotations

import re
from typing import Any

_EXCERPT = re.compile(r"^( *)```python\n *# (Lines? [\d-]+)\n.*?^ *```$", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(
    r"^(\*\*(?:Original|New) implementation\*\*[^\n]*)\n\n```python\n.*?^```$", re.MULTILINE | re.DOTALL
)
_DIFFERENCE = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_KEYS = {"excerpt": None, "source": "", "difference": "", "code": ""}


def page_without_code(text: str) -> str:
    """The Markdown `text` with a note in the place of every excerpt, function and difference of the audited code."""
    text = _EXCERPT.sub(lambda found: f"{found[1]}*({found[2]} of that file; the code is left out here)*", text)
    text = _FUNCTION.sub(lambda found: f"{found[1]} *(left out here)*", text)
    return _DIFFERENCE.sub(_counted, text)


def document_without_code(document: Any) -> Any:
    """The JSON document without excerpts, completed sources and differences."""
    if isinstance(document, list):
        return [document_without_code(item) for item in document]
    if not isinstance(document, dict):
        return document
    return {key: _KEYS[key] if key in _KEYS else document_without_code(item) for key, item in document.items()}


def _counted(found: re.Match[str]) -> str:
    lines = found[1].splitlines()
    added, removed = (sum(line.startswith(mark) and not line.startswith(mark * 3) for line in lines) for mark in "+-")
    return f"*(+{added} -{removed} lines against the base; the code is left out here)*"
