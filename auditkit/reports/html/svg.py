"""SVG of our own: elements whose every text is escaped, and the drawings of the pictures, each in plain shapes."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from auditkit.model.text import inert

WIDTH = 440
"""Units of every drawing: nearly those of a telephone's screen, so that its words can be read there."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 18, 34, 46
_VOID = ("circle", "line", "rect", "path")
_CHARACTER = 6.8
"""How wide a character of a drawing's words is, about, on a narrow screen, where they are largest."""


class Markup(str):
    """Text that is markup already: templates and elements take it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def element(name: str, *children: object, **attributes: object) -> Markup:
    """One element: `class_` is the attribute `class`, `text_anchor` is `text-anchor`; None is left out."""
    said = (
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(child if isinstance(child, Markup) else escaped(child) for child in children)
    is_void = not inside and name in _VOID
    return Markup(f"<{name}{''.join(said)}/>" if is_void else f"<{name}{''.join(said)}>{inside}</{name}>")


def escaped(value: object) -> str:
    """A value as text in which nothing is markup."""
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return html.escape(inert(str(value)))


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("".join(parts))


def text(x: float, y: float, words: object, kind: str | None = None, anchor: str | None = None) -> Markup:
    """Words of a drawing, `anchor` at their `middle` or `end`."""
    return element("text", words, x=float(x), y=float(y), class_=kind, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=kind)


def fitting(words: str, width: float) -> str:
    """As many of the words as fit in `width`."""
    most = max(4, int(width / _CHARACTER))
    return words if len(words) <= most else f"{words[: most - 1]}…"


def ticks(high: float, count: int = 4) -> list[float]:
    """Round numbers from 0 to beyond `high`, at most `count` steps; of whole numbers whole ones."""
    if not (high > 0 and math.isfinite(high)):
        return [0.0, 1.0]
    rough = high / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * part for part in (1, 2, 2.5, 5, 10) if power * part >= rough * (1 - 1e-9))
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


@dataclass(frozen=True)
class Axis:
    """One axis: its words with their unit, how a number on it is written, and where its pixels begin and end."""

    title: str
    shown: Callable[[float], str]
    ticks: Sequence[float]
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value stands."""
        first, last = self.ticks[0], self.ticks[-1]
        return self.start + (value - first) / ((last - first) or 1) * (self.end - self.start)


@dataclass(frozen=True)
class Growth:
    """How a figure grows: what was measured, the line through it, and where that line is only extrapolated.

    `line` is the fitted slope and constant, None where nothing was fitted; `taken` says how the points were obtained;
    `far` are extrapolated points of the run itself.
    """

    x_title: str
    y_title: str
    points: Sequence[tuple[float, float]]
    far: Sequence[tuple[float, float]]
    line: tuple[float, float] | None
    taken: str
    law: str
    shown: Callable[[float], str]
    number: Callable[[float], str]

    height = 250

    def draw(self) -> Markup:
        """The axes, the line solid where it was measured and dotted beyond, a dot for each point."""
        last = max(x for x, _ in self.points)
        end = max([last * 1.5] if self.line and not self.far else [last, *(x for x, _ in self.far)])
        high = max([y for _, y in (*self.points, *self.far)] + ([self.fitted(end)] if self.line else []))
        x = Axis(self.x_title, self.number, ticks(end), _LEFT, WIDTH - _RIGHT)
        # Round numbers of GiB, not of bytes.
        unit = 1024 ** int(math.log(max(high, 1), 1024)) if "[bytes]" in self.y_title else 1
        y = Axis(self.y_title, self.shown, [unit * each for each in ticks(high / unit)], self.height - _BOTTOM, _TOP)
        parts = [axes(x, y)]
        if self.line:
            first = min(point[0] for point in self.points)
            parts.append(line(x.at(first), y.at(self.fitted(first)), x.at(last), y.at(self.fitted(last)), "fit"))
            parts.append(line(x.at(last), y.at(self.fitted(last)), x.at(end), y.at(self.fitted(end)), "far"))
        parts += [element("circle", cx=x.at(one), cy=y.at(two), r=4, class_="dot") for one, two in self.points]
        parts += [element("circle", cx=x.at(one), cy=y.at(two), r=4.5, class_="open") for one, two in self.far]
        one, two = max(self.points)
        is_left = x.at(one) > WIDTH * 0.7
        parts.append(
            text(
                x.at(one) + (-8 if is_left else 8), y.at(two) - 9, self.shown(two), "strong", "end" if is_left else None
            )
        )
        return joined([*parts, self._legend()])

    def fitted(self, at: float) -> float:
        slope, constant = self.line or (0.0, 0.0)
        return slope * at + constant

    def _legend(self) -> Markup:
        parts = [element("circle", cx=_LEFT + 5, cy=12, r=4, class_="dot"), text(_LEFT + 14, 16, self.taken)]
        if self.line:
            parts += [
                line(_LEFT + 84, 12, _LEFT + 106, 12, "fit"),
                text(_LEFT + 112, 16, fitting(f"law {self.law}", 130)),
            ]
        if self.line or self.far:
            parts += [line(WIDTH - 124, 12, WIDTH - 100, 12, "far"), text(WIDTH - 95, 16, "extrapolated")]
        return joined(parts)


def axes(x: Axis, y: Axis) -> Markup:
    """Both axes with their ticks and words."""
    parts = []
    for value in y.ticks:
        parts += [
            line(x.start, y.at(value), x.end, y.at(value), "rule"),
            text(x.start - 6, y.at(value) + 4, y.shown(value), "soft", "end"),
        ]
    for number, value in enumerate(x.ticks):
        anchor = "end" if number == len(x.ticks) - 1 else "middle"
        parts.append(text(x.at(value), y.start + 16, x.shown(value), "soft", anchor))
    parts.append(line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(text((x.start + x.end) / 2, y.start + 36, x.title, None, "middle"))
    parts.append(
        element(
            "text", y.title, transform=f"translate(13 {(y.start + y.end) / 2:.0f}) rotate(-90)", text_anchor="middle"
        )
    )
    return joined(parts)


@dataclass(frozen=True)
class Limit:
    """A cell of a boundary map: what it says, and which part of its dtype's range of decades is sound (0 to 1)."""

    words: str
    sound: float | None
    is_low: bool = False


@dataclass(frozen=True)
class Boundaries:
    """Where a target's result breaks: a row for each dtype, a column for each size, a bar for each range."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Limit | None]]]
    note: str

    @property
    def height(self) -> int:
        return 70 + 44 * len(self.rows)

    def draw(self) -> Markup:
        """A cell's bar is solid where the result is right, and ends at a cross-stroke where it breaks."""
        left = 74
        width = (WIDTH - left - 6) / len(self.columns)
        parts = [text(4, 40, "dtype", "soft"), text(left, self.height - 4, self.note, "soft")]
        for number, column in enumerate(self.columns):
            parts.append(text(left + width * (number + 0.5), 40, fitting(column, width), "soft", "middle"))
        parts += [element("rect", x=left, y=8, width=24, height=8, class_="sound"), text(left + 30, 16, "sound")]
        parts += [
            line(left + 84, 12, left + 112, 12, "lost"),
            text(left + 118, 16, "lost, though the dtype reaches it"),
        ]
        for row, (name, cells) in enumerate(self.rows):
            top = 50.0 + 44 * row
            parts.append(text(4, top + 25, name))
            for number, cell in enumerate(cells):
                parts.append(self._cell(left + width * number, top, width, cell))
        return joined(parts)

    def _cell(self, x: float, y: float, width: float, cell: Limit | None) -> Markup:
        box = element("rect", x=x, y=y, width=width, height=44.0, class_="cell")
        if cell is None:
            return joined([box, text(x + width / 2, y + 26, "not taken", "soft", "middle")])
        parts = [box, text(x + width / 2, y + 18, fitting(cell.words, width), "strong", "middle")]
        if cell.sound is not None:
            start, end = x + 10, x + width - 10
            at = start + (end - start) * ((1 - cell.sound) if cell.is_low else cell.sound)
            first, last = (at, end) if cell.is_low else (start, at)
            parts.append(element("rect", x=first, y=y + 27, width=max(last - first, 0.0), height=8.0, class_="sound"))
            if cell.sound < 1:
                parts.append(line(*((start, y + 31, at, y + 31) if cell.is_low else (at, y + 31, end, y + 31)), "lost"))
                parts.append(line(at, y + 23, at, y + 39, "break"))
        return joined(parts)


Drawing = Growth | Boundaries
