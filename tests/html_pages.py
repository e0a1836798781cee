"""The pages in docs/html, written again from the runs that lie in them; their screenshots, where Chromium is here.

python -m tests.html_pages --write [--screens] [NAME=RUN.json ...]
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from auditkit.model.runs.run import Run
from auditkit.rendering.html.pictures import pictures_of
from auditkit.store.config.config import Config
from auditkit.store.folder.repository import Repository
from auditkit.workflows.reports.html import run_html, tickets_html
from tests.project_files import ROOT

FOLDER = ROOT / "docs" / "html"
PAGES = ("specimen", "esper-lite")
PROBES = (
    "syncs_grow_with_tensors", "norm_overflows_on_finite_grads", "peak_memory_grows_with_params",
    "fails_on_noncontiguous_grads", "breaks_cuda_graph_capture",
)  # fmt: skip
"""What the page of the specimen asks: few enough for a test to ask again."""
PICTURES = {"syncs.svg": PROBES[0], "overflow.svg": PROBES[1]}
PACKED = re.compile(rb"data:application/gzip;base64,([\w+/=]+)")


def run_of(name: str) -> Run:
    """The run that lies in a page."""
    packed = PACKED.search((FOLDER / f"{name}.html").read_bytes())
    assert packed is not None
    return Run.from_json(json.loads(gzip.decompress(base64.b64decode(packed[1]))))


def files(runs: dict[str, Run]) -> dict[str, bytes]:
    """Everything in the folder but the screenshots, from these runs."""
    written = {f"{name}.html": run_html(run, Config()) for name, run in runs.items()}
    for name, probe in PICTURES.items():
        first = next(each for each in runs["specimen"].results if each.probe == probe and pictures_of(each))
        written[name] = pictures_of(first)[0].file()
    return written


def screens() -> None:
    """What docs/html.md shows of the pages, as small PNG files."""
    from tests.browser import browser

    with browser() as tab, tempfile.TemporaryDirectory() as scratch:
        board = Path(scratch, "board.html")
        board.write_bytes(tickets_html(Repository(ROOT / "tests" / "data" / "old_audit"))[0])
        tab.open(board, 1300)
        tab.picture(FOLDER / "board.png", 700, 0.55)
        tab.open(FOLDER / "specimen.html", 1600)
        tab.picture(FOLDER / "light.png", 1000, 0.6)
        tab.open(FOLDER / "specimen.html", 400, dark=True)
        tab.picture(FOLDER / "narrow.png", 1000, 0.6)
        tab.open(FOLDER / "specimen.html", 1000)
        top = tab.value("document.getElementById('f2').getBoundingClientRect().top + scrollY")
        tab.picture(FOLDER / "finding.png", 900, 0.7, top)


def without_code(run: Run) -> Run:
    """The run without the lines of the checkout: what others wrote is theirs."""
    results = (replace(result, excerpt=None, siblings=None) for result in run.results)
    return replace(run, results=tuple(results), fixes=tuple(replace(fix, difference="") for fix in run.fixes))


def main(words: list[str]) -> None:
    named = dict(word.split("=", 1) for word in words if "=" in word)
    runs = {
        name: Run.from_json(json.loads(Path(named[name]).read_text("utf-8"))) if name in named else run_of(name)
        for name in PAGES
    }
    runs["esper-lite"] = without_code(runs["esper-lite"])
    for file, data in files(runs).items():
        (FOLDER / file).write_bytes(data)
    if "--screens" in words:
        screens()


if __name__ == "__main__" and "--write" in sys.argv:
    main(sys.argv[1:])
