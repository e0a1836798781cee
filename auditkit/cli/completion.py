"""What a shell offers for a value after TAB. None of these loads torch, and one that fails offers nothing."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import ParamSpec

import typer

Offers = Iterable[str | tuple[str, str]]
_P = ParamSpec("_P")
_IS_ASKED = "_AUDITKIT_COMPLETE" in os.environ


def _on_tab(offer: Callable[_P, Offers]) -> Callable[_P, Offers] | None:
    """What Typer gets to ask: nothing while a command runs, because it looks at each option's for 15 ms in all.

    A folder that is not there, or a broken auditkit.yaml, is told by the command, not while it is typed.
    """

    @functools.wraps(offer)
    def offered(*given: _P.args, **named: _P.kwargs) -> Offers:
        from auditkit.errors import AuditkitError

        try:
            return offer(*given, **named)
        except (AuditkitError, OSError):
            return []

    return offered if _IS_ASKED else None


@_on_tab
def probe_ids() -> Offers:
    """Ours and those of ./auditkit.yaml, with their titles."""
    from auditkit.workflows.configuration import find_probes

    return [(probe.id, probe.title) for probe in find_probes(None)]


@_on_tab
def ticket_ids(context: typer.Context) -> Offers:
    """Offer the tickets of the folder that is named already, or of the usual one, with their titles."""
    from auditkit.cli.common import ticket_folder

    listing = ticket_folder(context.params.get("tickets")).listing()
    return [(ticket.id, ticket.title) for ticket in listing.tickets]


def _listed(words: Iterable[str], incomplete: str) -> Offers:
    """The words behind those that are typed already: `open,` is followed by each of them."""
    before = incomplete[: incomplete.rfind(",") + 1]
    return [before + word for word in words]


@_on_tab
def severities(incomplete: str) -> Offers:
    from auditkit.model.enums import Severity

    return _listed(Severity, incomplete)


@_on_tab
def statuses(incomplete: str) -> Offers:
    from auditkit.model.ticket import Status

    return _listed(Status, incomplete)


@_on_tab
def verdicts(incomplete: str) -> Offers:
    from auditkit.model.ticket import Verdict

    return _listed((verdict.value.lower() for verdict in Verdict), incomplete)


@_on_tab
def contracts() -> Offers:
    from auditkit.model.enums import Contract

    return list(Contract)


@_on_tab
def ways_to_feed() -> Offers:
    from auditkit.model.enums import Takes

    return list(Takes)


@_on_tab
def devices() -> Offers:
    from auditkit.model.enums import DeviceChoice

    return list(DeviceChoice)
