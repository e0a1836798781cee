"""The agents that a project knows: ours, and those of its auditkit.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from auditkit.model.ids import AGENT_NAMES, named_agent
from auditkit.model.review import read_reviewer
from auditkit.store.config import find_config, read_config
from auditkit.store.repository import Repository


def configured_agents(repository: Repository) -> Mapping[str, str]:
    """Names by code, of the auditkit.yaml here, or of that above the tickets."""
    found = find_config(Path()) or find_config(repository.folder.parent)
    return read_config(found).agents if found else AGENT_NAMES


def reviewer_name(text: str, repository: Repository) -> str:
    """The agent that a user means by a name or a code, as tickets name it; other names as they are."""
    return read_reviewer(text) or named_agent(text, configured_agents(repository))
