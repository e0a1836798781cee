"""What tickets look like on a terminal, as pictures: real commands on terminals of 40, 80 and 120 columns.

    python -m benchmarks.pictures                # writes docs/pictures/*.svg
    python -m benchmarks.pictures --theme light FOLDER

A picture of docs is dark or light as its reader's screen is; with `--theme` they are of one kind, for viewers that do
not know the difference. The tickets are those of tests/data/old_audit.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.evidence import ROOT
from tests.terminal import on_a_terminal

PICTURES = {
    "list-80": (80, "list"),
    "list-40": (40, "list"),
    "next-80": (80, "next --limit 3"),
    "board-120": (120, "board --all"),
    "board-40": (40, "board"),
    "show-80": (80, "show B3-DRL-01"),
    "search-80": (80, "search float32 norm"),
    "lint-80": (80, "lint"),
}
"""By name of the file: the columns of the terminal, and the ticket command."""
LINES = 34
"""A longer output ends there."""
THEMES = {
    "dark": {
        "back": "#0d1117", "text": "#e6edf3", "dim": "#8b949e", "red": "#ff7b72", "green": "#7ee787",
        "yellow": "#e3b341", "cyan": "#79c0ff",
    },
    "light": {
        "back": "#ffffff", "text": "#1f2328", "dim": "#6e7781", "red": "#cf222e", "green": "#1a7f37",
        "yellow": "#9a6700", "cyan": "#0550ae",
    },
}  # fmt: skip
_STYLES = {"1": "bold", "2": "dim", "32": "green", "33": "yellow", "36": "cyan", "91": "red"}
_ESCAPE = re.compile(r"\x1b\[([\d;]*)m")
_CHARACTER, _LINE, _MARGIN = 8, 18, 12


def svg_of(text: str, columns: int, theme: str = "") -> str:
    """Styled text as a picture of so many columns; of both themes where none is named."""
    lines = text.split("\n")
    width, height = columns * _CHARACTER + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    rows = [
        f'<text y="{_MARGIN + (number + 1) * _LINE - 5}">{"".join(_spans(line))}</text>'
        for number, line in enumerate(lines)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f"<style>\ntext {{ font: 13px monospace; white-space: pre; }}\n.bold {{ font-weight: bold; }}\n"
        f"{_colours(theme)}"
        f'</style>\n<rect class="back" width="{width}" height="{height}" rx="6"/>\n'
    )
    return head + "\n".join(rows) + "\n</svg>\n"


def _colours(theme: str) -> str:
    def rules(name: str) -> str:
        colours = THEMES[name]
        named = "".join(f".{one} {{ fill: {colour}; }}\n" for one, colour in colours.items() if one != "text")
        return f"text {{ fill: {colours['text']}; }}\n{named}"

    if theme:
        return rules(theme)
    return f"{rules('dark')}@media (prefers-color-scheme: light) {{\n{rules('light')}}}\n"


def _spans(line: str) -> Iterator[str]:
    """The parts of a line that have one style; each says where it begins and how wide it is, whatever the font."""
    place, classes = 0, ""
    for number, part in enumerate(_ESCAPE.split(line)):
        if number % 2:
            codes = [] if part in ("", "0") else part.split(";")
            classes = " ".join(filter(None, [classes if codes else "", *(_STYLES[code] for code in codes)]))
        elif part:
            style = f' class="{classes}"' if classes else ""
            wide = f'x="{_MARGIN + place * _CHARACTER}" textLength="{len(part) * _CHARACTER}"'
            if part.strip():
                yield f'<tspan {wide} xml:space="preserve"{style}>{html.escape(part)}</tspan>'
            place += len(part)


def main() -> None:
    """Run every command, and write the pictures."""
    theme = sys.argv[sys.argv.index("--theme") + 1] if "--theme" in sys.argv else ""
    target = Path(sys.argv[-1]) if theme else ROOT / "docs" / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests" / "data" / "old_audit", Path(folder, "tickets"))
        for name, (columns, words) in PICTURES.items():
            written = on_a_terminal(["ticket", *words.split()], Path(folder), columns, with_errors=True)
            shown = written.rstrip("\n").split("\n")
            lines = [
                f"$ auditkit ticket {words}",
                *shown[:LINES],
                *(["\x1b[2m[...]\x1b[0m"] if len(shown) > LINES else []),
            ]
            (target / f"{name}.svg").write_text(svg_of("\n".join(lines), columns, theme), encoding="utf-8")
            print(target / f"{name}.svg")


if __name__ == "__main__":
    main()
