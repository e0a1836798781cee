"""What was there before a change: the tickets and the configuration, as they are now or at a revision."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.config.config import Config, read_config
from auditkit.config.config_file import CONFIG_NAME
from auditkit.errors import BadInputError
from auditkit.model.runs.baseline import Baseline
from auditkit.model.ticket import Ticket
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import CheckoutSpec, open_checkout, parse_checkout
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.run.configuration import read_configuration
from auditkit.tickets.store import TicketFolder


@dataclass(frozen=True)
class Known:
    """The tickets that findings are compared with, and a baseline that says where they are from."""

    tickets: tuple[Ticket, ...]
    baseline: Baseline
    notes: tuple[str, ...] = ()
    folder: TicketFolder | None = None


@dataclass(frozen=True)
class Base:
    """The files of a repository at a commit: `path` is the top of a copy, `top` that of the repository.

    `named` is the top without links resolved. Without a commit the files as they lie.
    """

    commit: str = ""
    path: Path = Path()
    top: Path = Path()
    named: Path = Path()

    def there(self, path: Path) -> Path:
        """Where `path` lies at the commit; itself where it is none of the repository's."""
        # As it is written first: a change may have put a link into the way.
        written = Path(os.path.abspath(path))
        for place, top in itertools.product((written, written.resolve()), (self.named, self.top)):
            if self.commit and place.is_relative_to(top):
                return self.path / place.relative_to(top)
        return path

    def here(self, path: Path) -> Path:
        """Where a path of the copy lies now; relative to its top also what lies outside."""
        return Path(os.path.normpath(self.top / os.path.relpath(path, self.path)))

    def configuration(self, explicit: Path | None, checkout: str | None) -> Config:
        """What auditkit.yaml said at the commit: a change of it, or a new one, changes nothing yet.

        Its own probes are taken from there, too; checkout and interpreter are those that lie here now.
        """
        if not self.commit:
            return read_configuration(explicit, checkout or ".")
        file = self.there(explicit or parse_checkout(checkout or ".").directory / CONFIG_NAME)
        if not file.is_file():
            if explicit is not None:
                raise BadInputError(
                    f"{explicit} does not exist at {self.commit[:12]}", "leave out --config, or --against"
                )
            return Config()
        config = read_config(file, load_catalog, is_named=explicit is not None)
        python = config.python
        if python and os.sep in python and Path(python).is_relative_to(self.path.parent):
            python = str(self.here(Path(python)))
        return replace(
            config,
            path=self.here(file),
            python=python,
            checkout=str(self.here(Path(config.checkout))) if config.checkout else None,
            tickets=self.here(config.tickets) if config.tickets else None,
        )

    def known(self, tickets: Path) -> Known:
        """The tickets of the folder at the commit; none, and a note, where it is not there."""
        folder = self.there(tickets)
        # A ticket that is not valid as a whole accepts no finding.
        documents, broken = TicketFolder(folder).documents() if folder.is_dir() else ([], [])
        notes = [f"not a valid ticket: {one.message}" for one in broken]
        if not folder.is_dir():
            at = f" at {self.commit[:12]}" if self.commit else ""
            notes.append(f"there is no folder {tickets}{at}, so every finding is new")
        against = self.commit if folder != tickets else ""
        held = TicketFolder(folder) if folder.is_dir() else None
        found = tuple(document.ticket for document in documents)
        return Known(found, Baseline(os.path.relpath(tickets), against), tuple(notes), held)


@contextlib.contextmanager
def base_at(revision: str | None, checkout: str | None) -> Iterator[Base]:
    """The files as they were at a revision of the checkout's repository; without one as they lie.

    Raises BadInputError where the checkout is in no repository, or that has no such revision.
    """
    if revision is None:
        yield Base()
        return
    directory = parse_checkout(checkout or ".").directory
    repository = git.find_repository(directory)
    if repository is None or not repository.has_work_tree:
        raise BadInputError(f"--against {revision}: {directory} has no git repository", "leave out --against")
    top, depth = repository.top, len(Path(repository.prefix).parts)
    named = Path(directory, *[".."] * depth)
    with open_checkout(CheckoutSpec(f"{top}@{revision}", top, revision)) as opened:
        yield Base(opened.revision, opened.path, top, Path(os.path.normpath(named)))
