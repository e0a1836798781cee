"""A ticket in the user's editor: a copy is edited, checked, and put back only if nobody was faster."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from auditkit.errors import AuditkitError, BadInputError, StoreConflictError
from auditkit.store.folder.files import create_file
from auditkit.store.folder.repository import Change, Entry, Repository
from auditkit.store.folder.side_folder import make_recovery_folder
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.reading.reader import ticket_of

_SETTINGS = "see $VISUAL and $EDITOR"


def edit_in_editor(repository: Repository, ticket_id: str) -> Change:
    """Open the ticket in $VISUAL or $EDITOR and write what comes back, unless it is the same.

    Raises BadInputError where the text is no ticket any more, has another id or another status, and
    StoreConflictError where the file changed meanwhile. The text is then kept in a recovery file, which
    the error's hint names.
    """
    entry = repository.find(ticket_id)
    old = entry.document.data
    new = edit_text(old, f"{entry.ticket.id}.md")
    if new == old:
        return Change(entry, entry)
    with kept_where_refused(repository, f"{entry.ticket.id}.md", new):
        document = _checked(entry, new)

        def put_back(current: Entry) -> Document:
            if current.document.data != old:
                raise StoreConflictError(f"{entry.file} changed while it was in the editor; nothing was written")
            return document

        return repository.change(entry.ticket.id, put_back)


def edit_text(text: bytes, name: str) -> bytes:
    """What the user's editor makes of `text`, in a temporary file that is called `name`.

    Raises BadInputError where no editor is set, or it cannot be started or ends with an error.
    """
    command = _editor()
    with tempfile.TemporaryDirectory(prefix="auditkit-") as folder:
        path = Path(folder, name)
        path.write_bytes(text)
        try:
            code = subprocess.run([*command, str(path)], check=False).returncode
        except OSError as error:
            raise BadInputError(f"cannot start the editor '{command[0]}': {error.strerror}", _SETTINGS) from error
        if code != 0:
            raise BadInputError(f"the editor ended with {code}; nothing was written")
        try:
            return path.read_bytes()
        except OSError as error:
            raise BadInputError(f"the editor left no file: {error.strerror}; nothing was written") from error


@contextlib.contextmanager
def kept_where_refused(repository: Repository, name: str, text: bytes) -> Iterator[None]:
    """Keep a text that cannot be written in a recovery file, which the hint of the error then names."""
    try:
        yield
    except AuditkitError as error:
        kept = _keep(repository, name, text)
        raise type(error)(error.message, f"your text is kept in {kept}") from error


def _keep(repository: Repository, name: str, text: bytes) -> Path:
    """Put a text in a new file of the folder's side folder, else of the system's."""
    try:
        return _kept_beside(repository, name, text)
    except (AuditkitError, OSError):
        handle, path = tempfile.mkstemp(prefix="auditkit-", suffix=f"-{name}")
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        return Path(path)


def _kept_beside(repository: Repository, name: str, text: bytes) -> Path:
    folder = make_recovery_folder(repository.folder)
    stem, suffix = os.path.splitext(name)
    number = 1
    while (path := folder / f"{stem}.{number}{suffix}").exists():
        number += 1
    create_file(path, text)
    return path


def _editor() -> list[str]:
    """The words of the user's editor command."""
    written = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(written)
    except ValueError as error:
        raise BadInputError(f"cannot read the editor's command {written!r}: {error}", _SETTINGS) from None
    if not command:
        raise BadInputError("no editor is set", "export EDITOR=vim, or use the command's options: --help")
    return command


def _checked(entry: Entry, text: bytes) -> Document:
    try:
        document = Document.parse(text, entry.document.path)
        ticket = ticket_of(document)
    except BrokenFileError as error:
        raise BadInputError(f"no ticket any more, so nothing was written:\n{error.broken.describe()}") from error
    if ticket.id != entry.ticket.id:
        raise BadInputError(f"{entry.ticket.id} became {ticket.id} in the editor; nothing was written")
    if ticket.status_written != entry.ticket.status_written:
        raise BadInputError(
            f"{ticket.id}: the status became '{ticket.status_written}' in the editor; nothing was written"
        )
    return document
