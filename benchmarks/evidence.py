"""What pages of evidence are made of: commands run beside clones, tables, marked blocks, and no code of others."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
RESULTS = ROOT / "benchmarks" / "results"

Document = dict[str, Any]
RUN = ("torch", "python", "device_name")


class Place:
    """A folder with links to the clones, so that the commands are those that a reader types there."""

    def __init__(self, folder: Path, clones: Path, python: str) -> None:
        self.folder, self.clones, self.python = folder, clones.resolve(), python
        for marker in self.clones.glob("*/.git"):
            (folder / marker.parent.name).symlink_to(marker.parent)
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
        (folder / "empty").mkdir()

    def run(self, words: str) -> str:
        """What `auditkit WORDS` prints, without the paths of this machine. Raises SystemExit where it fails."""
        command = [sys.executable, "-P", "-m", "auditkit", *shlex.split(words.replace("PYTHON", self.python))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 3, 5) or (done.returncode and not done.stdout):
            raise SystemExit(f"auditkit {words}: exit {done.returncode}\n{done.stderr}")
        for path, name in ((f"{self.folder}/", ""), (f"{self.clones}/", ""), (self.python, "python")):
            done.stdout = done.stdout.replace(path, name)
        return done.stdout

    def document(self, words: str) -> Document:
        return dict(json.loads(self.run(f"{words} --json")))


def results_of(name: str) -> Document:
    """The stored results of a benchmark, empty where it has not been run."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def store_results(name: str, results: Any) -> None:
    (RESULTS / f"{name}.json").write_text(one_row_per_line(results) + "\n", encoding="utf-8")


def one_row_per_line(value: Any) -> str:
    """Write JSON that breaks a list or an object over lines only where it is longer than 1,000 characters."""
    text = json.dumps(value)
    if len(text) <= 1000 or not isinstance(value, dict | list):
        return text
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(one_row_per_line, value)) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {one_row_per_line(part)}" for key, part in value.items()) + "\n}"


def page_of(part: str) -> Path:
    """The page of docs/evidence that has the marked blocks of one benchmark."""
    return next(path for path in EVIDENCE.glob("*.md") if f"<!-- written: {part}/" in path.read_text(encoding="utf-8"))


def write_blocks(part: str, blocks: Mapping[str, str]) -> str:
    """Replace the marked blocks of one benchmark in its page, and return the page."""
    path = page_of(part)
    text = fill(path.read_text(encoding="utf-8"), part, blocks)
    path.write_text(text, encoding="utf-8")
    return text


def plain(text: str) -> str:
    """A message as a cell: a bar would end it."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def rows(titles: Collection[str], cells: Iterable[Iterable[object]]) -> str:
    """A Markdown table of plain cells."""
    lines = ["| " + " | ".join(map(str, line)) + " |" for line in (titles, *cells)]
    return "\n".join([lines[0], "|" + "---|" * len(titles), *lines[1:]])


def fill(text: str, part: str, blocks: Mapping[str, str]) -> str:
    """The page `text` with the blocks of one part replaced. Raises SystemExit if the page has others than `blocks`."""
    marked = re.compile(rf"(<!-- written: {part}/(\S+) -->\n).*?\n(<!-- /written -->)", re.DOTALL)
    names = [found[2] for found in marked.finditer(text)]
    if sorted(names) != sorted(blocks):
        raise SystemExit(f"the page's blocks are {sorted(names)}, written were {sorted(blocks)}")
    return marked.sub(lambda found: f"{found[1]}{blocks[found[2]].rstrip()}\n{found[3]}", text)
