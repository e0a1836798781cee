"""Commands that take groups of options: a dataclass with a field for each option, given to the command filled in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer is to see it: each parameter whose type is a dataclass replaced by that one's fields.

    A field may be a group itself. Raises ValueError where two options have one name.
    """
    options = list(_options_of(command))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        _filled(command, given)

    # Typer reads both: the signature for names and defaults, the annotations for what it cannot find there.
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _options_of(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The parameters of a command or of a group, those of the groups among them in their place."""
    for parameter in _parameters(taker):
        if _is_group(parameter.annotation):
            yield from _options_of(parameter.annotation)
        else:
            # By keyword only, because options with and without a default then mix freely.
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _filled(taker: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """What `taker` makes of the options that are its own, after its groups were made of theirs."""
    return taker(
        **{
            one.name: _filled(one.annotation, given) if _is_group(one.annotation) else given[one.name]
            for one in _parameters(taker)
        }
    )


def _parameters(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    types = get_type_hints(taker, include_extras=True)
    for parameter in inspect.signature(taker).parameters.values():
        yield parameter.replace(annotation=types[parameter.name])


def _is_group(kind: object) -> bool:
    return is_dataclass(kind)
