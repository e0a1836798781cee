"""The claims of a ticket, judged by its own evidence; and marking a number as one."""

from __future__ import annotations

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.claim import JudgedClaim, parse_claim
from auditkit.model.text import inert_line
from auditkit.probing.catalog import load_catalog
from auditkit.store.claims import judged_claims
from auditkit.store.config import Config
from auditkit.store.edits import claims as edits
from auditkit.store.edits.boxes import parse_binding
from auditkit.store.repository import Change, Entry, Repository
from auditkit.workflows.configuration import read_configuration


def claims_of(entry: Entry) -> tuple[JudgedClaim, ...]:
    """Every claim of the ticket in the order of its file, with what its evidence says of it."""
    return judged_claims(entry.document, entry.ticket)


def mark_claim(
    repository: Repository, ticket_id: str, text: str, claim: str, config: Config, line: int | None = None
) -> Change:
    """Mark `text` of the ticket as a claim. Raises BadInputError for one that cannot be read, and unknown probes."""
    check_probe(parse_claim(claim).probe, config)
    return repository.change(ticket_id, lambda entry: edits.mark(entry.document, text, claim, line))


def unmark_claim(repository: Repository, ticket_id: str, text: str, line: int | None = None) -> Change:
    """Take the claim behind `text` out. Raises BadInputError where there is none."""
    return repository.change(ticket_id, lambda entry: edits.unmark(entry.document, text, line))


def check_binding(text: str) -> None:
    """Refuse to bind a box to a probe that neither we nor ./auditkit.yaml have. Raises BadInputError."""
    check_probe(parse_binding(text).probe, read_configuration(None, "."))


def check_probe(probe: str, config: Config) -> None:
    """Refuse a probe that is in no catalog. Raises BadInputError with the nearest names."""
    catalog = load_catalog(config.probes_dir)
    if probe and probe not in catalog:
        near = nearest_names(probe, catalog)
        hint = f"did you mean {', '.join(near)}?" if near else "auditkit probe list shows all"
        raise BadInputError(f"no probe is called '{inert_line(probe)}'", hint)
