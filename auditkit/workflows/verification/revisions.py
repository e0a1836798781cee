"""One directory of code at several revisions, each opened once."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, apart_from
from auditkit.probing.source_code.history.anchors import AnchoredSource
from auditkit.workflows.audit.run_options import RunOptions


class Revisions(contextlib.ExitStack):
    """The checkout `spec` and others of its revisions, each opened when it is first asked for, until the block ends.

    Whatever the revision, a checkout is labelled with the directory as the user wrote it. Raises BadInputError for
    a revision and an interpreter that is not there. What is changed in the folder of `tickets` makes no checkout dirty.
    """

    def __init__(self, spec: CheckoutSpec, options: RunOptions, tickets: Path | None = None) -> None:
        super().__init__()
        self.spec, self.options, self.tickets = spec, options, tickets
        self.repository = git.find_repository(spec.directory)
        self._opened: dict[str, OpenCheckout] = {}
        self._sources: dict[str, AnchoredSource] = {}

    def open(self, revision: str = "") -> OpenCheckout:
        """The checkout at a revision, `spec` itself for ""."""
        if revision not in self._opened:
            opened = self.enter_context(self.options.open(self.spec.at(revision)))
            self._opened[revision] = replace(apart_from(opened, self.tickets), label=self.spec.folder)
        return self._opened[revision]

    def source(self, revision: str = "") -> AnchoredSource:
        """The functions that are defined at a revision."""
        if revision not in self._sources:
            opened = self.open(revision)
            self._sources[revision] = AnchoredSource(opened.path, self.options.import_roots(opened))
        return self._sources[revision]
