"""Marking a number of a ticket's text as a claim, and the probes that claims and boxes may name."""

from __future__ import annotations

from auditkit.model.claim import parse_claim
from auditkit.probing.catalog import load_catalog, probe_named
from auditkit.store.config import Config
from auditkit.store.edits import claims as edits
from auditkit.store.edits.boxes import parse_binding
from auditkit.store.repository import Change, Repository
from auditkit.workflows.configuration import read_configuration


def mark_claim(
    repository: Repository, ticket_id: str, text: str, claim: str, config: Config, line: int | None = None
) -> Change:
    """Mark `text` of the ticket as a claim. Raises BadInputError for one that cannot be read, and unknown probes."""
    _check_probe(parse_claim(claim).probe, config)
    return repository.change(ticket_id, lambda entry: edits.mark(entry.document, text, claim, line))


def unmark_claim(repository: Repository, ticket_id: str, text: str, line: int | None = None) -> Change:
    """Take the claim behind `text` out. Raises BadInputError where there is none."""
    return repository.change(ticket_id, lambda entry: edits.unmark(entry.document, text, line))


def check_binding(repository: Repository, text: str) -> None:
    """Refuse to bind a box to a probe that neither we nor the tickets' configuration have. Raises BadInputError."""
    _check_probe(parse_binding(text).probe, read_configuration(None, None, repository))


def _check_probe(name: str, config: Config) -> None:
    if name:
        probe_named(load_catalog(config.probes_dir), name)
