"""A page as one HTML file for a browser: its Markdown rendered, and its pictures. It makes no request."""

from __future__ import annotations

import base64
import functools
import hashlib
from html import escape
from typing import TYPE_CHECKING

from auditkit.assets import bundled_dir
from auditkit.model.text import inert
from auditkit.reports.html.pictures import Picture
from auditkit.reports.page import Block, Page, Section, head_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_HEAD = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n"
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
    "<title>{title}</title>\n<style>{style}</style>\n</head>\n"
)
_KINDS = {"+": "plus", "-": "minus", "@": "at", ">": "marked"}
"""The class of a line of code by its first character, in a diff and in a listing."""


def html_page(page: Page) -> bytes:
    """The page as HTML in UTF-8; its policy allows its own style and nothing else."""
    style = (bundled_dir("templates") / "html" / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = escape(inert(page.title))
    head = _HEAD.format(hash=digest, title=title or "auditkit", style=style)
    blocks = _block(head_of(page), 1) + "".join(_section(each, 2) for each in page.sections)
    return f"{head}<body><main>\n<h1>{title}</h1>\n{blocks}</main></body>\n</html>\n".encode("utf-8", "replace")


def _block(block: Block, level: int) -> str:
    if isinstance(block, Section):
        return _section(block, level + 1)
    if isinstance(block, Picture):
        return f"<figure>{block.svg}<figcaption>{escape(inert(block.title))}</figcaption></figure>\n"
    rendered: str = _reader().render(block)
    return rendered


def _section(section: Section, level: int) -> str:
    title, inside = escape(inert(section.title)), "".join(_block(each, level) for each in section.blocks)
    if not inside:
        return ""
    if not section.severity and not section.is_folded:
        return f"<section><h{level}>{title}</h{level}>\n{inside}</section>\n"
    severity = escape(section.severity)
    chip = f'<b class="chip">{severity}</b> ' if severity else ""
    is_open = "" if section.is_folded else " open"
    return (
        f'<details class="card {severity}"{is_open}><summary>{chip}{title}</summary>\n<div>{inside}</div></details>\n'
    )


@functools.cache
def _reader() -> MarkdownIt:
    """A reader to which no HTML, link or picture of a text becomes markup."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "highlight": _coloured}).enable("table")
    return reader.disable(["image", "link", "autolink", "reference", "entity"])


def _coloured(code: str, _language: str, _attributes: str) -> str:
    """The lines of a listing or a diff, the blamed and the changed ones with a class."""
    return "".join(
        f'<span class="{_KINDS[line[:1]]}">{escape(line)}</span>\n' if line[:1] in _KINDS else f"{escape(line)}\n"
        for line in code.rstrip("\n").split("\n")
    )
