"""How help looks, on a terminal and in a pipe alike: headings, two columns, an example last; no word is broken."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from auditkit.cli.output import fitted, say_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Row = tuple[str, str]

_WIDEST_NAME = 26
_FEW_OPTIONS = 10
"""So many options are one list, whatever their headings."""
# What Typer writes for programmers: parentheses around a default in words, the type's name, the range of a number.
_TYPED = (
    (re.compile(r"\[default: \((.*?)\)"), r"[default: \1"),
    (re.compile(r" <str>"), " TEXT"),
    (re.compile(r" <int( range)?>"), " N"),
    (re.compile(r"  \[x>=[\d.]+\]|; x>=[\d.]+"), ""),
)
# An option and its value stay together.
_WORD = re.compile(r"""(?:--[\w-]+ (?!-))?(?:"[^"]*"|'[^']*'|\S)+""")


class Commands(typer.Typer):
    """A group of commands, each with help as this file lays it out.

    `headings` are what people do with them, and the names of the commands that do it.
    """

    def __init__(
        self, name: str, summary: str, example: str, headings: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(
            name=name,
            # Typer makes the group itself, and hands it nothing but what it knows.
            cls=type("Group", (_Group,), {"headings": headings}),
            help=summary,
            epilog=example,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            **more,
        )

    def command(self, name: str | None = None, **more: Any) -> Callable[[Any], Any]:
        """As Typer's."""
        return super().command(name, cls=_Command, **more)


class _Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_page(self, ctx, formatter)


class _Group(TyperGroup):
    headings: ClassVar[Mapping[str, str] | None] = None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As Typer's; with --json wrong usage is told as JSON on stdout, too."""
        words = sys.argv[1:] if args is None else args
        run = functools.partial(super().main, args, prog_name, complete_var)
        if not standalone_mode or "--json" not in words:
            return run(standalone_mode, windows_expand_args, **extra)
        try:
            code = run(False, windows_expand_args, **extra)
        except typer.Abort:
            code = 1
        except Exception as error:
            # Typer's own base of these has another name, and another module, in each of its versions.
            if not hasattr(error, "format_message"):
                raise
            code = _tell_usage(error)
        sys.exit(code if isinstance(code, int) else 0)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_page(self, ctx, formatter)


def _tell_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    error.show()
    say_error(error.format_message(), f"{context.command_path} --help" if context else None, error.exit_code)
    return int(error.exit_code)


def _write_page(command: Any, ctx: Any, formatter: Any) -> None:
    width = formatter.width
    formatter.write_usage(ctx.command_path, re.sub("[{}]", "", " ".join(command.collect_usage_pieces(ctx))))
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    parts = [fitted("  " + " ".join(text.split()), width, hanging="") for text in paragraphs]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    parts += _lists([("Arguments", _row(one, ctx)) for one in arguments], width)
    parts += _lists(_commands(command), width) if isinstance(command, _Group) else []
    parts += _lists(_options(command, ctx), width)
    formatter.write("\n" + "\n\n".join([*parts, _example(command.epilog, width)]) + "\n")


def _commands(group: _Group) -> list[tuple[str, _Row]]:
    """Every command under its heading, with its first sentence."""
    headings = group.headings or {"Commands": " ".join(group.commands)}
    return [
        (heading, (name, _first_sentence(group.commands[name].help)))
        for heading, names in headings.items()
        for name in names.split()
    ]


def _options(command: Any, ctx: Any) -> list[tuple[str, _Row]]:
    """Every option under its heading; under one where they are few."""
    options = [one for one in command.get_params(ctx) if one.param_type_name == "option" and not one.hidden]
    are_few = len(options) <= _FEW_OPTIONS
    headings = ["Options" if are_few else getattr(one, "rich_help_panel", None) or "Options" for one in options]
    return [(heading, _row(one, ctx)) for heading, one in zip(headings, options, strict=True)]


def _row(parameter: Any, ctx: Any) -> _Row:
    name, text = parameter.get_help_record(ctx)
    for typed, told in _TYPED:
        name, text = typed.sub(told, name), typed.sub(told, text)
    return name, text


def _lists(rows: Iterable[tuple[str, _Row]], width: int) -> list[str]:
    """One list below each heading: "Options" first, the others in the order in which they come."""
    lists: dict[str, list[_Row]] = {}
    for heading, row in rows:
        lists.setdefault(heading, []).append(row)
    ordered = sorted(lists, key=lambda heading: heading != "Options")
    names = [name for rows in lists.values() for name, _ in rows]
    column = max((len(name) for name in names if len(name) <= _WIDEST_NAME), default=_WIDEST_NAME) + 4
    return [f"{heading}:\n{_columns(lists[heading], column, width)}" for heading in ordered]


def _columns(rows: Sequence[_Row], column: int, width: int) -> str:
    lines = []
    for name, text in rows:
        told = fitted(" " * column + text, width, hanging="")
        beside = len(name) + 4 <= column
        lines.append(f"  {name:<{column - 2}}{told[column:]}" if beside else f"  {name}\n{told}")
    return "\n".join(lines)


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).removesuffix(".")


def _example(text: str | None, width: int) -> str:
    """The command on as many lines as it needs, each but the last with a backslash: it can be copied."""
    lines = ["Example:"]
    for word in _WORD.findall((text or "").removeprefix("Example: ")):
        if len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return "\n".join(lines)
