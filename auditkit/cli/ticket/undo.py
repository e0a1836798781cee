"""The command that takes the last one back: undo."""

from __future__ import annotations

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket.common import app


@app.command(epilog="Example: auditkit ticket undo")
@write_or_exit
def undo(tickets: TicketsOption = None, as_json: JsonOption = False) -> None:
    """Take back what the last command wrote.

    All tickets that auditkit wrote then get the bytes that they had, and their old places. It is refused where one
    of them has changed since. A second undo takes the first one back. What a command did elsewhere, as in the
    checkout, stays.
    """
    from auditkit.store.folder.journal import take_back

    repository = open_repository(tickets)
    with repository.writing():
        command = take_back(repository.folder)
    files = [str(path) for path in command.written]
    if as_json:
        say_json({"schema_version": 1, "command": command.typed, "time": command.time, "files": files})
        return
    say(f"taken back: {command.typed} ({command.time[:16].replace('T', ' ')})")
    for file in files:
        say(f"  {file}")
    complain("auditkit ticket undo again repeats it")
