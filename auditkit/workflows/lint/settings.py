"""What lint goes by: auditkit.yaml first, then the folder's own ticket template, then git, then our own values."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auditkit.probing.checkouts import git
from auditkit.rules.lint.checks.origin import read_date
from auditkit.rules.lint.rule import FOLDERS, LintSettings
from auditkit.store.config.config import Config
from auditkit.store.folder.folder_names import folders_named_by_status
from auditkit.store.markdown.document import BrokenFileError, Document

TEMPLATE_NAME = "ticket-template.md"

_MANY = 10
"""Of fewer tickets each may have a wrong year."""

_CODE_SPAN = re.compile(r"`([^`]+)`")
_BOX = re.compile(r"^[-*+] \[[ xX]\]\s+(.*?)\s*$", re.MULTILINE)
_ABSOLUTE = re.compile(r"(/.+?)/(?:src|lib|tests)/")


def lint_settings(config: Config, folder: Path, checkout: Path | None = None) -> LintSettings:
    """The settings for the tickets in `folder`; `checkout` is the code that they speak of, where it is known."""
    said: dict[str, Any] = {**_said_by_template(folder / TEMPLATE_NAME), **config.lint.settings}
    if "folders" not in said:
        usual = _folders_for(said["statuses"]) if "statuses" in said else FOLDERS
        said["folders"] = {**usual, **folders_named_by_status(folder)}
    if "first_commit" not in said:
        said["first_commit"] = first_commit(checkout or folder)
    return replace(LintSettings(agents=config.agents), **said)


def in_their_repository(settings: LintSettings, created: Sequence[str]) -> LintSettings:
    """The settings for tickets of these dates, where the folder's own repository says when it began.

    One that is younger than half of many tickets is one that they were copied into: what they are about began before.
    """
    dates = sorted(date for text in created if (date := read_date(text)))
    first = settings.first_commit
    is_copy = len(dates) >= _MANY and first is not None and dates[len(dates) // 2] < first
    return replace(settings, first_commit=None) if is_copy else settings


def first_commit(directory: Path) -> datetime.date | None:
    """The day of the oldest commit that HEAD comes from; None outside git, and in a clone that is cut short."""
    repository = git.find_repository(directory)
    if repository is None:
        return None
    if git.run_git(directory, "rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        return None
    roots = git.run_git(directory, "log", "--max-parents=0", "--format=%as", "HEAD")
    return min((date for text in roots.stdout.split() if (date := read_date(text))), default=None)


def _said_by_template(path: Path) -> dict[str, Any]:
    """The vocabularies that a template shows: `open` / `closed` in its Status row, its category list."""
    try:
        document = Document.parse(path.read_bytes(), path)
    except (OSError, BrokenFileError):
        return {}
    summary = document.section("Summary")
    labels = _BOX.findall(document.data[summary.line.end : summary.section_end].decode()) if summary else []
    found: dict[str, Any] = {
        "statuses": _choices(document, "Status"),
        "domains": _choices(document, "Domain"),
        "categories": tuple(labels),
    }
    place = next((row for row in document.fields("Location") if row.label.casefold() == "file(s)"), None)
    prefix = _ABSOLUTE.match(place.text) if place else None
    found["prefix"] = prefix[1] if prefix else ""
    return {name: value for name, value in found.items() if value}


def _choices(document: Document, label: str) -> tuple[str, ...]:
    """The values that a row offers; one alone, or one in braces, is an example and no list."""
    row = document.field(label)
    values = tuple(_CODE_SPAN.findall(row.written)) if row else ()
    return values if len(values) > 1 and not any("{" in value for value in values) else ()


def _folders_for(statuses: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Our own folders; where a project has no `fixed`, its `closed` means that, and nothing else."""
    if "fixed" in statuses:
        return dict(FOLDERS)
    return {
        folder: filed if "fixed" in filed else tuple(name for name in filed if name != "closed")
        for folder, filed in FOLDERS.items()
    }
