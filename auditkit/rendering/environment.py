"""Jinja2 as all our templates use it: a name that is missing is an error, never an empty string."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from auditkit.assets import bundled_dir
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, inert
from auditkit.rendering import markdown

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: object) -> bytes:
    """The Markdown template `template` filled in, as UTF-8 with one line end at its end.

    `filters` are those that only this template knows, beside the ones of every template.
    """
    environment = _environment(tuple((filters or {}).items()))
    text: str = environment.get_template(template).render(**values)
    return (text.rstrip("\n") + "\n").encode("utf-8")


def render_page(template: str, **values: object) -> bytes:
    """The HTML template `template` filled in: every text that is not our own drawing is escaped."""
    text: str = _page_environment().get_template(template).render(**values)
    return (text.rstrip("\n") + "\n").encode("utf-8", "replace")


@functools.cache
def _page_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    # Autoescape by hand: the default does not know `.html.j2`. What is hidden in a text becomes visible as well.
    environment = Environment(
        loader=FileSystemLoader(bundled_dir("templates") / "html"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: inert(value) if type(value) is str else value,
    )
    from auditkit.rendering.html.prose import inline

    # A name may be broken after its parts, and nowhere else if it fits.
    parted = re.compile(r"([._/#:])(?=\w)")
    environment.filters.update(
        inline=inline,
        counted=counted,
        short=short_target,
        name=lambda text: Markup(parted.sub(r"\1<wbr>", str(escape(inert(text))))),
    )
    return environment


@functools.cache
def _environment(filters: tuple[tuple[str, Callable[..., Any]], ...]) -> Environment:
    # Jinja2 takes 40 ms to import, and most commands render nothing.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(bundled_dir("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # Markdown: the filters below escape what Markdown would take for markup.
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        line=markdown.line,
        item=markdown.item,
        cell=markdown.cell,
        code=markdown.code,
        paragraphs=markdown.paragraphs,
        fence=markdown.fence,
        **dict(filters),
    )
    return environment
