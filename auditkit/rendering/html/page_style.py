"""The style sheets of our pages and drawings, and what a page's policy allows of them."""

from __future__ import annotations

import base64
import functools
import hashlib

from auditkit.assets import bundled_dir
from auditkit.rendering.html.svg import Markup


@functools.cache
def page_style() -> tuple[Markup, str]:
    """The sheet, and its hash: the policy in a page's head lets no other style in, and no script."""
    style = _sheets("page.css", "drawing.css")
    return style, base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@functools.cache
def file_style() -> Markup:
    """The sheet of a drawing in a file of its own, for light and dark."""
    return _sheets("drawing_file.css", "drawing.css")


def _sheets(*names: str) -> Markup:
    return Markup("".join((bundled_dir("templates") / "html" / name).read_text("utf-8") for name in names))
