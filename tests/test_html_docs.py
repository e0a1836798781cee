"""docs/html.md and the pages in docs/html: what the command makes of the runs that lie in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditkit.model.runs.run import Run
from auditkit.rendering.html.pictures import pictures_of
from tests.html_pages import FOLDER, PACKED, PAGES, PROBES, files, run_of
from tests.project_files import ROOT, auditkit

PAGE = ROOT / "docs" / "html.md"


def test_the_pages_are_what_the_command_makes_of_their_runs() -> None:
    """`python -m tests.html_pages --write` writes them again; what packs a run may pack it otherwise elsewhere."""
    for name, data in files({name: run_of(name) for name in PAGES}).items():
        assert PACKED.sub(b"", data) == PACKED.sub(b"", (FOLDER / name).read_bytes()), name
    text = PAGE.read_text("utf-8")
    assert all(f"html/{file.name}" in text for file in FOLDER.iterdir())
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 850_000


@pytest.mark.acceptance
def test_the_specimen_is_asked_again(tmp_path: Path) -> None:
    """The pictures have the same bytes for another run."""
    words = [word for probe in PROBES for word in ("--probe", probe)]
    page = tmp_path / "audit.html"
    done = auditkit("audit", *words, "--no-tickets", "--no-fixes", "--json", "--html", page, cwd=tmp_path)
    assert done.code == 1, done.stderr
    again, before = Run.from_json(json.loads(done.stdout)), run_of("specimen")
    old, new = ({each.fingerprint: each for each in run.results} for run in (before, again))
    for fingerprint, result in old.items():
        assert new[fingerprint].outcome is result.outcome, fingerprint
        if result.probe != "peak_memory_grows_with_params":
            drawn = [[picture.file() for picture in pictures_of(each)] for each in (result, new[fingerprint])]
            assert drawn[0] == drawn[1], fingerprint
    assert b"waits once per tensor: 256 waits at 256 tensors" in page.read_bytes()
