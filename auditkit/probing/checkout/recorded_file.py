"""`auditkit-recorded.json` of a checkout, and whether a function is still the one whose calls it has."""

from __future__ import annotations

from pathlib import Path

from auditkit.model.runs.recorded import MOST_BYTES, RECORDED_NAME, RecordedRun, read_recorded


def recorded_in(folder: Path) -> tuple[RecordedRun | None, str]:
    """Return the recorded run of a checkout, None if there is none; and a sentence if its file cannot be used."""
    path = folder / RECORDED_NAME
    if not path.is_file() or path.is_symlink():
        return None, ""
    try:
        with path.open("rb") as file:
            return read_recorded(file.read(MOST_BYTES + 1)), ""
    except (OSError, ValueError) as error:
        why = f"{RECORDED_NAME} is not used: {str(error)[:200]}"
        return None, f"{why}; auditkit run -- COMMAND writes it anew"
